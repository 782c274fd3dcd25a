// Files by their paths.
#include "driver/edge/reader.h"

#include "driver/edge/format.h"
#include "io/mapped_file.h"

namespace slipway::driver {

absl::StatusOr<ir::Archive> Reader::Programs(const std::string& path, int written) const {
  return OpenArchive(path, written);
}

absl::StatusOr<ir::TensorSet> Reader::Tensors(const std::string& path, const std::string& key) const {
  return OpenTensors(path, key);
}

std::string Reader::Digest(const std::string& path) const {
  auto file = io::MappedFile::Open(path);
  return file.ok() ? SourceDigest(*file) : "";
}

}  // namespace slipway::driver
