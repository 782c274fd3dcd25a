// Reductions. The operand comes with the reduced dims last, the result has the others. Floating-point sums are kept in
// f64 and rounded once; each result is summed in the order of its elements, so the bits do not depend on the number of
// threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/convert.h"
#include "kernels/isa/isa.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

// Whether the result has the sizes of the dims that stay.
bool Fits(const Call& c, int dims) {
  const Tensor &in = c.in[0], &out = c.out[0];
  return dims >= 0 && dims <= in.rank && out.rank == in.rank - dims && SameSizes(in, 0, out.rank, out, 0);
}
constexpr int64_t kColumns = 64;   // results that are made at once where they lie along memory
constexpr int64_t kHeldRows = 16;  // rows that are widened at once

// Splits `in` into the dims that stay and those that go.
void Split(const Tensor& in, int reduced, Tensor* kept, Tensor* gone) {
  *kept = Head(in, in.rank - reduced);
  *gone = Tail(in, in.rank - reduced);
}

// The rows of a tensor, wherever its data begins: what is reduced, for each result anew.
class Rows {
 public:
  explicit Rows(const Tensor& t) : none_(t.numel() == 0) {
    const Tensor* const tensors[] = {&t};
    if (!none_) rank_ = JoinDims(tensors, sizes_, steps_);
    if (rank_ > 0) n_ = sizes_[rank_ - 1], stride_ = steps_[0][rank_ - 1] / ByteSize(t.dtype);
  }
  // Calls row(first element, stride in elements, n) for each.
  template <typename F>
  void Each(char* data, F row) const {
    if (none_) return;
    int64_t index[kMaxRank];
    for (int d = 0; d + 1 < rank_; ++d) index[d] = 0;
    do row(data, stride_, n_);
    while (NextPosition(rank_ - 1, sizes_, index, 1, &data, steps_));
  }

 private:
  bool none_;
  int rank_ = 0;
  int64_t n_ = 1, stride_ = 0, sizes_[kMaxRank], steps_[1][kMaxRank];
};

// An accumulator has Add(x) and Result(); more where it makes a difference:
// - AddRow(x, n) takes n numbers one after the other;
// - kFirst says that what it takes are sums of numbers, or of the squares of their distances from `center`: AddSum(sum,
//   how many numbers);
// - Next() begins a second pass over the same numbers, of which Again(x) takes one and kAgain is what kFirst was.
enum class Sums { kNone, kPlain, kSquares };
template <bool kSecond, typename A>
constexpr Sums SumsOf() {
  if constexpr (kSecond && requires { A::kAgain; })
    return A::kAgain;
  else if constexpr (!kSecond && requires { A::kFirst; })
    return A::kFirst;
  else
    return Sums::kNone;
}
template <bool kSecond, typename T, typename A>
void AddOne(A& acc, T x) {
  if constexpr (kSecond)
    acc.Again(x);
  else
    acc.Add(x);
}
template <bool kSecond, typename T, typename A>
void AddRow(A& acc, const T* x, int64_t n) {
  constexpr Sums kSums = std::is_same_v<T, float> ? SumsOf<kSecond, A>() : Sums::kNone;
  if constexpr (kSums == Sums::kPlain)
    acc.AddSum(BestIsa().reduction.sum(x, n), n);
  else if constexpr (kSums == Sums::kSquares)
    acc.AddSum(BestIsa().reduction.sum_squares(x, n, acc.center), n);
  else if constexpr (!kSecond && requires { acc.AddRow(x, n); })
    acc.AddRow(x, n);
  else
    for (int64_t i = 0; i < n; ++i) AddOne<kSecond>(acc, x[i]);
}
// Adds rows of n numbers, `row` floats apart, to n accumulators; false where it is no sum.
template <bool kSecond, typename A>
bool AddSums(A* accs, const float* x, int64_t row, int64_t rows, int64_t n) {
  constexpr Sums kSums = SumsOf<kSecond, A>();
  if constexpr (kSums != Sums::kNone) {
    double sums[kColumns] = {}, centers[kColumns];
    if constexpr (kSums == Sums::kSquares) {
      for (int64_t j = 0; j < n; ++j) centers[j] = accs[j].center;
      BestIsa().reduction.sum_squares_of_rows(x, row, rows, n, centers, sums);
    } else {
      BestIsa().reduction.sum_rows(x, row, rows, n, sums);
    }
    for (int64_t j = 0; j < n; ++j) accs[j].AddSum(sums[j], rows);
  }
  return kSums != Sums::kNone;
}
// In how few results a thread's part pays.
int64_t Grain(int64_t numbers) { return (int64_t{1} << 13) / std::max<int64_t>(numbers, 1) + 1; }

// An accumulator of numbers of a compute type by functions, so that the loops are compiled once for all. `second`: of
// the second pass.
struct Erased {
  const void* fresh;
  int64_t size;  // of an accumulator
  DType type;    // of the numbers
  void (*add_row)(void* acc, const void* x, int64_t n, bool second);
  void (*next)(void* accs, int64_t n);  // null where there is no second pass
  // The results of n accumulators, to a row.
  void (*store)(const void* accs, int64_t n, void* to, DType dtype, int64_t stride);
  // Of f32 alone: n fresh ones; rows of n numbers, `apart` floats apart, to n accumulators, as sums or one by one.
  void (*fill)(void* accs, int64_t n, const void* fresh);
  bool (*add_sums)(void* accs, const float* x, int64_t apart, int64_t rows, int64_t n, bool second);
  void (*add_rows)(void* accs, const float* x, int64_t apart, int64_t rows, int64_t n, bool second);
};
template <typename T>
constexpr DType kComputeTypeOf = std::is_same_v<T, float>    ? DType::kF32
                                 : std::is_same_v<T, double> ? DType::kF64
                                                             : DType::kI64;
constexpr int64_t kMaxSize = 32;  // of an accumulator

template <typename T, typename A>
Erased Erase(const A& fresh) {
  static_assert(sizeof(A) <= kMaxSize && alignof(A) <= alignof(double) && std::is_trivially_copyable_v<A>);
  constexpr bool kTwice = requires(A a) { a.Next(); };
  Erased e{.fresh = &fresh, .size = sizeof(A), .type = kComputeTypeOf<T>};
  e.add_row = [](void* acc, const void* x, int64_t n, bool second) {
    A& a = *static_cast<A*>(acc);
    if constexpr (kTwice)
      if (second) return AddRow<true>(a, static_cast<const T*>(x), n);
    AddRow<false>(a, static_cast<const T*>(x), n);
  };
  if constexpr (kTwice)
    e.next = [](void* accs, int64_t n) {
      for (int64_t j = 0; j < n; ++j) static_cast<A*>(accs)[j].Next();
    };
  e.store = [](const void* accs, int64_t n, void* to, DType dtype, int64_t stride) {
    std::remove_cvref_t<decltype(std::declval<const A&>().Result())> results[kColumns];
    for (int64_t j = 0; j < n; ++j) results[j] = static_cast<const A*>(accs)[j].Result();
    StoreRow(results, n, to, dtype, stride);
  };
  if constexpr (std::is_same_v<T, float>) {
    e.fill = [](void* accs, int64_t n, const void* from) {
      std::fill_n(static_cast<A*>(accs), n, *static_cast<const A*>(from));
    };
    e.add_sums = [](void* accs, const float* x, int64_t apart, int64_t rows, int64_t n, bool second) {
      if constexpr (kTwice)
        if (second) return AddSums<true>(static_cast<A*>(accs), x, apart, rows, n);
      return AddSums<false>(static_cast<A*>(accs), x, apart, rows, n);
    };
    e.add_rows = [](void* accs, const float* x, int64_t apart, int64_t rows, int64_t n, bool second) {
      A* const a = static_cast<A*>(accs);
      for (int64_t k = 0; k < rows; ++k, x += apart)
        for (int64_t j = 0; j < n; ++j) {
          if constexpr (kTwice)
            if (second) {
              AddOne<true>(a[j], x[j]);
              continue;
            }
          AddOne<false>(a[j], x[j]);
        }
    };
  }
  return e;
}

void LoadRowAs(DType type, const void* from, DType dtype, int64_t stride, int64_t n, DType as, void* to) {
  if (type == DType::kF32)
    LoadRow(from, dtype, stride, n, as, static_cast<float*>(to));
  else if (type == DType::kF64)
    LoadRow(from, dtype, stride, n, as, static_cast<double*>(to));
  else
    LoadRow(from, dtype, stride, n, as, static_cast<int64_t*>(to));
}

// Result by result.
void Along(const Call& c, int dims, const Erased& e) {
  const Tensor &in = c.in[0], &out = c.out[0];
  Tensor kept, gone;
  Split(in, dims, &kept, &gone);
  const bool plain = in.dtype == c.compute && in.dtype == ComputeType(in.dtype);
  const Rows rows(gone);
  ParallelFor(c.workers, out.numel(), Grain(gone.numel()), [&](int64_t first, int64_t end) {
    for (Positions<2> at(out, {&out, &kept}, first); first < end; ++first, at.Next()) {
      alignas(double) char acc[kMaxSize];
      std::memcpy(acc, e.fresh, static_cast<size_t>(e.size));
      const auto pass = [&](bool second) {
        rows.Each(at[1], [&](char* from, int64_t stride, int64_t n) {
          if (plain && stride == 1) return e.add_row(acc, from, n, second);
          double row[kRowBlock];  // or of another type of at most this size
          for (int64_t done = 0; done < n; done += kRowBlock) {
            const int64_t k = std::min(kRowBlock, n - done);
            LoadRowAs(e.type, from, in.dtype, stride, k, c.compute, row);
            from += k * stride * ByteSize(in.dtype);
            e.add_row(acc, row, k, second);
          }
        });
      };
      pass(false);
      if (e.next != nullptr) e.next(acc, 1), pass(true);
      e.store(acc, 1, at[0], out.dtype, 1);
    }
  });
}

// Across, for sums of many rows: these are summed up in parts, as many for any number of threads. So a thread reads
// rows of an image that it has made, and the bits do not depend on the threads. `gone` is reduced; false where it is
// not many numbers that lie equally far apart.
template <typename A>
bool AcrossInParts(const Call& c, const Tensor& gone, const Tensor& from, const Tensor& to, int64_t n,
                   int64_t to_stride, const A& fresh) {
  constexpr int64_t kParts = 4, kMinRows = 32, kMinNumbers = int64_t{1} << 14;
  const Tensor* const tensors[] = {&gone};
  int64_t sizes[kMaxRank], steps[1][kMaxRank];
  if (JoinDims(tensors, sizes, steps) != 1) return false;
  const int64_t rows = sizes[0], apart = steps[0][0] / ByteSize(gone.dtype);
  if (rows < kMinRows || rows * n < kMinNumbers) return false;
  const Scratch::Frame frame(*c.scratch);
  const int64_t results = from.numel();
  double* const sums = c.scratch->Take<double>(results * kParts * n);
  ParallelFor(c.workers, results * kParts, 1, [&](int64_t first, int64_t end) {
    for (Positions<1> at(from, {&from}, first / kParts); first < end;) {
      const int64_t part = first % kParts, begin = rows * part / kParts, count = rows * (part + 1) / kParts - begin;
      const float* const x = reinterpret_cast<const float*>(at[0]) + begin * apart;
      std::fill_n(sums + first * n, n, 0.0);
      for (int64_t j = 0; j < n; j += kColumns)
        BestIsa().reduction.sum_rows(x + j, apart, count, std::min(kColumns, n - j), sums + first * n + j);
      if (++first % kParts == 0) at.Next();
    }
  });
  const double* of = sums;
  for (Positions<1> at(to, {&to}, 0); of < sums + results * kParts * n; of += kParts * n, at.Next())
    for (int64_t column = 0; column < n; column += kColumns) {
      const int64_t m = std::min(kColumns, n - column);
      double total[kColumns] = {};
      for (int64_t p = 0; p < kParts; ++p)
        for (int64_t j = 0; j < m; ++j) total[j] += of[p * n + column + j];
      std::remove_cvref_t<decltype(fresh.Result())> values[kColumns];
      for (int64_t j = 0; j < m; ++j) {
        A acc = fresh;
        acc.AddSum(total[j], rows);
        values[j] = acc.Result();
      }
      StoreRow(values, m, at[0] + column * to_stride * ByteSize(c.out[0].dtype), c.out[0].dtype, to_stride);
    }
  return true;
}

// Across, for sums of not too many rows of bf16 or f16: in f32, of several vectors of results at once.
template <typename A>
bool AcrossHalves(const Call& c, const Tensor& gone, const Tensor& from, const Tensor& to, int64_t n, const A& fresh) {
  constexpr int64_t kMaxRows = 4096;  // whose error in f32 is below that of rounding to f16
  const Tensor* const tensors[] = {&gone};
  int64_t sizes[kMaxRank], steps[1][kMaxRank];
  if (JoinDims(tensors, sizes, steps) != 1 || sizes[0] > kMaxRows) return false;
  const int64_t rows = sizes[0], blocks = (n + kColumns - 1) / kColumns;
  A one = fresh;
  one.AddSum(1, rows);
  const auto scale = static_cast<float>(one.Result());
  ParallelFor(c.workers, from.numel() * blocks, Grain(rows * std::min(n, kColumns)), [&](int64_t first, int64_t end) {
    const void* at_row[kMaxRows];
    int64_t block = first % blocks;
    for (Positions<2> at(to, {&to, &from}, first / blocks); first < end; ++first) {
      const int64_t column = block * kColumns;
      for (int64_t i = 0; i < rows; ++i) at_row[i] = at[1] + i * steps[0][0] + column * int64_t{sizeof(uint16_t)};
      PoolNhwcParams p;
      p.rows = at_row, p.count = rows, p.n = std::min(kColumns, n - column), p.dtype = c.out[0].dtype, p.scale = scale;
      p.out = at[0] + column * int64_t{sizeof(uint16_t)};
      BestIsa().conv_nhwc.sum_pool(p);
      if (++block == blocks) block = 0, at.Next();
    }
  });
  return true;
}

// In f32, where the results lie along memory and what is reduced does not: rows are added to a row of accumulators, in
// the order in which each result's numbers come. False where the operands do not lie so.
// Sums alone are tried by `sums` first.
using SumsAcross = std::function<bool(const Tensor& gone, const Tensor& from, const Tensor& to, int64_t n,
                                      int64_t to_stride, bool plain)>;
bool Across(const Call& c, int dims, const Erased& e, const SumsAcross& sums) {
  Tensor in = c.in[0], out = c.out[0];
  const int last = out.rank - 1;
  // Of the dims that stay, the one along memory is taken as the last: channels, where these are last.
  for (int d = 0; d < last; ++d)
    if (in.strides[d] == 1 && in.sizes[d] > 1)
      for (Tensor* t : {&in, &out}) std::swap(t->sizes[d], t->sizes[last]), std::swap(t->strides[d], t->strides[last]);
  if (last < 0 || in.strides[last] != 1 || in.sizes[last] < 8 || in.numel() == 0 || in.strides[in.rank - 1] == 1)
    return false;
  Tensor kept, gone;
  Split(in, dims, &kept, &gone);
  const Tensor from = DropDim(kept, last), to = DropDim(out, last);
  const int64_t n = in.sizes[last], blocks = (n + kColumns - 1) / kColumns, size = ByteSize(in.dtype);
  const bool plain = in.dtype == c.compute && in.dtype == ComputeType(in.dtype);
  if (sums != nullptr && sums(gone, from, to, n, out.strides[last], plain)) return true;
  const Rows reduced(gone);
  ParallelFor(
      c.workers, from.numel() * blocks, Grain(gone.numel() * std::min(n, kColumns)), [&](int64_t first, int64_t end) {
        int64_t block = first % blocks;
        for (Positions<2> at(to, {&to, &from}, first / blocks); first < end; ++first) {
          const int64_t column = block * kColumns, m = std::min(kColumns, n - column);
          alignas(double) char accs[kColumns * kMaxSize];
          e.fill(accs, m, e.fresh);
          const auto pass = [&](bool second) {
            reduced.Each(at[1] + column * size, [&](char* p, int64_t step, int64_t rows) {
              if (plain && e.add_sums(accs, reinterpret_cast<const float*>(p), step, rows, m, second)) return;
              float held[kHeldRows * kColumns];
              for (int64_t i = 0; i < rows; i += kHeldRows) {
                const int64_t count = std::min(kHeldRows, rows - i);
                for (int64_t k = 0; k < count && !plain; ++k)
                  LoadRow<float>(p + (i + k) * step * size, in.dtype, 1, m, c.compute, held + k * kColumns);
                const float* const row = plain ? reinterpret_cast<const float*>(p) + i * step : held;
                const int64_t apart = plain ? step : kColumns;
                if (!e.add_sums(accs, row, apart, count, m, second)) e.add_rows(accs, row, apart, count, m, second);
              }
            });
          };
          pass(false);
          if (e.next != nullptr) e.next(accs, m), pass(true);
          e.store(accs, m, at[0] + column * out.strides[last] * ByteSize(out.dtype), out.dtype, out.strides[last]);
          if (++block == blocks) block = 0, at.Next();
        }
      });
  return true;
}

// Accumulators begin as copies of `fresh`.
template <typename T, typename A>
void ReduceWith(const Call& c, int dims, const A& fresh) {
  const Erased e = Erase<T>(fresh);
  if constexpr (std::is_same_v<T, float>) {  // of other types it would be as much code again for what is rare
    SumsAcross sums;
    if constexpr (SumsOf<false, A>() == Sums::kPlain && !requires(A a) { a.Next(); })
      sums = [&](const Tensor& gone, const Tensor& from, const Tensor& to, int64_t n, int64_t to_stride, bool plain) {
        if (plain && AcrossInParts(c, gone, from, to, n, to_stride, fresh)) return true;
        return IsHalf(c.in[0].dtype) && c.out[0].dtype == c.in[0].dtype && to_stride == 1 &&
               AcrossHalves(c, gone, from, to, n, fresh);
      };
    if (Across(c, dims, e, sums)) return;
  }
  Along(c, dims, e);
}
constexpr const char* kOfNothing = "of a tensor without elements";
bool HasNothing(const Call& c) { return c.in[0].numel() == 0 && c.out[0].numel() != 0; }

// Accumulators that have no value of nothing refuse to reduce no elements.
template <template <typename> class Acc, bool kHasValueOfNothing = true>
const char* Reduce(const Call& c, const ReduceAttributes& a) {
  if (!Fits(c, a.dims)) return kSizesDiffer;
  if (!kHasValueOfNothing && HasNothing(c)) return kOfNothing;
  WithComputeType(c.compute, [&]<typename T>() { ReduceWith<T>(c, a.dims, Acc<T>()); });
  return nullptr;
}

// The sum of f(i), in f64, in eight parts: none waits for the one before.
template <typename F>
double SumOf(int64_t n, F f) {
  constexpr int kParts = 8;
  double parts[kParts] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kParts <= n; i += kParts)
    for (int k = 0; k < kParts; ++k) parts[k] += f(i + k);
  for (; i < n; ++i) sum += f(i);
  for (double part : parts) sum += part;
  return sum;
}

template <typename T>
using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
template <typename T>
using Stored = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

template <typename T>
struct Sum {
  static constexpr Sums kFirst = Sums::kPlain;
  Wide<T> sum = 0;
  void Add(T x) { sum += static_cast<Wide<T>>(x); }
  void AddSum(double x, int64_t) { sum += x; }
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
  static constexpr Sums kFirst = Sums::kPlain;
  double sum = 0;
  int64_t count = 0;
  void Add(T x) { sum += static_cast<double>(x), ++count; }
  void AddSum(double x, int64_t n) { sum += x, count += n; }
  double Result() const { return sum / static_cast<double>(count); }
};
// The largest or smallest; NaN where there is one.
template <typename T, bool kLargest>
struct Extreme {
  T best = std::is_integral_v<T> ? (kLargest ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max())
                                 : (kLargest ? -1 : 1) * std::numeric_limits<T>::infinity();
  void Add(T x) { best = x != x || (kLargest ? x > best : x < best) ? x : best; }
  void AddRow(const T* x, int64_t n) {
    Extreme parts[16];  // none waits for the one before
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
      for (int k = 0; k < 16; ++k) parts[k].Add(x[i + k]);
    for (; i < n; ++i) Add(x[i]);
    for (const Extreme& part : parts) Add(part.best);
  }
  T Result() const { return best; }
};
template <typename T>
struct Largest : Extreme<T, true> {};
template <typename T>
struct Smallest : Extreme<T, false> {};
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
  void AddRow(const T* x, int64_t n) {
    if (n == 0) return;
    Extreme<T, kLargest> row;
    row.AddRow(x, n);
    const int64_t first = count;
    Add(row.best);  // as if it were the first of them
    if (at == first) at += std::find_if(x, x + n, [&](T y) { return y == best || (y != y && best != best); }) - x;
    count = first + n;
  }
  int64_t Result() const { return at; }
};
template <typename T>
struct Argmax : Place<T, true> {};
template <typename T>
struct Argmin : Place<T, false> {};

// The variance, or its root. Two passes: first the mean.
template <bool kRoot>
struct Variance {
  static constexpr Sums kFirst = Sums::kPlain, kAgain = Sums::kSquares;
  double correction;
  double sum = 0, center = 0;
  int64_t count = 0;
  template <typename T>
  void Add(T x) {
    AddSum(static_cast<double>(x), 1);
  }
  void Next() { center = sum / static_cast<double>(count), sum = 0, count = 0; }
  template <typename T>
  void Again(T x) {
    const double d = static_cast<double>(x) - center;
    AddSum(d * d, 1);
  }
  void AddSum(double x, int64_t n) { sum += x, count += n; }
  double Result() const {
    const double v = sum / std::fmax(0.0, static_cast<double>(count) - correction);
    return kRoot ? std::sqrt(v) : v;
  }
};
template <bool kRoot>
const char* ReduceVariance(const Call& c, const VarianceAttributes& a) {
  if (!Fits(c, a.dims)) return kSizesDiffer;
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    ReduceWith<T>(c, a.dims, Variance<kRoot>{.correction = a.correction});
    return nullptr;
  });
}

// Norms: the root of a sum of squares, of a sum of other terms, or the extreme of what is without signs.
struct Euclidean {
  static constexpr Sums kFirst = Sums::kSquares;
  static constexpr double center = 0;
  double sum = 0;
  template <typename T>
  void Add(T x) {
    sum += static_cast<double>(x) * static_cast<double>(x);
  }
  void AddSum(double x, int64_t) { sum += x; }
  double Result() const { return std::sqrt(sum); }
};
struct Absolute {
  double Term(double x) const { return std::fabs(x); }
  double Root(double sum) const { return sum; }
};
struct NonZero {
  double Term(double x) const { return x != 0; }
  double Root(double sum) const { return sum; }
};
struct Power {
  double order;
  double Term(double x) const { return std::pow(std::fabs(x), order); }
  double Root(double sum) const { return std::pow(sum, 1 / order); }
};
template <typename Terms>
struct SumNorm {
  Terms terms;
  double sum = 0;
  template <typename T>
  void Add(T x) {
    sum += terms.Term(static_cast<double>(x));
  }
  template <typename T>
  void AddRow(const T* x, int64_t n) {
    sum += SumOf(n, [&](int64_t i) { return terms.Term(static_cast<double>(x[i])); });
  }
  double Result() const { return terms.Root(sum); }
};
template <bool kLargest>
struct ExtremeNorm {
  Extreme<double, kLargest> extreme{kLargest ? 0 : std::numeric_limits<double>::infinity()};
  template <typename T>
  void Add(T x) {
    extreme.Add(std::fabs(static_cast<double>(x)));
  }
  double Result() const { return extreme.Result(); }
};
const char* VectorNorm(const Call& c, const VectorNormAttributes& a) {
  if (!Fits(c, a.dims)) return kSizesDiffer;
  if (std::isinf(a.order) && HasNothing(c)) return kOfNothing;
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    const auto reduce = [&](const auto& fresh) { ReduceWith<T>(c, a.dims, fresh); };
    if (a.order == 2)
      reduce(Euclidean());
    else if (a.order == 1)
      reduce(SumNorm<Absolute>());
    else if (a.order == 0)
      reduce(SumNorm<NonZero>());
    else if (!std::isinf(a.order))
      reduce(SumNorm<Power>{.terms = {a.order}});
    else if (a.order > 0)
      reduce(ExtremeNorm<true>());
    else
      reduce(ExtremeNorm<false>());
    return nullptr;
  });
}

constexpr Kernel kKernels[] = {
    With<VectorNormAttributes, VectorNorm>({"vector_norm"}),
    With<ReduceAttributes, Reduce<Sum>>({.name = "sum", .unsigned64 = Unsigned64::kSame}),
    With<ReduceAttributes, Reduce<Product>>({.name = "prod", .unsigned64 = Unsigned64::kSame}),
    With<ReduceAttributes, Reduce<Mean>>({"mean"}),
    With<ReduceAttributes, Reduce<Largest, false>>({.name = "amax", .unsigned64 = Unsigned64::kOrder}),
    With<ReduceAttributes, Reduce<Smallest, false>>({.name = "amin", .unsigned64 = Unsigned64::kOrder}),
    With<ReduceAttributes, Reduce<Any>>({.name = "any", .unsigned64 = Unsigned64::kSame}),
    With<ReduceAttributes, Reduce<All>>({.name = "all", .unsigned64 = Unsigned64::kSame}),
    With<ReduceAttributes, Reduce<Argmax, false>>({.name = "argmax", .unsigned64 = Unsigned64::kOrder}),
    With<ReduceAttributes, Reduce<Argmin, false>>({.name = "argmin", .unsigned64 = Unsigned64::kOrder}),
    With<VarianceAttributes, ReduceVariance<false>>({"var"}),
    With<VarianceAttributes, ReduceVariance<true>>({"std"}),
};

}  // namespace

std::span<const Kernel> ReduceKernels() { return kKernels; }

}  // namespace slipway::kernels
