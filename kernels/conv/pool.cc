// Kernels of pools over windows of three spatial dims of [n, c, d, h, w], and of the inverse of max pools. Windows of a
// fixed size over dense f32 and narrower go through pool_fast.h; what is left, and other types, element by element.
#include <algorithm>
#include <limits>

#include "kernels/conv/pool_bytes.h"
#include "kernels/conv/pool_f32.h"
#include "kernels/convert.h"
#include "kernels/registry.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

constexpr int kSpatial = 3;

// A window's bounds along one dim: first, last (not included), step.
struct Span {
  int64_t begin, end, step;
};

template <typename T>
T Get(const Tensor& t, int64_t offset, DType as) {
  T x;
  LoadRow<T>(static_cast<const char*>(t.data) + offset * ByteSize(t.dtype), t.dtype, 1, 1, as, &x);
  return x;
}
template <typename T>
void Put(const Tensor& t, int64_t offset, T x) {
  StoreRow<T>(&x, 1, static_cast<char*>(t.data) + offset * ByteSize(t.dtype), t.dtype, 1);
}

// Calls each(offset of the plane in x, window, offset in out) for every element of the result; span(d, i) is the window
// of element i along spatial dim d.
template <typename S, typename F>
void ForEachWindow(const Tensor& x, const Tensor& out, S span, F each) {
  for (int64_t n = 0; n < out.sizes[0]; ++n)
    for (int64_t ch = 0; ch < out.sizes[1]; ++ch)
      for (int64_t z = 0; z < out.sizes[2]; ++z)
        for (int64_t y = 0; y < out.sizes[3]; ++y)
          for (int64_t w = 0; w < out.sizes[4]; ++w) {
            const Span window[kSpatial] = {span(0, z), span(1, y), span(2, w)};
            const int64_t at[5] = {n, ch, z, y, w};
            each(n * x.strides[0] + ch * x.strides[1], window, at);
          }
}
int64_t Offset(const Tensor& t, const int64_t* at) {
  int64_t o = 0;
  for (int d = 0; d < 5; ++d) o += at[d] * t.strides[d];
  return o;
}

bool Fits(const Call& c) {
  const Tensor &x = c.in[0], &out = c.out[0];
  if (x.rank != 5 || out.rank != 5 || x.sizes[0] != out.sizes[0] || x.sizes[1] != out.sizes[1]) return false;
  for (size_t k = 1; k < c.out.size(); ++k)
    if (!SameSizes(c.out[k], out)) return false;
  // So that bounds of windows are numbers.
  for (int64_t v : c.ints)
    if (v < -(int64_t{1} << 30) || v > int64_t{1} << 30) return false;
  for (int d = 2; d < 5; ++d)
    if (x.sizes[d] > int64_t{1} << 31 || out.sizes[d] > int64_t{1} << 31) return false;
  return true;
}

// The position of an element in its plane.
int64_t Place(const Tensor& x, int64_t z, int64_t y, int64_t w) {
  const auto height = static_cast<uint64_t>(x.sizes[3]), width = static_cast<uint64_t>(x.sizes[4]);
  return static_cast<int64_t>((static_cast<uint64_t>(z) * height + static_cast<uint64_t>(y)) * width +
                              static_cast<uint64_t>(w));
}

// The largest of each window, NaN above all; out[1], where there is one, is its place in the plane.
template <typename T, typename S>
void Largest(const Call& c, S span) {
  const Tensor &x = c.in[0], &out = c.out[0];
  ForEachWindow(x, out, span, [&](int64_t plane, const Span* s, const int64_t* at) {
    T best = std::is_integral_v<T> ? std::numeric_limits<T>::lowest() : -std::numeric_limits<T>::infinity();
    int64_t place = Place(x, s[0].begin, s[1].begin, s[2].begin);
    for (int64_t z = s[0].begin; z < s[0].end; z += s[0].step)
      for (int64_t y = s[1].begin; y < s[1].end; y += s[1].step)
        for (int64_t w = s[2].begin; w < s[2].end; w += s[2].step) {
          const T v = Get<T>(x, plane + z * x.strides[2] + y * x.strides[3] + w * x.strides[4], x.dtype);
          if (v > best || v != v) best = v, place = Place(x, z, y, w);
        }
    Put<T>(out, Offset(out, at), best);
    if (c.out.size() > 1) Put<int64_t>(c.out[1], Offset(c.out[1], at), place);
  });
}

Window WindowOf(const int64_t* kernel, const int64_t* stride, const int64_t* pad, const int64_t* dilation) {
  Window w;
  for (int d = 0; d < kSpatial; ++d)
    w.kernel[d] = kernel[d], w.stride[d] = stride[d], w.pad[d] = pad[d], w.dilation[d] = dilation[d];
  return w;
}
constexpr int64_t kOnes[kSpatial] = {1, 1, 1}, kZeros[kSpatial] = {};

const char* MaxPool(const Call& c, const MaxPoolAttributes& a) {
  if (!Fits(c)) return kSizesDiffer;
  for (int d = 0; d < kSpatial; ++d)
    if (a.window[d] < 1 || a.stride[d] < 1 || a.dilation[d] < 1) return kSizesDiffer;
  if (c.out.size() == 1 &&
      MaxPoolF32(c.in[0], c.out[0], WindowOf(a.window, a.stride, a.padding, a.dilation), c.workers, *c.scratch))
    return nullptr;
  if (c.scratch->querying()) return nullptr;
  if (c.out.size() == 1 &&
      MaxPoolBytes(c.in[0], c.out[0], WindowOf(a.window, a.stride, a.padding, a.dilation), c.workers))
    return nullptr;
  WithComputeType(c.in[0].dtype, [&]<typename T>() {
    Largest<T>(c, [&](int d, int64_t i) {
      int64_t begin = i * a.stride[d] - a.padding[d];
      const int64_t end = std::min(begin + (a.window[d] - 1) * a.dilation[d] + 1, c.in[0].sizes[2 + d]);
      if (begin < 0) begin += (-begin + a.dilation[d] - 1) / a.dilation[d] * a.dilation[d];
      return Span{begin, end, a.dilation[d]};
    });
  });
  return nullptr;
}

Span Adaptive(const Call& c, int d, int64_t i) {
  const AdaptiveWindow w(i, c.in[0].sizes[2 + d], c.out[0].sizes[2 + d]);
  return {w.begin, w.end, 1};
}
const char* AdaptiveMaxPool(const Call& c, const NoAttributes&) {
  if (!Fits(c)) return kSizesDiffer;
  WithComputeType(c.in[0].dtype,
                  [&]<typename T>() { Largest<T>(c, [&](int d, int64_t i) { return Adaptive(c, d, i); }); });
  return nullptr;
}

// The mean of each window, summed in f64; divisor(d) as the operator counts.
template <typename S, typename D>
void Average(const Call& c, S span, D divisor) {
  const Tensor &x = c.in[0], &out = c.out[0];
  WithComputeType(c.compute, [&]<typename T>() {
    using A = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;  // integers wrap
    ForEachWindow(x, out, span, [&](int64_t plane, const Span* s, const int64_t* at) {
      A sum = 0;
      for (int64_t z = s[0].begin; z < s[0].end; ++z)
        for (int64_t y = s[1].begin; y < s[1].end; ++y)
          for (int64_t w = s[2].begin; w < s[2].end; ++w)
            sum += static_cast<A>(Get<T>(x, plane + z * x.strides[2] + y * x.strides[3] + w * x.strides[4], c.compute));
      const int64_t by = divisor(s, at);
      if constexpr (std::is_integral_v<T>)
        Put<int64_t>(out, Offset(out, at),
                     by == 0    ? 0
                     : by == -1 ? static_cast<int64_t>(0 - sum)
                                : static_cast<int64_t>(sum) / by);
      else
        Put<A>(out, Offset(out, at), by == 0 ? std::numeric_limits<A>::quiet_NaN() : sum / static_cast<A>(by));
    });
  });
}
const char* AveragePool(const Call& c, const AveragePoolAttributes<>& a) {
  if (!Fits(c)) return kSizesDiffer;
  for (int d = 0; d < kSpatial; ++d)
    if (a.window[d] < 1 || a.stride[d] < 1) return kSizesDiffer;
  if (ComputeType(c.compute) == DType::kF32 &&
      AveragePoolF32(c.in[0], c.out[0], WindowOf(a.window, a.stride, a.padding, kOnes), {a.divisor, a.padding_counts},
                     c.workers, *c.scratch))
    return nullptr;
  if (c.scratch->querying()) return nullptr;
  auto bounds = [&](int d, int64_t i) {
    const int64_t begin = i * a.stride[d] - a.padding[d];
    return Span{begin, std::min(begin + a.window[d], c.in[0].sizes[2 + d] + a.padding[d]), 1};
  };
  Average(
      c,
      [&](int d, int64_t i) {
        Span s = bounds(d, i);
        s.begin = std::max<int64_t>(s.begin, 0);
        s.end = std::min(s.end, c.in[0].sizes[2 + d]);
        return s;
      },
      [&](const Span* s, const int64_t* at) {
        if (a.divisor != 0) return a.divisor;
        uint64_t n = 1;
        for (int d = 0; d < kSpatial; ++d) {
          const Span whole = bounds(d, at[2 + d]);
          n *= static_cast<uint64_t>(a.padding_counts ? whole.end - whole.begin
                                                      : std::max<int64_t>(0, s[d].end - s[d].begin));
        }
        return static_cast<int64_t>(n);
      });
  return nullptr;
}
const char* AdaptiveAveragePool(const Call& c, const NoAttributes&) {
  if (!Fits(c)) return kSizesDiffer;
  if (ComputeType(c.compute) == DType::kF32) {
    // Windows of one size, side by side.
    int64_t kernel[kSpatial];
    bool even = true, one = true;
    for (int d = 0; d < kSpatial; ++d) {
      const int64_t in = c.in[0].sizes[2 + d], out = c.out[0].sizes[2 + d];
      even = even && out > 0 && in > 0 && in % out == 0;
      kernel[d] = even ? in / out : 0;
      one = one && out == 1;
    }
    if (AdaptiveAverageNhwc(c.in[0], c.out[0], c.workers, *c.scratch)) return nullptr;
    if (even && one && PlaneMeanF32(c.in[0], c.out[0], c.workers, *c.scratch)) return nullptr;
    if (even && AveragePoolF32(c.in[0], c.out[0], WindowOf(kernel, kernel, kZeros, kOnes), {}, c.workers, *c.scratch))
      return nullptr;
  }
  if (c.scratch->querying()) return nullptr;
  Average(
      c, [&](int d, int64_t i) { return Adaptive(c, d, i); },
      [](const Span* s, const int64_t*) {
        uint64_t n = 1;
        for (int d = 0; d < kSpatial; ++d) n *= static_cast<uint64_t>(s[d].end - s[d].begin);
        return static_cast<int64_t>(n);
      });
  return nullptr;
}

// out[n, c, index] = x, where out, [n, c, positions], holds zeros; in[1] has the places.
const char* MaxUnpool(const Call& c, const NoAttributes&) {
  const Tensor &x = c.in[0], &index = c.in[1], &out = c.out[0];
  if (c.in.size() < 2 || x.rank != 3 || index.rank != 3 || out.rank != 3 || index.dtype != DType::kI64 ||
      x.dtype != out.dtype)
    return kSizesDiffer;
  for (int d = 0; d < 3; ++d)
    if (x.sizes[d] != index.sizes[d] || (d < 2 && x.sizes[d] != out.sizes[d])) return kSizesDiffer;
  bool inside = true;
  WithWord(x.dtype, [&]<typename W>() {
    for (int64_t n = 0; n < x.sizes[0]; ++n)
      for (int64_t ch = 0; ch < x.sizes[1]; ++ch)
        for (int64_t i = 0; i < x.sizes[2]; ++i) {
          const int64_t to = index.as<int64_t>()[n * index.strides[0] + ch * index.strides[1] + i * index.strides[2]];
          if (to < 0 || to >= out.sizes[2]) {
            inside = false;
            continue;
          }
          out.as<W>()[n * out.strides[0] + ch * out.strides[1] + to * out.strides[2]] =
              x.as<W>()[n * x.strides[0] + ch * x.strides[1] + i * x.strides[2]];
        }
  });
  return inside ? nullptr : "index out of range";
}

constexpr Kernel kKernels[] = {
    With<MaxPoolAttributes, MaxPool>({.name = "max_pool", .queries_workspace = true, .pitched = true}),
    With<AveragePoolAttributes<>, AveragePool>({.name = "avg_pool", .queries_workspace = true, .pitched = true}),
    With<NoAttributes, AdaptiveMaxPool>({"adaptive_max_pool"}),
    With<NoAttributes, AdaptiveAveragePool>({.name = "adaptive_avg_pool", .queries_workspace = true, .pitched = true}),
    With<NoAttributes, MaxUnpool>({"max_unpool"}),
};

}  // namespace

std::span<const Kernel> PoolKernels() { return kKernels; }

}  // namespace slipway::kernels
