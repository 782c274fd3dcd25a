// See reader.h.
#include "driver/reader.h"

#include "driver/open.h"
#include "driver/tensors.h"
#include "importers/safetensors/safetensors.h"
#include "io/mapped_file.h"

namespace slipway::driver {

absl::StatusOr<ir::Archive> Reader::Programs(const std::string& path) const { return OpenArchive(path); }

absl::StatusOr<importers::TensorSet> Reader::Tensors(const std::string& path, const std::string& key) const {
  return ReadShardedTensors(path, key);
}

std::string Reader::Digest(const std::string& path) const {
  auto file = io::MappedFile::Open(path);
  return file.ok() ? SourceDigest(*file) : "";
}

}  // namespace slipway::driver
