// Inputs to calibrate a program with, a sample at a time: tensors of a safetensors file, by reference, or images.
#ifndef SLIPWAY_DRIVER_QUANTIZE_SAMPLES_H_
#define SLIPWAY_DRIVER_QUANTIZE_SAMPLES_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "driver/convert/options.h"
#include "driver/quantize/image_folder.h"
#include "ir/graph.h"

namespace slipway::driver {

class Samples {
 public:
  // Usage errors for options that do not go together.
  static absl::Status CheckOptions(const ConvertOptions& o);
  // Whether the options give any.
  static bool Given(const ConvertOptions& o) { return !o.calibration.empty() || !o.calibration_images.empty(); }

  // The samples that the options give, at least one. InvalidArgument, saying what the program takes, for a file or a
  // folder that holds anything else.
  static absl::StatusOr<Samples> Open(const ir::Program& p, const ConvertOptions& o);

  size_t size() const { return images_ ? images_->size() : samples_.size(); }
  // One tensor for each input of a run. Images are read here; errors are theirs.
  absl::StatusOr<std::vector<ir::TensorRef>> Read(size_t i) const;
  // The sizes of one of these tensors.
  std::vector<int64_t> SizesOf(size_t i, size_t input) const {
    return images_ ? images_->sizes() : samples_[i][input].sizes;
  }

 private:
  static absl::StatusOr<Samples> OpenFile(const std::string& path, const std::vector<const ir::Type*>& types);
  static absl::StatusOr<Samples> Collect(const std::map<std::string, ir::TensorRef>& tensors,
                                         const std::vector<const ir::Type*>& types);
  absl::Status Unstack(const std::vector<const ir::TensorRef*>& stacked, const std::vector<const ir::Type*>& types);
  absl::Status AddSeparate(const std::map<size_t, std::vector<std::optional<ir::TensorRef>>>& separate,
                           const std::vector<const ir::Type*>& types);

  std::vector<std::vector<ir::TensorRef>> samples_;  // of a file
  std::optional<ImageFolder> images_;
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_SAMPLES_H_
