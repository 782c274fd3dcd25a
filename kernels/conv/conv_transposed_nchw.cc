// The products of a few output channels and some positions of the image stay in the second-level cache, and are added
// to sums that lie by phases of the stride, so that every addition is of neighbours; in the end the phases are woven
// into rows.
#include "kernels/conv/conv_transposed.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/conv/dense_f32.h"
#include "kernels/elementwise/chain.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kColumns = 512;              // positions of the image at once
constexpr int64_t kL2BlockFloats = 64 * 1024;  // floats of a block of products
constexpr int64_t kLimit = 1 << 28;            // floats of the sums of a block

// Where element x of the image goes along one dim by a tap: element x · stride + from.
struct Place {
  int64_t from;
  // Elements [begin, end) of the image go into a result of `size`.
  int64_t begin, end;
  Place(int64_t tap, int64_t stride, int64_t pad, int64_t dilation, int64_t in, int64_t size)
      : from(tap * dilation - pad) {
    begin = from >= 0 ? 0 : std::min(in, (-from + stride - 1) / stride);
    end = std::clamp<int64_t>(from >= size ? 0 : (size - from + stride - 1) / stride, begin, in);
  }
};

class Transposed {
 public:
  Transposed(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s, const Epilogue& epilogue)
      : s_(s), epilogue_(epilogue), in_(x.sizes + 2), to_(out.sizes + 2), group_out_(w.sizes[1]),
        per_(x.sizes[1] / s.groups), taps_(w.sizes[2] * w.sizes[3] * w.sizes[4]), plane_(in_[0] * in_[1] * in_[2]),
        positions_(to_[0] * to_[1] * to_[2]), phase_((to_[2] + s.stride[2] - 1) / s.stride[2]) {
    for (int d = 0; d < 3; ++d)
      for (int64_t k = 0; k < w.sizes[2 + d]; ++k)
        places_[d].emplace_back(k, s.stride[d], s.pad[d], s.dilation[d], in_[d], to_[d]);
    outs_ = std::clamp<int64_t>(kL2BlockFloats / (taps_ * kColumns), 1, group_out_);
  }
  // A row of the result by phases needs not much more than the row.
  bool possible() const {
    return phase_ * s_.stride[2] <= 2 * to_[2] + 64 &&
           static_cast<__int128>(outs_) * to_[0] * to_[1] * phase_ * s_.stride[2] <= kLimit &&
           taps_ <= kLimit / kColumns;
  }

  void Run(const float* x, const float* w, float* out, int64_t batch, const Workers* workers, Scratch& scratch) const {
    // The weights' rows by output channel and tap.
    const int64_t rows = group_out_ * taps_;
    float* const transposed = scratch.Take<float>(s_.groups * rows * per_);
    if (!scratch.querying())
      ParallelFor(workers, s_.groups * rows, 64, [&](int64_t begin, int64_t end) {
        for (int64_t r0 = begin; r0 < end;) {  // a few rows at once, of one group
          const int64_t g = r0 / rows, r1 = std::min({end, r0 + 16, (g + 1) * rows});
          for (int64_t c = 0; c < per_; ++c)
            for (int64_t r = r0; r < r1; ++r) transposed[r * per_ + c] = w[(g * per_ + c) * rows + r - g * rows];
          r0 = r1;
        }
      });
    const int64_t blocks = (group_out_ + outs_ - 1) / outs_, line = phase_ * s_.stride[2];
    ParallelFor(scratch, workers, batch * s_.groups * blocks, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      float *const products = own.Take<float>(outs_ * taps_ * kColumns),
                   *const panels = own.Take<float>(std::min(kDepth, per_) * kColumns),
                   *const sums = own.Take<float>(outs_ * to_[0] * to_[1] * line), *const row = own.Take<float>(to_[2]);
      if (own.querying()) return;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / blocks, g = image % s_.groups, o = i % blocks * outs_;
        const int64_t some = std::min(outs_, group_out_ - o);
        std::fill_n(sums, some * to_[0] * to_[1] * line, 0.0f);
        for (int64_t p = 0; p < plane_; p += kColumns) {
          const int64_t count = std::min(kColumns, plane_ - p);
          Product(transposed + (g * rows + o * taps_) * per_, some * taps_, x + image * per_ * plane_ + p, count,
                  panels, products);
          for (int64_t q = 0; q < some; ++q)
            Add(products + q * taps_ * kColumns, p, count, sums + q * to_[0] * to_[1] * line);
        }
        for (int64_t q = 0; q < some; ++q) {
          const int64_t place = (image * group_out_ + o + q) * positions_;
          for (int64_t y = 0; y < to_[0] * to_[1]; ++y) {
            Weave(sums + (q * to_[0] * to_[1] + y) * line, row);
            BestIsa().elementwise.epilogue(row, out + place + y * to_[2], to_[2],
                                           epilogue_.At(g * group_out_ + o + q, place + y * to_[2]));
          }
        }
      }
    });
  }

 private:
  // to[rows, count] = left[rows, per] · x's columns, which are `plane` apart.
  void Product(const float* left, int64_t rows, const float* x, int64_t count, float* panels, float* to) const {
    const int64_t width = ukernels_.nr;
    for (int64_t k = 0; k < per_; k += kDepth) {
      NchwGemmParams g;
      g.m = rows, g.n = count, g.k = std::min(kDepth, per_ - k);
      for (int64_t j = 0; j < count; j += width)
        ukernels_.pack_b({x + k * plane_ + j, plane_, g.k, std::min(width, count - j), panels + j * g.k});
      g.a = left + k, g.a_stride = per_;
      g.b = panels, g.b_stride = width, g.b_panel_stride = width * g.k;
      g.c = to, g.c_stride = kColumns, g.accumulate = k > 0, g.writes_full_vectors = true;
      ukernels_.gemm(g);
    }
  }
  // Adds the products of positions [first, first + count), at their taps.
  void Add(const float* products, int64_t first, int64_t count, float* sums) const {
    const int64_t line = phase_ * s_.stride[2], stride = s_.stride[2];
    const auto add = BestIsa().elementwise.binary[static_cast<int>(PairOp::kAdd)];
    for (const Place& z : places_[0])
      for (const Place& y : places_[1])
        for (const Place& x : places_[2]) {
          const int64_t phase = (x.from % stride + stride) % stride, shift = (x.from - phase) / stride;
          for (int64_t p = 0; p < count;) {
            // A run along a row of the image.
            const int64_t at = first + p, iz = at / (in_[1] * in_[2]), iy = at / in_[2] % in_[1], ix = at % in_[2];
            const int64_t n = std::min(in_[2] - ix, count - p);
            const int64_t begin = std::max(ix, x.begin), end = std::min(ix + n, x.end);
            if (iz >= z.begin && iz < z.end && iy >= y.begin && iy < y.end && begin < end) {
              float* to = sums + ((iz * s_.stride[0] + z.from) * to_[1] + iy * s_.stride[1] + y.from) * line +
                          phase * phase_ + begin + shift;
              add(to, products + p + begin - ix, to, end - begin, 0);
            }
            p += n;
          }
          products += kColumns;
        }
  }
  void Weave(const float* phases, float* row) const {
    const int64_t stride = s_.stride[2], n = to_[2];
    if (stride == 1) {
      std::copy_n(phases, n, row);
    } else if (stride == 2) {
      const float *a = phases, *b = phases + phase_;
      for (int64_t i = 0; i < n / 2; ++i) row[2 * i] = a[i], row[2 * i + 1] = b[i];
      if (n % 2 != 0) row[n - 1] = a[n / 2];
    } else {
      for (int64_t i = 0; i < n; ++i) row[i] = phases[i % stride * phase_ + i / stride];
    }
  }

  static constexpr int64_t kDepth = 320;

  const ConvShape s_;
  const Epilogue epilogue_;
  const int64_t *in_, *to_;
  const int64_t group_out_, per_, taps_, plane_, positions_;
  const int64_t phase_;  // elements of a phase of a row of the result
  int64_t outs_;         // output channels at once
  std::vector<Place> places_[3];
  const ConvNchwMicrokernels& ukernels_ = BestIsa().conv_nchw;
};

bool Takes(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  return DenseF32::TakesAll(x, w, out) && shape.stride[2] <= 64 &&
         w.sizes[2] * w.sizes[3] * w.sizes[4] <= kLimit / kColumns;
}

// With the call's threads and memory.
void Copy(const Tensor& from, const Tensor& to, const Workers* workers, Scratch& scratch) {
  Call c;
  c.in = {&from, 1}, c.workers = workers, c.scratch = &scratch;
  Tensor out = to;
  c.out = {&out, 1};
  RunCopy(c);
}

}  // namespace

bool ConvTransposedNchw(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
                        const Epilogue& epilogue, const Workers* workers, Scratch& scratch) {
  const Tensor from = DenseLike(x, x.dtype), to = DenseLike(out, out.dtype);
  if (!Takes(from, w, to, shape)) return false;
  Transposed conv(from, w, to, shape, epilogue);
  if (x.is_contiguous() && out.is_contiguous()) return RunOnDenseF32(conv, x, w, out, workers, scratch);
  // The image of another layout is copied, and the result.
  if (!conv.possible()) return false;
  auto memory = [&](const Tensor& t) { return scratch.Take<char>(t.numel() * ByteSize(t.dtype)); };
  Tensor image = from, result = to;
  image.data = memory(from), result.data = memory(to);
  Copy(x, image, workers, scratch);
  RunOnDenseF32(conv, image, w, result, workers, scratch);
  Copy(result, out, workers, scratch);
  return true;
}

bool CanUseConvTransposedNchw(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  const Tensor from = DenseLike(x, x.dtype), to = DenseLike(out, out.dtype);
  return Takes(from, w, to, shape) && Transposed(from, w, to, shape, {}).possible();
}

}  // namespace slipway::kernels
