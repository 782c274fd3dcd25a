// Advanced indexing by torch's rules: indices broadcast, their dims go to the front where slices stand between them.
#include "exporters/onnx/lowerings/index.h"

#include <algorithm>

#include "exporters/onnx/lowerings/data.h"

namespace slipway::exporters::onnx_out {

std::optional<Indexing> ReadIndices(LoweringContext& c, V x, const ir::Values& list) {
  Indexing r;
  std::vector<V> per_dim;  // by dim of x; empty where the whole dim is taken
  int d = 0, first = -1, last = -1;
  bool gap = false;
  V shape_like = x;
  auto take = [&](V index) {
    if (first < 0) first = d;
    if (last >= 0 && d != last + 1) gap = true;
    last = d++;
    per_dim.push_back(std::move(index));
  };
  for (ir::Value* v : list) {
    if (!v) {
      per_dim.push_back({});
      ++d;
      continue;
    }
    V index = c.raw(v);
    if (ir::IsBool(v->dtype()) || v->dtype() == DType::kUInt8) {
      // A mask stands for the positions of its true elements, one index a dim.
      V mask = c.e.Cast(index, DType::kBool);
      int rank = v->rank();
      if (rank == 0) {
        x = c.e.Unsqueeze(x, {d});
        r.added.push_back(d);
        mask = c.e.Reshape(mask, {1});
        rank = 1;
      }
      V positions = c.e.Op("NonZero", {mask}, {}, DType::kInt64, 2);
      if (rank == 1) {
        take(c.e.Squeeze(positions, {0}));
      } else {
        for (int k = 0; k < rank; ++k) take(c.e.Gather(positions, c.e.I64Scalar(k), 0));
      }
      continue;
    }
    index.rank = v->rank();
    take(c.e.Cast(index, DType::kInt64));
  }
  if (d > x.rank) {
    c.Fail("more indices than dims");
    return std::nullopt;
  }
  r.x = x;
  for (int k = 0; k < static_cast<int>(per_dim.size()); ++k)
    if (per_dim[k]) r.dims.push_back(k), r.index.push_back(per_dim[k]);
  r.at = r.dims.empty() ? 0 : gap ? 0 : first;
  for (const V& i : r.index) r.index_rank = std::max(r.index_rank, i.rank);
  return r;
}

V Indexing::Stacked(Emitter& e) const {
  if (index.size() == 1) return e.Unsqueeze(index[0], {index[0].rank});
  // All to the common shape: each expanded by the others in turn.
  std::vector<V> parts;
  for (size_t i = 0; i < index.size(); ++i) {
    V p = index[i];
    for (size_t k = 0; k < index.size(); ++k)
      if (k != i && index[k].rank > 0) p = e.Expand(p, e.Shape(index[k]), std::max(p.rank, index[k].rank));
    parts.push_back(e.Unsqueeze(p, {p.rank}));
  }
  return e.Concat(parts, index_rank);
}
Ints Indexing::ToResult() const {
  // From [index..., rest...] to the index dims standing at `at` among the rest.
  int rest = x.rank - static_cast<int>(dims.size());
  Ints perm;
  for (int k = 0; k < at; ++k) perm.push_back(index_rank + k);
  for (int k = 0; k < index_rank; ++k) perm.push_back(k);
  for (int k = at; k < rest; ++k) perm.push_back(index_rank + k);
  return perm;
}

void ClampIndices(Emitter& e, Indexing* r) {
  for (size_t i = 0; i < r->index.size(); ++i) {
    V n = e.DimScalar(r->x, r->dims[i]);
    r->index[i] = e.Max(e.Min(r->index[i], e.Sub(n, e.I64Scalar(1))), e.Op("Neg", {n}));
  }
}

std::optional<Indexing> ReadMaskedIndices(LoweringContext& c, V x) {
  const ir::Value* self = c.tensor("self");
  std::vector<int> all;
  for (int d = 0; d < self->rank(); ++d) all.push_back(d);
  auto r = ReadIndices(c, x, c.tensors("indices"));
  if (!r) return std::nullopt;
  if (MayBeEmpty(self, all)) {
    c.Unsupported("a tensor that may be empty");
    return std::nullopt;
  }
  ClampIndices(c.e, &*r);
  return r;
}

V DiagonalPositions(Emitter& e, V x, int64_t offset) {
  constexpr int64_t kBeyond = int64_t{1} << 60;  // of every size
  const int64_t down = -std::clamp<int64_t>(offset, -kBeyond, 0), right = std::clamp<int64_t>(offset, 0, kBeyond);
  V rows = e.Sub(e.DimScalar(x, 0), e.I64Scalar(down)), columns = e.Sub(e.DimScalar(x, 1), e.I64Scalar(right));
  V i = e.Unsqueeze(Iota(e, e.Max(e.Min(rows, columns), e.I64Scalar(0))), {1});
  return e.Concat({down ? e.Add(i, e.I64Scalar(down)) : i, right ? e.Add(i, e.I64Scalar(right)) : i}, 1);
}
V DiagonalOf(Emitter& e, V x, int64_t offset) {
  return e.Op("GatherND", {x, DiagonalPositions(e, x, offset)}, {}, x.dtype, x.rank - 1);
}

std::optional<V> StorageOrder(LoweringContext& c, const char* name, V x) {
  ir::Value* v = c.tensor(name);
  const ir::Type& t = v->type();
  int rank = v->rank();
  if (rank == 0) return c.e.Reshape(x, {1});
  if (!t.strides_known) return Flat(c.e, x);
  if (!t.storage_offset.is(0)) {
    c.Unsupported("strides over a tensor that starts inside its storage");
    return std::nullopt;
  }
  // Dims from the widest stride to the narrowest; each must span what the narrower ones hold.
  std::vector<int> order(rank);
  for (int d = 0; d < rank; ++d) order[d] = d;
  auto stride = [&](int d) { return t.strides[d].constant().value_or(std::numeric_limits<int64_t>::max()); };
  bool is_static = true;
  for (int d = 0; d < rank; ++d) is_static &= t.strides[d].is_constant();
  if (is_static) std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return stride(a) > stride(b); });
  ir::Sym span = 1;
  for (int k = rank - 1; k >= 0; --k) {
    int d = order[k];
    if (t.sizes[d].is(1)) continue;
    if (!ir::ProvablyEqual(t.strides[d], span)) {
      c.Unsupported("strides over a tensor that is not dense in memory");
      return std::nullopt;
    }
    span = span * t.sizes[d];
  }
  return Flat(c.e, c.e.Transpose(x, Ints(order.begin(), order.end())));
}

std::optional<V> StridedPositions(LoweringContext& c) {
  ir::SymInts sizes = c.sym_ints("size"), strides = c.sym_ints("stride");
  if (sizes.size() != strides.size()) {
    c.Fail("size and stride differ in length");
    return std::nullopt;
  }
  int rank = static_cast<int>(sizes.size());
  V at = c.has("storage_offset") ? c.dim0(c.sym("storage_offset")) : c.e.I64Scalar(0);
  for (int d = 0; d < rank; ++d)
    at = c.e.Add(at, c.e.Mul(Along(c.e, Iota(c.e, c.dim0(sizes[d])), d, rank), c.dim0(strides[d])));
  at.rank = rank;
  return at;
}

}  // namespace slipway::exporters::onnx_out
