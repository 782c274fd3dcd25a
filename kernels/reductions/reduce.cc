// Reductions. The operand comes with the reduced dims last, the result has the others. Floating-point sums are kept in f64 and
// rounded once; each result is summed in the order of its elements, so the bits do not depend on the number of threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/check.h"
#include "kernels/convert.h"
#include "kernels/isa/isa.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/walk.h"

namespace slipway::kernels {
namespace {

// Whether the result has the sizes of the dims that stay.
bool Fits(const Call& c, int dims) {
  const Tensor &in = c.in[0], &out = c.out[0];
  return dims >= 0 && dims <= in.rank && out.rank == in.rank - dims && SameSizes(in, 0, out.rank, out, 0);
}
// Splits `in` into the dims that stay and those that go.
void Split(const Tensor& in, int reduced, Tensor* kept, Tensor* gone) {
  *kept = Head(in, in.rank - reduced);
  *gone = Tail(in, in.rank - reduced);
}

// Calls each(rows, out) for every result: rows(f) calls f(row, n) on blocks of what is reduced into it, in order;
// the result is written through store(k, value) for output k.
template <typename T, typename Each>
void ForEachResult(const Call& c, int dims, Each each) {
  const Tensor& in = c.in[0];
  Tensor kept, gone;
  Split(in, dims, &kept, &gone);
  Walk<2>({&c.out[0], &kept}, [&](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      Tensor part = gone;
      part.data = at[1] + i * step[1] * ByteSize(in.dtype);
      auto rows = [&](auto f) {
        Walk<1>({&part}, [&](std::array<char*, 1> from, const std::array<int64_t, 1>& stride, int64_t m) {
          if (in.dtype == c.compute && in.dtype == ComputeType(in.dtype) && stride[0] == 1)
            return f(reinterpret_cast<const T*>(from[0]), m);
          T row[kRowBlock];
          for (int64_t done = 0; done < m; done += kRowBlock) {
            const int64_t k = std::min(kRowBlock, m - done);
            LoadRow<T>(from[0], in.dtype, stride[0], k, c.compute, row);
            from[0] += k * stride[0] * ByteSize(in.dtype);
            f(row, k);
          }
        });
      };
      auto store = [&](auto value) {
        using R = decltype(value);
        StoreRow<R>(&value, 1, at[0] + i * step[0] * ByteSize(c.out[0].dtype), c.out[0].dtype, 1);
      };
      each(rows, store);
    }
  });
}

// Sums in f32 where the results lie along memory and what is reduced does not: rows are added to a row of sums, in the
// order in which each result's numbers come. kMean divides by their count. False where the operands do not lie so.
template <bool kMean>
bool SumAcross(const Call& c, int dims) {
  Tensor in = c.in[0], out = c.out[0];
  const int last = out.rank - 1;
  constexpr int64_t kColumns = 64;
  // Of the dims that stay, the one along memory is taken as the last: channels, where these are last.
  for (int d = 0; d < last; ++d)
    if (in.strides[d] == 1 && in.sizes[d] > 1)
      for (Tensor* t : {&in, &out}) std::swap(t->sizes[d], t->sizes[last]), std::swap(t->strides[d], t->strides[last]);
  if (ComputeType(c.compute) != DType::kF32 || last < 0 || in.strides[last] != 1 || in.sizes[last] < 8 ||
      in.numel() == 0 || in.strides[in.rank - 1] == 1)
    return false;
  Tensor kept, gone;
  Split(in, dims, &kept, &gone);
  const Tensor from = DropDim(kept, last), to = DropDim(out, last);
  const int64_t n = in.sizes[last], blocks = (n + kColumns - 1) / kColumns, size = ByteSize(in.dtype);
  const double count = static_cast<double>(gone.numel());
  const int64_t grain = (int64_t{1} << 13) / (gone.numel() * std::min(n, kColumns)) + 1;
  ParallelFor(c.workers, from.numel() * blocks, grain, [&](int64_t first, int64_t end) {
    int64_t block = first % blocks;
    for (Positions<2> at(to, {&to, &from}, first / blocks); first < end; ++first) {
      const int64_t column = block * kColumns, m = std::min(kColumns, n - column);
      double sums[kColumns] = {};
      float row[kColumns];
      Tensor part = gone;
      part.data = at[1] + column * size;
      Walk<1>({&part}, [&](std::array<char*, 1> p, const std::array<int64_t, 1>& step, int64_t rows) {
        if (in.dtype == DType::kF32 && c.compute == DType::kF32)
          return BestIsa().sum_rows(reinterpret_cast<const float*>(p[0]), step[0], rows, m, sums);
        for (int64_t i = 0; i < rows; ++i, p[0] += step[0] * size) {
          LoadRow<float>(p[0], in.dtype, 1, m, c.compute, row);
          for (int64_t j = 0; j < m; ++j) sums[j] += static_cast<double>(row[j]);
        }
      });
      if constexpr (kMean)
        for (int64_t j = 0; j < m; ++j) sums[j] /= count;
      StoreRow<double>(sums, m, at[0] + column * out.strides[last] * ByteSize(out.dtype), out.dtype, out.strides[last]);
      if (++block == blocks) block = 0, at.Next();
    }
  });
  return true;
}

// An accumulator has Add(x) and Result(). Those that have no value of nothing refuse to reduce no elements.
template <template <typename> class Acc, bool kOfNothing = true>
const char* Reduce(const Call& c, const ReduceAttributes& a) {
  if (!Fits(c, a.dims)) return kSizesDiffer;
  if (!kOfNothing && c.in[0].numel() == 0 && c.out[0].numel() != 0) return "of a tensor without elements";
  if constexpr (requires { Acc<float>::kAcross; })
    if (SumAcross<Acc<float>::kAcross == 2>(c, a.dims)) return nullptr;
  WithComputeType(c.compute, [&]<typename T>() {
    ForEachResult<T>(c, a.dims, [&](auto rows, auto store) {
      Acc<T> acc;
      rows([&](const T* row, int64_t n) {
        if constexpr (requires { acc.AddRow(row, n); })
          acc.AddRow(row, n);
        else
          for (int64_t i = 0; i < n; ++i) acc.Add(row[i]);
      });
      store(acc.Result());
    });
  });
  return nullptr;
}

template <typename T>
using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
template <typename T>
using Stored = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

template <typename T>
struct Sum {
  static constexpr int kAcross = 1;  // SumAcross without and with a division
  Wide<T> sum = 0;
  void Add(T x) { sum += static_cast<Wide<T>>(x); }
  void AddRow(const T* x, int64_t n) {
    if constexpr (std::is_same_v<T, float>)
      sum += BestIsa().sum(x, n);
    else
      for (int64_t i = 0; i < n; ++i) Add(x[i]);
  }
  Stored<T> Result() const { return static_cast<Stored<T>>(sum); }
};
template <typename T>
struct Product {
  Wide<T> product = 1;
  void Add(T x) { product *= static_cast<Wide<T>>(x); }
  Stored<T> Result() const { return static_cast<Stored<T>>(product); }
};
template <typename T>
struct Mean {
  static constexpr int kAcross = 2;
  double sum = 0;
  int64_t count = 0;
  void Add(T x) { sum += static_cast<double>(x), ++count; }
  void AddRow(const T* x, int64_t n) {
    if constexpr (std::is_same_v<T, float>)
      sum += BestIsa().sum(x, n), count += n;
    else
      for (int64_t i = 0; i < n; ++i) Add(x[i]);
  }
  double Result() const { return sum / static_cast<double>(count); }
};
template <typename T>
struct Largest {
  T best = std::is_integral_v<T> ? std::numeric_limits<T>::min() : -std::numeric_limits<T>::infinity();
  void Add(T x) { best = x != x || x > best ? x : best; }
  T Result() const { return best; }
};
template <typename T>
struct Smallest {
  T best = std::is_integral_v<T> ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
  void Add(T x) { best = x != x || x < best ? x : best; }
  T Result() const { return best; }
};
template <typename T>
struct Any {
  bool found = false;
  void Add(T x) { found |= x != 0; }
  int64_t Result() const { return found; }
};
template <typename T>
struct All {
  bool holds = true;
  void Add(T x) { holds &= x != 0; }
  int64_t Result() const { return holds; }
};
// The first of the largest (smallest); the first NaN where there is one.
template <typename T, bool kLargest>
struct Place {
  T best{};
  int64_t at = 0, count = 0;
  void Add(T x) {
    const bool better = kLargest ? x > best : x < best;
    if (count == 0 || (best == best && (x != x || better))) best = x, at = count;
    ++count;
  }
  int64_t Result() const { return at; }
};
template <typename T>
struct Argmax : Place<T, true> {};
template <typename T>
struct Argmin : Place<T, false> {};

// The variance, or its root. Two passes: first the mean.
template <bool kRoot>
const char* Variance(const Call& c, const VarianceAttributes& a) {
  if (!Fits(c, a.dims)) return kSizesDiffer;
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    ForEachResult<T>(c, a.dims, [&](auto rows, auto store) {
      Mean<T> mean;
      rows([&](const T* row, int64_t n) {
        for (int64_t i = 0; i < n; ++i) mean.Add(row[i]);
      });
      const double center = mean.Result();
      double sum = 0;
      rows([&](const T* row, int64_t n) {
        for (int64_t i = 0; i < n; ++i) sum += (row[i] - center) * (row[i] - center);
      });
      const double v = sum / std::fmax(0.0, static_cast<double>(mean.count) - a.correction);
      store(kRoot ? std::sqrt(v) : v);
    });
    return nullptr;
  });
}

const char* VectorNorm(const Call& c, const VectorNormAttributes& a) {
  if (!Fits(c, a.dims)) return kSizesDiffer;
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    const double order = a.order;
    if (std::isinf(order) && c.in[0].numel() == 0 && c.out[0].numel() != 0) return "of a tensor without elements";
    ForEachResult<T>(c, a.dims, [&](auto rows, auto store) {
      double norm = order == -std::numeric_limits<double>::infinity() ? -order : 0;
      rows([&](const T* row, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const double x = std::fabs(static_cast<double>(row[i]));
          if (order == 2)
            norm += x * x;
          else if (order == 1)
            norm += x;
          else if (order == 0)
            norm += x != 0;
          else if (std::isinf(order))
            norm = x != x || norm != norm ? x + norm : order > 0 ? std::fmax(norm, x) : std::fmin(norm, x);
          else
            norm += std::pow(x, order);
        }
      });
      store(order == 2                                      ? std::sqrt(norm)
            : order == 0 || order == 1 || std::isinf(order) ? norm
                                                            : std::pow(norm, 1 / order));
    });
    return nullptr;
  });
}

constexpr Kernel kKernels[] = {
    With<VectorNormAttributes, VectorNorm>({"vector_norm"}),
    With<ReduceAttributes, Reduce<Sum>>({"sum"}),
    With<ReduceAttributes, Reduce<Product>>({"prod"}),
    With<ReduceAttributes, Reduce<Mean>>({"mean"}),
    With<ReduceAttributes, Reduce<Largest, false>>({"amax"}),
    With<ReduceAttributes, Reduce<Smallest, false>>({"amin"}),
    With<ReduceAttributes, Reduce<Any>>({"any"}),
    With<ReduceAttributes, Reduce<All>>({"all"}),
    With<ReduceAttributes, Reduce<Argmax, false>>({"argmax"}),
    With<ReduceAttributes, Reduce<Argmin, false>>({"argmin"}),
    With<VarianceAttributes, Variance<false>>({"var"}),
    With<VarianceAttributes, Variance<true>>({"std"}),
};

}  // namespace

std::span<const Kernel> ReduceKernels() { return kKernels; }

}  // namespace slipway::kernels
