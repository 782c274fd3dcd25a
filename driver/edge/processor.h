// What this build of slipway has kernels for.
#ifndef SLIPWAY_DRIVER_EDGE_PROCESSOR_H_
#define SLIPWAY_DRIVER_EDGE_PROCESSOR_H_

#include <string>

#include "absl/status/status.h"

namespace slipway::driver {

// Unimplemented where the kernels of this build are for other processors than this one (SLIPWAY_ISAS of CMake).
absl::Status CheckProcessor();

// What libraries made by this build need of a processor; empty where it has kernels for all of this architecture.
std::string KernelsOfLibraries();

// The command that adds what a build was configured without.
std::string HowToAdd(const char* setting);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_PROCESSOR_H_
