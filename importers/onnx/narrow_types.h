// Elements of fewer than 8 bits, which ONNX packs into bytes and ATen does not know. A program has them as the
// narrowest of torch's types that holds each of their numbers, one a byte: integers as int8 and uint8, float4_e2m1 as
// float8_e4m3fn.
#ifndef SLIPWAY_IMPORTERS_ONNX_NARROW_TYPES_H_
#define SLIPWAY_IMPORTERS_ONNX_NARROW_TYPES_H_

#include "absl/status/statusor.h"
#include "ir/dtype.h"
#include "ir/tensor.h"

namespace slipway::importers::onnx_in {

// What a program has for an element type of ONNX's: the type itself, where ATen knows it.
ir::DType ProgramType(ir::DType onnx);

// A tensor's elements as the program has them.
absl::StatusOr<ir::TensorRef> ProgramTensor(ir::TensorRef t);

}  // namespace slipway::importers::onnx_in

#endif  // SLIPWAY_IMPORTERS_ONNX_NARROW_TYPES_H_
