// Built so that known sizes become constants and symbolic ones Shape subgraphs.
#include "exporters/onnx/lowerings/data.h"

#include <algorithm>

#include "exporters/onnx/types.h"

namespace slipway::exporters::onnx_out {

V Filled(Emitter& e, V value, V shape, int rank) {
  return rank == 0 ? value : e.Expand(std::move(value), std::move(shape), rank);
}

V ShapeRange(Emitter& e, V x, int start, int end) {
  if (start >= end) return e.I64({});
  return e.Op("Shape", {std::move(x)}, {{"start", int64_t{start}}, {"end", int64_t{end}}}, DType::kInt64, 1);
}

V KeptMean(Emitter& e, V x, const Ints& axes) {
  bool image = x.dtype == DType::kFloat32 && x.rank >= 3 && static_cast<int>(axes.size()) == x.rank - 2;
  for (size_t i = 0; i < axes.size(); ++i) image = image && axes[i] == static_cast<int64_t>(i) + 2;
  return image ? e.Op("GlobalAveragePool", {x}) : e.Reduce("ReduceMean", x, axes, true);
}
V Iota(Emitter& e, V n) { return e.Op("Range", {e.I64Scalar(0), std::move(n), e.I64Scalar(1)}, {}, DType::kInt64, 1); }
V Numel(Emitter& e, V x) { return e.Op("Size", {std::move(x)}, {}, DType::kInt64, 0); }
V Flat(Emitter& e, V x) { return x.rank == 1 ? x : e.Reshape(std::move(x), Ints{-1}); }

V WrapIndex(Emitter& e, V index, V n) {
  return e.Where(e.Less(index, e.Integer(0, index.dtype)), e.Add(index, std::move(n)), index);
}

Ints FrontFirst(const std::vector<int>& front, int rank) {
  Ints perm(front.begin(), front.end());
  for (int d = 0; d < rank; ++d)
    if (std::find(front.begin(), front.end(), d) == front.end()) perm.push_back(d);
  return perm;
}
Ints Inverse(const Ints& perm) {
  Ints out(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) out[perm[i]] = static_cast<int64_t>(i);
  return out;
}

V Extreme(Emitter& e, DType dtype, bool largest) {
  if (ir::IsFloating(dtype)) return e.Number(largest ? kInfinity : -kInfinity, dtype);
  if (ir::IsBool(dtype)) return e.BoolConst(largest);
  int bits = static_cast<int>(ir::BitSize(dtype));
  if (ir::Info(dtype).is_signed) {
    int64_t top = bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (bits - 1)) - 1;
    return e.Integer(largest ? top : -top - 1, dtype);
  }
  return e.Integer(!largest ? 0 : bits == 64 ? int64_t{-1} : (int64_t{1} << bits) - 1, dtype);
}

bool MayBeEmpty(const ir::Value* v, const std::vector<int>& dims) {
  for (int d : dims)
    if (d < v->rank() && ir::RangeOf(v->sizes()[d]).min < 1) return true;
  return false;
}

bool MayBeMeanOfNothing(LoweringContext& c, const ir::Value* v, const std::vector<int>& dims) {
  return !c.e.shared()->from_onnx && MayBeEmpty(v, dims);
}

bool MayBeNan(LoweringContext& c, const ir::Value* v) {
  if (!ir::IsFloating(v->dtype()) || c.e.shared()->from_onnx) return false;
  static constexpr std::string_view kNever[] = {
      "aten.nan_to_num.default", "aten.arange.default", "aten.arange.start",
      "aten.arange.start_step",  "aten.zeros.default",  "aten.ones.default",
      "aten.rand.default",       "aten.randn.default",  "aten.rand_like.default"};
  const ir::Node* n = v->producer();
  return !n || std::find(std::begin(kNever), std::end(kNever), n->op_name()) == std::end(kNever);
}

V IsNan(Emitter& e, V x) { return e.Op("IsNaN", {std::move(x)}, {}, DType::kBool); }

V NonZeroMask(Emitter& e, V x) { return e.Cast(e.Cast(std::move(x), DType::kBool), DType::kUInt8); }

std::pair<V, V> TopK(Emitter& e, V x, V k, int axis, bool largest, bool nan, bool sorted) {
  DType t = x.dtype;
  bool low = ir::IsLowPrecision(t);
  V key = ir::IsBool(t) ? e.Cast(x, DType::kUInt8) : low ? e.Cast(x, DType::kFloat32) : x;
  bool by_key = nan && ir::IsFloating(t);
  if (by_key) {
    // Keys that order as torch does: NaN becomes infinity, and infinity a finite number above all others. In f64 both
    // fit exactly beside every f32, f16 or bf16; for f64 itself infinity ties with the largest finite number.
    double below = t == DType::kFloat64 ? std::numeric_limits<double>::max() : 1e300;
    V wide = e.Cast(x, DType::kFloat64), inf = e.Number(kInfinity, DType::kFloat64);
    key = e.Where(IsNan(e, low ? e.Cast(x, DType::kFloat32) : x), inf, e.Min(wide, e.Number(below, DType::kFloat64)));
  }
  std::vector<V> r = e.OpN("TopK", {key, std::move(k)},
                           {{"axis", int64_t{axis}}, {"largest", int64_t{largest}}, {"sorted", int64_t{sorted}}},
                           {key.dtype, DType::kInt64});
  r[0].rank = r[1].rank = x.rank;
  if (by_key) r[0] = e.Op("GatherElements", {x, r[1]}, {{"axis", int64_t{axis}}}, t, x.rank);
  return {e.Cast(r[0], t), r[1]};
}

std::vector<V> ScanAlong(LoweringContext& c, std::vector<V> state, const std::vector<V>& given, int axis,
                         bool may_be_empty, const ScanBody& body) {
  std::vector<V> xs = given;
  V length;
  if (may_be_empty) {
    length = c.e.Dim(given[0], axis);
    for (V& x : xs) {
      V shape = c.e.Concat({ShapeRange(c.e, x, 0, axis), c.e.I64({1}), ShapeRange(c.e, x, axis + 1, x.rank)}, 0);
      x = c.e.Concat({x, c.e.Expand(c.e.Integer(0, x.dtype), shape, x.rank)}, axis);
    }
  }
  onnx::GraphProto g;
  Emitter inner(&g, c.e.shared());
  std::string name = c.e.UniqueName("scan");
  g.set_name(name);
  inner.SetScope(name, name);
  auto declare = [&](onnx::ValueInfoProto* info, const V& v) {
    info->set_name(v.name);
    info->mutable_type()->mutable_tensor_type()->set_elem_type(OnnxType(v.dtype));
  };
  std::vector<V> inner_state, slices, emit;
  for (const V& s : state) {
    inner_state.push_back({c.e.UniqueName(text::StrCat(name, ".state")), s.dtype, s.rank});
    declare(g.add_input(), inner_state.back());
  }
  for (const V& x : xs) {
    slices.push_back({c.e.UniqueName(text::StrCat(name, ".slice")), x.dtype, x.rank - 1});
    declare(g.add_input(), slices.back());
  }
  body(inner, inner_state, slices, emit);
  std::vector<DType> types;
  // Each result is a node's own output: Identity keeps inputs and repeated values apart.
  for (std::vector<V>* list : {&inner_state, &emit})
    for (V& v : *list) {
      types.push_back(v.dtype);
      declare(g.add_output(), inner.Op("Identity", {v}));
    }
  std::vector<V> in = state;
  in.insert(in.end(), xs.begin(), xs.end());
  Ints in_axes(xs.size(), axis), out_axes(emit.size(), axis);
  std::vector<V> r = c.e.OpN("Scan", in,
                             {{"num_scan_inputs", static_cast<int64_t>(xs.size())},
                              {"scan_input_axes", in_axes},
                              {"scan_output_axes", out_axes},
                              {"body", g}},
                             types);
  r.erase(r.begin(), r.begin() + static_cast<int64_t>(state.size()));
  for (V& v : r) {
    v.rank = xs[0].rank;
    if (may_be_empty) v = c.e.SliceV(v, c.e.I64({0}), length, {axis});
  }
  return r;
}

V CountEdges(Emitter& e, V edges, V values, bool right) {
  DType t = edges.dtype;
  V v = e.Unsqueeze(values, {values.rank});
  V b = edges.rank > 1 ? e.Unsqueeze(edges, {edges.rank - 1}) : edges;
  if (ir::IsBool(t)) v = e.Cast(v, DType::kUInt8), b = e.Cast(b, DType::kUInt8);
  // Said as torch's binary search does, so that NaN goes after every edge.
  V before = e.Not(right ? e.Greater(b, v) : e.GreaterEqual(b, v));
  return e.Reduce("ReduceSum", e.Cast(before, DType::kInt64), {values.rank}, false);
}

V Along(Emitter& e, V v, int d, int rank) {
  Ints axes;
  for (int k = 0; k < rank; ++k)
    if (k != d) axes.push_back(k);
  return e.Unsqueeze(std::move(v), axes);
}

}  // namespace slipway::exporters::onnx_out
