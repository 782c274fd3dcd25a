// Shape functions: symbolic numbers, and the numbers read from tensors.
#include <cmath>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {
namespace {

// A number argument as an expression with its kind.
struct Number {
  Sym expr = 0;
  Type::Kind kind = Type::kSymInt;
};
Number NumberOf(InferContext& c, const Arg& a) {
  if (auto p = a.get<int64_t>()) return {*p, Type::kSymInt};
  if (auto p = a.get<bool>()) return {c.syms().Bool(*p), Type::kSymBool};
  if (auto p = a.get<double>()) return {c.syms().Float(*p), Type::kSymFloat};
  if (Value* v = a.value(); v && v->type().is_sym()) return {v->type().expr, v->type().kind};
  c.Fail("an argument is not a number");
  return {};
}
Number NumberAt(InferContext& c, size_t i) {
  const OpDef& op = c.node().op();
  return NumberOf(c, c.node().Get(op.args[i].name));
}
Sym Make(InferContext& c, SymKind kind, std::initializer_list<Sym> operands, std::string_view name = {}) {
  auto made = c.syms().Make(kind, operands, name);
  if (made.ok()) return *made;
  c.SetStatus(made.status());
  return 0;
}
// As arithmetic takes it: bools count as 0 and 1, and beside a float an integer becomes one.
Sym Operand(InferContext& c, const Number& n, bool as_float) {
  Sym e = n.kind == Type::kSymBool ? Make(c, SymKind::kWhere, {n.expr, 1, 0}) : n.expr;
  if (!as_float || n.kind == Type::kSymFloat) return e;
  if (auto k = e.constant()) return c.syms().Float(static_cast<double>(*k));
  return Make(c, SymKind::kToFloat, {e});
}
void OutNumber(InferContext& c, bool is_float, Sym e) { c.Out(is_float ? Type::SymFloat(e) : Type::SymInt(e)); }

template <SymKind kInt, SymKind kFloat = kInt>
void Arithmetic(InferContext& c) {
  Number a = NumberAt(c, 0), b = NumberAt(c, 1);
  bool is_float = a.kind == Type::kSymFloat || b.kind == Type::kSymFloat;
  OutNumber(c, is_float, Make(c, is_float ? kFloat : kInt, {Operand(c, a, is_float), Operand(c, b, is_float)}));
}
void Subtract(InferContext& c) {
  Number a = NumberAt(c, 0), b = NumberAt(c, 1);
  bool is_float = a.kind == Type::kSymFloat || b.kind == Type::kSymFloat;
  if (!is_float) return OutNumber(c, false, Operand(c, a, false) - Operand(c, b, false));
  Sym minus = Make(c, SymKind::kMul, {c.syms().Float(-1), Operand(c, b, true)});
  OutNumber(c, true, Make(c, SymKind::kAdd, {Operand(c, a, true), minus}));
}
void TrueDivide(InferContext& c) {
  Number a = NumberAt(c, 0), b = NumberAt(c, 1);
  bool is_float = a.kind == Type::kSymFloat || b.kind == Type::kSymFloat;
  OutNumber(c, true,
            Make(c, is_float ? SymKind::kFloatTrueDiv : SymKind::kIntTrueDiv,
                 {Operand(c, a, is_float), Operand(c, b, is_float)}));
}
template <SymKind kKind>
void Compare(InferContext& c) {
  Number a = NumberAt(c, 0), b = NumberAt(c, 1);
  if (a.kind == Type::kSymBool && b.kind == Type::kSymBool) {
    // ParseExpr and torch compare booleans as they are only for equality.
    c.Out(Type::SymBool(Make(c, kKind, {Operand(c, a, false), Operand(c, b, false)})));
    return;
  }
  bool is_float = a.kind == Type::kSymFloat || b.kind == Type::kSymFloat;
  c.Out(Type::SymBool(Make(c, kKind, {Operand(c, a, is_float), Operand(c, b, is_float)})));
}
template <SymKind kBool>
void BitOrBool(InferContext& c) {
  Number a = NumberAt(c, 0), b = NumberAt(c, 1);
  if (a.kind == Type::kSymBool && b.kind == Type::kSymBool)
    return c.Out(Type::SymBool(Make(c, kBool, {a.expr, b.expr})));
  constexpr std::string_view name = kBool == SymKind::kAnd ? "BitwiseFn_bitwise_and" : "BitwiseFn_bitwise_or";
  OutNumber(c, false, Make(c, SymKind::kCall, {Operand(c, a, false), Operand(c, b, false)}, name));
}
void Xor(InferContext& c) {
  Number a = NumberAt(c, 0), b = NumberAt(c, 1);
  if (a.kind == Type::kSymBool && b.kind == Type::kSymBool)
    return c.Out(Type::SymBool(Make(c, SymKind::kNe, {Operand(c, a, false), Operand(c, b, false)})));
  OutNumber(c, false, Make(c, SymKind::kCall, {Operand(c, a, false), Operand(c, b, false)}, "BitwiseFn_bitwise_xor"));
}
template <bool kLeft>
void Shift(InferContext& c) {
  Sym a = Operand(c, NumberAt(c, 0), false), b = Operand(c, NumberAt(c, 1), false);
  Sym power = Make(c, SymKind::kPow, {2, b});
  OutNumber(c, false, kLeft ? a * power : FloorDiv(a, power));
}
void Negate(InferContext& c) {
  Number a = NumberAt(c, 0);
  if (a.kind != Type::kSymFloat) return OutNumber(c, false, -Operand(c, a, false));
  OutNumber(c, true, Make(c, SymKind::kMul, {c.syms().Float(-1), a.expr}));
}
void Identity(InferContext& c) {
  Number a = NumberAt(c, 0);
  OutNumber(c, a.kind == Type::kSymFloat, Operand(c, a, false));
}
void LogicalNot(InferContext& c) {
  Number a = NumberAt(c, 0);
  c.Out(Type::SymBool(a.kind == Type::kSymBool ? Not(a.expr) : Relation(SymKind::kEq, Operand(c, a, false), 0)));
}
template <SymKind kKind>
void RoundTo(InferContext& c) {  // math.ceil and its like: a float becomes an integer
  Number a = NumberAt(c, 0);
  OutNumber(c, false, a.kind == Type::kSymFloat ? Make(c, kKind, {a.expr}) : Operand(c, a, false));
}
void ToFloat(InferContext& c) { OutNumber(c, true, Operand(c, NumberAt(c, 0), true)); }
void Sqrt(InferContext& c) {
  Sym a = Operand(c, NumberAt(c, 0), true);
  if (!a.is_constant() && a.kind() == SymKind::kFloat && a.float_value() >= 0)
    return OutNumber(c, true, c.syms().Float(std::sqrt(a.float_value())));
  OutNumber(c, true, Make(c, SymKind::kCall, {a}, "OpaqueUnaryFn_sqrt"));
}
void IfThenElse(InferContext& c) {
  Number b = NumberAt(c, 0), t = NumberAt(c, 1), f = NumberAt(c, 2);
  bool is_float = t.kind == Type::kSymFloat || f.kind == Type::kSymFloat;
  OutNumber(c, is_float, Make(c, SymKind::kWhere, {b.expr, Operand(c, t, is_float), Operand(c, f, is_float)}));
}
void SymSum(InferContext& c) {
  Sym sum = 0;
  for (Sym s : c.ToSizes(c.sym_ints("args"))) sum = sum + s;
  c.OutSym(sum);
}

void SymSize(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  if (x->rank() == 0) return c.Fail("size of a 0-d tensor");
  c.OutSym(x->sizes()[dim]);
}
void SymNumel(InferContext& c) { c.OutSym(NumelOf(Self(c))); }
void SymStride(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  if (x->rank() == 0) return c.Fail("stride of a 0-d tensor");
  c.OutSym(x->type().strides_known && dim < static_cast<int>(x->type().strides.size()) ? x->type().strides[dim]
                                                                                       : c.FreshSize());
}
void SymStorageOffset(InferContext& c) {
  Value* x = Self(c);
  c.OutSym(x->type().strides_known ? x->type().storage_offset : c.FreshSize());
}
// The one element of a tensor as a number: unknown until run time.
void Item(InferContext& c) {
  DType t = Self(c)->dtype();
  if (IsComplex(t)) return c.Unsupported("a complex number as a scalar");
  if (IsBool(t)) return c.Out(Type::SymBool(Relation(SymKind::kEq, c.FreshSize(1), 1)));
  if (IsFloating(t)) return c.Out(Type::SymFloat(Make(c, SymKind::kToFloat, {c.FreshNumber()})));
  c.OutSym(c.FreshNumber());
}
void AllClose(InferContext& c) { c.Out(Type::SymBool(Relation(SymKind::kEq, c.FreshSize(1), 1))); }

constexpr ShapeFamily kSymbolicFamilies[] = {
    {Arithmetic<SymKind::kAdd>, "/_operator.add"},
    {Subtract, "/_operator.sub"},
    {Arithmetic<SymKind::kMul>, "/_operator.mul"},
    {Arithmetic<SymKind::kFloorDiv>, "/_operator.floordiv"},
    {Arithmetic<SymKind::kMod>, "/_operator.mod"},
    {Arithmetic<SymKind::kPow, SymKind::kFloatPow>, "/_operator.pow"},
    {TrueDivide, "/_operator.truediv"},
    {Compare<SymKind::kEq>, "/_operator.eq"},
    {Compare<SymKind::kNe>, "/_operator.ne"},
    {Compare<SymKind::kLt>, "/_operator.lt"},
    {Compare<SymKind::kLe>, "/_operator.le"},
    {Compare<SymKind::kGt>, "/_operator.gt"},
    {Compare<SymKind::kGe>, "/_operator.ge"},
    {BitOrBool<SymKind::kAnd>, "/_operator.and_"},
    {BitOrBool<SymKind::kOr>, "/_operator.or_"},
    {Xor, "/_operator.xor"},
    {Shift<true>, "/_operator.lshift"},
    {Shift<false>, "/_operator.rshift"},
    {Negate, "/_operator.neg"},
    {Identity, "/_operator.pos"},
    {LogicalNot, "/_operator.not_ /torch.sym_not"},
    {RoundTo<SymKind::kCeilToInt>, "/math.ceil"},
    {RoundTo<SymKind::kFloorToInt>, "/math.floor"},
    {RoundTo<SymKind::kTruncToInt>, "/math.trunc /torch.sym_int"},
    {ToFloat, "/torch.sym_float"},
    {Sqrt, "/math.sqrt /torch.sym_sqrt /torch._sym_sqrt"},
    {IfThenElse, "/torch.sym_ite"},
    {Arithmetic<SymKind::kMax>, "/torch.sym_max"},
    {Arithmetic<SymKind::kMin>, "/torch.sym_min"},
    {SymSum, "/torch.sym_sum"},
    {SymSize, "sym_size.int"},
    {SymNumel, "sym_numel"},
    {SymStride, "sym_stride.int"},
    {SymStorageOffset, "sym_storage_offset"},
    {Item, "item _local_scalar_dense"},
    {AllClose, "allclose equal is_nonzero"},
};

}  // namespace

absl::Span<const ShapeRow> SymbolicShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kSymbolicFamilies);
  return rows;
}

}  // namespace slipway::ir
