// Symbolic numbers: sizes, Python arithmetic on them, and the assertions about them (which ONNX does not carry).
#include <algorithm>

#include "exporters/onnx/lowerings/util.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::Type;

void Nothing(LoweringContext& c) { c.Return(std::vector<V>(c.node().outputs().size())); }

void SymSize(LoweringContext& c) {
  V x = c.raw(c.tensor("self"));
  c.Return(c.e.DimScalar(x, c.dim("dim", x.rank)));
}
void SymNumel(LoweringContext& c) { c.Return(c.e.Op("Size", {c.raw(c.tensor("self"))}, {}, DType::kInt64, 0)); }

// The type Python gives the result: what the value's type says.
DType ResultOf(LoweringContext& c) {
  switch (c.out_type().kind) {
    case Type::kSymInt: return DType::kInt64;
    case Type::kSymBool: return DType::kBool;
    default: return DType::kFloat64;
  }
}
V Num(LoweringContext& c, const char* name, DType t) { return c.number(c.scalar(name), t); }
// int where both operands are, else float.
DType OperandType(LoweringContext& c) {
  bool integer = true;
  for (const char* name : {"a", "b"}) integer &= c.scalar(name).cls() <= ir::DTypeClass::kIntegral;
  return integer ? DType::kInt64 : DType::kFloat64;
}

// Whether a size is an element of lists of sizes only, as is what is made of it.
bool IsInListsOnly(const ir::Value* v, int* budget) {
  if (--*budget < 0 || v->graph()->IsOutput(v)) return false;
  for (const ir::Node* user : v->users()) {
    const std::string_view op = user->op_name();
    if (op == "_operator.add" || op == "_operator.sub" || op == "_operator.mul") {
      if (!IsInListsOnly(user->output(0), budget)) return false;
      continue;
    }
    for (const ir::NamedArg& a : user->args())
      if (const auto* values = a.arg.get<ir::Values>();
          a.arg.value() == v || (values && std::find(values->begin(), values->end(), v) != values->end()))
        return false;
  }
  return true;
}

template <Str op>
void Arith(LoweringContext& c) {
  DType t = ResultOf(c);
  // Models of ONNX's compute sizes as lists of one element each: a number of it is then read by nothing.
  if (int budget = 100; c.e.shared()->from_onnx && t == DType::kInt64 && IsInListsOnly(c.node().output(0), &budget)) {
    const auto line = [&](const char* name) {
      const ir::Scalar s = c.scalar(name);
      return s.kind == ir::Scalar::kValue ? c.dim1(s.value) : c.e.I64({s.i});
    };
    return c.Return(c.e.Squeeze(c.e.Op(op, {line("a"), line("b")}, {}, t, 1), {0}));
  }
  c.Return(c.e.Op(op, {Num(c, "a", t), Num(c, "b", t)}, {}, t, 0));
}
void TrueDiv(LoweringContext& c) { c.Return(c.e.Div(Num(c, "a", DType::kFloat64), Num(c, "b", DType::kFloat64))); }
void FloorDiv(LoweringContext& c) {
  DType t = ResultOf(c);
  V a = Num(c, "a", t), b = Num(c, "b", t);
  if (ir::IsFloating(t)) return c.Return(c.e.Op("Floor", {c.e.Div(a, b)}));
  const ir::Scalar sa = c.scalar("a"), sb = c.scalar("b");
  auto nonnegative = [](const ir::Scalar& s) {
    return s.is_constant() ? s.i >= 0 : ir::RangeOf(s.value->type().expr).min >= 0;
  };
  V q = c.e.Div(a, b);
  if (nonnegative(sa) && nonnegative(sb)) return c.Return(q);
  V r = c.e.Sub(a, c.e.Mul(q, b)), zero = c.e.I64Scalar(0);
  V fix =
      c.e.And(c.e.Not(c.e.Equal(r, zero)), c.e.Op("Xor", {c.e.Less(r, zero), c.e.Less(b, zero)}, {}, DType::kBool, 0));
  c.Return(c.e.Sub(q, c.e.Cast(fix, DType::kInt64)));
}
void Mod(LoweringContext& c) {
  DType t = ResultOf(c);
  if (ir::IsFloating(t)) return c.Unsupported("modulo of symbolic floats");
  c.Return(c.e.Op("Mod", {Num(c, "a", t), Num(c, "b", t)}, {}, t, 0));
}
void Pow(LoweringContext& c) {
  DType t = ResultOf(c);
  V r = c.e.Pow(Num(c, "a", DType::kFloat64), Num(c, "b", DType::kFloat64));
  c.Return(c.e.Cast(r, t));
}
void Neg(LoweringContext& c) { c.Return(c.e.Op("Neg", {Num(c, "a", ResultOf(c))})); }
void Pos(LoweringContext& c) { c.Return(Num(c, "a", ResultOf(c))); }
template <Str op>
void Compare(LoweringContext& c) {
  DType t = OperandType(c);
  c.Return(c.e.Op(op, {Num(c, "a", t), Num(c, "b", t)}, {}, DType::kBool, 0));
}
void Ne(LoweringContext& c) {
  DType t = OperandType(c);
  c.Return(c.e.Not(c.e.Equal(Num(c, "a", t), Num(c, "b", t))));
}
template <Str logical, Str bitwise>
void Bits(LoweringContext& c) {
  DType t = ResultOf(c);
  c.Return(c.e.Op(ir::IsBool(t) ? std::string_view(logical) : std::string_view(bitwise),
                  {Num(c, "a", t), Num(c, "b", t)}, {}, t, 0));
}
void Not(LoweringContext& c) { c.Return(c.e.Not(Num(c, "a", DType::kBool))); }
void Ite(LoweringContext& c) {
  DType t = ResultOf(c);
  c.Return(c.e.Where(Num(c, "b", DType::kBool), Num(c, "t", t), Num(c, "f", t)));
}
void SymInt(LoweringContext& c) {  // int() truncates
  V x = Num(c, "a", OperandType(c) == DType::kInt64 ? DType::kInt64 : DType::kFloat64);
  c.Return(c.e.Cast(x, DType::kInt64));
}
void SymFloat(LoweringContext& c) { c.Return(Num(c, "a", DType::kFloat64)); }
template <Str op>
void Rounded(LoweringContext& c) {
  c.Return(c.e.Cast(c.e.Op(op, {Num(c, "x", DType::kFloat64)}), DType::kInt64));
}
void MathTrunc(LoweringContext& c) { c.Return(c.e.Cast(Num(c, "x", DType::kFloat64), DType::kInt64)); }
void Sqrt(LoweringContext& c) {
  const char* name = c.node().op().ArgIndex("x") >= 0 ? "x" : "a";
  c.Return(c.e.Op("Sqrt", {Num(c, name, DType::kFloat64)}));
}
void SymbolicSum(LoweringContext& c) {
  V total;
  for (const ir::IntOrValue& i : c.sym_ints("args")) total = total ? c.e.Add(total, c.dim0(i)) : c.dim0(i);
  if (!total) total = c.e.I64Scalar(0);
  c.Return(total);
}

// A tensor of one element as a Python number.
void Item(LoweringContext& c) {
  if (!c.node().output(0)) return Nothing(c);
  V x = c.raw(c.tensor("self"));
  V y = c.e.Cast(x, ResultOf(c));
  c.Return(x.rank == 0 ? y : c.e.Reshape(y, Ints{}));
}
// A Python number as a 0-d tensor.
void ScalarTensor(LoweringContext& c) { c.Return(c.number(c.scalar("s"), c.out_dtype())); }

// clang-format off
constexpr Row kSymbolicRows[] = {
    {"aten.sym_size.int", SymSize}, {"aten.sym_numel.default", SymNumel},
    {"_operator.add", Arith<"Add">}, {"_operator.sub", Arith<"Sub">}, {"_operator.mul", Arith<"Mul">},
    {"_operator.truediv", TrueDiv}, {"_operator.floordiv", FloorDiv}, {"_operator.mod", Mod}, {"_operator.pow", Pow},
    {"_operator.neg", Neg}, {"_operator.pos", Pos},
    {"_operator.eq", Compare<"Equal">}, {"_operator.ne", Ne}, {"_operator.lt", Compare<"Less">},
    {"_operator.le", Compare<"LessOrEqual">}, {"_operator.gt", Compare<"Greater">},
    {"_operator.ge", Compare<"GreaterOrEqual">},
    {"_operator.and_", Bits<"And", "BitwiseAnd">}, {"_operator.or_", Bits<"Or", "BitwiseOr">},
    {"_operator.xor", Bits<"Xor", "BitwiseXor">}, {"_operator.not_", Not}, {"torch.sym_not", Not},
    {"torch.sym_max", Arith<"Max">}, {"torch.sym_min", Arith<"Min">}, {"torch.sym_ite", Ite},
    {"torch.sym_int", SymInt}, {"torch.sym_float", SymFloat}, {"torch.sym_sum", SymbolicSum},
    {"torch.sym_sqrt", Sqrt}, {"torch._sym_sqrt", Sqrt}, {"math.sqrt", Sqrt},
    {"math.ceil", Rounded<"Ceil">}, {"math.floor", Rounded<"Floor">}, {"math.trunc", MathTrunc},
    {"aten.item.default", Item}, {"aten._local_scalar_dense.default", Item},
    {"aten.scalar_tensor.default", ScalarTensor},
    {"aten._assert_scalar.default", Nothing}, {"aten._assert_tensor_metadata.default", Nothing},
    {"aten._assert_async.msg", Nothing}, {"aten._assert_async.default", Nothing},
    {"aten.sym_constrain_range_for_size.default", Nothing}, {"aten.sym_constrain_range.default", Nothing},
    {"aten._print.default", Nothing},
};
// clang-format on

}  // namespace

absl::Span<const Row> SymbolicRows() { return kSymbolicRows; }

}  // namespace slipway::exporters::onnx_out
