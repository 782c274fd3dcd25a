// The shape-function registry and the rules many of them share.
#include "ir/ops/infer.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "ir/ops/functional.h"
#include "ir/ops/rule.h"
#include "ir/verify.h"

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

bool InferContext::RequireEqual(Sym a, Sym b, std::string_view what) {
  if (a == b) return true;
  if (ProvablyDifferent(a, b)) {
    Fail(text::StrCat(what, ": ", a.ToString(), " and ", b.ToString(), " differ"));
    return false;
  }
  if (constraints_ && !ProvablyEqual(a, b)) constraints_->push_back({&node_, Relation(SymKind::kEq, a, b)});
  return true;
}
void InferContext::RequireAtLeast(Sym a, int64_t least) {
  if (constraints_ && !ProvablyLessEqual(least, a)) constraints_->push_back({&node_, Relation(SymKind::kGe, a, least)});
}

Sizes InferContext::Broadcast(const Sizes& a, const Sizes& b) {
  const Sizes& longer = a.size() >= b.size() ? a : b;
  const Sizes& shorter = a.size() >= b.size() ? b : a;
  Sizes out = longer;
  size_t shift = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    Sym x = longer[i + shift], y = shorter[i];
    if (y.is(1)) continue;
    if (!x.is(1) && !RequireEqual(x, y, "sizes do not broadcast")) break;
    if (x.is(1) || y.is_constant()) out[i + shift] = y;
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
    const auto given = std::count(dims.begin(), dims.end(), d);
    if (given > 1) Fail(text::StrCat("dim ", d, " is given twice"));
    if (given == 0)
      out.push_back(in[d]);
    else if (keepdim)
      out.push_back(1);
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
    for (auto table : {ElementwiseShapes(), ViewShapes(), PartShapes(), ReductionShapes(), ConvShapes(), NnShapes(),
                       SpectrumShapes(), QuantizationShapes(), IndexingShapes(), CreationShapes(), ProductShapes(),
                       LinalgShapes(), SymbolicShapes(), DetectionShapes()})
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
// The rule of the operator that computes what `op` writes into its first argument; null where there is none, or where
// the operator changes the argument's sizes, as squeeze_ does.
ShapeFn RuleOfWhatIsWritten(const OpDef& op) {
  if (op.args.empty() || !op.args[0].written) return nullptr;
  const OpDef* f = FunctionalOf(op);
  return f && !f->is_view() ? FindShapeFn(f->name) : nullptr;
}

// What an in-place operator computes has the sizes of what it is written into.
absl::Status CheckWhatIsWritten(const Node& n, absl::Span<const Type> computed, absl::Span<const Type> written) {
  if (computed.empty() || written.empty() || !computed[0].is_tensor()) return absl::OkStatus();
  const Sizes &from = computed[0].sizes, &to = written[0].sizes;
  bool fits = from.size() == to.size();
  for (size_t d = 0; fits && d < from.size(); ++d) fits = !ProvablyDifferent(from[d], to[d]);
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      text::StrCat(n.op_name(), ": writes ", computed[0].ToString(), " into ", written[0].ToString()));
}

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

absl::StatusOr<std::vector<Type>> InferTypes(const Node& n, FreshSymbols fresh,
                                             std::vector<ShapeConstraint>* constraints) {
  ShapeFn fn = FindShapeFn(n.op_name());
  std::optional<std::vector<Type>> written;
  if (!fn) {
    written = WrittenArguments(n);
    if (!written) return absl::UnimplementedError(text::StrCat(n.op_name(), ": no shape function"));
    fn = RuleOfWhatIsWritten(n.op());
    if (!fn) return *std::move(written);
  }
  InferContext c(n, fresh, constraints);
  if (absl::Status s = RunRule(n, [&] { fn(c); }); !s.ok()) return s;
  if (!c.ok()) return c.status();
  if (written) {
    if (absl::Status s = CheckWhatIsWritten(n, c.results(), *written); !s.ok()) return s;
    return *std::move(written);
  }
  for (const Type& t : c.results()) {
    if (t.is_tensor() && t.dtype == DType::kUnknown)
      return absl::InvalidArgumentError(text::StrCat(n.op_name(), ": dtypes that have no common one"));
    if (t.is_tensor() && !HasElementCount(t))
      return absl::InvalidArgumentError(text::StrCat(n.op_name(), ": a result of ", t.ToString(), " is out of range"));
  }
  return c.results();
}

namespace {
void Collect(const Graph& g, std::vector<ShapeConstraint>& out) {
  for (const Node* n : g) {
    std::vector<ShapeConstraint> of_node;
    if (InferTypes(*n, FreshSymbols::kNone, &of_node).ok()) out.insert(out.end(), of_node.begin(), of_node.end());
    for (const NamedArg& a : n->args())
      if (auto sub = a.arg.get<SubGraph>()) Collect(**sub, out);
  }
}
}  // namespace

std::vector<ShapeConstraint> ConstraintsOf(const Program& p) {
  std::vector<ShapeConstraint> out;
  Collect(*p.graph, out);
  return out;
}

}  // namespace slipway::ir
