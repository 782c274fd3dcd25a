// --dtype of convert for programs: what is f32 in them becomes f16 or bf16.
#ifndef SLIPWAY_DRIVER_CONVERT_HALF_PRECISION_H_
#define SLIPWAY_DRIVER_CONVERT_HALF_PRECISION_H_

#include "absl/status/status.h"
#include "driver/edge/target.h"

namespace slipway::driver {

// Usage and Unimplemented for what the flag, with others, does not go with; before anything is read.
absl::Status CheckDtype(const Target& target, const ConvertOptions& o);

// What the flag asks for; nothing without it. To be called once norms are folded, in f32, and before anything is
// decomposed. Lines of the summary say what stays in f32, the metadata too.
absl::Status NarrowFloats(const Target& target, Conversion& c);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_HALF_PRECISION_H_
