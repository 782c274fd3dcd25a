// Files that people bring and slipway does not read, by name: what they are, and what to do about it.
#ifndef SLIPWAY_DRIVER_EDGE_FOREIGN_FORMATS_H_
#define SLIPWAY_DRIVER_EDGE_FOREIGN_FORMATS_H_

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "io/mapped_file.h"

namespace slipway::driver {

// InvalidArgument, "PATH: a GGUF file", with the next step as its help, for a file of a known format that is none of
// slipway's; OK for any other. `by_name`: formats without a mark of their own count as well, by the names of files.
absl::Status CheckForeign(const std::string& path, const std::shared_ptr<io::MappedFile>& file, bool by_name);

// The same of a folder, by the names in it: TensorFlow's SavedModel, Core ML's package, …
absl::Status CheckForeignFolder(const std::string& path, const std::set<std::string>& names);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_FOREIGN_FORMATS_H_
