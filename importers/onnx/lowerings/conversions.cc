// Cast, CastLike and BitCast. ATen rounds to float8 as ONNX does, but saturates in e4m3fn only; types of fewer bits are
// numbers of wider ones here, so that what does not fit is cut or rounded by arithmetic.
#include "importers/onnx/lowerings/conversions.h"

#include <limits>
#include <string>

#include "importers/onnx/lowerings/elements.h"
#include "importers/onnx/narrow_types.h"

namespace slipway::importers::onnx_in {
namespace {

// A float of a byte: its largest number, and what is rounded to more, which ATen makes infinity or NaN of in all but
// e4m3fn.
struct Largest {
  double number = 0, rounded_to_more = 0;
};
Largest LargestOf(DType t) {
  switch (t) {
    case DType::kFloat8E4M3FN: return {448, 464};
    case DType::kFloat8E4M3FNUZ: return {240, 248};
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ: return {57344, 61440};
    default: return {};
  }
}

// Of a type that is computed in.
Value* AsFloats(Call& c, Value* x) {
  return ir::IsFloating(x->dtype()) && ir::BitSize(x->dtype()) >= 16 ? x : c.b.Cast(x, DType::kFloat32);
}

Value* ToFloat8(Call& c, Value* x, DType to, const Largest& most) {
  x = AsFloats(c, x);
  if (c.integer("saturate", 1) != 0) {
    x = c.b.Call("aten.clamp.default", {x, -most.number, most.number});
  } else if (to == DType::kFloat8E4M3FN) {
    Value* beyond = c.b.Call("aten.gt.Scalar", {c.b.Call("aten.abs.default", {x}), most.rounded_to_more});
    x = c.b.Call("aten.masked_fill.Scalar", {x, beyond, std::numeric_limits<double>::quiet_NaN()});
  }
  return c.b.Cast(x, to);
}

// The numbers of e2m1 are halves below 2, integers below 4, even ones to 6; NaN becomes 0.
Value* ToFloat4(Call& c, Value* x) {
  x = c.b.Call("aten.clamp.default", {AsFloats(c, x), -6.0, 6.0});
  x = c.b.Call("aten.masked_fill.Scalar", {x, c.b.Call("aten.isnan.default", {x}), 0.0});
  Value* size = c.b.Call("aten.abs.default", {x});
  Value *twos = c.b.Call("aten.ge.Scalar", {size, 4.0}), *ones = c.b.Call("aten.ge.Scalar", {size, 2.0});
  const auto by = [&](double step) {
    return c.b.Call("aten.mul.Scalar",
                    {c.b.Call("aten.round.default", {c.b.Call("aten.mul.Scalar", {x, 1 / step})}), step});
  };
  return c.b.Cast(c.b.Call("aten.where.self", {twos, by(2), c.b.Call("aten.where.self", {ones, by(1), by(0.5)})}),
                  DType::kFloat8E4M3FN);
}

// Powers of two: ATen takes the nearest.
Value* ToPowers(Call& c, Value* x, DType to) {
  const std::string how = c.text("round_mode", "up");
  if (how != "up" && how != "down" && how != "nearest") {
    c.Wrong("a round_mode that is none");
    return x;
  }
  x = c.b.Cast(x, x->dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);  // f16 has few of the powers
  x = c.b.Call("aten.abs.default", {x});
  if (c.integer("saturate", 1) != 0) x = c.b.Call("aten.clamp.default", {x, Arg(), 0x1p127});
  if (how != "nearest") {
    Value* near = c.b.Cast(c.b.Cast(x, to), x->dtype());
    Value* next = c.b.Call("aten.mul.Scalar", {near, how == "up" ? 2.0 : 0.5});
    x = c.b.Call("aten.where.self",
                 {c.b.Call(how == "up" ? "aten.lt.Tensor" : "aten.gt.Tensor", {near, x}), next, near});
  }
  return c.b.Cast(x, to);
}

// The low bits of integers; of floats, those of what is cut to an integer.
Value* ToFewBits(Call& c, Value* x, DType to) {
  const int64_t count = int64_t{1} << ir::BitSize(to), below = ir::Info(to).is_signed ? count / 2 : 0;
  x = c.b.Cast(x, DType::kInt32);
  if (below != 0) x = c.b.Call("aten.add.Scalar", {x, below});
  x = c.b.Call("aten.bitwise_and.Scalar", {x, count - 1});
  if (below != 0) x = c.b.Call("aten.sub.Scalar", {x, below});
  return c.b.Cast(x, ProgramType(to));
}

}  // namespace

Value* Converted(Call& c, Value* x, DType to) {
  c.Ignore("saturate"), c.Ignore("round_mode");  // of other types
  if (to == DType::kFloat4E2M1) return ToFloat4(c, x);
  if (to == DType::kFloat8E8M0FNU) return ToPowers(c, x, to);
  if (const Largest most = LargestOf(to); most.number > 0) return x->dtype() == to ? x : ToFloat8(c, x, to, most);
  return ProgramType(to) != to ? ToFewBits(c, x, to) : c.b.Cast(x, to);
}

namespace {

void CastTo(Call& c, DType to) {
  c.Ignore("saturate"), c.Ignore("round_mode");
  if (auto e = c.elements(0)) {
    if (to == DType::kInt64 || to == DType::kInt32) {
      e->dtype = to;
      return c.Give(*std::move(e));
    }
    if (to == DType::kBool && IsConstant(*e)) {
      for (IntOrValue& x : e->values) x = int64_t{x.constant != 0};
      e->dtype = to;
      return c.Give(*std::move(e));
    }
  }
  c.Give(c.onnx_type(0) == to ? c.in(0) : Converted(c, c.in(0), to));
}
void Cast(Call& c) { CastTo(c, c.dtype("to", DType::kFloat32)); }
void CastLike(Call& c) { CastTo(c, c.onnx_type(1)); }

void BitCast(Call& c) {
  const DType from = c.onnx_type(0), to = c.dtype("to", from);
  if (ir::BitSize(to) != ir::BitSize(from)) return c.Wrong("a type of another width");
  if (ProgramType(to) != to || ProgramType(from) != from) return c.Refuse("of elements of less than a byte");
  c.Give(c.b.Call("aten.view.dtype", {c.in(0), Arg(to)}));
}

constexpr Row kConversionRows[] = {
    {"BitCast", BitCast},
    {"Cast", Cast, 6},
    {"CastLike", CastLike},
};

}  // namespace

absl::Span<const Row> ConversionRows() { return kConversionRows; }

}  // namespace slipway::importers::onnx_in
