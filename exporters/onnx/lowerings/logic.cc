// Comparisons, logic, bits, choices between elements.
#include <algorithm>
#include <optional>
#include <string>

#include "exporters/onnx/lowerings/elementwise.h"
#include "exporters/onnx/lowerings/util.h"
#include "exporters/onnx/types.h"
#include "ir/rounded.h"

namespace slipway::exporters::onnx_out {

using ir::Scalar;

namespace {

template <Str op>
void Comparison(LoweringContext& c) {
  DType t = Promoted(c, "self", "other");
  V r = c.e.Op(op, {Operand(c, "self", t), Operand(c, "other", t)}, {}, DType::kBool, c.out_rank());
  c.Return(r);
}

void NotEqual(LoweringContext& c) {
  DType t = Promoted(c, "self", "other");
  c.Return(c.e.Not(c.e.Equal(Operand(c, "self", t), Operand(c, "other", t))));
}

V ToBool(LoweringContext& c, V x) { return c.e.Cast(x, DType::kBool); }
template <Str op>
void Logical(LoweringContext& c) {
  c.Return(c.e.Op(op, {ToBool(c, c.in("self")), ToBool(c, c.in("other"))}, {}, DType::kBool, c.out_rank()));
}

void LogicalNot(LoweringContext& c) { c.Return(c.e.Not(ToBool(c, c.in("self")))); }

void BitwiseNot(LoweringContext& c) {
  V x = c.in("self");
  c.Return(ir::IsBool(x.dtype) ? c.e.Not(x) : c.e.Op("BitwiseNot", {x}));
}

// Shifts, in 64 bits. By less than nothing, or by as many bits as the type has or more, torch gives 0 to the left, the
// sign to the right.
std::optional<int64_t> ConstantShift(LoweringContext& c) {
  if (ir::Value* v = c.node().Get("other").value(); v && v->type().is_tensor()) return std::nullopt;
  const Scalar s = c.scalar("other");
  return s.kind == Scalar::kInt ? std::optional(s.i) : std::nullopt;
}

// ONNX shifts unsigned integers only; 0 <= b < 64, x >= 0 or any bits to the left.
V ShiftBits(LoweringContext& c, V x, V b, const char* direction) {
  V y = c.e.Op("BitShift", {c.e.Cast(x, DType::kUInt64), c.e.Cast(b, DType::kUInt64)},
               {{"direction", std::string(direction)}}, DType::kUInt64, std::max(x.rank, b.rank));
  return c.e.Cast(y, DType::kInt64);
}

void ShiftLeft(LoweringContext& c) {
  const DType t = c.out_dtype();
  const int64_t bits = static_cast<int64_t>(ir::BitSize(t));
  V a = c.e.Cast(Operand(c, "self", t), DType::kInt64);
  if (auto k = ConstantShift(c)) {
    const int64_t power = *k < 0 || *k >= bits ? 0 : static_cast<int64_t>(uint64_t{1} << *k);
    return c.Return(c.e.Cast(c.e.Mul(a, c.e.Integer(power, DType::kInt64)), t));
  }
  V b = c.e.Cast(Operand(c, "other", t), DType::kInt64), zero = c.e.I64Scalar(0);
  V inside = c.e.And(c.e.GreaterEqual(b, zero), c.e.Less(b, c.e.I64Scalar(bits)));
  V shifted = ShiftBits(c, a, c.e.Where(inside, b, zero), "LEFT");
  c.Return(c.e.Cast(c.e.Where(inside, shifted, zero), t));
}

void ShiftRight(LoweringContext& c) {
  const DType t = c.out_dtype();
  V a = c.e.Cast(Operand(c, "self", t), DType::kInt64), zero = c.e.I64Scalar(0), most = c.e.I64Scalar(63), b;
  if (auto k = ConstantShift(c)) {
    b = c.e.I64Scalar(*k < 0 || *k > 63 ? 63 : *k);
  } else {
    b = c.e.Cast(Operand(c, "other", t), DType::kInt64);
    b = c.e.Where(c.e.Less(b, zero), most, c.e.Min(b, most));
  }
  // Of negative numbers the complement is shifted.
  V ones = c.e.I64Scalar(-1), negative = c.e.Less(a, zero);
  if (!ir::Info(t).is_signed) return c.Return(c.e.Cast(ShiftBits(c, a, b, "RIGHT"), t));
  V y = ShiftBits(c, c.e.Where(negative, c.e.Sub(ones, a), a), b, "RIGHT");
  c.Return(c.e.Cast(c.e.Where(negative, c.e.Sub(ones, y), y), t));
}

void Where(LoweringContext& c) {
  DType t = c.compute_dtype();
  c.Return(c.e.Where(ToBool(c, c.in("condition")), Operand(c, "self", t), Operand(c, "other", t)));
}

void MaskedFill(LoweringContext& c) {
  DType t = c.compute_dtype();
  V value = Operand(c, "value", t);
  V x = c.e.Cast(c.in("self"), t);
  c.Return(c.e.Where(ToBool(c, c.in("mask")), value, x));
}

// clang-format off
constexpr Row kLogicRows[] = {
    {"aten.eq.Tensor", Comparison<"Equal">}, {"aten.eq.Scalar", Comparison<"Equal">},
    {"aten.ne.Tensor", NotEqual}, {"aten.ne.Scalar", NotEqual},
    {"aten.not_equal.Tensor", NotEqual}, {"aten.not_equal.Scalar", NotEqual},
    {"aten.lt.Tensor", Comparison<"Less">}, {"aten.lt.Scalar", Comparison<"Less">},
    {"aten.le.Tensor", Comparison<"LessOrEqual">}, {"aten.le.Scalar", Comparison<"LessOrEqual">},
    {"aten.gt.Tensor", Comparison<"Greater">}, {"aten.gt.Scalar", Comparison<"Greater">},
    {"aten.ge.Tensor", Comparison<"GreaterOrEqual">}, {"aten.ge.Scalar", Comparison<"GreaterOrEqual">},
    {"aten.logical_and.default", Logical<"And">}, {"aten.logical_or.default", Logical<"Or">},
    {"aten.logical_xor.default", Logical<"Xor">}, {"aten.logical_not.default", LogicalNot},
    {"aten.bitwise_and.Tensor", Bitwise<"And", "BitwiseAnd">},
    {"aten.bitwise_and.Scalar", Bitwise<"And", "BitwiseAnd">},
    {"aten.bitwise_or.Tensor", Bitwise<"Or", "BitwiseOr">}, {"aten.bitwise_or.Scalar", Bitwise<"Or", "BitwiseOr">},
    {"aten.bitwise_xor.Tensor", Bitwise<"Xor", "BitwiseXor">},
    {"aten.bitwise_xor.Scalar", Bitwise<"Xor", "BitwiseXor">},
    {"aten.__and__.Tensor", Bitwise<"And", "BitwiseAnd">}, {"aten.__and__.Scalar", Bitwise<"And", "BitwiseAnd">},
    {"aten.__or__.Tensor", Bitwise<"Or", "BitwiseOr">}, {"aten.__or__.Scalar", Bitwise<"Or", "BitwiseOr">},
    {"aten.__xor__.Tensor", Bitwise<"Xor", "BitwiseXor">}, {"aten.__xor__.Scalar", Bitwise<"Xor", "BitwiseXor">},
    {"aten.bitwise_and.Scalar_Tensor", Bitwise<"And", "BitwiseAnd">},
    {"aten.bitwise_or.Scalar_Tensor", Bitwise<"Or", "BitwiseOr">},
    {"aten.bitwise_xor.Scalar_Tensor", Bitwise<"Xor", "BitwiseXor">},
    {"aten.bitwise_not.default", BitwiseNot},
    {"aten.__lshift__.Scalar", ShiftLeft}, {"aten.__lshift__.Tensor", ShiftLeft},
    {"aten.bitwise_left_shift.Tensor", ShiftLeft}, {"aten.bitwise_left_shift.Tensor_Scalar", ShiftLeft},
    {"aten.bitwise_left_shift.Scalar_Tensor", ShiftLeft}, {"aten.bitwise_right_shift.Scalar_Tensor", ShiftRight},
    {"aten.__rshift__.Scalar", ShiftRight}, {"aten.__rshift__.Tensor", ShiftRight},
    {"aten.bitwise_right_shift.Tensor", ShiftRight}, {"aten.bitwise_right_shift.Tensor_Scalar", ShiftRight},
    {"aten.where.self", Where}, {"aten.where.ScalarSelf", Where}, {"aten.where.ScalarOther", Where},
    {"aten.where.Scalar", Where},
    {"aten.masked_fill.Scalar", MaskedFill}, {"aten.masked_fill.Tensor", MaskedFill},
};
// clang-format on

}  // namespace

absl::Span<const Row> LogicRows() { return kLogicRows; }

}  // namespace slipway::exporters::onnx_out
