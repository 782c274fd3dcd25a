// A few bytes of strides can ask for a disk full of output: each exporter says how much it is going to write before it
// does.
#ifndef SLIPWAY_EXPORTERS_OUTPUT_LIMIT_H_
#define SLIPWAY_EXPORTERS_OUTPUT_LIMIT_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "base/text.h"

namespace slipway::exporters {

inline constexpr uint64_t kAnyOutput = std::numeric_limits<uint64_t>::max();

// ResourceExhausted where `bytes` of output are more than `limit`.
inline absl::Status CheckOutput(uint64_t bytes, uint64_t limit) {
  if (bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      text::StrCat("the output takes ", bytes, " bytes, for a limit of ", limit,
                   " that follows from what the input holds or from --max-output, which can allow more"));
}

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_OUTPUT_LIMIT_H_
