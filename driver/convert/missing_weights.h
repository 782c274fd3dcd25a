// Programs whose weights lie in files of their own, as samples/minilm.pt2 and what is exported on the device meta: what
// runs them or plans them has no numbers to work with, and says so instead of what came of it.
#ifndef SLIPWAY_DRIVER_CONVERT_MISSING_WEIGHTS_H_
#define SLIPWAY_DRIVER_CONVERT_MISSING_WEIGHTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "ir/graph.h"

namespace slipway::driver {

// For conversions, and for what takes a program as it is.
inline constexpr std::string_view kGiveWeights = "--weights FILE or FOLDER gives them";
inline constexpr std::string_view kJoinWeights =
    "slipway convert MODEL.pt2 --weights FILE or FOLDER -o WITH_WEIGHTS.pt2 puts them into a program";

// The names of parameters, buffers and constants that a node reads or an output returns and that have no values;
// sorted.
std::vector<std::string> WeightsWithoutValues(const ir::Program& p);

// What to do about those of the names that no checkpoint holds, since a model computes them when it is made: buffers
// that are not persistent, and constants. "" where all are held.
std::string HowToMakeBuffers(const ir::Program& p, const std::vector<std::string>& names);

// InvalidArgument that lists weights without values; `how` is its help, and for those of a program what
// HowToMakeBuffers() says.
absl::Status MissingWeights(const std::vector<std::string>& names, std::string_view how);
absl::Status MissingWeights(const ir::Program& p, const std::vector<std::string>& names, std::string_view how);

// What planning a program came to, `refusal`; where that is Unimplemented and weights, `names`, have no values, that
// they have none. Not asked before planning: what reads only a weight's sizes (zeros_like) is planned without its
// values.
absl::Status OrMissingWeights(const ir::Program& p, const std::vector<std::string>& names, absl::Status refusal,
                              std::string_view how);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_MISSING_WEIGHTS_H_
