// Graphs that are right and that ONNX Runtime cannot take, rewritten to others that mean the same.
#ifndef SLIPWAY_EXPORTERS_ONNX_ORT_WORKAROUNDS_H_
#define SLIPWAY_EXPORTERS_ONNX_ORT_WORKAROUNDS_H_

#include "onnx/onnx_pb.h"

namespace slipway::exporters::onnx_out {

// Cast(Transpose(x)) that a MatMul reads becomes Transpose(Cast(x)), in nested graphs and functions too. ONNX Runtime
// 1.31.1 ends with a segmentation fault while it optimizes a MatMul of the former, of 16-bit floats, by a constant.
void CastBeforeTranspose(onnx::ModelProto* model);

// A Pad with zeros gets its axes, all of them, as an input where its one reader is a MaxPool, an AveragePool that
// leaves padding out of its averages, or a Conv whose filters it pads. ONNX Runtime's Pad_Fusion otherwise makes the
// padding that node's own: -infinity for a MaxPool, nothing for those averages, more images for those filters. It takes
// no Pad that has axes. Pads without a constant number of axes are not fused either; from opset 18 on Pad takes axes.
void KeepPads(onnx::ModelProto* model, int opset);

// All of them, on a model that is otherwise done.
inline void WorkAroundOnnxRuntime(onnx::ModelProto* model, int opset) {
  CastBeforeTranspose(model);
  KeepPads(model, opset);
}

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_ORT_WORKAROUNDS_H_
