// Graphs that are right and that ONNX Runtime cannot take, rewritten to others that mean the same.
#ifndef SLIPWAY_EXPORTERS_ONNX_ORT_WORKAROUNDS_H_
#define SLIPWAY_EXPORTERS_ONNX_ORT_WORKAROUNDS_H_

#include "onnx/onnx_pb.h"

namespace slipway::exporters::onnx_out {

// Cast(Transpose(x)) that a MatMul reads becomes Transpose(Cast(x)), in nested graphs and functions too. ONNX Runtime 1.31.1
// ends with a segmentation fault while it optimizes a MatMul of the former, of 16-bit floats, by a constant.
void CastBeforeTranspose(onnx::ModelProto* model);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_ORT_WORKAROUNDS_H_
