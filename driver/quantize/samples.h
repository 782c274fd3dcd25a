// Inputs to calibrate a program with, a sample at a time: tensors of a safetensors file, by reference.
#ifndef SLIPWAY_DRIVER_QUANTIZE_SAMPLES_H_
#define SLIPWAY_DRIVER_QUANTIZE_SAMPLES_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace slipway::driver {

class Samples {
 public:
  // The samples of a file, at least one. InvalidArgument, saying what the program takes, for a file that holds anything
  // else.
  static absl::StatusOr<Samples> Open(const ir::Program& p, const std::string& path);

  size_t size() const { return samples_.size(); }
  // One tensor for each input of a run.
  const std::vector<ir::TensorRef>& operator[](size_t i) const { return samples_[i]; }

 private:
  static absl::StatusOr<Samples> Read(const std::map<std::string, ir::TensorRef>& tensors,
                                      const std::vector<const ir::Type*>& types);
  absl::Status Unstack(const std::vector<const ir::TensorRef*>& stacked, const std::vector<const ir::Type*>& types);
  absl::Status Collect(const std::map<size_t, std::vector<std::optional<ir::TensorRef>>>& separate,
                       const std::vector<const ir::Type*>& types);
  static absl::Status Check(const ir::TensorRef& t, const ir::Type& type, size_t sample, size_t input);

  std::vector<std::vector<ir::TensorRef>> samples_;
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_SAMPLES_H_
