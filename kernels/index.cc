// Reading and writing by index, running sums and order. An index that is out of range is an error.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/check.h"
#include "kernels/convert.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/walk.h"

namespace slipway::kernels {
namespace {

constexpr const char* kOutOfRange = "index out of range";

int64_t IndexAt(const char* at, DType dtype) {
  return dtype == DType::kI64 ? *reinterpret_cast<const int64_t*>(at) : *reinterpret_cast<const int32_t*>(at);
}

// The index, or -1 where it is out of range; from the end when negative, where that is allowed.
int64_t Checked(int64_t i, int64_t size, bool from_end) {
  if (i < 0 && from_end) i += size;
  return i >= 0 && i < size ? i : -1;
}

// Steps through all positions of `shape` in row-major order; offset(t) is that of the present one in a tensor of the
// same sizes.
class Odometer {
 public:
  explicit Odometer(const Tensor& shape) : shape_(shape), more_(shape.numel() > 0) {}
  explicit operator bool() const { return more_; }
  int64_t Offset(const Tensor& t) const {
    int64_t o = 0;
    for (int d = 0; d < shape_.rank; ++d) o += at_[d] * t.strides[d];
    return o;
  }
  int64_t operator[](int d) const { return at_[d]; }
  void Next() {
    for (int d = shape_.rank - 1; d >= 0; --d) {
      if (++at_[d] < shape_.sizes[d]) return;
      at_[d] = 0;
    }
    more_ = false;
  }

 private:
  const Tensor& shape_;
  bool more_;
  int64_t at_[kMaxRank] = {};
};

// A tensor of the dims [first, rank) of t.
Tensor Tail(const Tensor& t, int first) {
  Tensor r = t;
  r.rank = t.rank - first;
  for (int d = 0; d < r.rank; ++d) r.sizes[d] = t.sizes[first + d], r.strides[d] = t.strides[first + d];
  return r;
}
Tensor Head(const Tensor& t, int count) {
  Tensor r = t;
  r.rank = count;
  return r;
}
Tensor At(Tensor t, int64_t offset) {
  t.data = static_cast<char*>(t.data) + offset * ByteSize(t.dtype);
  return t;
}

// Where k index tensors of equal sizes, in[first…], point to in the first k dims of `table`; false when out of range.
bool Target(const Call& c, size_t first, const Tensor& table, const Odometer& at, int64_t* target) {
  *target = 0;
  for (size_t k = first; k < c.in.size(); ++k) {
    const Tensor& index = c.in[k];
    const int d = static_cast<int>(k - first);
    const int64_t i = Checked(IndexAt(static_cast<char*>(At(index, at.Offset(index)).data), index.dtype),
                              table.sizes[d], c.ints[0] != 0);
    if (i < 0) return false;
    *target += i * table.strides[d];
  }
  return true;
}

// Adds or writes a row of a tensor to another of the same dtype.
template <bool kAdd>
void Put(const Tensor& to, const Tensor& from) {
  if constexpr (!kAdd) {
    WithWord(to.dtype, [&]<typename W>() {
      Walk<2>({&to, &from}, [](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t n) {
        W* x = reinterpret_cast<W*>(at[0]);
        const W* y = reinterpret_cast<const W*>(at[1]);
        for (int64_t i = 0; i < n; ++i) x[i * step[0]] = y[i * step[1]];
      });
    });
    return;
  }
  if (to.dtype == DType::kBool) {  // whatever bytes are there
    Walk<2>({&to, &from}, [](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t n) {
      for (int64_t i = 0; i < n; ++i) at[0][i * step[0]] = at[0][i * step[0]] != 0 || at[1][i * step[1]] != 0;
    });
    return;
  }
  WithType(to.dtype, [&]<typename T>() {
    Walk<2>({&to, &from}, [](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t n) {
      T* x = reinterpret_cast<T*>(at[0]);
      const T* y = reinterpret_cast<const T*>(at[1]);
      for (int64_t i = 0; i < n; ++i) {
        if constexpr (std::is_integral_v<T>)
          x[i * step[0]] = static_cast<T>(static_cast<uint64_t>(x[i * step[0]]) + static_cast<uint64_t>(y[i * step[1]]));  // wraps
        else
          x[i * step[0]] = static_cast<T>(x[i * step[0]] + y[i * step[1]]);
      }
    });
  });
}

// Whether `rows`, the rows read or written, have the sizes of the indices in[1…] and then of the table's other dims.
bool FitsTable(const Call& c, const Tensor& table, const Tensor& rows) {
  const int indices = static_cast<int>(c.in.size()) - 1;
  if (indices < 1 || indices > table.rank || c.ints.empty() || rows.dtype != table.dtype) return false;
  const Tensor& index = c.in[1];
  for (size_t k = 1; k < c.in.size(); ++k)
    if (!IsIndexType(c.in[k].dtype) || !SameSizes(index, c.in[k])) return false;
  return rows.rank == index.rank + table.rank - indices && SameSizes(index, 0, index.rank, rows, 0) &&
         SameSizes(table, indices, table.rank - indices, rows, index.rank);
}
// Whether an index reaches nowhere outside: all ranks are equal, and but along ints[0] no tensor is smaller than it.
bool FitsAlong(const Call& c, const Tensor& moved, const Tensor& other) {
  const Tensor& index = c.in[1];
  if (c.ints.empty() || c.ints[0] < 0 || c.ints[0] >= index.rank || !IsIndexType(index.dtype) || moved.rank != index.rank ||
      other.rank != index.rank || moved.dtype != other.dtype)
    return false;
  for (int d = 0; d < index.rank; ++d)
    if (index.sizes[d] > other.sizes[d] || (d != c.ints[0] && index.sizes[d] > moved.sizes[d])) return false;
  return true;
}

// in[0]: the table, its indexed dims first; in[1…]: one index per indexed dim, all of the same sizes. out has the
// indices' sizes, then the rest of the table's. ints[0]: whether negative indices count from the end.
const char* Index(const Call& c) {
  const Tensor &table = c.in[0], &out = c.out[0], &index = c.in[1];
  if (!FitsTable(c, table, out)) return kSizesDiffer;
  const Tensor rest = Tail(table, static_cast<int>(c.in.size()) - 1), row = Tail(out, index.rank),
               head = Head(out, index.rank);
  if (c.in.size() == 2 && (rest.is_contiguous() || rest.rank == 0) && (row.is_contiguous() || row.rank == 0)) {
    // Dense rows by one index.
    const int64_t size = ByteSize(out.dtype), step = table.strides[0] * size;
    const size_t bytes = static_cast<size_t>(rest.numel() * size);
    std::atomic<bool> outside = false;
    const int64_t grain = static_cast<int64_t>((size_t{1} << 15) / (bytes + 16)) + 1;
    ParallelFor(c.workers, index.numel(), grain, [&](int64_t first, int64_t end) {
      for (Positions<2> at({&index, &head}, first); first < end; ++first, at.Next()) {
        const int64_t i = Checked(IndexAt(at[0], index.dtype), table.sizes[0], c.ints[0] != 0);
        if (i < 0) {
          outside = true;
          return;
        }
        std::memcpy(at[1], table.as<char>() + i * step, bytes);
      }
    });
    return outside ? kOutOfRange : nullptr;
  }
  for (Odometer at(index); at; at.Next()) {
    int64_t target;
    if (!Target(c, 1, table, at, &target)) return kOutOfRange;
    Put<false>(At(row, at.Offset(head)), At(rest, target));
  }
  return nullptr;
}

// out: the table, its indexed dims first, already holding what is not written; in[0]: the values, of the indices' sizes
// and then the rest of the table's; in[1…]: indices as above. Later writes win.
template <bool kAdd>
const char* IndexPut(const Call& c) {
  const Tensor &table = c.out[0], &values = c.in[0], &index = c.in[1];
  if (!FitsTable(c, table, values)) return kSizesDiffer;
  const Tensor rest = Tail(table, static_cast<int>(c.in.size()) - 1), row = Tail(values, index.rank),
               head = Head(values, index.rank);
  for (Odometer at(index); at; at.Next()) {
    int64_t target;
    if (!Target(c, 1, table, at, &target)) return kOutOfRange;
    Put<kAdd>(At(rest, target), At(row, at.Offset(head)));
  }
  return nullptr;
}

// out[i][j][k] = in[0][i][index[i][j][k]][k] for the dim ints[0].
const char* Gather(const Call& c) {
  const Tensor &table = c.in[0], &index = c.in[1], &out = c.out[0];
  if (!FitsAlong(c, table, out)) return kSizesDiffer;
  const int dim = static_cast<int>(c.ints[0]);
  for (Odometer at(index); at; at.Next()) {
    const int64_t i =
        Checked(IndexAt(static_cast<char*>(At(index, at.Offset(index)).data), index.dtype), table.sizes[dim], false);
    if (i < 0) return kOutOfRange;
    const int64_t from = at.Offset(table) + (i - at[dim]) * table.strides[dim];
    WithWord(out.dtype, [&]<typename W>() { out.as<W>()[at.Offset(out)] = table.as<W>()[from]; });
  }
  return nullptr;
}

// The reverse: out, which holds the table already, takes the values in[0] (sizes at least the index's) at in[1].
template <bool kAdd>
const char* Scatter(const Call& c) {
  const Tensor &values = c.in[0], &index = c.in[1], &out = c.out[0];
  if (!FitsAlong(c, out, values)) return kSizesDiffer;
  const int dim = static_cast<int>(c.ints[0]);
  for (Odometer at(index); at; at.Next()) {
    const int64_t i =
        Checked(IndexAt(static_cast<char*>(At(index, at.Offset(index)).data), index.dtype), out.sizes[dim], false);
    if (i < 0) return kOutOfRange;
    const int64_t to = at.Offset(out) + (i - at[dim]) * out.strides[dim];
    Put<kAdd>(Head(At(out, to), 0), Head(At(values, at.Offset(values)), 0));
  }
  return nullptr;
}

// Running sums (products) along the last dim.
template <bool kProduct>
const char* Cumulate(const Call& c) {
  const Tensor &in = c.in[0], &out = c.out[0];
  if (in.rank == 0 || !SameSizes(in, out)) return kSizesDiffer;
  const int last = out.rank - 1;
  WithComputeType(c.compute, [&]<typename T>() {
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;  // integers wrap
    std::vector<T> row(out.sizes[last]);
    const Tensor rows = Head(out, last);
    for (Odometer at(rows); at; at.Next()) {
      const int64_t n = out.sizes[last];
      LoadRow<T>(At(in, at.Offset(in)).data, in.dtype, in.strides[last], n, c.compute, row.data());
      Sum sum = kProduct ? 1 : 0;
      for (T& x : row) {
        if constexpr (kProduct)
          sum *= static_cast<Sum>(x);
        else
          sum += static_cast<Sum>(x);
        x = static_cast<T>(sum);
      }
      StoreRow<T>(row.data(), n, At(out, at.Offset(out)).data, out.dtype, out.strides[last]);
    }
  });
  return nullptr;
}

// Rows of in[0] at in[1], in bags that begin at in[2]; in[3], where there is one: a factor for each. ints: 0 sum, 1 mean,
// 2 largest; whether the last offset only ends a bag; a row that counts for nothing, -1 for none. An empty bag is zeros.
const char* EmbeddingBag(const Call& c) {
  const Tensor &table = c.in[0], &index = c.in[1], &offsets = c.in[2], &out = c.out[0];
  if (table.rank != 2 || index.rank != 1 || offsets.rank != 1 || out.rank != 2 || c.ints.size() < 3 ||
      !IsIndexType(index.dtype) || !IsIndexType(offsets.dtype) || out.sizes[1] != table.sizes[1] || out.sizes[0] != offsets.sizes[0] - (c.ints[1] != 0 ? 1 : 0) ||
      (c.in.size() > 3 && (c.in[3].rank != 1 || c.in[3].sizes[0] != index.sizes[0])))
    return "the sizes do not agree";
  const int64_t n = table.sizes[1];
  auto at = [](const Tensor& t, int64_t i) { return IndexAt(static_cast<char*>(At(t, i * t.strides[0]).data), t.dtype); };
  return WithComputeType(c.compute, [&]<typename T>() -> const char* {
    if constexpr (std::is_integral_v<T>) {
      return "the operator is for floating-point numbers";
    } else {
      std::vector<T> sum(n), row(n);
      for (int64_t bag = 0; bag < out.sizes[0]; ++bag) {
        const int64_t begin = at(offsets, bag), end = bag + 1 < offsets.sizes[0] ? at(offsets, bag + 1) : index.sizes[0];
        if (begin < 0 || end < begin || end > index.sizes[0]) return kOutOfRange;
        std::fill(sum.begin(), sum.end(), T(0));
        int64_t count = 0;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t place = at(index, i);
          if (place < 0 || place >= table.sizes[0]) return kOutOfRange;
          if (place == c.ints[2]) continue;
          LoadRow<T>(At(table, place * table.strides[0]).data, table.dtype, table.strides[1], n, c.compute, row.data());
          T factor = 1;
          if (c.in.size() > 3) LoadRow<T>(At(c.in[3], i * c.in[3].strides[0]).data, c.in[3].dtype, 1, 1, c.compute, &factor);
          for (int64_t j = 0; j < n; ++j) {
            if (c.ints[0] == 2)
              sum[j] = count == 0 || row[j] > sum[j] ? row[j] : sum[j];
            else
              sum[j] += row[j] * factor;
          }
          ++count;
        }
        if (c.ints[0] == 1 && count > 0)
          for (T& x : sum) x /= static_cast<T>(count);
        StoreRow<T>(sum.data(), n, At(out, bag * out.strides[0]).data, out.dtype, out.strides[1]);
      }
      return nullptr;
    }
  });
}

// Sorts along the last dim, stable, NaN last (first when descending, ints[0]). out[0]: values, out[1]: positions.
const char* Sort(const Call& c) {
  const Tensor &in = c.in[0], &values = c.out[0], &places = c.out[1];
  if (in.rank == 0 || !SameSizes(in, values) || !SameSizes(in, places) || c.ints.empty()) return kSizesDiffer;
  const int last = in.rank - 1;
  const int64_t n = in.sizes[last];
  const bool descending = c.ints[0] != 0;
  WithComputeType(in.dtype, [&]<typename T>() {
    std::vector<T> row(n), sorted(n);
    std::vector<int64_t> order(n);
    auto before = [](T a, T b) { return a < b || (a == a && b != b); };
    const Tensor rows = Head(in, last);
    for (Odometer at(rows); at; at.Next()) {
      LoadRow<T>(At(in, at.Offset(in)).data, in.dtype, in.strides[last], n, in.dtype, row.data());
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        return descending ? before(row[j], row[i]) : before(row[i], row[j]);
      });
      for (int64_t i = 0; i < n; ++i) sorted[i] = row[order[i]];
      StoreRow<T>(sorted.data(), n, At(values, at.Offset(values)).data, values.dtype, values.strides[last]);
      StoreRow<int64_t>(order.data(), n, At(places, at.Offset(places)).data, places.dtype, places.strides[last]);
    }
  });
  return nullptr;
}

constexpr Kernel kKernels[] = {
    {"index", Index, false, 2, 1, true},                // negative indices allowed
    {"index_put", IndexPut<false>, false, 2, 1, true},  // likewise
    {"index_put_add", IndexPut<true>, false, 2},
    {"gather", Gather, false, 2, 1, true},              // dim
    {"scatter", Scatter<false>, false, 2, 1, true},     // dim
    {"scatter_add", Scatter<true>, false, 2},  // dim
    {"cumsum", Cumulate<false>},
    {"cumprod", Cumulate<true>},
    {"embedding_bag", EmbeddingBag, false, 3},
    {"sort", Sort, false, 1, 2},  // descending
};

}  // namespace

std::span<const Kernel> IndexKernels() { return kKernels; }

}  // namespace slipway::kernels
