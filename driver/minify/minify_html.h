// The page of `slipway minify --html`: the steps of the reduction, and what is left.
#ifndef SLIPWAY_DRIVER_MINIFY_MINIFY_HTML_H_
#define SLIPWAY_DRIVER_MINIFY_MINIFY_HTML_H_

#include "absl/status/status.h"
#include "driver/minify/minify.h"
#include "ir/graph.h"

namespace slipway::driver {

// A usage error where the page would take the place of what is read.
absl::Status CheckMinifyPage(const MinifyOptions& options);
// Writes the page where one is asked for.
absl::Status WriteMinifyPage(const MinifyOptions& options, const MinifyReport& report, const ir::Program& original,
                             const ir::Program& best);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_MINIFY_MINIFY_HTML_H_
