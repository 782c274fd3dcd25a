// Reading and writing by index (index, gather, scatter and their kin, embedding_bag), running sums and products, sort.
// An index that
// is out of range is an error: results then hold anything, but nothing outside them is written.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/convert.h"
#include "kernels/isa/isa.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

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

// Where the index tensors in[1…], which have equal sizes, point to in the first dims of `table`; false when out of
// range.
bool Target(const Call& c, bool from_end, const Tensor& table, const Positions<0>& at, int64_t* target) {
  *target = 0;
  for (size_t k = 1; k < c.in.size(); ++k) {
    const Tensor& index = c.in[k];
    const int d = static_cast<int>(k - 1);
    const int64_t i = Checked(IndexAt(at.Of(index), index.dtype), table.sizes[d], from_end);
    if (i < 0) return false;
    *target += i * table.strides[d];
  }
  return true;
}

// Calls f.operator()<T>(put) for a type of the dtype's elements, where put(x, y) is what a place holds that held x and
// gets y: y, or the sum.
template <bool kAdd, typename F>
void WithPut(DType dtype, F f) {
  if constexpr (!kAdd) {
    WithWord(dtype, [&]<typename W>() { f.template operator()<W>([](W, W y) { return y; }); });
    return;
  }
  // whatever bytes are there
  if (dtype == DType::kBool)
    return f.template operator()<uint8_t>([](uint8_t x, uint8_t y) -> uint8_t { return x != 0 || y != 0; });
  WithType(dtype, [&]<typename T>() {
    f.template operator()<T>([](T x, T y) {
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));  // wraps
      else
        return static_cast<T>(x + y);
    });
  });
}
// A row of places.
template <bool kAdd, typename T, typename P>
void PutRow(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t n, P put) {
  const bool dense = to_step == 1 && from_step == 1;
  if (dense && !kAdd) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  if constexpr (kAdd && std::is_same_v<T, float>)
    if (dense) return BestIsa().elementwise.binary[static_cast<int>(PairOp::kAdd)](to, from, to, n, 0);
  for (int64_t i = 0; i < n; ++i) to[i * to_step] = put(to[i * to_step], from[i * from_step]);
}

// All places of a tensor.
template <bool kAdd>
void PutTensor(const Tensor& to, const Tensor& from) {
  WithPut<kAdd>(to.dtype, [&]<typename T>(auto put) {
    Walk<2>({&to, &from}, [put](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t n) {
      PutRow<kAdd>(reinterpret_cast<T*>(at[0]), step[0], reinterpret_cast<const T*>(at[1]), step[1], n, put);
    });
  });
}

// Whether `rows`, the rows read or written, have the sizes of the indices in[1…] and then of the table's other dims.
bool FitsTable(const Call& c, const Tensor& table, const Tensor& rows) {
  const int indices = static_cast<int>(c.in.size()) - 1;
  if (indices < 1 || indices > table.rank || rows.dtype != table.dtype) return false;
  const Tensor& index = c.in[1];
  for (size_t k = 1; k < c.in.size(); ++k)
    if (!IsIndexType(c.in[k].dtype) || !SameSizes(index, c.in[k])) return false;
  return rows.rank == index.rank + table.rank - indices && SameSizes(index, 0, index.rank, rows, 0) &&
         SameSizes(table, indices, table.rank - indices, rows, index.rank);
}
// Whether an index reaches nowhere outside: all ranks are equal, and but along `dim` no tensor is smaller than it.
bool FitsAlong(const Call& c, int dim, const Tensor& moved, const Tensor& other) {
  const Tensor& index = c.in[1];
  if (dim < 0 || dim >= index.rank || !IsIndexType(index.dtype) || moved.rank != index.rank ||
      other.rank != index.rank || moved.dtype != other.dtype)
    return false;
  for (int d = 0; d < index.rank; ++d)
    if (index.sizes[d] > other.sizes[d] || (d != dim && index.sizes[d] > moved.sizes[d])) return false;
  return true;
}

// in[0]: the table, its indexed dims first; in[1…]: one index per indexed dim, all of the same sizes. out has the
// indices' sizes, then the rest of the table's.
const char* Index(const Call& c, const IndexAttributes& a) {
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
      for (Positions<2> at(index, {&index, &head}, first); first < end; ++first, at.Next()) {
        const int64_t i = Checked(IndexAt(at[0], index.dtype), table.sizes[0], a.from_end);
        if (i < 0) {
          outside = true;
          return;
        }
        std::memcpy(at[1], table.as<char>() + i * step, bytes);
      }
    });
    return outside ? kOutOfRange : nullptr;
  }
  for (Positions<0> at(index); at; at.Next()) {
    int64_t target;
    if (!Target(c, a.from_end, table, at, &target)) return kOutOfRange;
    PutTensor<false>(At(row, at.Offset(head)), At(rest, target));
  }
  return nullptr;
}

// out: the table, its indexed dims first, already holding what is not written; in[0]: the values, of the indices' sizes
// and then the rest of the table's; in[1…]: indices as above. Later writes win.
template <bool kAdd>
const char* IndexPut(const Call& c, const IndexAttributes& a) {
  const Tensor &table = c.out[0], &values = c.in[0], &index = c.in[1];
  if (!FitsTable(c, table, values)) return kSizesDiffer;
  const Tensor rest = Tail(table, static_cast<int>(c.in.size()) - 1), row = Tail(values, index.rank),
               head = Head(values, index.rank);
  if (c.in.size() == 2 && (rest.is_contiguous() || rest.rank == 0) && (row.is_contiguous() || row.rank == 0)) {
    // Dense rows by one index.
    const int64_t n = rest.numel(), by = table.strides[0];
    bool outside = false;
    WithPut<kAdd>(table.dtype, [&]<typename T>(auto put) {
      for (Positions<2> at(index, {&index, &head}); at && !outside; at.Next()) {
        const int64_t i = Checked(IndexAt(at[0], index.dtype), table.sizes[0], a.from_end);
        outside = i < 0;
        if (!outside) PutRow<kAdd>(table.as<T>() + i * by, 1, reinterpret_cast<const T*>(at[1]), 1, n, put);
      }
    });
    return outside ? kOutOfRange : nullptr;
  }
  for (Positions<0> at(index); at; at.Next()) {
    int64_t target;
    if (!Target(c, a.from_end, table, at, &target)) return kOutOfRange;
    PutTensor<kAdd>(At(rest, target), At(row, at.Offset(head)));
  }
  return nullptr;
}

// out[i][j][k] = in[0][i][index[i][j][k]][k] for dim 1, and likewise for others.
const char* Gather(const Call& c, const AxisAttributes& a) {
  const Tensor &table = c.in[0], &index = c.in[1], &out = c.out[0];
  if (!FitsAlong(c, a.dim, table, out)) return kSizesDiffer;
  if (index.numel() == 0) return nullptr;
  const int dim = a.dim, last = index.rank - 1;
  const int64_t n = index.sizes[last], size = table.sizes[dim], by = table.strides[dim];
  const int64_t to_step = out.strides[last], index_step = index.strides[last] * ByteSize(index.dtype),
                step = dim == last ? 0 : table.strides[last];
  Tensor places = table;  // of the dim, the index says which
  places.strides[dim] = 0;
  const Tensor to = DropDim(out, last), from = DropDim(index, last), base = DropDim(places, last);
  std::atomic<bool> outside = false;
  WithWord(out.dtype, [&]<typename W>() {
    ParallelFor(c.workers, from.numel(), (int64_t{1} << 12) / n + 1, [&](int64_t first, int64_t end) {
      for (Positions<3> at(from, {&to, &from, &base}, first); first < end; ++first, at.Next()) {
        W* const result = reinterpret_cast<W*>(at[0]);
        const W* const row = reinterpret_cast<const W*>(at[2]);
        for (int64_t j = 0; j < n; ++j) {
          const int64_t i = Checked(IndexAt(at[1] + j * index_step, index.dtype), size, false);
          if (i < 0) {
            outside = true;
            return;
          }
          result[j * to_step] = row[j * step + i * by];
        }
      }
    });
  });
  return outside ? kOutOfRange : nullptr;
}

// The reverse: out, which holds the table already, takes the values in[0] (sizes at least the index's) at in[1].
template <bool kAdd>
const char* Scatter(const Call& c, const AxisAttributes& a) {
  const Tensor &values = c.in[0], &index = c.in[1], &out = c.out[0];
  if (!FitsAlong(c, a.dim, out, values)) return kSizesDiffer;
  if (index.numel() == 0) return nullptr;
  const int dim = a.dim, last = index.rank - 1;
  const int64_t n = index.sizes[last], size = out.sizes[dim], by = out.strides[dim];
  const int64_t from_step = values.strides[last], index_step = index.strides[last] * ByteSize(index.dtype),
                step = dim == last ? 0 : out.strides[last];
  const bool one = index_step == 0 && dim != last;  // index for the whole row
  Tensor places = out;                              // of the dim, the index says which
  places.strides[dim] = 0;
  const Tensor rows = DropDim(index, last), from = DropDim(values, last), base = DropDim(places, last);
  bool outside = false;
  WithPut<kAdd>(out.dtype, [&]<typename T>(auto put) {
    for (Positions<3> at(rows, {&rows, &from, &base}); at && !outside; at.Next()) {
      T* const row = reinterpret_cast<T*>(at[2]);
      const T* const source = reinterpret_cast<const T*>(at[1]);
      const auto place = [&](int64_t j) { return Checked(IndexAt(at[0] + j * index_step, index.dtype), size, false); };
      if (one) {
        const int64_t i = place(0);
        outside = i < 0;
        if (!outside) PutRow<kAdd>(row + i * by, step, source, from_step, n, put);
        continue;
      }
      for (int64_t j = 0; j < n && !outside; ++j) {
        const int64_t i = place(j);
        outside = i < 0;
        if (outside) break;
        T& x = row[j * step + i * by];
        x = put(x, source[j * from_step]);
      }
    }
  });
  return outside ? kOutOfRange : nullptr;
}

// Running sums (products) along the last dim.
template <bool kProduct>
const char* Cumulate(const Call& c, const NoAttributes&) {
  const Tensor &in = c.in[0], &out = c.out[0];
  if (in.rank == 0 || !SameSizes(in, out)) return kSizesDiffer;
  const int last = out.rank - 1;
  WithComputeType(c.compute, [&]<typename T>() {
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;  // integers wrap
    std::vector<T> row(out.sizes[last]);
    const Tensor rows = Head(out, last);
    for (Positions<0> at(rows); at; at.Next()) {
      const int64_t n = out.sizes[last];
      LoadRow<T>(at.Of(in), in.dtype, in.strides[last], n, c.compute, row.data());
      Sum sum = kProduct ? 1 : 0;
      for (T& x : row) {
        if constexpr (kProduct)
          sum *= static_cast<Sum>(x);
        else
          sum += static_cast<Sum>(x);
        x = static_cast<T>(sum);
      }
      StoreRow<T>(row.data(), n, at.Of(out), out.dtype, out.strides[last]);
    }
  });
  return nullptr;
}

// Rows of in[0] at in[1], in bags that begin at in[2]; in[3], where there is one: a factor for each. An empty bag is
// zeros.
const char* EmbeddingBag(const Call& c, const EmbeddingBagAttributes& a) {
  const Tensor &table = c.in[0], &index = c.in[1], &offsets = c.in[2], &out = c.out[0];
  if (table.rank != 2 || index.rank != 1 || offsets.rank != 1 || out.rank != 2 || !IsIndexType(index.dtype) ||
      !IsIndexType(offsets.dtype) || out.sizes[1] != table.sizes[1] ||
      out.sizes[0] != offsets.sizes[0] - (a.last_offset_ends ? 1 : 0) ||
      (c.in.size() > 3 && (c.in[3].rank != 1 || c.in[3].sizes[0] != index.sizes[0])))
    return kSizesDiffer;
  const int64_t n = table.sizes[1];
  auto at = [](const Tensor& t, int64_t i) { return IndexAt(ElementAt(t, i * t.strides[0]), t.dtype); };
  return WithFloatType(c.compute, [&]<typename T>() -> const char* {
    std::vector<T> sum(n), row(n);
    for (int64_t bag = 0; bag < out.sizes[0]; ++bag) {
      const int64_t begin = at(offsets, bag), end = bag + 1 < offsets.sizes[0] ? at(offsets, bag + 1) : index.sizes[0];
      if (begin < 0 || end < begin || end > index.sizes[0]) return kOutOfRange;
      std::fill(sum.begin(), sum.end(), T(0));
      int64_t count = 0;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t place = at(index, i);
        if (place < 0 || place >= table.sizes[0]) return kOutOfRange;
        if (place == a.padding) continue;
        LoadRow<T>(ElementAt(table, place * table.strides[0]), table.dtype, table.strides[1], n, c.compute, row.data());
        T factor = 1;
        if (c.in.size() > 3)
          LoadRow<T>(ElementAt(c.in[3], i * c.in[3].strides[0]), c.in[3].dtype, 1, 1, c.compute, &factor);
        for (int64_t j = 0; j < n; ++j) {
          if (a.mode == BagMode::kMax)
            sum[j] = count == 0 || row[j] > sum[j] ? row[j] : sum[j];
          else
            sum[j] += row[j] * factor;
        }
        ++count;
      }
      if (a.mode == BagMode::kMean && count > 0)
        for (T& x : sum) x /= static_cast<T>(count);
      StoreRow<T>(sum.data(), n, ElementAt(out, bag * out.strides[0]), out.dtype, out.strides[1]);
    }
    return nullptr;
  });
}

// Sorts along the last dim, stable, NaN last (first when descending). out[0]: values, out[1]: positions.
const char* Sort(const Call& c, const SortAttributes& a) {
  const Tensor &in = c.in[0], &values = c.out[0], &places = c.out[1];
  if (in.rank == 0 || !SameSizes(in, values) || !SameSizes(in, places)) return kSizesDiffer;
  const int last = in.rank - 1;
  const int64_t n = in.sizes[last];
  WithComputeType(in.dtype, [&]<typename T>() {
    std::vector<T> row(n), sorted(n);
    std::vector<int64_t> order(n);
    auto before = [](T a, T b) { return a < b || (a == a && b != b); };
    const Tensor rows = Head(in, last);
    for (Positions<0> at(rows); at; at.Next()) {
      LoadRow<T>(at.Of(in), in.dtype, in.strides[last], n, in.dtype, row.data());
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        return a.descending ? before(row[j], row[i]) : before(row[i], row[j]);
      });
      for (int64_t i = 0; i < n; ++i) sorted[i] = row[order[i]];
      StoreRow<T>(sorted.data(), n, at.Of(values), values.dtype, values.strides[last]);
      StoreRow<int64_t>(order.data(), n, at.Of(places), places.dtype, places.strides[last]);
    }
  });
  return nullptr;
}

constexpr Kernel kKernels[] = {
    With<IndexAttributes, Index>({.name = "index", .inputs = 2, .any_type = true}),
    With<IndexAttributes, IndexPut<false>>({.name = "index_put", .inputs = 2, .any_type = true}),
    With<IndexAttributes, IndexPut<true>>({.name = "index_put_add", .inputs = 2, .unsigned64 = Unsigned64::kSame}),
    With<AxisAttributes, Gather>({.name = "gather", .inputs = 2, .any_type = true}),
    With<AxisAttributes, Scatter<false>>({.name = "scatter", .inputs = 2, .any_type = true}),
    With<AxisAttributes, Scatter<true>>({.name = "scatter_add", .inputs = 2, .unsigned64 = Unsigned64::kSame}),
    With<NoAttributes, Cumulate<false>>({.name = "cumsum", .unsigned64 = Unsigned64::kSame}),
    With<NoAttributes, Cumulate<true>>({.name = "cumprod", .unsigned64 = Unsigned64::kSame}),
    With<EmbeddingBagAttributes, EmbeddingBag>({.name = "embedding_bag", .inputs = 3}),
    With<SortAttributes, Sort>({.name = "sort", .outputs = 2, .unsigned64 = Unsigned64::kOrder}),
};

}  // namespace

std::span<const Kernel> IndexKernels() { return kKernels; }

}  // namespace slipway::kernels
