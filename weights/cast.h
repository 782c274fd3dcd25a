// Runs of floating-point elements from one type to another, rounded to nearest even, as torch's .to() rounds.
#ifndef SLIPWAY_WEIGHTS_CAST_H_
#define SLIPWAY_WEIGHTS_CAST_H_

#include <cstdint>

#include "ir/dtype.h"

namespace slipway::weights {

// Converts `count` little-endian elements; the two runs do not overlap and need no alignment.
using CastFunction = void (*)(const uint8_t* from, uint8_t* to, uint64_t count);

// The conversion between two of f64, f32, f16 and bf16; nullptr for any other pair and for equal types.
CastFunction FindCast(ir::DType from, ir::DType to);

// Values that a cast loses: finite ones that became infinite, and others than zero that became zero.
struct CastLosses {
  uint64_t infinite = 0, zero = 0;
};

// Adds those of `count` elements and what the cast made of them.
using CountLossesFunction = void (*)(const uint8_t* from, const uint8_t* to, uint64_t count, CastLosses* losses);

// nullptr where FindCast() is, and where the type has the range of the other one.
CountLossesFunction FindCountLosses(ir::DType from, ir::DType to);

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_CAST_H_
