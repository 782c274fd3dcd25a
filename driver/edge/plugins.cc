// The first library that has a kernel of a name gives it: the order is that of the command line.
#include "driver/edge/plugins.h"

#include "driver/edge/diagnostic.h"

namespace slipway::driver {

absl::StatusOr<Plugins> Plugins::Open(const std::vector<std::string>& paths) {
  Plugins out;
  for (const std::string& path : paths) {
    std::string why;
    auto plugin = kernels::Plugin::Open(path, &why);
    if (!plugin) return WithPlace(absl::InvalidArgumentError(why), path);
    out.plugins_.push_back(std::move(plugin));
  }
  return out;
}

const kernels::Kernel* Plugins::Find(std::string_view name) const {
  for (const auto& p : plugins_)
    if (const kernels::Kernel* k = p->Find(name)) return k;
  return nullptr;
}

}  // namespace slipway::driver
