// What detectors need beyond convolutions, with torchvision's results: boxes suppressed by better ones that they
// overlap, averages and maxima over regions of interest, the columns of a deformable convolution. Arithmetic is in the
// compute type.
#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "kernels/convert.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

template <typename T>
T Get(const Tensor& x, int64_t offset) {
  constexpr DType kHere = std::is_same_v<T, double> ? DType::kF64 : DType::kF32;
  if (x.dtype == kHere) return x.as<T>()[offset];
  T v;
  LoadRow<T>(ElementAt(x, offset), x.dtype, 1, 1, x.dtype, &v);
  return v;
}
template <typename T>
void Put(const Tensor& x, int64_t offset, T v) {
  StoreRow<T>(&v, 1, ElementAt(x, offset), x.dtype, 1);
}
// ---- Boxes. in: [n, 4] as x1, y1, x2, y2, and scores [n]. out: the places of those that stay, best first, in [n], and
// their number. Equal scores stay in order; a NaN is the best score.
const char* Suppress(const Call& c, const SuppressionAttributes& a) {
  const Tensor &boxes = c.in[0], &scores = c.in[1], &kept = c.out[0], &count = c.out[1];
  if (boxes.rank != 2 || boxes.sizes[1] != 4 || scores.rank != 1 || scores.sizes[0] != boxes.sizes[0] ||
      kept.rank != 1 || kept.sizes[0] != boxes.sizes[0] || count.rank != 0 || kept.dtype != DType::kI64 ||
      count.dtype != DType::kI64)
    return kSizesDiffer;
  const int64_t n = boxes.sizes[0];
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    std::vector<T> score(n), area(n);
    std::vector<std::array<T, 4>> box(n);
    for (int64_t i = 0; i < n; ++i) {
      score[i] = Get<T>(scores, i * scores.strides[0]);
      for (int k = 0; k < 4; ++k) box[i][k] = Get<T>(boxes, i * boxes.strides[0] + k * boxes.strides[1]);
      area[i] = (box[i][2] - box[i][0]) * (box[i][3] - box[i][1]);
    }
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const T x = score[i], y = score[j];
      return x > y || (x != x && y == y);
    });
    std::vector<bool> gone(n);
    int64_t left = 0;
    for (int64_t p = 0; p < n; ++p) {
      const int64_t i = order[p];
      if (gone[i]) continue;
      kept.as<int64_t>()[left++ * kept.strides[0]] = i;
      for (int64_t q = p + 1; q < n; ++q) {
        const int64_t j = order[q];
        if (gone[j]) continue;
        const T width = std::max(T(0), std::min(box[i][2], box[j][2]) - std::max(box[i][0], box[j][0]));
        const T height = std::max(T(0), std::min(box[i][3], box[j][3]) - std::max(box[i][1], box[j][1]));
        const T shared = width * height;
        if (static_cast<double>(shared / (area[i] + area[j] - shared)) > a.threshold) gone[j] = true;
      }
    }
    for (int64_t p = left; p < n; ++p) kept.as<int64_t>()[p * kept.strides[0]] = 0;
    *count.as<int64_t>() = left;
    return nullptr;
  });
}

// ---- Regions of interest. in: images [b, c, h, w], regions [n, 5]: the image, x1, y1, x2, y2. out: [n, channels, bins
// of a column, bins of a row]; channels are c, or, by position, c / bins, of which channel k of bin (i, j) is (k · rows
// + i) · columns + j of the image.
struct Regions {
  const Tensor &x, &rois, &out;
  int64_t n, channels, rows, columns, height, width;
};
const char* Check(const Call& c, const RegionAttributes& a, Regions* r) {
  if (r->x.rank != 4 || r->rois.rank != 2 || r->rois.sizes[1] != 5 || r->out.rank != 4 ||
      r->out.sizes[0] != r->rois.sizes[0])
    return kSizesDiffer;
  const int64_t own = a.by_position ? r->rows * r->columns : 1;
  if (__builtin_mul_overflow(r->channels, own, &r->n) || r->x.sizes[1] != r->n) return kSizesDiffer;
  if (c.out.size() > 1 && (!SameSizes(c.out[1], r->out) || c.out[1].dtype != DType::kI32)) return kSizesDiffer;
  r->n = r->rois.sizes[0];
  return r->out.numel() > 0 && r->x.numel() == 0 ? "of a tensor without elements" : nullptr;
}
Regions Of(const Call& c) {
  const Tensor &x = c.in[0], &out = c.out[0];
  if (x.rank != 4 || out.rank != 4) return {x, c.in[1], out, 0, 0, 0, 0, 0, 0};
  return {x, c.in[1], out, 0, out.sizes[1], out.sizes[2], out.sizes[3], x.sizes[2], x.sizes[3]};
}
template <typename T>
struct Region {
  int64_t image;
  T at[4];  // as given, scaled
};
template <typename T>
bool Read(const Regions& r, const RegionAttributes& a, int64_t i, Region<T>* region) {
  const int64_t row = i * r.rois.strides[0];
  const T image = std::trunc(Get<T>(r.rois, row));
  if (!(image >= 0 && image < static_cast<T>(r.x.sizes[0]))) return false;
  region->image = static_cast<int64_t>(image);
  for (int k = 0; k < 4; ++k)
    region->at[k] = Get<T>(r.rois, row + (k + 1) * r.rois.strides[1]) * static_cast<T>(a.scale);
  return true;
}
// The channel of the image that bin (i, j) of channel k reads, and its place.
int64_t Channel(const Regions& r, const RegionAttributes& a, int64_t k, int64_t i, int64_t j) {
  return a.by_position ? (k * r.rows + i) * r.columns + j : k;
}
int64_t Place(const Tensor& t, int64_t n, int64_t k, int64_t i, int64_t j) {
  return n * t.strides[0] + k * t.strides[1] + i * t.strides[2] + j * t.strides[3];
}

// Where samples lie along a dim: between two pixels, of which `upper` counts so much; none: outside.
template <typename T>
struct Sample {
  int64_t low = -1, high = -1;
  T upper = 0, lower = 0;
};
// `count` samples in each of `bins` bins.
template <typename T>
std::vector<Sample<T>> SamplesOf(T start, T bin, int64_t bins, int64_t count, int64_t size) {
  std::vector<Sample<T>> out(bins * count);
  for (int64_t b = 0; b < bins; ++b)
    for (int64_t k = 0; k < count; ++k) {
      T at = start + static_cast<T>(b) * bin + (static_cast<T>(k) + T(0.5)) * bin / static_cast<T>(count);
      if (!(at >= -1 && at <= static_cast<T>(size))) continue;
      at = std::max(at, T(0));
      Sample<T>& s = out[b * count + k];
      s.low = static_cast<int64_t>(at);
      if (s.low >= size - 1) {
        s.low = s.high = size - 1;
        at = static_cast<T>(s.low);
      } else {
        s.high = s.low + 1;
      }
      s.upper = at - static_cast<T>(s.low);
      s.lower = 1 - s.upper;
    }
  return out;
}
// Averages of samples between pixels.
const char* RoiAlign(const Call& c, const RegionAttributes& a) {
  Regions r = Of(c);
  if (const char* why = Check(c, a, &r)) return why;
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    const T half = a.aligned ? T(0.5) : T(0);
    for (int64_t n = 0; n < r.n && r.out.numel() > 0; ++n) {
      Region<T> region;
      if (!Read(r, a, n, &region)) return "index out of range";
      const T left = region.at[0] - half, top = region.at[1] - half;
      T width = region.at[2] - half - left, height = region.at[3] - half - top;
      if (!a.aligned) width = std::max(width, T(1)), height = std::max(height, T(1));
      auto grid = [&](T size, int64_t bins) {
        const T each = std::ceil(size / static_cast<T>(bins));
        return a.sampling > 0 ? a.sampling
               : each > 0     ? static_cast<int64_t>(std::min(each, T(1 << 24)))
               : each < 0     ? int64_t{-1}
                              : 0;
      };
      const int64_t down = grid(height, r.rows), across = grid(width, r.columns);
      if (down * r.rows > 1 << 26 || across * r.columns > 1 << 26) return "a region is too large";
      const auto ys = SamplesOf<T>(top, height / static_cast<T>(r.rows), r.rows, std::max<int64_t>(down, 0), r.height);
      const auto xs =
          SamplesOf<T>(left, width / static_cast<T>(r.columns), r.columns, std::max<int64_t>(across, 0), r.width);
      // By position, torchvision divides by the number of samples even where there is none.
      const T count =
          a.by_position ? static_cast<T>(down * across) : static_cast<T>(std::max<int64_t>(down * across, 1));
      ParallelFor(c.workers, r.channels, 1, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
          for (int64_t i = 0; i < r.rows; ++i)
            for (int64_t j = 0; j < r.columns; ++j) {
              const int64_t channel = Channel(r, a, k, i, j), base = Place(r.x, region.image, channel, 0, 0);
              T sum = 0;
              for (int64_t p = 0; p < down; ++p) {
                const Sample<T>& y = ys[i * down + p];
                if (y.low < 0) continue;
                const int64_t low = base + y.low * r.x.strides[2], high = base + y.high * r.x.strides[2];
                for (int64_t q = 0; q < across; ++q) {
                  const Sample<T>& x = xs[j * across + q];
                  if (x.low < 0) continue;
                  const int64_t to_left = x.low * r.x.strides[3], to_right = x.high * r.x.strides[3];
                  sum += y.lower * x.lower * Get<T>(r.x, low + to_left) +
                         y.lower * x.upper * Get<T>(r.x, low + to_right) +
                         y.upper * x.lower * Get<T>(r.x, high + to_left) +
                         y.upper * x.upper * Get<T>(r.x, high + to_right);
                }
              }
              Put<T>(r.out, Place(r.out, n, k, i, j), sum / count);
              if (c.out.size() > 1) Put<T>(c.out[1], Place(c.out[1], n, k, i, j), static_cast<T>(channel));
            }
      });
    }
    return nullptr;
  });
}

// The largest of the pixels of each bin and its place in the plane; by position their average, and the channel.
const char* RoiPool(const Call& c, const RegionAttributes& a) {
  Regions r = Of(c);
  if (const char* why = Check(c, a, &r)) return why;
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    for (int64_t n = 0; n < r.n && r.out.numel() > 0; ++n) {
      Region<T> region;
      if (!Read(r, a, n, &region)) return "index out of range";
      int64_t at[4];
      for (int k = 0; k < 4; ++k) {
        const T edge = std::round(region.at[k]);
        at[k] = edge >= T(-1e9) && edge <= T(1e9) ? static_cast<int64_t>(edge) : std::numeric_limits<int32_t>::min();
      }
      const int64_t more = a.by_position ? 0 : 1;
      const T height = static_cast<T>(std::max<int64_t>(at[3] - at[1] + more, 1)),
              width = static_cast<T>(std::max<int64_t>(at[2] - at[0] + more, 1));
      const T down = height / static_cast<T>(r.rows), across = width / static_cast<T>(r.columns);
      // Bin i begins and ends at these pixels; by position, torchvision leaves out the last row and column of the
      // image.
      auto edges = [&](T each, int64_t i, int64_t start, int64_t size) {
        const int64_t last = a.by_position ? size - 1 : size;
        auto clip = [&](T v) { return std::clamp<int64_t>(static_cast<int64_t>(v) + start, 0, last); };
        return std::pair(clip(std::floor(static_cast<T>(i) * each)), clip(std::ceil(static_cast<T>(i + 1) * each)));
      };
      ParallelFor(c.workers, r.channels, 1, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
          for (int64_t i = 0; i < r.rows; ++i)
            for (int64_t j = 0; j < r.columns; ++j) {
              const auto [top, bottom] = edges(down, i, at[1], r.height);
              const auto [left, right] = edges(across, j, at[0], r.width);
              const bool empty = bottom <= top || right <= left;
              const int64_t channel = Channel(r, a, k, i, j), base = Place(r.x, region.image, channel, 0, 0);
              T value = empty || a.by_position ? T(0) : T(-FLT_MAX);
              int64_t which = a.by_position ? channel : -1;
              for (int64_t y = top; y < bottom; ++y)
                for (int64_t x = left; x < right; ++x) {
                  const T v = Get<T>(r.x, base + y * r.x.strides[2] + x * r.x.strides[3]);
                  if (a.by_position)
                    value += v;
                  else if (v > value)
                    value = v, which = y * r.width + x;
                }
              if (a.by_position && !empty) value /= static_cast<T>((bottom - top) * (right - left));
              Put<T>(r.out, Place(r.out, n, k, i, j), value);
              if (c.out.size() > 1)
                StoreRow<int64_t>(&which, 1, ElementAt(c.out[1], Place(c.out[1], n, k, i, j)), DType::kI32, 1);
            }
      });
    }
    return nullptr;
  });
}

// ---- Deformable convolution. in: images [b, c, h, w], offsets [b, groups · 2 · kernel, rows, columns], and, or not,
// factors [b, groups · kernel, rows, columns]. out: [b, c, kernel, rows, columns], what each element of a filter is
// multiplied by.
const char* DeformColumns(const Call& c, const DeformAttributes& a) {
  const Tensor &x = c.in[0], &offset = c.in[1], &out = c.out[0];
  const Tensor* mask = c.in.size() > 2 ? &c.in[2] : nullptr;
  if (x.rank != 4 || offset.rank != 4 || out.rank != 5 || (mask && mask->rank != 4)) return kSizesDiffer;
  int64_t taps, per_image;
  if (a.kernel[0] < 1 || a.kernel[1] < 1 || __builtin_mul_overflow(a.kernel[0], a.kernel[1], &taps) ||
      a.offset_groups < 1 || __builtin_mul_overflow(taps, a.offset_groups, &per_image) ||
      per_image > std::numeric_limits<int64_t>::max() / 2)
    return kSizesDiffer;
  if (offset.sizes[1] != 2 * per_image || (mask && mask->sizes[1] != per_image) || x.sizes[1] % a.offset_groups != 0 ||
      out.sizes[0] != x.sizes[0] || out.sizes[1] != x.sizes[1] || out.sizes[2] != taps)
    return kSizesDiffer;
  for (const Tensor* t : {&offset, mask ? mask : &offset})
    if (t->sizes[0] != x.sizes[0] || !SameSizes(*t, 2, 2, out, 3)) return kSizesDiffer;
  for (int d = 0; d < 2; ++d)
    for (int64_t v : {a.stride[d], a.padding[d], a.dilation[d]})
      if (v < 0 || v > int64_t{1} << 31) return "an attribute is out of range";
  const int64_t channels = x.sizes[1], height = x.sizes[2], width = x.sizes[3], rows = out.sizes[3],
                columns = out.sizes[4];
  const int64_t channels_a_group = std::max<int64_t>(channels / a.offset_groups, 1);
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    ParallelFor(c.workers, x.sizes[0] * channels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t b = plane / channels, ch = plane % channels, group = ch / channels_a_group;
        const int64_t base = b * x.strides[0] + ch * x.strides[1];
        auto pixel = [&](int64_t y, int64_t z) {
          return y < 0 || y >= height || z < 0 || z >= width ? T(0)
                                                             : Get<T>(x, base + y * x.strides[2] + z * x.strides[3]);
        };
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t place = group * taps + tap;
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j) {
              const T y = static_cast<T>(i * a.stride[0] - a.padding[0] + tap / a.kernel[1] * a.dilation[0]) +
                          Get<T>(offset, Place(offset, b, 2 * place, i, j));
              const T z = static_cast<T>(j * a.stride[1] - a.padding[1] + tap % a.kernel[1] * a.dilation[1]) +
                          Get<T>(offset, Place(offset, b, 2 * place + 1, i, j));
              T value = 0;
              if (y > -1 && y < static_cast<T>(height) && z > -1 && z < static_cast<T>(width)) {
                const T top = std::floor(y), left = std::floor(z), down = y - top, across = z - left;
                const auto p = static_cast<int64_t>(top), q = static_cast<int64_t>(left);
                value = (1 - down) * (1 - across) * pixel(p, q) + (1 - down) * across * pixel(p, q + 1) +
                        down * (1 - across) * pixel(p + 1, q) + down * across * pixel(p + 1, q + 1);
              }
              if (mask) value *= Get<T>(*mask, Place(*mask, b, place, i, j));
              Put<T>(out,
                     plane / channels * out.strides[0] + ch * out.strides[1] + tap * out.strides[2] +
                         i * out.strides[3] + j * out.strides[4],
                     value);
            }
        }
      }
    });
    return nullptr;
  });
}

constexpr Kernel kKernels[] = {
    With<SuppressionAttributes, Suppress>({.name = "nms", .outputs = 2}),
    With<RegionAttributes, RoiAlign>({"roi_align"}),
    With<RegionAttributes, RoiPool>({"roi_pool"}),
    With<DeformAttributes, DeformColumns>({"deform_columns"}),
};

}  // namespace

std::span<const Kernel> DetectionKernels() { return kKernels; }

}  // namespace slipway::kernels
