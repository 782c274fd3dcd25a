// ONNX element types by ours.
#ifndef SLIPWAY_EXPORTERS_ONNX_TYPES_H_
#define SLIPWAY_EXPORTERS_ONNX_TYPES_H_

#include "ir/dtype.h"

namespace slipway::exporters::onnx_out {

// onnx::TensorProto::DataType of a dtype, 0 (UNDEFINED) when ONNX has none.
int OnnxType(ir::DType t);
ir::DType FromOnnxType(int onnx_type);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_TYPES_H_
