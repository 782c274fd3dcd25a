// What shapes are computed with: reshaping, selecting and transposing of known elements.
#ifndef SLIPWAY_IMPORTERS_ONNX_LOWERINGS_ELEMENTS_H_
#define SLIPWAY_IMPORTERS_ONNX_LOWERINGS_ELEMENTS_H_

#include <cstdint>
#include <optional>

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {

// Whether no element is a size.
bool IsConstant(const Elements& e);
// In a shape of up to two sizes, of which one may be -1 (0 keeps the size in its place). Nothing for others.
std::optional<Elements> Reshaped(const Elements& e, const Ints& shape);
// Rows and columns exchanged; a list stays.
Elements Transposed(const Elements& e);
// From `start` to `end` along an axis, as ONNX's Slice counts. `step` is not 0. Nothing for an axis that is not there.
std::optional<Elements> Sliced(const Elements& e, int64_t axis, int64_t start, int64_t end, int64_t step);

}  // namespace slipway::importers::onnx_in

#endif  // SLIPWAY_IMPORTERS_ONNX_LOWERINGS_ELEMENTS_H_
