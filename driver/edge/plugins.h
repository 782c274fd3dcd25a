// Plugins that the user names: shared libraries with kernels (include/slipway/slipway_kernel.h).
#ifndef SLIPWAY_DRIVER_EDGE_PLUGINS_H_
#define SLIPWAY_DRIVER_EDGE_PLUGINS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/executor/plugin.h"

namespace slipway::driver {

// Plugins in the process. Plans made with their kernels must not outlive them.
class Plugins {
 public:
  // Loads all, running their code. InvalidArgument for one that cannot be loaded or is no plugin.
  static absl::StatusOr<Plugins> Open(const std::vector<std::string>& paths);

  // The first that has a kernel of that name; null where none has.
  const kernels::Kernel* Find(std::string_view name) const;

 private:
  std::vector<std::shared_ptr<const kernels::Plugin>> plugins_;
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_PLUGINS_H_
