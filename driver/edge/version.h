// What `slipway --version` says.
#ifndef SLIPWAY_DRIVER_EDGE_VERSION_H_
#define SLIPWAY_DRIVER_EDGE_VERSION_H_

#include <string>

namespace slipway::driver {

std::string VersionText();

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_VERSION_H_
