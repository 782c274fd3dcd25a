// The names of ONNX's schemas for element types; their numbers are in base/dtypes.h.
#include "exporters/onnx/types.h"

#include "base/dtypes.h"
#include "base/text.h"

namespace slipway::exporters::onnx_out {
using ir::DType;

std::string SchemaTypeName(DType t) {
  std::string_view name = ir::Info(t).torch_name;
  switch (t) {
    case DType::kFloat32: name = "float"; break;
    case DType::kFloat64: name = "double"; break;
    case DType::kFloat8E4M3FN: name = "float8e4m3fn"; break;
    case DType::kFloat8E5M2: name = "float8e5m2"; break;
    case DType::kFloat8E4M3FNUZ: name = "float8e4m3fnuz"; break;
    case DType::kFloat8E5M2FNUZ: name = "float8e5m2fnuz"; break;
    case DType::kInt4: name = "int4"; break;
    case DType::kUInt4: name = "uint4"; break;
    default: break;
  }
  return text::StrCat("tensor(", name, ")");
}

DType ElementType(const ir::Type& t) {
  return t.is_tensor() ? t.dtype
         : t.kind == ir::Type::kSymInt ? DType::kInt64
         : t.kind == ir::Type::kSymFloat ? DType::kFloat64 : DType::kBool;
}

void Describe(onnx::ValueInfoProto* info, const std::string& name, const ir::Type& t) {
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(OnnxType(ElementType(t)));
  auto* shape = tensor->mutable_shape();
  for (const ir::Sym& s : t.sizes) {
    auto* dim = shape->add_dim();
    if (auto c = s.constant()) dim->set_dim_value(*c);
    else dim->set_dim_param(s.ToString());
  }
}

int OnnxType(DType t) { return kElementTypes[static_cast<size_t>(t)].onnx; }
DType FromOnnxType(int onnx_type) { return static_cast<DType>(FindElementType(&slipway::ElementType::onnx, onnx_type)); }

}  // namespace slipway::exporters::onnx_out
