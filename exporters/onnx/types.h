// Types as ONNX states them.
#ifndef SLIPWAY_EXPORTERS_ONNX_TYPES_H_
#define SLIPWAY_EXPORTERS_ONNX_TYPES_H_

#include <string>

#include "ir/graph.h"
#include "onnx/onnx_pb.h"

namespace slipway::exporters::onnx_out {

// onnx::TensorProto::DataType of a dtype, 0 (UNDEFINED) when ONNX has none.
int OnnxType(ir::DType t);
ir::DType FromOnnxType(int onnx_type);
// As operator schemas spell a tensor of it: "tensor(float)", "tensor(float8e4m3fn)".
std::string SchemaTypeName(ir::DType t);

// What a value of a type is in ONNX: the tensor's dtype, i64 for symbolic integers, f64 for floats, bool. Symbolic numbers
// are 0-d tensors.
ir::DType ElementType(const ir::Type& t);
// Fills in name, element type and dims; symbolic dims become dim_params named by their expression.
void Describe(onnx::ValueInfoProto* info, const std::string& name, const ir::Type& t);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_TYPES_H_
