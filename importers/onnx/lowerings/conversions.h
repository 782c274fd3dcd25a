// Conversions between element types by ONNX's rules, which are not ATen's for types of a byte and less.
#ifndef SLIPWAY_IMPORTERS_ONNX_LOWERINGS_CONVERSIONS_H_
#define SLIPWAY_IMPORTERS_ONNX_LOWERINGS_CONVERSIONS_H_

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {

// What x becomes as a type of ONNX's, in the type that the program has for it. To a float of a byte and less, what is
// too large becomes the largest number unless the node says otherwise; of integers the low bits stay.
Value* Converted(Call& c, Value* x, DType to);

}  // namespace slipway::importers::onnx_in

#endif  // SLIPWAY_IMPORTERS_ONNX_LOWERINGS_CONVERSIONS_H_
