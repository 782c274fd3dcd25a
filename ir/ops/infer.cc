// The shape-function registry and the rules many of them share.
#include "ir/ops/infer.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "ir/ops/op_table.h"

namespace slipway::ir {

SymTable& InferContext::syms() { return *node_.graph()->program()->syms; }

Sym InferContext::Fresh(SymRange range) {
  SymTable& t = syms();
  if (fresh_ == FreshSymbols::kNone) {
    auto unknown = t.Make(SymKind::kCall, {Sym(fresh_count_++)}, "unknown");
    if (unknown.ok()) return *unknown;
    SetStatus(unknown.status());
    return 0;
  }
  for (size_t k = t.symbols().size();; ++k) {
    std::string name = text::StrCat("u", k, "_");
    if (t.FindSymbol(name)) continue;
    Sym s = t.Symbol(name, /*positive=*/false);
    SetStatus(t.SetRange(name, range));
    return s;
  }
}

Sizes InferContext::Broadcast(const Sizes& a, const Sizes& b) {
  const Sizes& longer = a.size() >= b.size() ? a : b;
  const Sizes& shorter = a.size() >= b.size() ? b : a;
  Sizes out = longer;
  size_t shift = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    Sym x = longer[i + shift], y = shorter[i];
    if (x == y || y.is(1)) continue;
    if (x.is(1)) {
      out[i + shift] = y;
    } else if (x.is_constant() && y.is_constant()) {
      Fail(text::StrCat("sizes ", x.ToString(), " and ", y.ToString(), " do not broadcast"));
    } else if (y.is_constant()) {
      out[i + shift] = y;  // the symbolic one was guarded to be equal (or to be 1)
    }
  }
  return out;
}
Sizes InferContext::Broadcast(absl::Span<const Sizes> shapes) {
  Sizes out;
  for (const Sizes& s : shapes) out = Broadcast(out, s);
  return out;
}

DType ResultTypeOf(absl::Span<Value* const> tensors, absl::Span<const Scalar> scalars) {
  // torch/c10: three priority groups, combined left to right when the category of the lower is higher.
  DType dim = DType::kUnknown, zero = DType::kUnknown, wrapped = DType::kUnknown;
  auto join = [](DType& into, DType t) { into = into == DType::kUnknown ? t : PromoteTypes(into, t); };
  for (Value* v : tensors) {
    if (!v) continue;
    join(v->rank() > 0 ? dim : zero, v->dtype());
  }
  for (const Scalar& s : scalars) {
    if (s.kind == Scalar::kValue && s.value->type().is_tensor()) {
      join(s.value->rank() > 0 ? dim : zero, s.value->dtype());
      continue;
    }
    switch (s.cls()) {
      case DTypeClass::kBool: join(wrapped, DType::kBool); break;
      case DTypeClass::kIntegral: join(wrapped, DType::kInt64); break;
      case DTypeClass::kFloating: join(wrapped, DType::kFloat32); break;
      case DTypeClass::kComplex: join(wrapped, DType::kComplex64); break;
      default: break;
    }
  }
  auto combine = [](DType higher, DType lower) {
    if (higher == DType::kUnknown) return lower;
    if (lower == DType::kUnknown) return higher;
    if (Info(lower).cls <= Info(higher).cls) return higher;
    // A floating type keeps its precision beside a complex number of lower rank; the other types promote.
    if (IsComplex(lower) && IsFloating(higher)) return ToComplex(higher);
    return PromoteTypes(higher, lower);
  };
  return combine(dim, combine(zero, wrapped));
}

DType InferContext::FloatResultType(absl::Span<Value* const> tensors, absl::Span<const Scalar> scalars) {
  DType t = ResultType(tensors, scalars);
  return IsIntegral(t) || IsBool(t) ? DType::kFloat32 : t;
}

Sizes InferContext::Reduce(const Sizes& in, const std::vector<int>& dims, bool keepdim) {
  Sizes out;
  for (int d = 0; d < static_cast<int>(in.size()); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) out.push_back(in[d]);
    else if (keepdim) out.push_back(1);
  }
  return out;
}

Sizes InferContext::ToSizes(const SymInts& ints) {
  Sizes out;
  for (const IntOrValue& i : ints) out.push_back(ExprOf(i));
  return out;
}

namespace {
const text::ViewMap<ShapeFn>& Rows() {
  static const auto& rows = *[] {
    auto* m = new text::ViewMap<ShapeFn>();
    for (auto table : {ElementwiseShapes(), ViewShapes(), ReductionShapes(), NnShapes(), IndexingShapes(),
                       CreationShapes(), LinalgShapes(), SymbolicShapes()})
      for (const ShapeRow& r : table) m->emplace(r.op, r.fn);
    return m;
  }();
  return rows;
}
}  // namespace

ShapeFn FindShapeFn(std::string_view op) {
  auto it = Rows().find(op);
  return it == Rows().end() ? nullptr : it->second;
}

namespace {
// The types of results that are arguments written in place; nullopt when some result is not.
std::optional<std::vector<Type>> WrittenArguments(const Node& n) {
  const OpDef& op = n.op();
  if (!op.known || op.variadic) return std::nullopt;
  std::vector<Type> out;
  for (const ReturnDef& r : op.returns) {
    if (!r.written || r.is_list) return std::nullopt;
    const ArgDef* written = nullptr;
    for (const ArgDef& a : op.args)
      if (a.alias == r.alias && a.written) written = &a;
    Value* v = written ? n.Get(written->name).value() : nullptr;
    if (!v || !v->type().is_tensor()) return std::nullopt;
    out.push_back(Type::Tensor(v->dtype(), v->sizes()));
  }
  return out;
}
}  // namespace

absl::StatusOr<std::vector<Type>> InferTypes(const Node& n, FreshSymbols fresh) {
  ShapeFn fn = FindShapeFn(n.op_name());
  if (!fn) {
    if (auto types = WrittenArguments(n)) return *std::move(types);
    return absl::UnimplementedError(text::StrCat(n.op_name(), ": no shape function"));
  }
  InferContext c(n, fresh);
  fn(c);
  if (!c.ok()) return c.status();
  return c.results();
}

}  // namespace slipway::ir
