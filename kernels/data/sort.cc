// Kernels that compare elements: ranks, medians, quantiles, searches, distinct rows, reductions by index; and those
// whose result has a size that the data decide. These come in two calls: one that counts (or fills a result of the
// largest size and counts), and when the size is known the other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/convert.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

constexpr const char* kOutOfRange = "index out of range";

template <typename T>
bool Before(T a, T b) {  // NaN last
  return a < b || (a == a && b != b);
}
template <typename T>
bool Same(T a, T b) {
  return a == b || (a != a && b != b);
}

int64_t IndexAt(const Tensor& t, int64_t offset) {
  return t.dtype == DType::kI64 ? *reinterpret_cast<const int64_t*>(ElementAt(t, offset))
                                : *reinterpret_cast<const int32_t*>(ElementAt(t, offset));
}

// Calls f(row, position) for each row along the last dim of in[0]; row is a vector of the dtype's compute type.
template <typename F>
void ForEachRow(const Call& c, F f) {
  const Tensor& in = c.in[0];
  const int last = in.rank - 1;
  WithComputeType(in.dtype, [&]<typename T>() {
    std::vector<T> row(in.sizes[last]);
    const Tensor rows = Head(in, last);
    for (Positions<0> at(rows); at; at.Next()) {
      LoadRow<T>(at.Of(in), in.dtype, in.strides[last], in.sizes[last], in.dtype, row.data());
      f(row, at);
    }
  });
}
// Results without the last dim, or rows of the same sizes.
bool Reduced(const Call& c) {
  for (const Tensor& t : c.out) {
    if (t.rank != c.in[0].rank - 1) return false;
    for (int d = 0; d < t.rank; ++d)
      if (t.sizes[d] != c.in[0].sizes[d]) return false;
  }
  return c.in[0].rank > 0 && c.out.size() == 2 && c.out[1].dtype == DType::kI64;
}

template <typename T>
void StoreBoth(const Call& c, const Positions<0>& at, T value, int64_t place) {
  StoreRow<T>(&value, 1, at.Of(c.out[0]), c.out[0].dtype, 1);
  *reinterpret_cast<int64_t*>(at.Of(c.out[1])) = place;
}

// The k-th smallest (from 0) of each row along the last dim and its place; NaN counts as the largest. Which place of
// equals is seen by callers, so the selection is torch's: partitions around a median of three.
const char* Rank(const Call& c, const RankAttributes<>& a) {
  if (!Reduced(c) || a.k < 0 || a.k >= c.in[0].sizes[c.in[0].rank - 1]) return "k is out of range";
  const int64_t k = a.k;
  ForEachRow(c, [&](auto& row, const Positions<0>& at) {
    std::vector<int64_t> order(row.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    auto swap = [&](int64_t i, int64_t j) {
      std::swap(row[i], row[j]);
      std::swap(order[i], order[j]);
    };
    auto above = [](auto x, auto y) { return (x != x && y == y) || x > y; };
    int64_t left = 0, right = static_cast<int64_t>(row.size()) - 1;
    while (left < right) {
      if (right == left + 1) {
        if (above(row[left], row[right])) swap(left, right);
        break;
      }
      swap(left + (right - left) / 2, left + 1);
      if (above(row[left + 1], row[right])) swap(left + 1, right);
      if (above(row[left], row[right])) swap(left, right);
      if (above(row[left + 1], row[left])) swap(left + 1, left);
      int64_t i = left + 1, j = right;
      const auto pivot = row[left];
      for (;;) {
        do ++i;
        while (above(pivot, row[i]));
        do --j;
        while (above(row[j], pivot));
        if (j < i) break;
        swap(i, j);
      }
      swap(left, j);
      if (j <= k) left = i;
      if (j >= k) right = j - 1;
    }
    StoreBoth(c, at, row[k], order[k]);
  });
  return nullptr;
}
// The lower median of each row; a NaN wins, unless it counts for nothing.
const char* Median(const Call& c, const MedianAttributes& a) {
  if (!Reduced(c)) return kSizesDiffer;
  if (c.in[0].sizes[c.in[0].rank - 1] == 0) return c.out[0].numel() == 0 ? nullptr : "of a tensor without elements";
  ForEachRow(c, [&](auto& row, const Positions<0>& at) {
    std::vector<int64_t> order(row.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    const auto nan = std::find_if(row.begin(), row.end(), [](auto x) { return x != x; });
    if (!a.ignores_nan && nan != row.end()) return StoreBoth(c, at, *nan, nan - row.begin());
    const int64_t numbers = std::count_if(row.begin(), row.end(), [](auto x) { return x == x; });
    auto nth = order.begin() + std::max<int64_t>(0, (numbers - 1) / 2);
    std::nth_element(order.begin(), nth, order.end(),
                     [&](int64_t i, int64_t j) { return Before(row[i], row[j]) || (Same(row[i], row[j]) && i < j); });
    StoreBoth(c, at, row[*nth], *nth);
  });
  return nullptr;
}
// Quantiles in[1] [n] of each row along the last dim of in[0]: out [rows…, n]. NaN counts for nothing, or it wins.
const char* Quantile(const Call& c, const QuantileAttributes& a) {
  const Tensor &x = c.in[0], &q = c.in[1], &out = c.out[0];
  const int last = x.rank - 1;
  if (c.in.size() < 2 || last < 0 || q.rank != 1 || out.rank != x.rank || out.sizes[last] != q.sizes[0])
    return kSizesDiffer;
  for (int d = 0; d < last; ++d)
    if (out.sizes[d] != x.sizes[d]) return kSizesDiffer;
  if (x.sizes[last] == 0) return out.numel() == 0 ? nullptr : "of a tensor without elements";
  bool inside = true;
  ForEachRow(c, [&](auto& row, const Positions<0>& at) {
    using T = std::decay_t<decltype(row[0])>;
    if constexpr (!std::is_integral_v<T>) {
      auto sorted = row;
      std::sort(sorted.begin(), sorted.end(), Before<T>);
      const int64_t numbers = std::count_if(row.begin(), row.end(), [](T v) { return v == v; });
      const bool nan = a.ignores_nan ? numbers == 0 : numbers < static_cast<int64_t>(row.size());
      for (int64_t k = 0; k < q.sizes[0]; ++k) {
        T part, value = std::numeric_limits<T>::quiet_NaN();
        LoadRow<T>(ElementAt(q, k * q.strides[0]), q.dtype, 1, 1, q.dtype, &part);
        if (!(part >= 0 && part <= 1)) {
          inside = false;
          continue;
        }
        if (!nan) {
          T rank = part * static_cast<T>(numbers - 1);
          if (a.interpolation == Interpolation::kLower) rank = std::floor(rank);
          if (a.interpolation == Interpolation::kHigher) rank = std::ceil(rank);
          if (a.interpolation == Interpolation::kNearest) rank = std::nearbyint(rank);
          const T below = std::floor(rank), x0 = sorted[static_cast<int64_t>(below)],
                  x1 = sorted[std::min(static_cast<int64_t>(std::ceil(rank)), numbers - 1)];
          const T w = a.interpolation == Interpolation::kMidpoint ? T(0.5) : rank - below;
          value = x0 == x1 ? x0 : w < T(0.5) ? x0 + w * (x1 - x0) : x1 - (x1 - x0) * (1 - w);
        }
        StoreRow<T>(&value, 1, ElementAt(out, at.Offset(out) + k * out.strides[last]), out.dtype, 1);
      }
    }
  });
  return inside ? nullptr : "q is outside 0 to 1";
}
// How many elements of in[0] [n] lie in each of out's bins between the bounds, or between the least and the most of
// them where those are equal.
const char* Histogram(const Call& c, const HistogramAttributes& a) {
  const Tensor &x = c.in[0], &out = c.out[0];
  if (x.rank != 1 || out.rank != 1 || out.sizes[0] < 1) return kSizesDiffer;
  const char* why = nullptr;
  WithComputeType(x.dtype, [&]<typename T>() {
    if constexpr (!std::is_integral_v<T>) {
      std::vector<T> row(x.sizes[0]), counts(out.sizes[0]);
      LoadRow<T>(x.data, x.dtype, x.strides[0], x.sizes[0], x.dtype, row.data());
      T low = static_cast<T>(a.low), high = static_cast<T>(a.high);
      if (low == high && !row.empty()) {
        low = *std::min_element(row.begin(), row.end());
        high = *std::max_element(row.begin(), row.end());
      }
      if (low == high) low -= 1, high += 1;
      if (!(low < high) || !std::isfinite(low) || !std::isfinite(high)) why = "bounds that are not finite";
      const T bins = static_cast<T>(out.sizes[0]);
      for (T v : row) {
        if (why || !(v >= low && v <= high)) continue;
        const T place = (v - low) * bins / (high - low);  // NaN where the bounds are too far apart
        counts[place < bins ? static_cast<int64_t>(place) : out.sizes[0] - 1] += 1;
      }
      StoreRow<T>(counts.data(), out.sizes[0], out.data, out.dtype, out.strides[0]);
    }
  });
  return why;
}
// The most frequent of each row, the smallest of equally frequent ones, and its last place.
const char* ModeOf(const Call& c, const NoAttributes&) {
  if (!Reduced(c)) return kSizesDiffer;
  if (c.in[0].sizes[c.in[0].rank - 1] == 0) return c.out[0].numel() == 0 ? nullptr : "of a tensor without elements";
  bool nan = false;
  ForEachRow(c, [&](auto& row, const Positions<0>& at) {
    std::vector<int64_t> order(row.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    for (auto x : row) nan |= x != x;
    if (nan) return;
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return row[i] < row[j]; });
    int64_t best = order[0], most = 0;
    for (size_t i = 0; i < order.size();) {
      size_t j = i;
      while (j < order.size() && row[order[j]] == row[order[i]]) ++j;
      if (static_cast<int64_t>(j - i) > most) most = static_cast<int64_t>(j - i), best = order[j - 1];
      i = j;
    }
    StoreBoth(c, at, row[best], best);
  });
  return nan ? "the most frequent of numbers with NaN among them" : nullptr;
}
// Running largest (smallest) along the last dim and its last place; NaN wins.
template <bool kLargest>
const char* RunningExtreme(const Call& c, const NoAttributes&) {
  if (c.out.size() != 2 || c.in[0].rank == 0 || !SameSizes(c.in[0], c.out[0]) || !SameSizes(c.in[0], c.out[1]))
    return kSizesDiffer;
  const int last = c.in[0].rank - 1;
  ForEachRow(c, [&](auto& row, const Positions<0>& at) {
    std::vector<int64_t> places(row.size());
    int64_t best = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const auto x = row[i], y = row[best];
      if (x != x || (y == y && (kLargest ? x >= y : x <= y))) best = static_cast<int64_t>(i);
      places[i] = best;
    }
    auto values = row;
    for (size_t i = 0; i < row.size(); ++i) values[i] = row[places[i]];
    using T = std::decay_t<decltype(row[0])>;
    StoreRow<T>(values.data(), values.size(), at.Of(c.out[0]), c.out[0].dtype, c.out[0].strides[last]);
    StoreRow<int64_t>(places.data(), places.size(), at.Of(c.out[1]), c.out[1].dtype, c.out[1].strides[last]);
  });
  return nullptr;
}
const char* LogCumSumExp(const Call& c, const NoAttributes&) {
  if (c.in[0].rank == 0 || !SameSizes(c.in[0], c.out[0])) return kSizesDiffer;
  const int last = c.in[0].rank - 1;
  ForEachRow(c, [&](auto& row, const Positions<0>& at) {
    double sum = -std::numeric_limits<double>::infinity();
    using T = std::decay_t<decltype(row[0])>;
    std::vector<double> out;
    for (T v : row) {
      const double x = static_cast<double>(v), low = sum != sum || x != x ? x + sum : std::fmin(x, sum),
                   high = std::fmax(x, sum);
      sum = low != low ? low : low != high || std::isfinite(low) ? std::log1p(std::exp(low - high)) + high : x;
      out.push_back(sum);
    }
    StoreRow<double>(out.data(), out.size(), at.Of(c.out[0]), c.out[0].dtype, c.out[0].strides[last]);
  });
  return nullptr;
}

// Where in[1] would go among the sorted rows of in[0] (one row for all where it has one dim), before or behind equal
// elements.
const char* Search(const Call& c, const SearchAttributes& a) {
  const Tensor &sorted = c.in[0], &x = c.in[1], &out = c.out[0];
  if (c.in.size() < 2 || sorted.rank == 0 || !SameSizes(x, out)) return kSizesDiffer;
  const bool one = sorted.rank == 1;
  if (!one) {
    if (x.rank != sorted.rank) return kSizesDiffer;
    for (int d = 0; d + 1 < x.rank; ++d)
      if (x.sizes[d] != sorted.sizes[d]) return kSizesDiffer;
  }
  const int last = sorted.rank - 1;
  const int64_t n = sorted.sizes[last];
  WithComputeType(c.compute, [&]<typename T>() {
    std::vector<T> row(n);
    int64_t loaded = -1;
    if (one) LoadRow<T>(sorted.data, sorted.dtype, sorted.strides[last], n, c.compute, row.data());
    for (Positions<0> at(x); at; at.Next()) {
      if (!one) {
        int64_t o = 0;
        for (int d = 0; d < last; ++d) o += at.index(d) * sorted.strides[d];
        if (o != loaded || loaded < 0)
          LoadRow<T>(ElementAt(sorted, o), sorted.dtype, sorted.strides[last], n, c.compute, row.data());
        loaded = o;
      }
      T v;
      LoadRow<T>(at.Of(x), x.dtype, 1, 1, c.compute, &v);
      int64_t low = 0, high = n;
      while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (a.right ? !(row[mid] > v) : !(row[mid] >= v))
          low = mid + 1;
        else
          high = mid;
      }
      StoreRow<int64_t>(&low, 1, at.Of(out), out.dtype, 1);
    }
  });
  return nullptr;
}

// out[0] = how many elements of in[0] are not zero.
const char* CountNonzero(const Call& c, const NoAttributes&) {
  if (c.out[0].numel() < 1) return kSizesDiffer;
  int64_t n = 0;
  WithComputeType(c.in[0].dtype, [&]<typename T>() {
    for (Positions<0> at(c.in[0]); at; at.Next()) {
      T x;
      LoadRow<T>(at.Of(c.in[0]), c.in[0].dtype, 1, 1, c.in[0].dtype, &x);
      n += x != 0;
    }
  });
  StoreRow<int64_t>(&n, 1, c.out[0].data, c.out[0].dtype, 1);
  return nullptr;
}
// The positions of the elements that are not zero: out[0] is [n, rank]; further rows than there are stay.
const char* Nonzero(const Call& c, const NoAttributes&) {
  const Tensor &x = c.in[0], &out = c.out[0];
  if (out.rank != 2 || out.sizes[1] != x.rank || out.dtype != DType::kI64) return kSizesDiffer;
  int64_t n = 0;
  WithComputeType(x.dtype, [&]<typename T>() {
    for (Positions<0> at(x); at && n < out.sizes[0]; at.Next()) {
      T v;
      LoadRow<T>(at.Of(x), x.dtype, 1, 1, x.dtype, &v);
      if (v == 0) continue;
      for (int d = 0; d < x.rank; ++d) out.as<int64_t>()[n * out.strides[0] + d * out.strides[1]] = at.index(d);
      ++n;
    }
  });
  return nullptr;
}
// out[0], [n]: the elements of in[0] where in[1], of the same sizes, is true.
const char* MaskedSelect(const Call& c, const NoAttributes&) {
  const Tensor &x = c.in[0], &mask = c.in[1], &out = c.out[0];
  if (c.in.size() < 2 || !SameSizes(x, mask) || mask.dtype != DType::kBool || out.rank != 1 || out.dtype != x.dtype)
    return kSizesDiffer;
  int64_t n = 0;
  WithWord(x.dtype, [&]<typename W>() {
    for (Positions<0> at(x); at && n < out.sizes[0]; at.Next())
      if (mask.as<uint8_t>()[at.Offset(mask)]) out.as<W>()[out.strides[0] * n++] = x.as<W>()[at.Offset(x)];
  });
  return nullptr;
}
// out[0], which holds the tensor, takes the elements of in[0], [n], in order where in[1] is true.
const char* MaskedScatter(const Call& c, const NoAttributes&) {
  const Tensor &source = c.in[0], &mask = c.in[1], &out = c.out[0];
  if (c.in.size() < 2 || !SameSizes(out, mask) || mask.dtype != DType::kBool || source.rank != 1 ||
      source.dtype != out.dtype)
    return kSizesDiffer;
  int64_t n = 0;
  bool fits = true;
  WithWord(out.dtype, [&]<typename W>() {
    for (Positions<0> at(out); at && fits; at.Next()) {
      if (!mask.as<uint8_t>()[at.Offset(mask)]) continue;
      if (fits = n < source.sizes[0]; fits) out.as<W>()[at.Offset(out)] = source.as<W>()[source.strides[0] * n++];
    }
  });
  return fits ? nullptr : "fewer elements than the mask takes";
}
// out[0], [n]: i repeated in[0][i] times.
const char* RepeatInterleave(const Call& c, const NoAttributes&) {
  const Tensor &repeats = c.in[0], &out = c.out[0];
  if (repeats.rank != 1 || out.rank != 1 || out.dtype != DType::kI64 || !IsIndexType(repeats.dtype))
    return kSizesDiffer;
  int64_t n = 0;
  for (int64_t i = 0; i < repeats.sizes[0]; ++i) {
    const int64_t times = IndexAt(repeats, i * repeats.strides[0]);
    if (times < 0) return "repeats are negative";
    if (times > out.sizes[0] - n) return "repeats do not add up to the result's size";
    for (int64_t k = 0; k < times; ++k) out.as<int64_t>()[out.strides[0] * n++] = i;
  }
  return n == out.sizes[0] ? nullptr : "repeats do not add up to the result's size";
}

// Rows of in[0], [n, m], that differ. out[0] [n]: which row stands for each distinct one, in order (sorted; else of
// runs of equal neighbours); out[1] [n]: for each row, the number of its distinct one; out[2] [n]: how many rows it
// stands for; out[3]: how many there are.
const char* Unique(const Call& c, const UniqueAttributes& a) {
  const Tensor& x = c.in[0];
  if (x.rank != 2 || c.out.size() != 4 || c.out[3].numel() < 1) return kSizesDiffer;
  const int64_t n = x.sizes[0], m = x.sizes[1];
  for (int k = 0; k < 3; ++k)
    if (c.out[k].rank != 1 || c.out[k].sizes[0] < n || c.out[k].dtype != DType::kI64 || c.out[k].strides[0] != 1)
      return kSizesDiffer;
  int64_t *first = c.out[0].as<int64_t>(), *inverse = c.out[1].as<int64_t>(), *counts = c.out[2].as<int64_t>(),
          found = 0;
  WithComputeType(x.dtype, [&]<typename T>() {
    std::vector<T> rows(static_cast<size_t>(n * m));
    for (int64_t i = 0; i < n; ++i)
      LoadRow<T>(ElementAt(x, i * x.strides[0]), x.dtype, x.strides[1], m, x.dtype, rows.data() + i * m);
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), int64_t{0});
    auto row = [&](int64_t i) { return rows.data() + i * m; };
    if (a.sorted)
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        return std::lexicographical_compare(row(i), row(i) + m, row(j), row(j) + m, Before<T>);
      });
    for (int64_t i = 0; i < n; ++i) {
      // NaN equals nothing, itself neither.
      const bool again = i > 0 && std::equal(row(order[i]), row(order[i]) + m, row(order[i - 1]));
      if (!again) first[found] = order[i], counts[found] = 0, ++found;
      inverse[order[i]] = found - 1;
      ++counts[found - 1];
    }
  });
  StoreRow<int64_t>(&found, 1, c.out[3].data, c.out[3].dtype, 1);
  return nullptr;
}

using enum Reduction;

// x as memory of dtype `t` holds it, where that is a half.
template <typename T>
T Kept(T x, DType t) {
  if constexpr (std::is_same_v<T, float>)
    if (t == DType::kF16 || t == DType::kBF16) LoadRow<float>(&x, DType::kF32, 1, 1, t, &x);
  return x;
}

// out, which holds the tensor, takes in[0] (sizes at least the index's) at in[1] along a dim.
const char* ScatterReduce(const Call& c, const ScatterReduceAttributes& a) {
  const Tensor &values = c.in[0], &index = c.in[1], &out = c.out[0];
  if (c.in.size() < 2 || values.rank != out.rank || index.rank != out.rank || !IsIndexType(index.dtype) ||
      values.dtype != out.dtype || a.dim < 0 || a.dim >= out.rank)
    return kSizesDiffer;
  const int dim = a.dim;
  for (int d = 0; d < out.rank; ++d)
    if (index.sizes[d] > values.sizes[d] || (d != dim && index.sizes[d] > out.sizes[d])) return kSizesDiffer;
  const Reduction how = a.how;
  const bool with_self = a.include_self;
  const DType kept = a.rounds ? out.dtype : DType::kF32;
  bool inside = true;
  WithComputeType(c.compute, [&]<typename T>() {
    using A = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
    // Results in the compute type, rounded once; how many came to each.
    std::vector<T> sums(static_cast<size_t>(out.numel()));
    std::vector<int64_t> counts(sums.size(), with_self ? 1 : 0);
    size_t k = 0;
    for (Positions<0> at(out); at; at.Next(), ++k) LoadRow<T>(at.Of(out), out.dtype, 1, 1, out.dtype, &sums[k]);
    int64_t dense[kMaxRank], step = 1;
    for (int d = out.rank - 1; d >= 0; --d) dense[d] = step, step *= out.sizes[d];
    for (Positions<0> at(index); at; at.Next()) {
      const int64_t i = IndexAt(index, at.Offset(index));
      if (i < 0 || i >= out.sizes[dim]) {
        inside = false;
        continue;
      }
      int64_t o = i * dense[dim];
      for (int d = 0; d < out.rank; ++d)
        if (d != dim) o += at.index(d) * dense[d];
      T v;
      LoadRow<T>(at.Of(values), values.dtype, 1, 1, values.dtype, &v);
      T& x = sums[o];
      if (counts[o]++ == 0)
        x = v;
      else if (how == kSum || how == kMean)
        x = Kept(static_cast<T>(static_cast<A>(x) + static_cast<A>(v)), kept);
      else if (how == kProd)
        x = Kept(static_cast<T>(static_cast<A>(x) * static_cast<A>(v)), kept);
      else if (how == kMax)
        x = x != x || x > v ? x : v;
      else
        x = x != x || x < v ? x : v;
    }
    k = 0;
    for (Positions<0> at(out); at; at.Next(), ++k) {
      if (counts[k] == (with_self ? 1 : 0)) continue;  // untouched
      T x = sums[k];
      if (how == kMean) {
        if constexpr (std::is_integral_v<T>) {
          int64_t wrapped = 0;  // sums of integers wrap in their own type
          StoreRow<T>(&x, 1, reinterpret_cast<char*>(&wrapped), out.dtype, 1);
          LoadRow<T>(reinterpret_cast<const char*>(&wrapped), out.dtype, 1, 1, out.dtype, &x);
          const int64_t n = counts[k], q = x / n;
          x = q - (x % n != 0 && x < 0 ? 1 : 0);
        } else {
          x = Kept(x, out.dtype) / Kept(static_cast<T>(counts[k]), out.dtype);
        }
      }
      StoreRow<T>(&x, 1, at.Of(out), out.dtype, 1);
    }
  });
  return inside ? nullptr : kOutOfRange;
}

// Runs along a dim of in[0] reduced to one element each: in[1], whose dims are those up to that one, has their lengths,
// or where each begins and the last ends.
const char* SegmentReduce(const Call& c, const SegmentReduceAttributes& a) {
  const Tensor &x = c.in[0], &runs = c.in[1], &out = c.out[0];
  if (c.in.size() < 2 || a.dim < 0 || a.dim >= x.rank || out.rank != x.rank || !IsIndexType(runs.dtype))
    return kSizesDiffer;
  const int axis = a.dim;
  const Reduction how = a.how;
  const bool offsets = a.offsets;
  if (runs.rank != axis + 1) return kSizesDiffer;
  for (int d = 0; d < x.rank; ++d) {
    if (d < axis && runs.sizes[d] != x.sizes[d]) return kSizesDiffer;
    if (d == axis ? out.sizes[d] != runs.sizes[d] - (offsets ? 1 : 0) : out.sizes[d] != x.sizes[d]) return kSizesDiffer;
  }
  const char* why = nullptr;
  WithComputeType(x.dtype, [&]<typename T>() {
    using A = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
    for (Positions<0> at(out); at && !why; at.Next()) {
      int64_t base = 0, rest = 0, begin = 0, end = 0;
      for (int d = 0; d < axis; ++d) base += at.index(d) * runs.strides[d];
      for (int d = 0; d < out.rank; ++d)
        if (d != axis) rest += at.index(d) * x.strides[d];
      if (offsets) {
        begin = IndexAt(runs, base + at.index(axis) * runs.strides[axis]);
        end = IndexAt(runs, base + (at.index(axis) + 1) * runs.strides[axis]);
      } else {
        for (int64_t k = 0; k <= at.index(axis); ++k) {
          begin = end;
          if (__builtin_add_overflow(end, IndexAt(runs, base + k * runs.strides[axis]), &end)) end = -1;
        }
      }
      if (begin < 0 || end < begin || end > x.sizes[axis]) {
        why = kOutOfRange;
        break;
      }
      constexpr bool kReal = !std::is_integral_v<T>;
      T acc = how == kProd ? T(1) : T(0);
      if constexpr (kReal) {
        if (how == kMax) acc = -std::numeric_limits<T>::infinity();
        if (how == kMin) acc = std::numeric_limits<T>::infinity();
      }
      if (a.initial) acc = static_cast<T>(*a.initial);
      for (int64_t i = begin; i < end; ++i) {
        T v;
        LoadRow<T>(ElementAt(x, rest + i * x.strides[axis]), x.dtype, 1, 1, x.dtype, &v);
        if (how == kSum || how == kMean)
          acc = Kept(static_cast<T>(static_cast<A>(acc) + static_cast<A>(v)), x.dtype);
        else if (how == kProd)
          acc = Kept(static_cast<T>(static_cast<A>(acc) * static_cast<A>(v)), x.dtype);
        else if (how == kMax)
          acc = acc != acc || acc > v ? acc : v;
        else
          acc = acc != acc || acc < v ? acc : v;
      }
      if constexpr (kReal) {
        if (how == kMean) {
          if (end > begin)
            acc = acc / Kept(static_cast<T>(end - begin), x.dtype);
          else if (!a.initial)
            acc = std::numeric_limits<T>::quiet_NaN();
        }
      }
      StoreRow<T>(&acc, 1, at.Of(out), out.dtype, 1);
    }
  });
  return why;
}

// out [n] += 1, or in[1][i], at each in[0][i]; a number that is negative or too large is an error.
const char* Bincount(const Call& c, const NoAttributes&) {
  const Tensor &x = c.in[0], &out = c.out[0];
  if (x.rank != 1 || out.rank != 1 || (c.in.size() > 1 && !SameSizes(x, c.in[1]))) return kSizesDiffer;
  std::vector<double> sums(out.sizes[0]);
  for (int64_t i = 0; i < x.sizes[0]; ++i) {
    int64_t at;
    LoadRow<int64_t>(ElementAt(x, i * x.strides[0]), x.dtype, 1, 1, x.dtype, &at);
    if (at < 0 || at >= out.sizes[0]) return kOutOfRange;
    double w = 1;
    if (c.in.size() > 1)
      LoadRow<double>(ElementAt(c.in[1], i * c.in[1].strides[0]), c.in[1].dtype, 1, 1, c.in[1].dtype, &w);
    sums[at] += w;
  }
  StoreRow<double>(sums.data(), out.sizes[0], out.data, out.dtype, out.strides[0]);
  return nullptr;
}

constexpr Kernel kKernels[] = {
    With<RankAttributes<>, Rank>({.name = "rank", .outputs = 2, .unsigned64 = Unsigned64::kOrder}),
    With<MedianAttributes, Median>({.name = "median", .outputs = 2, .unsigned64 = Unsigned64::kOrder}),
    With<NoAttributes, ModeOf>({.name = "mode", .outputs = 2, .unsigned64 = Unsigned64::kOrder}),
    With<QuantileAttributes, Quantile>({.name = "quantile", .inputs = 2}),
    With<HistogramAttributes, Histogram>({"histogram"}),
    With<NoAttributes, RunningExtreme<true>>({.name = "cummax", .outputs = 2, .unsigned64 = Unsigned64::kOrder}),
    With<NoAttributes, RunningExtreme<false>>({.name = "cummin", .outputs = 2, .unsigned64 = Unsigned64::kOrder}),
    With<NoAttributes, LogCumSumExp>({"logcumsumexp"}),
    With<SearchAttributes, Search>({.name = "search", .inputs = 2, .unsigned64 = Unsigned64::kOrder}),
    With<NoAttributes, CountNonzero>({.name = "count_nonzero", .unsigned64 = Unsigned64::kSame}),
    With<NoAttributes, Nonzero>({.name = "nonzero", .unsigned64 = Unsigned64::kSame}),
    With<NoAttributes, MaskedSelect>({.name = "masked_select", .inputs = 2, .unsigned64 = Unsigned64::kSame}),
    With<NoAttributes, MaskedScatter>({.name = "masked_scatter", .inputs = 2, .unsigned64 = Unsigned64::kSame}),
    With<NoAttributes, RepeatInterleave>({"repeat_interleave"}),
    With<UniqueAttributes, Unique>({.name = "unique", .outputs = 4, .unsigned64 = Unsigned64::kOrder}),
    With<ScatterReduceAttributes, ScatterReduce>({.name = "scatter_reduce", .inputs = 2}),
    With<SegmentReduceAttributes, SegmentReduce>({.name = "segment_reduce", .inputs = 2}),
    With<NoAttributes, Bincount>({"bincount"}),
};

}  // namespace

std::span<const Kernel> OrderKernels() { return kKernels; }

}  // namespace slipway::kernels
