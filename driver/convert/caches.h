// --cache-dtype: a decoder's caches of keys and values in 8 bits, in libraries that keep them and in ONNX models that
// carry them.
#ifndef SLIPWAY_DRIVER_CONVERT_CACHES_H_
#define SLIPWAY_DRIVER_CONVERT_CACHES_H_

#include <vector>

#include "absl/status/status.h"
#include "driver/edge/target.h"
#include "passes/keep_state.h"

namespace slipway::driver {

// What the flag asks for; nothing without it. Lines of the summary say which states are codes now. States of scales
// grow as those of their codes, and are added to `growing` (may be null). Unimplemented, with the reasons, where no
// state is one of keys or values.
absl::Status QuantizeCaches(Conversion& c, std::vector<passes::GrowingState>* growing);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_CACHES_H_
