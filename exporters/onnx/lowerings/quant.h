// What lowerings of quantized tensors share: 4-bit types, and scales and zero points as initializers.
#ifndef SLIPWAY_EXPORTERS_ONNX_LOWERINGS_QUANT_H_
#define SLIPWAY_EXPORTERS_ONNX_LOWERINGS_QUANT_H_

#include <optional>
#include <utility>

#include "exporters/onnx/lowering.h"
#include "passes/quantization/quantization.h"

namespace slipway::exporters::onnx_out {

// The 4-bit type that has all integers of the range; nullopt for none.
std::optional<DType> NibbleType(const std::optional<std::pair<int64_t, int64_t>>& range);
// Whether the zero points, one for each scale, can be written like the integers.
bool HasZeros(DType nibbles, const passes::Dequantized& d);
// Whether a product's matrix is integers of 4 bits in groups that com.microsoft.MatMulNBits has.
bool FitsMatMulNBits(const ir::Node& n, const passes::Dequantized& d);

V Repeated(LoweringContext& c, double number, DType t, const Ints& dims);
// A stored scale or zero point in `t`, of these dims or one for all of them: an initializer where it is one in the
// program.
V Parameter(LoweringContext& c, ir::Value* v, DType t, const Ints& dims);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_LOWERINGS_QUANT_H_
