// Types as ONNX states them.
#ifndef SLIPWAY_ONNX_MODEL_TYPES_H_
#define SLIPWAY_ONNX_MODEL_TYPES_H_

#include <string>

#include "ir/graph.h"
#include "onnx/onnx_pb.h"

namespace slipway::onnx_model {

// onnx::TensorProto::DataType of a dtype, 0 (UNDEFINED) when ONNX has none.
int OnnxType(ir::DType t);
ir::DType FromOnnxType(int onnx_type);
// As operator schemas spell a tensor of it: "tensor(float)", "tensor(float8e4m3fn)".
std::string SchemaTypeName(ir::DType t);

// What a value of a type is in ONNX: the tensor's dtype, i64 for symbolic integers, f64 for floats, bool. Symbolic
// numbers are 0-d tensors.
ir::DType ElementType(const ir::Type& t);
// Fills in name, element type and dims; symbolic dims become dim_params named by their symbol or expression. An object
// is one of the types below; of a type that is not known there is the name alone.
void Describe(onnx::ValueInfoProto* info, const std::string& name, const ir::Type& t);

// The same the other way: dims by name are symbols of `symbols`, texts like "2*seq" expressions where all in it are
// symbols already; dims without a name get symbols of their own. What is no tensor of a dtype and rank (sequences,
// strings, a rank that is not known) is an object by the text that ONNX has for its type ("seq(tensor(float))"), ""
// where nothing is known.
ir::Type TypeOf(const onnx::TypeProto& t, ir::SymTable& symbols);

}  // namespace slipway::onnx_model

#endif  // SLIPWAY_ONNX_MODEL_TYPES_H_
