// What rows of quantized operators share with others: parameters in front and behind, and the operators of floats
// between.
#ifndef SLIPWAY_IMPORTERS_ONNX_LOWERINGS_QUANTIZATION_H_
#define SLIPWAY_IMPORTERS_ONNX_LOWERINGS_QUANTIZATION_H_

#include <cstdint>

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {

// How scales lie: a list along an axis (which one scale does without), or one for each `block` elements of it.
struct Spread {
  int64_t axis = 0, block = 0;
};

// (q - zero) * scale, of the scale's type; `zero` may be null. `type`: of q in the model.
Value* DequantizeBy(Call& c, Value* q, DType type, Value* scale, Value* zero, Spread s);
// x / scale + zero, rounded to even and saturated.
Value* QuantizeBy(Call& c, Value* x, Value* scale, Value* zero, DType to, Spread s);
// The same by inputs of the node, by their places.
Value* DequantizedInput(Call& c, size_t x, size_t scale, size_t zero, Spread s);
// The node's result; without a zero point of type `otherwise`.
void GiveQuantized(Call& c, Value* y, size_t scale, size_t zero, DType otherwise, Spread s);

// Conv and AveragePool by the node's attributes (nn.cc). Null and an error where these are not lowered.
Value* Convolve(Call& c, Value* x, Value* weight, Value* bias);
Value* AveragePoolOf(Call& c, Value* x);

}  // namespace slipway::importers::onnx_in

#endif  // SLIPWAY_IMPORTERS_ONNX_LOWERINGS_QUANTIZATION_H_
