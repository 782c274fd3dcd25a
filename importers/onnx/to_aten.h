// ONNX models as programs in ATen's vocabulary, which every target and command takes.
#ifndef SLIPWAY_IMPORTERS_ONNX_TO_ATEN_H_
#define SLIPWAY_IMPORTERS_ONNX_TO_ATEN_H_

#include "absl/status/status.h"
#include "ir/graph.h"
#include "onnx/onnx_pb.h"

namespace slipway::importers {

// Replaces the operators of a model that ReadOnnx() gave. Names of inputs, outputs and weights stay; named dims are
// symbols.
//
// `written` is the opset that the program is written at again, 0 where it becomes no ONNX model: a node whose row has
// it whole (lowering.h) stays, an operator "onnx.TYPE" (onnx_model/onnx_graph.h) whose result types are known, where
// that opset has the same version of its operator.
//
// Unimplemented naming every operator, and every form of one, that has no lowering, a node of each; InvalidArgument for
// nodes that contradict their operator's rules.
absl::Status OnnxToAten(ir::Program& p, int written = 0);

// Whether there is a lowering of a node of ONNX's own operators at an opset.
bool UnderstandsOnnx(const onnx::NodeProto& n, int opset);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_ONNX_TO_ATEN_H_
