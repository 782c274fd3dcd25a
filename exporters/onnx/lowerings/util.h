// Small pieces that lowering tables share.
#ifndef SLIPWAY_EXPORTERS_ONNX_LOWERINGS_UTIL_H_
#define SLIPWAY_EXPORTERS_ONNX_LOWERINGS_UTIL_H_

#include <cstddef>
#include <string_view>

#include "exporters/onnx/lowering.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"

namespace slipway::exporters::onnx_out {

// A string as a template argument: rows name the ONNX operator they map to.
template <size_t N>
struct Str {
  char text[N];
  constexpr Str(const char (&s)[N]) {  // NOLINT
    for (size_t i = 0; i < N; ++i) text[i] = s[i];
  }
  constexpr operator std::string_view() const { return {text, N - 1}; }  // NOLINT
};

// An argument that may be a tensor or a Scalar, as a V of `dtype`.
inline V Operand(LoweringContext& c, std::string_view name, DType dtype) {
  const ir::Arg& a = c.node().Get(name);
  if (ir::Value* v = a.value(); v && v->type().is_tensor()) return c.e.Cast(c.value(v), dtype);
  return c.number(c.scalar(name), dtype);
}

// torch.result_type of two operands, each a tensor or a Scalar.
inline DType Promoted(LoweringContext& c, std::string_view a, std::string_view b) {
  std::vector<ir::Value*> tensors;
  std::vector<ir::Scalar> scalars;
  for (std::string_view name : {a, b}) {
    ir::Value* v = c.node().Get(name).value();
    if (v && v->type().is_tensor())
      tensors.push_back(v);
    else
      scalars.push_back(c.scalar(name));
  }
  return ir::ResultTypeOf(tensors, scalars);
}

// f32 for f16 and bf16, else the type itself: what widened rows compute in.
inline DType Widened(DType t) { return ir::IsLowPrecision(t) ? DType::kFloat32 : t; }

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_LOWERINGS_UTIL_H_
