// What other tools call the things that slipway has names for, for messages about names that do not exist.
#ifndef SLIPWAY_BASE_OTHER_NAMES_H_
#define SLIPWAY_BASE_OTHER_NAMES_H_

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"

namespace slipway::text {

enum class NameKind : uint8_t { kCommand, kFlag, kConfiguration, kWord };  // kWord: what a flag's value may be

// What somebody meant who wrote `name`: what the table of other tools' names says, where it begins with a candidate,
// else the nearest candidate (base/nearest.h), else "". Letter case and underscores for hyphens do not matter.
std::string_view Meant(NameKind kind, std::string_view name, absl::Span<const std::string_view> candidates);

}  // namespace slipway::text

#endif  // SLIPWAY_BASE_OTHER_NAMES_H_
