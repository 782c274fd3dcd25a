// Where conversions read from: files by their paths. What holds programs in memory (the C API) reads otherwise.
#ifndef SLIPWAY_DRIVER_EDGE_READER_H_
#define SLIPWAY_DRIVER_EDGE_READER_H_

#include <string>

#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "ir/tensor_set.h"

namespace slipway::driver {

class Reader {
 public:
  virtual ~Reader() = default;
  // Programs for the caller alone, who rewrites them; as OpenArchive().
  virtual absl::StatusOr<ir::Archive> Programs(const std::string& path, int written) const;
  // Named tensors; as OpenTensors().
  virtual absl::StatusOr<ir::TensorSet> Tensors(const std::string& path, const std::string& key) const;
  // As SourceDigest(); "" where there is no file.
  virtual std::string Digest(const std::string& path) const;
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_READER_H_
