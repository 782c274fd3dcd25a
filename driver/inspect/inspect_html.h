// `slipway inspect --html`: what is in a file, drawn.
#ifndef SLIPWAY_DRIVER_INSPECT_INSPECT_HTML_H_
#define SLIPWAY_DRIVER_INSPECT_INSPECT_HTML_H_

#include <string>

#include "absl/status/status.h"
#include "driver/inspect/inspect.h"

namespace slipway::driver {

// Writes the page of what Inspect() reported. `histograms` reads all weights, a piece at a time. Errors: those of
// reading the file again, of writing the page, and a usage error where that would take the file's place.
absl::Status WriteInspectPage(const FileReport& report, const std::string& html, bool histograms);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_INSPECT_INSPECT_HTML_H_
