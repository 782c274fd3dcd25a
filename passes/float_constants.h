// Numbers that passes compute with and that no literal writes.
#ifndef SLIPWAY_PASSES_FLOAT_CONSTANTS_H_
#define SLIPWAY_PASSES_FLOAT_CONSTANTS_H_

#include <limits>
#include <numbers>

namespace slipway::passes {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kPi = std::numbers::pi;

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_FLOAT_CONSTANTS_H_
