// What the files behind onnx_graph.h share.
#ifndef SLIPWAY_ONNX_MODEL_ONNX_GRAPH_INTERNAL_H_
#define SLIPWAY_ONNX_MODEL_ONNX_GRAPH_INTERNAL_H_

#include "onnx_model/onnx_graph.h"

namespace slipway::onnx_model {

// The type as a dense tensor's, as the text form takes types to be.
ir::Type Dense(ir::Type t);
// A weight with its data.
absl::StatusOr<onnx::TensorProto> Inline(const Weight& w);
// The model without its nodes, and beside it the version of ONNX's own operators.
inline constexpr std::string_view kFrame = "onnx";
int OpsetOf(const ir::Program& p);
void SetFrame(ir::Program& p, const onnx::ModelProto& frame);

inline constexpr std::string_view kDialect = "ONNX", kPrefix = "onnx.", kBetween = "::";
inline constexpr std::string_view kInitializer = "#initializer", kSparse = "#sparse_initializer";
std::string OpName(const Operator& o);
absl::Status Invalid(std::string_view what);
std::string Shown(std::string_view name);
onnx::AttributeProto PlainAttribute(std::string_view name, const ir::Arg& arg);
// An attribute without a graph. What an argument does not hold to the bit is kept as it is.
ir::NamedArg ArgOf(const onnx::AttributeProto& a);
std::string DenseText(const onnx::TensorProto& t, ir::DType dtype);

}  // namespace slipway::onnx_model

#endif  // SLIPWAY_ONNX_MODEL_ONNX_GRAPH_INTERNAL_H_
