// Resizing by copies (resample_nearest) and along one dim by weights (resample), and values at given places
// (grid_sample). Positions and weights are computed as torch computes them, in the compute type.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/convert.h"
#include "kernels/isa/isa.h"
#include "kernels/nearest_index.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

template <typename T>
T Cubic1(T x) {  // |x| <= 1
  constexpr T a = T(-0.75);
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <typename T>
T Cubic2(T x) {  // 1 < |x| < 2
  constexpr T a = T(-0.75);
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

using enum ResampleMode;

// What one element of the result is made of.
template <typename T>
struct Taps {
  std::vector<int64_t> places;
  std::vector<T> weights;
};

// Element i of `out` along a dim of `in` elements. `scale` is the step in the source, as torch computes it.
template <typename T>
Taps<T> FirOf(ResampleMode mode, bool align, T scale, int64_t i, int64_t in) {
  Taps<T> t;
  auto add = [&](int64_t at, T w) {
    t.places.push_back(std::clamp<int64_t>(at, 0, in - 1));
    t.weights.push_back(w);
  };
  const T x = static_cast<T>(i);
  switch (mode) {
    case kLinear: {
      const T at = align ? scale * x : std::max(T(0), scale * (x + T(0.5)) - T(0.5));
      const int64_t low = std::min(static_cast<int64_t>(at), in - 1);
      const T part = std::min(std::max(at - static_cast<T>(low), T(0)), T(1));
      add(low, 1 - part);
      add(low + (low < in - 1 ? 1 : 0), part);
      break;
    }
    case kCubic: {
      const T at = align ? scale * x : scale * (x + T(0.5)) - T(0.5);
      const T floor = std::floor(at), part = std::min(std::max(at - floor, T(0)), T(1));
      const int64_t low = static_cast<int64_t>(floor);
      add(low - 1, Cubic2<T>(part + 1));
      add(low, Cubic1<T>(part));
      add(low + 1, Cubic1<T>(1 - part));
      add(low + 2, Cubic2<T>(2 - part));
      break;
    }
    default: {
      const T reach = T(mode == kLinearAntialias ? 1 : 2);
      const T support = scale >= 1 ? reach * scale : reach, inverse = scale >= 1 ? 1 / scale : T(1);
      const T center = scale * (x + T(0.5));
      const int64_t begin = std::max<int64_t>(static_cast<int64_t>(center - support + T(0.5)), 0);
      const int64_t end = std::min(static_cast<int64_t>(center + support + T(0.5)), in);
      T total = 0;
      for (int64_t j = begin; j < end; ++j) {
        const T d = std::fabs((static_cast<T>(j) - center + T(0.5)) * inverse);
        T w;
        if (mode == kLinearAntialias) {
          w = d < 1 ? 1 - d : T(0);
        } else {
          constexpr T a = T(-0.5);
          w = d < 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? (((d - 5) * d + 8) * d - 4) * a : T(0);
        }
        add(j, w);
        total += w;
      }
      if (total != 0)
        for (T& w : t.weights) w /= total;
    }
  }
  return t;
}

// Calls each(y, s) for the first elements of every slice along the last two dims of the result and of the operand,
// whose elements along the dim before the last are neighbours; false where they are not. Slices are shared among
// threads.
template <typename T, typename F>
bool ForEachSlice(const Call& c, F each) {
  const Tensor &x = c.in[0], &out = c.out[0];
  const int last = out.rank - 1, line = last - 1;
  if (last < 1 || x.strides[line] != 1 || out.strides[line] != 1 || out.strides[last] == 1) return false;
  const Tensor from = DropDim(DropDim(x, last), line), to = DropDim(DropDim(out, last), line);
  const int64_t grain = std::max<int64_t>(1, 16384 / (out.sizes[last] * out.sizes[line]));
  ParallelFor(c.workers, to.numel(), grain, [&](int64_t begin, int64_t end) {
    Positions<2> at(to, {&to, &from}, begin);
    for (int64_t i = begin; i < end; ++i, at.Next())
      each(reinterpret_cast<T*>(at[0]), reinterpret_cast<const T*>(at[1]));
  });
  return true;
}
// The same for every row along the last dim, which is dense in both.
template <typename T, typename F>
bool ForEachDenseRow(const Call& c, F each) {
  const Tensor &x = c.in[0], &out = c.out[0];
  const int last = out.rank - 1;
  if (x.strides[last] != 1 || out.strides[last] != 1) return false;
  const Tensor from = DropDim(x, last), to = DropDim(out, last);
  ParallelFor(c.workers, to.numel(), std::max<int64_t>(1, 16384 / out.sizes[last]), [&](int64_t begin, int64_t end) {
    Positions<2> at(to, {&to, &from}, begin);
    for (int64_t i = begin; i < end; ++i, at.Next())
      each(reinterpret_cast<T*>(at[0]), reinterpret_cast<const T*>(at[1]));
  });
  return true;
}

// Tensors of T by two taps an element.
template <typename T>
bool ResampleByTwo(const Call& c, const std::vector<Taps<T>>& taps) {
  const Tensor &x = c.in[0], &out = c.out[0];
  const int last = out.rank - 1;
  const int64_t n = out.sizes[last];
  struct Pair {
    int64_t at[2];
    T weight[2];
  };
  std::vector<Pair> pairs;
  for (const Taps<T>& t : taps) {
    if (t.places.size() != 2) return false;
    pairs.push_back({{t.places[0], t.places[1]}, {t.weights[0], t.weights[1]}});
  }
  return ForEachSlice<T>(c,
                         [&](T* y, const T* s) {
                           const int64_t width = out.sizes[last - 1];
                           for (int64_t i = 0; i < n; ++i, y += out.strides[last]) {
                             const T *first = s + pairs[i].at[0] * x.strides[last],
                                     *second = s + pairs[i].at[1] * x.strides[last];
                             const T a = pairs[i].weight[0], b = pairs[i].weight[1];
                             for (int64_t j = 0; j < width; ++j) y[j] = a * first[j] + b * second[j];
                           }
                         }) ||
         ForEachDenseRow<T>(c, [&](T* y, const T* s) {
           for (int64_t i = 0; i < n; ++i)
             y[i] = pairs[i].weight[0] * s[pairs[i].at[0]] + pairs[i].weight[1] * s[pairs[i].at[1]];
         });
}

// Resizes the last dim.
const char* Resample(const Call& c, const ResampleAttributes& a) {
  const Tensor &x = c.in[0], &out = c.out[0];
  const int last = out.rank - 1;
  if (last < 0 || x.rank != out.rank) return kSizesDiffer;
  for (int d = 0; d < last; ++d)
    if (x.sizes[d] != out.sizes[d]) return kSizesDiffer;
  const ResampleMode mode = a.mode;
  const int64_t in = x.sizes[last], n = out.sizes[last];
  if (out.numel() == 0) return nullptr;
  if (in == 0) return "of a tensor without elements";
  const Tensor from = DropDim(x, last), to = DropDim(out, last);
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    const bool align = a.align_corners;
    const T scale = align          ? (n > 1 ? static_cast<T>(in - 1) / static_cast<T>(n - 1) : T(0))
                    : a.factor > 0 ? static_cast<T>(1.0 / a.factor)
                                   : static_cast<T>(in) / static_cast<T>(n);
    std::vector<Taps<T>> taps;
    for (int64_t i = 0; i < n; ++i) taps.push_back(FirOf<T>(mode, align, scale, i, in));
    constexpr DType kHere = std::is_same_v<T, double> ? DType::kF64 : DType::kF32;
    if (x.dtype == kHere && out.dtype == kHere && ResampleByTwo<T>(c, taps)) return nullptr;
    std::vector<T> row(in), line(n);
    Walk<2>({&to, &from}, [&](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t rows) {
      for (int64_t r = 0; r < rows; ++r) {
        LoadRow<T>(at[1] + r * step[1] * ByteSize(x.dtype), x.dtype, x.strides[last], in, c.compute, row.data());
        for (int64_t i = 0; i < n; ++i) {
          T sum = 0;
          for (size_t k = 0; k < taps[i].places.size(); ++k) sum += taps[i].weights[k] * row[taps[i].places[k]];
          line[i] = sum;
        }
        StoreRow<T>(line.data(), n, at[0] + r * step[0] * ByteSize(out.dtype), out.dtype, out.strides[last]);
      }
    });
    return nullptr;
  });
}

// A line of planes: each element `by` times, or where `by` is 0 the elements that places say; and the same to `again`,
// unless that is null.
template <typename W>
void TakePlaces(const W* s, const int64_t* places, int64_t n, int64_t by, W* y, W* again) {
  if constexpr (sizeof(W) == 4) {
    if (by == 2)
      return BestIsa().elementwise.duplicate(reinterpret_cast<const uint32_t*>(s), n / 2,
                                             reinterpret_cast<uint32_t*>(y), reinterpret_cast<uint32_t*>(again));
  }
  if (by == 4) {
    for (int64_t i = 0; i < n / 4; ++i) y[4 * i] = y[4 * i + 1] = y[4 * i + 2] = y[4 * i + 3] = s[i];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = s[places[i]];
  }
  if (again != nullptr) std::memcpy(again, y, static_cast<size_t>(n) * sizeof(W));
}
// The channels of a place: few bytes are not worth a call.
inline void CopyPlace(char* to, const char* from, size_t bytes) {
  if (bytes > 512) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (; bytes >= 64; bytes -= 64, to += 64, from += 64) std::memcpy(to, from, 64);
  for (; bytes >= 16; bytes -= 16, to += 16, from += 16) std::memcpy(to, from, 16);
  for (; bytes >= 4; bytes -= 4, to += 4, from += 4) std::memcpy(to, from, 4);
  for (; bytes > 0; --bytes) *to++ = *from++;
}

// Resizes the last three of [n, c, d, h, w] at once by copying elements, of whatever type.
const char* ResampleNearest(const Call& c, const NearestAttributes& a) {
  const Tensor &x = c.in[0], &out = c.out[0];
  if (x.rank != 5 || out.rank != 5 || x.sizes[0] != out.sizes[0] || x.sizes[1] != out.sizes[1] ||
      ByteSize(x.dtype) != ByteSize(out.dtype))
    return kSizesDiffer;
  if (a.spatial < 1 || a.spatial > 3) return "of another number of dims than 1 to 3";
  for (int d = 2; d < 5 - a.spatial; ++d)
    if (x.sizes[d] != out.sizes[d]) return kSizesDiffer;
  if (out.numel() == 0) return nullptr;
  if (x.numel() == 0) return "of a tensor without elements";
  std::vector<int64_t> places[3];
  for (int d = 0; d < 3; ++d) {
    const int64_t in = x.sizes[2 + d], n = out.sizes[2 + d];
    const NearestRule rule{a.exact, x.dtype == DType::kF64, IsSmallImage(a.spatial, out.sizes[3], out.sizes[4]),
                           a.factors[d]};
    for (int64_t i = 0; i < n; ++i) places[d].push_back(d < 3 - a.spatial ? i : NearestIndex(rule, in, n, i));
  }
  const int64_t width = out.sizes[4], lines = out.sizes[2] * out.sizes[3], channels = x.sizes[1];
  int64_t by = width % x.sizes[4] == 0 ? width / x.sizes[4] : 0;
  for (int64_t i = 0; i < width; ++i)
    if (by != 0 && places[2][static_cast<size_t>(i)] != i / by) by = 0;
  // Where the lines of a channel begin, in image and result.
  std::vector<std::pair<int64_t, int64_t>> at;
  for (int64_t z = 0; z < out.sizes[2]; ++z)
    for (int64_t y = 0; y < out.sizes[3]; ++y)
      at.emplace_back(
          places[0][static_cast<size_t>(z)] * x.strides[2] + places[1][static_cast<size_t>(y)] * x.strides[3],
          z * out.strides[2] + y * out.strides[3]);
  WithWord(out.dtype, [&]<typename W>() {
    const W* const image = static_cast<const W*>(x.data);
    W* const result = static_cast<W*>(out.data);
    const int64_t* const column = places[2].data();
    const int64_t from_step = x.strides[4], to_step = out.strides[4];
    const bool last = channels > 1 && x.strides[1] == 1 && out.strides[1] == 1;  // whole places are copied
    const int64_t planes = last ? 1 : channels;
    const size_t bytes = static_cast<size_t>(channels) * sizeof(W);
    ParallelFor(c.workers, out.sizes[0] * planes * lines,
                std::max<int64_t>(1, 16384 / (last ? width * channels : width)), [&](int64_t begin, int64_t end) {
                  for (int64_t plane = begin / lines, i = begin; i < end; ++plane) {
                    const W* const from = image + plane / planes * x.strides[0] + plane % planes * x.strides[1];
                    W* const to = result + plane / planes * out.strides[0] + plane % planes * out.strides[1];
                    const int64_t first = plane * lines, stop = std::min(end, first + lines);
                    for (; i < stop; ++i) {
                      const auto [from_line, to_line] = at[static_cast<size_t>(i - first)];
                      const W* const s = from + from_line;
                      W* const y = to + to_line;
                      if (last)
                        for (int64_t p = 0; p < width; ++p)
                          CopyPlace(reinterpret_cast<char*>(y + p * to_step),
                                    reinterpret_cast<const char*>(s + column[p] * from_step), bytes);
                      else if (from_step == 1 && to_step == 1) {
                        const bool two = i + 1 < stop && at[static_cast<size_t>(i + 1 - first)].first == from_line;
                        TakePlaces(s, column, width, by, y,
                                   two ? to + at[static_cast<size_t>(i + 1 - first)].second : nullptr);
                        i += two;
                      } else
                        for (int64_t p = 0; p < width; ++p) y[p * to_step] = s[column[p] * from_step];
                    }
                  }
                });
  });
  return nullptr;
}

template <typename T>
T Reflect(T x, int64_t twice_low, int64_t twice_high) {
  if (twice_low == twice_high) return 0;
  const T low = static_cast<T>(twice_low) / 2, span = static_cast<T>(twice_high - twice_low) / 2;
  x = std::fabs(x - low);
  const T extra = std::fmod(x, span);
  const auto flips = static_cast<int64_t>(std::floor(x / span));
  return flips % 2 == 0 ? extra + low : span - extra + low;
}
template <typename T>
T Unnormalize(T x, int64_t size, bool align) {
  return align ? (x + 1) / 2 * static_cast<T>(size - 1) : ((x + 1) * static_cast<T>(size) - 1) / 2;
}
// In half precision torch rounds each step of this: in images it multiplies by half the size, in volumes it halves.
template <typename Half>
float UnnormalizeInHalf(float x, int64_t size, bool align, int dims) {
  auto keep = [](float v) { return Convert<float>(Convert<Half>(v)); };
  const float reach = static_cast<float>(align ? size - 1 : size), u = keep(x + 1);
  if (dims == 2) return align ? keep(u * keep(reach / 2)) : keep(keep(u * keep(reach / 2)) - 0.5F);
  return align ? keep(keep(u * 0.5F) * keep(reach)) : keep(keep(keep(u * keep(reach)) - 1) * 0.5F);
}
template <typename T>
T Place(T x, int64_t size, bool align, int dims, DType as) {
  if constexpr (std::is_same_v<T, float>) {
    if (as == DType::kF16) return UnnormalizeInHalf<F16>(x, size, align, dims);
    if (as == DType::kBF16) return UnnormalizeInHalf<BF16>(x, size, align, dims);
  }
  return Unnormalize(x, size, align);
}
template <typename T>
T Pad(T x, int64_t size, GridPadding padding, bool align) {
  if (padding == GridPadding::kZeros) return x;
  if (padding == GridPadding::kReflection) x = align ? Reflect(x, 0, 2 * (size - 1)) : Reflect(x, -1, 2 * size - 1);
  return std::min(static_cast<T>(size - 1), std::max(x, T(0)));  // NaN becomes 0
}

// x [n,c,d,h,w] at in[1] [n,D,H,W,2 or 3] (coordinates of w, h, and d where there are three) -> [n,c,D,H,W].
const char* GridSample(const Call& c, const GridSampleAttributes& a) {
  const Tensor &x = c.in[0], &out = c.out[0];
  if (c.in.size() < 2 || x.rank != 5 || out.rank != 5 || c.in[1].rank != 5) return kSizesDiffer;
  const Tensor& grid = c.in[1];
  const int dims = static_cast<int>(grid.sizes[4]);
  if ((dims != 2 && dims != 3) || x.sizes[0] != out.sizes[0] || x.sizes[1] != out.sizes[1] ||
      grid.sizes[0] != out.sizes[0] || (dims == 2 && x.sizes[2] != 1))
    return kSizesDiffer;
  for (int d = 1; d < 4; ++d)
    if (grid.sizes[d] != out.sizes[d + 1]) return kSizesDiffer;
  const GridMode how = a.mode;
  const GridPadding padding = a.padding;
  const bool align = a.align_corners;
  if (how == GridMode::kBicubic && dims != 2) return kSizesDiffer;
  if (out.numel() > 0 && x.numel() == 0) return "of a tensor without elements";
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    // One value; outside it is zero, or where padding says.
    auto get = [&](int64_t n, int64_t ch, const int64_t* p) -> T {
      int64_t o = n * x.strides[0] + ch * x.strides[1];
      for (int d = 0; d < dims; ++d) {
        const int64_t size = x.sizes[4 - d];
        if (p[d] < 0 || p[d] >= size) return 0;
        o += p[d] * x.strides[4 - d];
      }
      T v;
      LoadRow<T>(static_cast<const char*>(x.data) + o * ByteSize(x.dtype), x.dtype, 1, 1, c.compute, &v);
      return v;
    };
    auto place = [](T v) {  // what no tensor is large enough for lies outside
      return v >= -T(1e9) && v <= T(1e9) ? static_cast<int64_t>(v) : int64_t{-2};
    };
    for (int64_t n = 0; n < out.sizes[0]; ++n)
      for (int64_t z = 0; z < out.sizes[2]; ++z)
        for (int64_t y = 0; y < out.sizes[3]; ++y)
          for (int64_t w = 0; w < out.sizes[4]; ++w) {
            T at[3];
            LoadRow<T>(static_cast<const char*>(grid.data) +
                           (n * grid.strides[0] + z * grid.strides[1] + y * grid.strides[2] + w * grid.strides[3]) *
                               ByteSize(grid.dtype),
                       grid.dtype, grid.strides[4], dims, c.compute, at);
            T raw[3];
            for (int d = 0; d < dims; ++d) {
              raw[d] = Place(at[d], x.sizes[4 - d], align, dims, c.compute);
              at[d] = Pad(raw[d], x.sizes[4 - d], padding, align);
            }
            for (int64_t ch = 0; ch < out.sizes[1]; ++ch) {
              T value = 0;
              int64_t p[3];
              if (how == GridMode::kNearest) {
                for (int d = 0; d < dims; ++d) p[d] = place(std::nearbyint(at[d]));
                value = get(n, ch, p);
              } else if (how == GridMode::kBilinear) {
                for (int corner = 0; corner < 1 << dims; ++corner) {
                  T weight = 1;
                  for (int d = 0; d < dims; ++d) {
                    const T floor = std::floor(at[d]);
                    const bool upper = corner >> d & 1;
                    p[d] = place(floor) + (upper ? 1 : 0);
                    weight *= upper ? at[d] - floor : floor + 1 - at[d];
                  }
                  bool inside = true;
                  for (int d = 0; d < dims; ++d) inside = inside && p[d] >= 0 && p[d] < x.sizes[4 - d];
                  if (inside) value += get(n, ch, p) * weight;
                }
              } else {
                T weights[2][4];
                int64_t low[2];
                for (int d = 0; d < 2; ++d) {
                  const T floor = std::floor(raw[d]), part = raw[d] - floor;
                  low[d] = place(floor);
                  weights[d][0] = Cubic2<T>(part + 1);
                  weights[d][1] = Cubic1<T>(part);
                  weights[d][2] = Cubic1<T>(1 - part);
                  weights[d][3] = Cubic2<T>(2 - part);
                }
                for (int j = 0; j < 4; ++j) {
                  T row = 0;
                  for (int i = 0; i < 4; ++i) {
                    p[0] = place(Pad(static_cast<T>(low[0] - 1 + i), x.sizes[4], padding, align));
                    p[1] = place(Pad(static_cast<T>(low[1] - 1 + j), x.sizes[3], padding, align));
                    row += get(n, ch, p) * weights[0][i];
                  }
                  value += row * weights[1][j];
                }
              }
              StoreRow<T>(
                  &value, 1,
                  static_cast<char*>(out.data) + (n * out.strides[0] + ch * out.strides[1] + z * out.strides[2] +
                                                  y * out.strides[3] + w * out.strides[4]) *
                                                     ByteSize(out.dtype),
                  out.dtype, 1);
            }
          }
    return nullptr;
  });
}

constexpr Kernel kKernels[] = {
    With<NearestAttributes, ResampleNearest>({.name = "resample_nearest", .inputs = 1, .pitched = true}),
    With<ResampleAttributes, Resample>({.name = "resample", .pitched = true}),
    With<GridSampleAttributes, GridSample>({.name = "grid_sample", .inputs = 2})};

}  // namespace

std::span<const Kernel> SampleKernels() { return kKernels; }

}  // namespace slipway::kernels
