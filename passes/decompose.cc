// The decomposition registry and the vocabulary its functions write in.
#include "passes/decompose.h"

#include "base/text.h"
#include "ir/ops/op_table.h"

namespace slipway::passes {

Decomposer::Decomposer(ir::Node& n, bool widen) : ArgReader(n), b(*n.graph(), &n, n.source()), widen_(widen) {}

Value* Decomposer::in(std::string_view name) {
  Value* v = tensor(name);
  return widen_ && ir::IsLowPrecision(v->dtype()) ? b.Cast(v, DType::kFloat32) : v;
}
Value* Decomposer::opt_in(std::string_view name) {
  Value* v = opt_tensor(name);
  return v && widen_ && ir::IsLowPrecision(v->dtype()) ? b.Cast(v, DType::kFloat32) : v;
}
Values Decomposer::ins(std::string_view name) {
  Values out;
  for (Value* v : tensors(name))
    out.push_back(v && widen_ && ir::IsLowPrecision(v->dtype()) ? b.Cast(v, DType::kFloat32) : v);
  return out;
}
DType Decomposer::compute_dtype(size_t i) {
  DType t = node_.output(i) ? node_.output(i)->dtype() : DType::kFloat32;
  return widen_ && ir::IsLowPrecision(t) ? DType::kFloat32 : t;
}

Value* Decomposer::Two(std::string_view op, Value* x, Arg y) {
  bool tensor = y.value() && y.value()->type().is_tensor();
  return b.Call(text::StrCat("aten.", op, tensor ? ".Tensor" : ".Scalar"), {x, std::move(y)});
}
Value* Decomposer::Unary(std::string_view op, Value* x) { return b.Call(text::StrCat("aten.", op, ".default"), {x}); }
Value* Decomposer::Sum(Value* x, std::vector<int> dims, bool keepdim) {
  return b.Call("aten.sum.dim_IntList", {x, ir::Ints(dims.begin(), dims.end()), keepdim});
}
Value* Decomposer::Mean(Value* x, std::vector<int> dims, bool keepdim) {
  return b.Call("aten.mean.dim", {x, ir::Ints(dims.begin(), dims.end()), keepdim});
}
Value* Decomposer::Where(Value* c, Arg x, Arg y) {
  Value *xv = x.value(), *yv = y.value();
  DType t = xv ? xv->dtype() : yv ? yv->dtype() : DType::kFloat32;
  if (!xv) xv = b.ScalarTensor(std::move(x), t);
  if (!yv) yv = b.ScalarTensor(std::move(y), t);
  return b.Call("aten.where.self", {c, xv, yv});
}
Value* Decomposer::ReduceLoss(Value* x, int64_t reduction) {
  switch (reduction) {
    case 0: return x;
    case 1: return b.Call("aten.mean.default", {x});
    case 2: return b.Call("aten.sum.default", {x});
    default: Fail(text::StrCat("unknown reduction ", reduction)); return x;
  }
}

std::vector<const DecomposeRow*> AllDecompositions() {
  std::vector<const DecomposeRow*> out;
  for (auto table :
       {AliasDecompositions(), LossDecompositions(), NormDecompositions(), ProductDecompositions(),
        ShapeDecompositions(), SpecialDecompositions(), LinalgDecompositions(), NnDecompositions(),
        RecurrentDecompositions(), RandomDecompositions(), HistogramDecompositions(), SegmentDecompositions(),
        AudioDecompositions(), DetectionDecompositions(), QuantizedForms(), QuantDecompositions()})
    for (const DecomposeRow& r : table) out.push_back(&r);
  return out;
}

const DecomposeRow* FindDecomposition(std::string_view op) {
  static const auto& rows = *[] {
    auto* m = new text::ViewMap<const DecomposeRow*>();
    for (const DecomposeRow* r : AllDecompositions()) m->emplace(r->op, r);
    return m;
  }();
  auto it = rows.find(op);
  return it == rows.end() ? nullptr : it->second;
}

}  // namespace slipway::passes
