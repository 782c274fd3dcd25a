// What the files behind opaque.h share.
#ifndef SLIPWAY_ONNX_MODEL_OPAQUE_INTERNAL_H_
#define SLIPWAY_ONNX_MODEL_OPAQUE_INTERNAL_H_

#include "onnx_model/opaque.h"

namespace slipway::onnx_model {

// The type as a dense tensor's, as the text form takes types to be.
ir::Type Dense(ir::Type t);
// A weight with its data.
absl::StatusOr<onnx::TensorProto> Inline(const Weight& w);
// The model without its nodes, and beside it the version of ONNX's own operators.
inline constexpr std::string_view kFrame = "onnx";
int OpsetOf(const ir::Program& p);
void SetFrame(ir::Program& p, const onnx::ModelProto& frame);

}  // namespace slipway::onnx_model

#endif  // SLIPWAY_ONNX_MODEL_OPAQUE_INTERNAL_H_
