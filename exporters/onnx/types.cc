// See types.h. Numbers are TensorProto.DataType of onnx.proto.
#include "exporters/onnx/types.h"

#include <utility>

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
