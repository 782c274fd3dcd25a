// Sources of weights that may be quantized (weights/quantized/), opened as plain tensors: with what the files beside
// them say, and errors that tell what to do.
#ifndef SLIPWAY_DRIVER_EDGE_QUANTIZED_INPUT_H_
#define SLIPWAY_DRIVER_EDGE_QUANTIZED_INPUT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/mapped_file.h"
#include "ir/dtype.h"
#include "ir/tensor_set.h"
#include "weights/quantized/quantized.h"

namespace slipway::driver {

// Whether the files beside the source at `path`, a file or a folder, say that its weights are quantized.
absl::StatusOr<bool> SaysQuantized(const std::string& path);

// The quantized weights among the tensors of the source at `path`; nullopt where none are. Errors as of
// weights::quantized::Find(), with their help.
absl::StatusOr<std::optional<weights::quantized::Checkpoint>> FindQuantized(const std::string& path,
                                                                            const ir::TensorSet& set);

// Makes quantized weights among the tensors of the source at `path` plain ones, of dtype `to`; kUnknown: the model's
// own. Those whose parts are all wanted as they are, by name, stay; `wanted` may be empty. Lines for people go to
// `lines`. The bytes that the weights come to; 0 where none were quantized.
absl::StatusOr<uint64_t> DequantizeTensors(const std::string& path, ir::DType to,
                                           const std::function<bool(const std::string&)>& wanted, ir::TensorSet* set,
                                           std::vector<std::string>* lines);

// config.json beside the source at `path`. Errors as of MappedFile::Open.
absl::StatusOr<std::shared_ptr<io::MappedFile>> OpenConfigBeside(const std::string& path);
// The text of that beside the first of the sources that has one; "" where none has.
std::string ConfigBeside(const std::vector<std::string>& paths);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_QUANTIZED_INPUT_H_
