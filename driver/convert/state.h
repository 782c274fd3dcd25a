// --state of convert: which inputs and outputs a library keeps between runs.
#ifndef SLIPWAY_DRIVER_CONVERT_STATE_H_
#define SLIPWAY_DRIVER_CONVERT_STATE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "driver/edge/target.h"

namespace slipway::driver {

// The pairs that the flag names, of inputs and indices of outputs; none for `auto`.
absl::StatusOr<std::vector<std::pair<std::string, size_t>>> StatePairs(const Conversion& c);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_STATE_H_
