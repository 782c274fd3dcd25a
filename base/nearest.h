// The name that somebody meant: for messages about names that do not exist.
#ifndef SLIPWAY_BASE_NEAREST_H_
#define SLIPWAY_BASE_NEAREST_H_

#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace slipway::text {

// The candidate with the fewest letters to insert, drop, change or swap with a neighbour, letter case aside; the first
// of several. Empty where none is near: more than a third of the name would change.
std::string_view Nearest(std::string_view name, absl::Span<const std::string_view> candidates);

// What to add to "unknown key 'gruop'": "; did you mean 'group'?", or "; there are a, b and c" where none is near.
std::string Suggestion(std::string_view name, absl::Span<const std::string_view> candidates);

}  // namespace slipway::text

#endif  // SLIPWAY_BASE_NEAREST_H_
