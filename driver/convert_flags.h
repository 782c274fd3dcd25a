// The flags of `convert` by their names, for callers that have no command line.
#ifndef SLIPWAY_DRIVER_CONVERT_FLAGS_H_
#define SLIPWAY_DRIVER_CONVERT_FLAGS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "driver/convert.h"

namespace slipway::driver {

struct ConvertFlag {
  const char* name;  // "opset"
  // False for a value that has no meaning; `o` is then as it was.
  bool (*set)(ConvertOptions& o, std::string_view value);
  const char* values;  // what has a meaning, for people
};

// All that say how to convert; not those of where from and where to, or of how to report.
absl::Span<const ConvertFlag> ConvertFlags();

// Sets a flag, or adds to one that holds several values; switches take "true" and "false". InvalidArgument for a name
// that there is not and for a value that has no meaning.
absl::Status SetConvertFlag(ConvertOptions& o, std::string_view name, std::string_view value);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_FLAGS_H_
