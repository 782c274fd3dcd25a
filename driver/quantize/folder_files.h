// A checkpoint's folder holds more than weights: tokenizers, generation settings, chat templates. A quantized folder
// that lacks them cannot take its source's place.
#ifndef SLIPWAY_DRIVER_QUANTIZE_FOLDER_FILES_H_
#define SLIPWAY_DRIVER_QUANTIZE_FOLDER_FILES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "io/byte_source.h"

namespace slipway::driver {

// Names, relative to the folder, and contents.
using FolderFiles = std::vector<std::pair<std::string, io::Bytes>>;

// The small files in `folder` that are no weights and that a quantizer does not write itself, by name: regular files of
// at most 100 MB whose names do not begin with a dot, or links to such within the folder or its cache. The files of a
// folder in it, too, where it holds nothing else (1_Pooling/, not onnx/). What is left out for another reason than
// being weights is named in a line of `lines`. Errors of the file system.
absl::StatusOr<FolderFiles> FilesBesideWeights(const std::string& folder, std::vector<std::string>* lines);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_FOLDER_FILES_H_
