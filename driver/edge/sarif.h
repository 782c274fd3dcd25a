// Diagnostics as SARIF 2.1.0 (OASIS), which code scanning of GitHub, GitLab and editors read.
#ifndef SLIPWAY_DRIVER_EDGE_SARIF_H_
#define SLIPWAY_DRIVER_EDGE_SARIF_H_

#include <string>

#include "driver/edge/diagnostic.h"

namespace slipway::driver {

// One run with a result a diagnostic, whose rule is its id. A location is the line of the model's source where the
// export has it, the file that the diagnostic is about, or else its place as a logical location. Files below the
// current folder are relative to it (%SRCROOT%).
std::string ToSarif(const Outcome& outcome);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_SARIF_H_
