// Pools a dim of the window after the other, down the columns of a plane, through its slices, then along its rows,
// which are padded: max_windows and sum_windows of isa/conv_nchw.h.
#include "kernels/conv/pool_f32.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/dense_f32.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kGrain = 4;  // planes

bool Takes(const Tensor& x, const Tensor& out) {
  return DenseF32::Takes(x) && DenseF32::Takes(out) && x.numel() != 0 && out.numel() != 0;
}

// One dim of a window: out[i · row + j], i < outs, j < row, is the largest or the sum of x[(i · stride - pad + u ·
// dilation) · row + j] over the u < kernel that lie in [0, ins); of none, `none`. Both are readable and writable in
// full vectors.
struct Dim {
  int64_t ins, outs, kernel, stride, pad, dilation;

  int64_t most_taps() const { return std::min(kernel, Ceil(ins, dilation)); }
  ValidKernelRange Taps(int64_t i) const { return {i * stride - pad, ins, kernel, dilation}; }
  void Reduce(const float* x, int64_t row, float none, void (*taps_of)(const WindowRowsParams&), const float* ones,
              int64_t* offsets, float* out) const {
    for (int64_t t = 0; t < most_taps(); ++t) offsets[t] = t * dilation * row;
    for (int64_t i = 0, next; i < outs; i = next) {
      const ValidKernelRange taps = Taps(i);
      for (next = i + 1; next < outs && taps.count() == kernel && Taps(next) == taps;) ++next;
      if (taps.count() == 0) {
        std::fill_n(out + i * row, row, none);
        continue;
      }
      WindowRowsParams r;
      r.x = x + (i * stride - pad + taps.first * dilation) * row, r.x_stride = stride * row;
      r.offsets = offsets, r.window_size = taps.count(), r.weights = ones;
      r.out = out + i * row, r.out_stride = row, r.rows = next - i, r.n = row;
      if (stride == 1) r.n *= r.rows, r.rows = 1;
      taps_of(r);
    }
  }
};

// Calls finish(the largest or the sums of the windows of a plane, its result) for each plane.
template <typename F>
bool Pool(const Tensor& x, const Tensor& out, const Window& w, bool largest, const Workers* workers, Scratch& scratch,
          F finish) {
  if (!Takes(x, out) || w.pad[0] < 0 || w.pad[1] < 0) return false;
  const int64_t wide = x.sizes[4], plane = x.sizes[2] * x.sizes[3] * wide, planes = x.sizes[0] * x.sizes[1],
                *to = out.sizes + 2;
  const Dim z = {x.sizes[2], to[0], w.kernel[0], w.stride[0], w.pad[0], w.dilation[0]},
            y = {x.sizes[3], to[1], w.kernel[1], w.stride[1], w.pad[1], w.dilation[1]};
  const bool slices = z.ins > 1 || z.outs > 1;
  const int64_t rows = z.outs * y.outs, in[] = {1, rows, wide}, across[] = {1, rows, to[2]};
  const Padded padded(in, across, {{1, 1, w.kernel[2]}, {1, 1, w.stride[2]}, {0, 0, w.pad[2]}, {1, 1, w.dilation[2]}});
  if (!padded.ok()) return false;
  const ConvNchwMicrokernels& ukernels = BestIsa().conv_nchw;
  const auto taps_of = largest ? ukernels.max_windows : ukernels.sum_windows;
  const float none = largest ? -std::numeric_limits<float>::infinity() : 0;
  const int64_t most = std::max({padded.taps(), z.most_taps(), y.most_taps()});
  int64_t* const offsets = scratch.Take<int64_t>(padded.taps());
  float* const ones = scratch.Take<float>(most);
  if (!scratch.querying()) {
    padded.Offsets(1, offsets);
    std::fill_n(ones, most, 1.0f);
  }
  const DenseF32 from(x, scratch);
  DenseF32Result result(out, scratch);
  ParallelFor(scratch, workers, planes, kGrain, [&](int64_t begin, int64_t end, Scratch& own) {
    // The last plane's copy, beyond which may be read.
    float* const copy = end == planes ? own.Take<float>(plane + ukernels.nr) : nullptr;
    float *const columns = own.Take<float>(z.ins * y.outs * wide + ukernels.nr), *const lines =
                                                                                     slices
                                                                                         ? own.Take<float>(rows * wide +
                                                                                                           ukernels.nr)
                                                                                         : columns;
    float *const image = own.Take<float>(padded.size() + ukernels.nr), *const sums =
                                                                           own.Take<float>(rows * to[2] + ukernels.nr);
    int64_t* const places = own.Take<int64_t>(most);
    if (own.querying()) return;
    padded.Border(none, 1, image);
    for (int64_t p = begin; p < end; ++p) {
      const float* source = from.data() + p * plane;
      if (p + 1 == planes) source = std::copy_n(source, plane, copy) - plane;
      for (int64_t d = 0; d < z.ins; ++d)
        y.Reduce(source + d * y.ins * wide, wide, none, taps_of, ones, places, columns + d * y.outs * wide);
      if (slices) z.Reduce(columns, y.outs * wide, none, taps_of, ones, places, lines);
      padded.Pad(lines, 1, image);
      WindowRowsParams r;
      r.x = image, r.x_stride = padded.line(), r.offsets = offsets, r.window_size = padded.taps(), r.weights = ones;
      r.out = sums, r.out_stride = to[2], r.rows = rows, r.n = to[2];
      taps_of(r);
      finish(sums, result.data() + p * rows * to[2]);
    }
  });
  result.Store();
  return true;
}

bool CanUseNhwc(const Tensor& x, const Tensor& out) {
  return (x.dtype == DType::kF32 || IsHalf(x.dtype)) && out.dtype == x.dtype && !x.is_contiguous() && ChannelsLast(x) &&
         ChannelsLast(out) && x.numel() != 0 && out.numel() != 0;
}
// Elements begin, begin + step, … below end, along a dim.
struct Reach {
  int64_t begin, end, step;
};
// For each place of a result whose channels are last, as the image's are: calls pool(rows of channels in the window,
// their number, result; y, p), where reach(d, i) says what lies in the window of element i of dim d, 1 or 2, at most
// `taps` elements in all. Neighbours whose windows are one column apart, as inner ones of stride 1 are, are one place
// of so many times the channels, where these lie without gaps; p is the first.
template <typename R, typename F>
void PoolWindowsNhwc(const Tensor& x, const Tensor& out, int64_t taps, const Workers* workers, Scratch& scratch,
                     R reach, F pool) {
  const int64_t wide = x.sizes[4], channels = x.sizes[1], rows = out.sizes[0] * out.sizes[3], places = out.sizes[4];
  const bool dense = x.strides[4] == channels && out.strides[4] == channels;
  Reach* const across = scratch.Take<Reach>(places);
  int64_t* const ends = scratch.Take<int64_t>(places);  // of the places that are one with this
  for (int64_t p = places - 1; p >= 0 && !scratch.querying(); --p) {
    across[p] = reach(2, p);
    const bool one =
        dense && p + 1 < places && across[p + 1].begin == across[p].begin + 1 && across[p + 1].end == across[p].end + 1;
    ends[p] = one ? ends[p + 1] : p + 1;
  }
  ParallelFor(scratch, workers, rows, std::max<int64_t>(1, 16384 / (places * channels * taps)),
              [&](int64_t begin, int64_t end, Scratch& own) {
                const void** const at = own.Take<const void*>(taps);
                if (own.querying()) return;
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t n = i / out.sizes[3], y = i % out.sizes[3];
                  const Reach down = reach(1, y);
                  for (int64_t p = 0; p < places; p = ends[p]) {
                    int64_t count = 0;
                    for (int64_t r = down.begin; r < down.end; r += down.step)
                      for (int64_t c = across[p].begin; c < across[p].end; c += across[p].step)
                        at[count++] =
                            x.as<char>() + (n * x.strides[0] + (r * wide + c) * x.strides[4]) * ByteSize(x.dtype);
                    PoolNhwcParams g;
                    g.rows = at, g.count = count, g.n = (ends[p] - p) * channels, g.dtype = x.dtype;
                    g.out = out.as<char>() +
                            (n * out.strides[0] + y * out.strides[3] + p * out.strides[4]) * ByteSize(out.dtype);
                    pool(g, y, p);
                  }
                }
              });
}
template <typename F>
bool PoolWindowsNhwc(const Tensor& x, const Tensor& out, const Window& w, const Workers* workers, Scratch& scratch,
                     F pool) {
  if (!CanUseNhwc(x, out) || w.kernel[0] != 1 || w.pad[0] != 0 || w.kernel[1] > 256 || w.kernel[2] > 256) return false;
  const auto reach = [&](int d, int64_t i) {
    const int64_t first = i * w.stride[d] - w.pad[d];
    const ValidKernelRange taps(first, x.sizes[2 + d], w.kernel[d], w.dilation[d]);
    const int64_t begin = first + taps.first * w.dilation[d];
    return Reach{begin, begin + taps.count() * w.dilation[d], w.dilation[d]};
  };
  PoolWindowsNhwc(x, out, w.kernel[1] * w.kernel[2], workers, scratch, reach, pool);
  return true;
}

}  // namespace

bool MaxPoolF32(const Tensor& x, const Tensor& out, const Window& window, const Workers* workers, Scratch& scratch) {
  if (PoolWindowsNhwc(x, out, window, workers, scratch,
                      [](const PoolNhwcParams& g, int64_t, int64_t) { BestIsa().conv_nhwc.max_pool(g); }))
    return true;
  const int64_t n = out.sizes[2] * out.sizes[3] * out.sizes[4];
  return Pool(x, out, window, true, workers, scratch,
              [n](const float* largest, float* to) { std::copy_n(largest, n, to); });
}

bool AveragePoolF32(const Tensor& x, const Tensor& out, const Window& window, const PoolDivisor& divisor,
                    const Workers* workers, Scratch& scratch) {
  // How many elements count along each dim.
  std::vector<float> counts[3];
  for (int d = 0; d < 3 && divisor.fixed == 0; ++d)
    for (int64_t i = 0; i < out.sizes[2 + d]; ++i) {
      const int64_t begin = i * window.stride[d] - window.pad[d];
      int64_t end = std::min(begin + window.kernel[d], x.sizes[2 + d] + window.pad[d]), from = begin;
      if (!divisor.padding_counts) from = std::max<int64_t>(begin, 0), end = std::min(end, x.sizes[2 + d]);
      if (end <= from) return false;  // 0 / 0
      counts[d].push_back(static_cast<float>(end - from));
    }
  if (PoolWindowsNhwc(x, out, window, workers, scratch, [&](PoolNhwcParams g, int64_t y, int64_t p) {
        g.scale = 1.0f /
                  (divisor.fixed != 0 ? static_cast<float>(divisor.fixed) : counts[0][0] * counts[1][y] * counts[2][p]);
        BestIsa().conv_nhwc.sum_pool(g);
      }))
    return true;
  // Rows of one divisor at a time, then the columns at the border, which have another.
  const int64_t deep = out.sizes[2], high = out.sizes[3], wide = out.sizes[4];
  const auto by = [&](int64_t z, int64_t y, int64_t i) {
    return divisor.fixed != 0 ? static_cast<float>(divisor.fixed) : counts[0][z] * counts[1][y] * counts[2][i];
  };
  return Pool(x, out, window, false, workers, scratch, [&](const float* sums, float* to) {
    for (int64_t z = 0; z < deep; ++z)
      for (int64_t y = 0, next; y < high; y = next) {
        const int64_t at = (z * high + y) * wide, inner = wide / 2;
        for (next = y + 1; next < high && by(z, next, inner) == by(z, y, inner);) ++next;
        const float inverse = 1.0f / by(z, y, inner);
        Epilogue e;
        e.scale = &inverse;
        BestIsa().elementwise.epilogue(sums + at, to + at, (next - y) * wide, e);
        if (divisor.fixed != 0) continue;
        for (int64_t i = 0; i < wide; ++i) {
          if (counts[2][i] == counts[2][inner]) continue;
          const float scale = 1.0f / by(z, y, i);
          for (int64_t r = 0; r < next - y; ++r) to[at + r * wide + i] = sums[at + r * wide + i] * scale;
        }
      }
  });
}

bool AdaptiveAverageNhwc(const Tensor& x, const Tensor& out, const Workers* workers, Scratch& scratch) {
  if (!CanUseNhwc(x, out)) return false;
  int64_t most[3] = {};
  for (int d = 1; d < 3; ++d)
    for (int64_t i = 0; i < out.sizes[2 + d]; ++i) {
      const AdaptiveWindow w(i, x.sizes[2 + d], out.sizes[2 + d]);
      most[d] = std::max(most[d], w.end - w.begin);
    }
  const auto reach = [&](int d, int64_t i) {
    const AdaptiveWindow w(i, x.sizes[2 + d], out.sizes[2 + d]);
    return Reach{w.begin, w.end, 1};
  };
  PoolWindowsNhwc(x, out, most[1] * most[2], workers, scratch, reach, [](PoolNhwcParams g, int64_t, int64_t) {
    g.scale = 1.0f / static_cast<float>(g.count);
    BestIsa().conv_nhwc.sum_pool(g);
  });
  return true;
}

bool PlaneMeanF32(const Tensor& x, const Tensor& out, const Workers* workers, Scratch& scratch) {
  if (!Takes(x, out)) return false;
  const int64_t planes = out.numel(), plane = x.numel() / planes;
  if (planes * plane != x.numel()) return false;
  const DenseF32 from(x, scratch);
  DenseF32Result result(out, scratch);
  if (scratch.querying()) return true;
  const auto sum = BestIsa().reduction.sum;
  ParallelFor(workers, planes, std::max<int64_t>(1, 16384 / plane), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      result.data()[p] = static_cast<float>(sum(from.data() + p * plane, plane) / static_cast<double>(plane));
  });
  result.Store();
  return true;
}

}  // namespace slipway::kernels
