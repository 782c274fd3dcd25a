// How many turns a Loop takes whose condition compares a counter with a number that stays, as exporters write Python's
// `while i < n`.
#ifndef SLIPWAY_IMPORTERS_ONNX_LOWERINGS_TRIP_COUNT_H_
#define SLIPWAY_IMPORTERS_ONNX_LOWERINGS_TRIP_COUNT_H_

#include <optional>

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {

// Whether the loop's body hands its input `i` on as it is.
bool Stays(const ir::Graph& body, size_t i);

// The number of turns by the condition alone; `begins` is the condition in front of the loop, where that is known.
// Nothing for other conditions. Writes what computes the number in front of the loop.
std::optional<IntOrValue> TripCount(Call& c, const ir::Graph& body, std::optional<bool> begins);

}  // namespace slipway::importers::onnx_in

#endif  // SLIPWAY_IMPORTERS_ONNX_LOWERINGS_TRIP_COUNT_H_
