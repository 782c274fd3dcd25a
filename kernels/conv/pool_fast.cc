// Pools as taps of windows over padded planes: max_taps and sum_taps of the instruction set, a plane at a time.
#include "kernels/conv/pool_fast.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/conv/conv_last.h"
#include "kernels/conv/dense_floats.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kGrain = 4;  // planes

bool Takes(const Tensor& x, const Tensor& out) {
  return DenseFloats::Takes(x) && DenseFloats::Takes(out) && x.numel() != 0 && out.numel() != 0;
}

// Calls finish(row, z, y, to) for each row of the result with the largest or the sums of its windows.
template <typename F>
bool Pool(const Tensor& x, const Tensor& out, const Window& window, bool largest, const Workers* workers, Scratch& scratch,
          F finish) {
  if (!Takes(x, out)) return false;
  const Padded padded(x.sizes + 2, out.sizes + 2, window);
  if (!padded.ok()) return false;
  const ConvIsa& isa = *BestIsa().conv;
  const int64_t plane = x.sizes[2] * x.sizes[3] * x.sizes[4], planes = x.sizes[0] * x.sizes[1], *to = out.sizes + 2;
  int64_t* const offsets = scratch.Take<int64_t>(padded.taps());
  float* const ones = scratch.Take<float>(padded.taps());
  if (!scratch.counting()) {
    padded.Offsets(1, offsets);
    std::fill_n(ones, padded.taps(), 1.0f);
  }
  const DenseFloats from(x, scratch);
  DenseResult result(out, scratch);
  ParallelFor(scratch, workers, planes, kGrain, [&](int64_t begin, int64_t end, Scratch& own) {
    float *const image = own.Take<float>(padded.size() + isa.width), *const sums = own.Take<float>(to[1] * to[2] + isa.lanes);
    if (own.counting()) return;
    padded.Border(largest ? -std::numeric_limits<float>::infinity() : 0, 1, image);
    for (int64_t p = begin; p < end; ++p) {
      padded.Pad(from.data() + p * plane, 1, image);
      for (int64_t z = 0; z < to[0]; ++z) {
        TapRows r;
        r.x = image + padded.Begin(z, 0), r.row = padded.row();
        r.offsets = offsets, r.taps = padded.taps(), r.weights = ones;
        r.out = sums, r.out_row = to[2], r.rows = to[1], r.n = to[2];
        (largest ? isa.max_taps : isa.sum_taps)(r);
        float* place = result.data() + (p * to[0] + z) * to[1] * to[2];
        for (int64_t y = 0; y < to[1]; ++y) finish(sums + y * to[2], z, y, place + y * to[2]);
      }
    }
  });
  result.Store();
  return true;
}

// Calls pool(rows of channels in the window, their number, window's elements by the padded image, result) for each place of a result
// whose channels are last, as the image's are.
template <typename F>
bool PoolLast(const Tensor& x, const Tensor& out, const Window& w, const Workers* workers, Scratch& scratch, F pool) {
  if (x.dtype != DType::kF32 || out.dtype != DType::kF32 || x.is_contiguous() || !ChannelsLast(x) || !ChannelsLast(out) || w.kernel[0] != 1 ||
      w.pad[0] != 0 || x.numel() == 0 || out.numel() == 0 || w.kernel[1] > 256 || w.kernel[2] > 256)
    return false;
  const int64_t wide = x.sizes[4], channels = x.sizes[1], rows = out.sizes[0] * out.sizes[3];
  ParallelFor(scratch, workers, rows, std::max<int64_t>(1, 16384 / (out.sizes[4] * channels * w.kernel[1] * w.kernel[2])),
              [&](int64_t begin, int64_t end, Scratch& own) {
                const float** const taps = own.Take<const float*>(w.kernel[1] * w.kernel[2]);
                if (own.counting()) return;
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t n = i / out.sizes[3], y = i % out.sizes[3];
                  for (int64_t p = 0; p < out.sizes[4]; ++p) {
                    int64_t count = 0;
                    for (int64_t u = 0; u < w.kernel[1]; ++u)
                      for (int64_t v = 0; v < w.kernel[2]; ++v) {
                        const int64_t r = y * w.stride[1] - w.pad[1] + u * w.dilation[1], c = p * w.stride[2] - w.pad[2] + v * w.dilation[2];
                        if (r >= 0 && r < x.sizes[3] && c >= 0 && c < wide)
                          taps[count++] = x.as<float>() + n * x.strides[0] + (r * wide + c) * x.strides[4];
                      }
                    LastPool g;
                    g.rows = taps, g.count = count, g.n = channels;
                    g.out = out.as<float>() + n * out.strides[0] + y * out.strides[3] + p * out.strides[4];
                    pool(g, y, p);
                  }
                }
              });
  return true;
}

}  // namespace

bool FastMaxPool(const Tensor& x, const Tensor& out, const Window& window, const Workers* workers, Scratch& scratch) {
  if (PoolLast(x, out, window, workers, scratch, [](const LastPool& g, int64_t, int64_t) { BestIsa().conv->last_max(g); })) return true;
  const int64_t n = out.sizes[4];
  return Pool(x, out, window, true, workers, scratch,
              [n](const float* row, int64_t, int64_t, float* to) { std::copy_n(row, n, to); });
}

bool FastAveragePool(const Tensor& x, const Tensor& out, const Window& window, const PoolDivisor& divisor,
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
  if (PoolLast(x, out, window, workers, scratch, [&](LastPool g, int64_t y, int64_t p) {
        g.by = 1.0f / (divisor.fixed != 0 ? static_cast<float>(divisor.fixed) : counts[0][0] * counts[1][y] * counts[2][p]);
        BestIsa().conv->last_sum(g);
      }))
    return true;
  const int64_t n = out.sizes[4];
  return Pool(x, out, window, false, workers, scratch, [&, n](const float* row, int64_t z, int64_t y, float* to) {
    if (divisor.fixed != 0) {
      const float by = static_cast<float>(divisor.fixed);
      for (int64_t i = 0; i < n; ++i) to[i] = row[i] / by;
      return;
    }
    const float by = counts[0][z] * counts[1][y];
    for (int64_t i = 0; i < n; ++i) to[i] = row[i] / (by * counts[2][i]);
  });
}

bool FastPlaneMean(const Tensor& x, const Tensor& out, const Workers* workers, Scratch& scratch) {
  if (!Takes(x, out)) return false;
  const int64_t planes = out.numel(), plane = x.numel() / planes;
  if (planes * plane != x.numel()) return false;
  const DenseFloats from(x, scratch);
  DenseResult result(out, scratch);
  if (scratch.counting()) return true;
  const auto sum = BestIsa().sum;
  ParallelFor(workers, planes, std::max<int64_t>(1, 16384 / plane), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      result.data()[p] = static_cast<float>(sum(from.data() + p * plane, plane) / static_cast<double>(plane));
  });
  result.Store();
  return true;
}

}  // namespace slipway::kernels
