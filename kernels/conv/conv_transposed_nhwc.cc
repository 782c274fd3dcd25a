// Transposed convolutions by phases of the stride: results that lie `stride` apart are a convolution of stride 1 with
// the taps that get there, so that each is summed up in registers, with vectors of channels. An image with channels
// last is read where it lies, or, where taps get beyond its border, from a copy of a band of rows with zeros beside
// them; one of planes becomes such a copy, and results that are to lie in planes are laid out band by band.
#include <algorithm>
#include <cstring>

#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/conv_transposed.h"
#include "kernels/conv/filters.h"
#include "kernels/conv/work_partition.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kMaxPackedFloats = int64_t{1} << 28;  // floats of weights that are packed in the call
constexpr int64_t kL1WeightFloats = 16 << 10;  // floats of weights that each row of the image may go through anew

int64_t Modulo(int64_t a, int64_t b) { return (a % b + b) % b; }
int64_t Floor(int64_t a, int64_t b) { return (a - Modulo(a, b)) / b; }

class TransposedNhwc {
 public:
  TransposedNhwc(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s)
      : x_(x), w_(w), out_(out), s_(s), channels_(x.sizes[1]), outs_(w.sizes[1]), in_y_(x.sizes[3]), in_x_(x.sizes[4]),
        height_(w.sizes[3]), width_(w.sizes[4]), to_y_(out.sizes[3]), to_x_(out.sizes[4]), by_y_(s.stride[1]),
        by_x_(s.stride[2]) {}

  bool possible() const {
    if (x_.numel() == 0 || w_.numel() == 0 || out_.numel() == 0) return false;
    if (x_.dtype != DType::kF32 || w_.dtype != DType::kF32 || out_.dtype != DType::kF32) return false;
    if (x_.sizes[2] != 1 || w_.sizes[2] != 1 || out_.sizes[2] != 1 || s_.pad[0] != 0 || s_.groups != 1) return false;
    if (w_.packed == Packing::kTransposedConvFilters) return true;
    return !w_.is_packed() && w_.is_contiguous() &&
           outs_ >= MinTransposedOutputChannels(x_.is_contiguous() && out_.is_contiguous()) &&
           static_cast<__int128>(height_ * width_) * PanelsPerElement(outs_) * channels_ * kPanel <= kMaxPackedFloats;
  }

  // Chooses the blocks, then computes them. In one piece: all blocks follow from the same dozen sizes.
  void Run(const Epilogue& e, const Workers* workers, Scratch& scratch) {
    const int64_t batch = out_.sizes[0], across = Ceil(to_x_, by_x_), phases = std::min(by_x_, to_x_);
    const double weights_size = static_cast<double>(channels_ * outs_ * height_ * width_);
    if (static_cast<double>(batch * in_y_ * in_x_) * weights_size < kMinParallelWork) workers = nullptr;
    weights_ = w_.is_packed() ? w_.as<float>() : Weights(workers, scratch);
    // Columns of the image, from that of its own number on, which the columns of a phase read.
    int64_t low = 0, high = 0;
    bool once = by_x_ == width_ && to_x_ % by_x_ == 0, any = false;
    for (int64_t r = 0; r < phases; ++r) {
      const Phase p = PhaseOf(r, across);
      once = once && p.count == 1 && p.from == 0 && p.tap == r;
      if (p.count == 0) continue;
      const int64_t last = p.from - (p.count - 1) * p.back;
      low = any ? std::min(low, last) : last, high = any ? std::max(high, p.from) : p.from;
      any = true;
    }
    const bool direct = ChannelsLast(out_);
    // Bands of rows, and spans of rows that are too long for that; weights that outweigh the image are read once.
    const int64_t rows = Ceil(to_y_, by_y_),
                  per_column = channels_ + std::min(by_x_, to_x_) * std::min(by_y_, to_y_) * outs_;
    const bool heavy = weights_size > 2.0 * static_cast<double>(batch) *
                                          static_cast<double>(in_y_ * in_x_ * channels_ + to_y_ * to_x_ * outs_);
    const int64_t tile = ukernels_.mr, max_span = std::max(4 * tile, kL2BlockFloats / per_column / tile * tile);
    const int64_t spans = across * per_column <= 2 * kL2BlockFloats ? 1 : Ceil(across, max_span),
                  span = spans == 1 ? across : max_span;
    const int64_t most =
        std::clamp<int64_t>((heavy ? 2 : 1) * kL2BlockFloats / (span * (heavy ? channels_ : per_column)), 1, rows);
    // Where each result gets one product, those of a place of the image lie together.
    const int64_t pitch = direct ? out_.strides[4] : outs_;
    bool joined = once && direct && pitch == outs_ && outs_ % kPanel == 0;
    const int64_t columns = joined ? by_x_ * outs_ : outs_;
    const WorkPartition shares =
        PartitionWork(workers, batch * spans, rows, Ceil(columns, kPanel), Ceil(rows, most), 1, heavy);
    Epilogue finish = {e.scale, e.bias, direct ? e.residual : nullptr, e.activation, e.min, e.max};
    if (!direct && e.residual != nullptr) finish.activation = Activation::kNone;
    if (joined) finish.scale = Repeated(finish.scale, scratch), finish.bias = Repeated(finish.bias, scratch);
    const bool in_place =
        ChannelsLast(x_) && low >= 0 && across + high <= in_x_ && PaddedStride(x_.strides[4]) == x_.strides[4];
    const int64_t held_y = std::min(in_y_, shares.MaxRowsPerTask() + ((height_ - 1) * s_.dilation[1]) / by_y_ + 1),
                  held_x = span + high - low;
    const int64_t pixel = in_place ? x_.strides[4] : PaddedStride(channels_);
    ParallelFor(scratch, workers, shares.tasks(), 1, [&](int64_t begin, int64_t end, Scratch& own) {
      int64_t* const segments = own.Take<int64_t>(width_);
      float* const copy = in_place ? nullptr : own.Take<float>(held_y * held_x * pixel);
      float* const results = direct ? nullptr
                                    : own.Take<float>(std::min(to_y_, shares.MaxRowsPerTask() * by_y_) *
                                                      std::min(to_x_, span * by_x_) * outs_);
      if (own.querying()) return;
      int64_t held = -1;
      for (int64_t i = begin; i < end; ++i) {
        const WorkPartition::Task task = shares[i];
        const int64_t n = task.image / spans, t0 = task.image % spans * span, t1 = std::min(across, t0 + span);
        const int64_t y0 = task.row * by_y_, y1 = std::min(to_y_, task.end_row * by_y_);
        const int64_t j0 = task.panel * kPanel, j1 = std::min(columns, task.end_panel * kPanel);
        if (y0 >= y1 || t0 >= t1 || j0 >= j1) continue;
        // Rows [r0, r1) of the image.
        const int64_t r1 = std::clamp<int64_t>(Floor(y1 - 1 + s_.pad[1], by_y_) + 1, 0, in_y_);
        const int64_t r0 = std::clamp<int64_t>(-Floor((height_ - 1) * s_.dilation[1] - y0 - s_.pad[1], by_y_), 0, r1);
        if (!in_place && held != task.block)
          CopyBand(n, r0, r1, t0 + low, t1 - t0 + high - low, pixel, copy), held = task.block;
        const float* const image =
            in_place ? x_.as<float>() + n * x_.strides[0] + r0 * x_.strides[3] + t0 * pixel : copy - low * pixel;
        const int64_t row = in_place ? x_.strides[3] : (t1 - t0 + high - low) * pixel;
        const int64_t wide = std::min(to_x_, t1 * by_x_) - t0 * by_x_;  // of `results`
        float* const to =
            direct ? out_.as<float>() + n * out_.strides[0] + y0 * out_.strides[3] + t0 * by_x_ * pitch : results;
        const int64_t to_stride = direct ? out_.strides[3] : wide * pitch;
        NhwcIgemmParams b;
        b.k = channels_, b.x_stride = pixel, b.out_stride = by_x_ * pitch;
        b.segments = segments, b.w_panel_stride = channels_ * kPanel;
        const int64_t taps = any ? Ceil(width_, by_x_) : 0;
        const int64_t unit = channels_ * taps * (j1 - j0) <= kL1WeightFloats ? j1 - j0 : kColumns;
        for (int64_t j = j0; j < j1; j += unit) {
          b.n = std::min(unit, j1 - j);
          for (int64_t ry = 0; ry < std::min(by_y_, y1 - y0); ++ry)
            for (int64_t rx = 0; rx < (joined ? 1 : phases); ++rx) {
              const Phase p = PhaseOf(rx, across);
              b.m = std::min(t1, Ceil(to_x_ - rx, by_x_)) - t0;
              if (b.m <= 0) continue;
              b.w_segment_stride = p.step * TapFloats(), b.segment_count = p.count;
              for (int64_t q = 0; q < p.count; ++q) segments[q] = (p.from - q * p.back) * pixel;
              for (int64_t y = y0 + ry; y < y1; y += by_y_) {
                const int64_t at = (y - y0) * to_stride + rx * pitch + j;
                const auto sum = [&](const Epilogue& f) {
                  b.out = to + at, b.epilogue = f;
                  ukernels_.igemm(b);
                  b.accumulate = true;
                };
                Epilogue last = finish;
                if (last.scale != nullptr) last.scale += j;
                if (last.bias != nullptr) last.bias += j;
                if (last.residual != nullptr) last.residual += to + at - out_.as<float>();
                b.accumulate = false;
                int64_t ky = p.count == 0 ? height_ : FirstTap(y, -1);
                if (ky == height_) b.segment_count = 0, sum(last), b.segment_count = p.count;
                while (ky < height_) {
                  b.x = image + ((y + s_.pad[1] - ky * s_.dilation[1]) / by_y_ - r0) * row;
                  b.w = weights_ + (ky * width_ + p.tap) * TapFloats() + j / kPanel * b.w_panel_stride;
                  ky = FirstTap(y, ky);
                  sum(ky < height_ ? Epilogue() : last);
                }
              }
            }
        }
        if (!direct) StoreBand(n, y0, y1, t0 * by_x_, wide, j0, j1, results, pitch, e);
      }
    });
  }

 private:
  // What the columns of the result by_x apart, from `r` on, get: `count` taps from `tap` on, `step` apart. Column t of
  // these reads column t + from of the image for the first, and `back` columns before for each further one.
  struct Phase {
    int64_t tap = 0, count = 0, step = 1, from = 0, back = 0;
  };
  Phase PhaseOf(int64_t r, int64_t across) const {
    Phase p;
    for (int64_t k = 0, at = -1; k < width_; ++k) {
      const int64_t from = r + s_.pad[2] - k * s_.dilation[2];
      // Those that no column gets anything of do not count: they are the first or the last.
      if (from % by_x_ != 0 || from / by_x_ >= in_x_ || from / by_x_ <= -across) continue;
      if (p.count == 0) p.tap = k, p.from = from / by_x_;
      if (p.count == 1) p.step = k - at, p.back = p.step * s_.dilation[2] / by_x_;
      at = k, ++p.count;
    }
    return p;
  }
  // The next tap behind `k` by which row y of the result gets a row of the image; `height_` where there is none.
  int64_t FirstTap(int64_t y, int64_t k) const {
    for (++k; k < height_; ++k) {
      const int64_t from = y + s_.pad[1] - k * s_.dilation[1];
      if (from >= 0 && from % by_y_ == 0 && from / by_y_ < in_y_) break;
    }
    return k;
  }

  int64_t TapFloats() const { return PanelsPerElement(outs_) * channels_ * kPanel; }
  const float* Weights(const Workers* workers, Scratch& scratch) const {
    const int64_t panels = height_ * width_ * PanelsPerElement(outs_);
    float* const to = scratch.Take<float>(panels * channels_ * kPanel);
    if (!scratch.querying())
      ParallelFor(workers, panels, 1, [&](int64_t begin, int64_t end) {
        PackTransposedFilters(w_.as<float>(), channels_, outs_, height_ * width_, begin, end,
                              to + begin * channels_ * kPanel);
      });
    return to;
  }
  // One after the other for each column of a place; null stays.
  const float* Repeated(const float* v, Scratch& scratch) const {
    if (v == nullptr) return nullptr;
    float* const to = scratch.Take<float>(by_x_ * outs_);
    for (int64_t i = 0; i < (scratch.querying() ? 0 : by_x_); ++i) std::copy_n(v, outs_, to + i * outs_);
    return to;
  }

  // Columns [first, first + count) of rows [r0, r1) of the image, zeros where it has none, with channels last.
  void CopyBand(int64_t n, int64_t r0, int64_t r1, int64_t first, int64_t count, int64_t pixel, float* to) const {
    const int64_t c0 = std::clamp<int64_t>(first, 0, in_x_), c1 = std::clamp<int64_t>(first + count, c0, in_x_);
    for (int64_t r = r0; r < r1; ++r, to += count * pixel) {
      const float* from = x_.as<float>() + n * x_.strides[0] + r * x_.strides[3] + c0 * x_.strides[4];
      float* at = to + (c0 - first) * pixel;
      if (c0 == c1) at = to + count * pixel;
      std::fill(to, at, 0.0f);
      std::fill(at + (c1 - c0) * pixel, to + count * pixel, 0.0f);
      if (x_.strides[4] == 1 && x_.strides[1] != 1) {
        BestIsa().elementwise.transpose(reinterpret_cast<const uint32_t*>(from), x_.strides[1],
                                        reinterpret_cast<uint32_t*>(at), pixel, c1 - c0, channels_);
        continue;
      }
      for (int64_t x = c0; x < c1; ++x, from += x_.strides[4], at += pixel) {
        if (x_.strides[1] == 1 || channels_ == 1)
          std::memcpy(at, from, static_cast<size_t>(channels_) * sizeof(float));
        else
          for (int64_t c = 0; c < channels_; ++c) at[c] = from[c * x_.strides[1]];
      }
    }
  }
  // Channels [j0, j1) of rows [y0, y1), places [x0, x0 + wide) of the result, with what is added.
  void StoreBand(int64_t n, int64_t y0, int64_t y1, int64_t x0, int64_t wide, int64_t j0, int64_t j1, const float* from,
                 int64_t pitch, const Epilogue& e) const {
    const bool planes = out_.strides[4] == 1, together = planes && out_.strides[3] == wide;
    if (planes)
      for (int64_t y = y0; y < y1; y += together ? y1 - y0 : 1)
        BestIsa().elementwise.transpose(reinterpret_cast<const uint32_t*>(from + (y - y0) * wide * pitch + j0), pitch,
                                        reinterpret_cast<uint32_t*>(At(n, j0, y, x0)), out_.strides[1], j1 - j0,
                                        together ? (y1 - y0) * wide : wide);
    for (int64_t y = y0; y < y1 && !planes; ++y, from += wide * pitch)
      for (int64_t x = 0; x < wide; ++x)
        for (int64_t j = j0; j < j1; ++j) *At(n, j, y, x0 + x) = from[x * pitch + j];
    if (e.residual == nullptr) return;
    const Epilogue rest = e.AfterAffine();
    for (int64_t j = j0; j < j1; ++j)
      for (int64_t y = y0; y < y1; ++y) {
        float* const row = At(n, j, y, x0);
        BestIsa().elementwise.epilogue(row, row, wide, rest.At(j, row - out_.as<float>()));
      }
  }
  float* At(int64_t n, int64_t c, int64_t y, int64_t x) const {
    return out_.as<float>() + n * out_.strides[0] + c * out_.strides[1] + y * out_.strides[3] + x * out_.strides[4];
  }

  const Tensor &x_, &w_, &out_;
  const ConvShape& s_;
  const int64_t channels_, outs_, in_y_, in_x_, height_, width_, to_y_, to_x_, by_y_, by_x_;
  const float* weights_ = nullptr;
  const ConvNhwcMicrokernels& ukernels_ = BestIsa().conv_nhwc;
};

}  // namespace

bool ConvTransposedNhwc(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
                        const Epilogue& epilogue, const Workers* workers, Scratch& scratch) {
  TransposedNhwc conv(x, w, out, shape);
  if (!conv.possible()) return false;
  conv.Run(epilogue, workers, scratch);
  return true;
}

bool CanUseConvTransposedNhwc(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  return TransposedNhwc(x, w, out, shape).possible();
}

}  // namespace slipway::kernels
