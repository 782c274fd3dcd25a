// ONNX's own checker with full shape inference, run on a model whose weights are only described.
#ifndef SLIPWAY_EXPORTERS_ONNX_CHECK_H_
#define SLIPWAY_EXPORTERS_ONNX_CHECK_H_

#include <vector>

#include "absl/status/status.h"
#include "exporters/onnx/wire.h"
#include "onnx/onnx_pb.h"

namespace slipway::exporters::onnx_out {

// A failure is a bug of ours, reported as Internal with the checker's words. `model` gains the types that inference
// found for values without one.
absl::Status CheckSkeleton(onnx::ModelProto& model, const std::vector<WeightRef>& weights);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_CHECK_H_
