// See types.h. Numbers are TensorProto.DataType of onnx.proto.
#include "exporters/onnx/types.h"

#include <utility>

#include "base/text.h"

namespace slipway::exporters::onnx_out {
namespace {
using ir::DType;
constexpr std::pair<DType, int> kTypes[] = {
    {DType::kFloat32, 1},       {DType::kUInt8, 2},          {DType::kInt8, 3},      {DType::kUInt16, 4},
    {DType::kInt16, 5},         {DType::kInt32, 6},          {DType::kInt64, 7},     {DType::kBool, 9},
    {DType::kFloat16, 10},      {DType::kFloat64, 11},       {DType::kUInt32, 12},   {DType::kUInt64, 13},
    {DType::kComplex64, 14},    {DType::kComplex128, 15},    {DType::kBFloat16, 16}, {DType::kFloat8E4M3FN, 17},
    {DType::kFloat8E4M3FNUZ, 18}, {DType::kFloat8E5M2, 19},  {DType::kFloat8E5M2FNUZ, 20},
    {DType::kUInt4, 21},        {DType::kInt4, 22},          {DType::kFloat4E2M1, 23},
    {DType::kFloat8E8M0FNU, 24},
};
}  // namespace

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

int OnnxType(DType t) {
  for (auto [ours, theirs] : kTypes)
    if (ours == t) return theirs;
  return 0;
}
DType FromOnnxType(int onnx_type) {
  for (auto [ours, theirs] : kTypes)
    if (theirs == onnx_type) return ours;
  return DType::kUnknown;
}

}  // namespace slipway::exporters::onnx_out
