// What the rows of elementwise operators share.
#ifndef SLIPWAY_EXPORTERS_ONNX_LOWERINGS_ELEMENTWISE_H_
#define SLIPWAY_EXPORTERS_ONNX_LOWERINGS_ELEMENTWISE_H_

#include "exporters/onnx/lowerings/util.h"

namespace slipway::exporters::onnx_out {

// The input in the type the result is computed in.
V Self(LoweringContext& c);
V Num(LoweringContext& c, double v);
// Bitwise on integers, logical on bool.
template <Str logical, Str bitwise>
void Bitwise(LoweringContext& c) {
  DType t = c.out_dtype();
  V a = Operand(c, "self", t), b = Operand(c, "other", t);
  c.Return(c.e.Op(ir::IsBool(t) ? std::string_view(logical) : std::string_view(bitwise), {a, b}, {}, t, c.out_rank()));
}
V IsZero(LoweringContext& c, V x);
V TruncFloat(LoweringContext& c, V x);
bool IsF32Or64(DType t);
V Between(LoweringContext& c, V x, V low, V high);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_LOWERINGS_ELEMENTWISE_H_
