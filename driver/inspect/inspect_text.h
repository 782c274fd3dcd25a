// What the forms of inspect's reports share.
#ifndef SLIPWAY_DRIVER_INSPECT_INSPECT_TEXT_H_
#define SLIPWAY_DRIVER_INSPECT_INSPECT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slipway::driver {

inline constexpr size_t kShownWeights = 20;

std::string Plural(uint64_t n, std::string_view what);
// A bound of a range, "inf" where there is none.
std::string Bound(int64_t v);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_INSPECT_INSPECT_TEXT_H_
