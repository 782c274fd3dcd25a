// A folder of photographs as calibration data: each becomes one sample, read when its turn comes, so that one image is
// in memory at a time.
#ifndef SLIPWAY_DRIVER_QUANTIZE_IMAGE_FOLDER_H_
#define SLIPWAY_DRIVER_QUANTIZE_IMAGE_FOLDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "driver/convert/options.h"
#include "ir/tensor.h"

namespace slipway::driver {

class ImageFolder {
 public:
  // What --calibration-images, --mean, --std, --size and --limit say, of which all but the last are needed: the .png,
  // .jpg and .jpeg files of the folder by name, at least one. Usage errors; InvalidArgument for a folder without
  // images; Unimplemented for images of other formats, which are known by their suffix. Other names are passed over.
  static absl::StatusOr<ImageFolder> Open(const ConvertOptions& o);

  size_t size() const { return paths_.size(); }
  // f32[1, 3, height, width] of every sample.
  std::vector<int64_t> sizes() const { return {1, 3, height_, width_}; }
  // (x / 255 - mean) / std of the image's RGB, in f32 as torchvision's transforms compute it. Errors name the file.
  absl::StatusOr<ir::TensorRef> Read(size_t i) const;

 private:
  absl::Status ParseSize(const std::string& text);
  absl::Status List(const std::string& folder, int limit);

  std::vector<std::string> paths_;
  std::array<float, 3> mean_, std_;
  int64_t shorter_ = 0;  // what the shorter side is resized to before the center is cut out; 0: both sides are resized
  int64_t height_ = 0, width_ = 0;
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_IMAGE_FOLDER_H_
