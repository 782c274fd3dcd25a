// Reads safetensors files and sharded folders (huggingface/safetensors format 0.x: 8-byte little-endian header length,
// JSON header, data) as references: nothing but the header is read.
#ifndef SLIPWAY_IMPORTERS_SAFETENSORS_SAFETENSORS_H_
#define SLIPWAY_IMPORTERS_SAFETENSORS_SAFETENSORS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/mapped_file.h"
#include "ir/sharded.h"
#include "ir/tensor.h"

namespace slipway::importers {

struct TensorSet {
  std::map<std::string, ir::TensorRef> tensors;
  std::map<std::string, ir::ShardedTensor> sharded;  // those that lie in several pieces; other names than `tensors`
  std::map<std::string, std::string> metadata;
  std::vector<std::string> notes;  // what was left out, for people
};

// Errors: InvalidArgument, with the tensor's name, for a header that is too long (over 100 MB), not JSON, or whose
// offsets leave holes, overlap, run past the end or disagree with shape and dtype; Unimplemented for unknown dtypes.
absl::StatusOr<TensorSet> ReadSafetensors(const std::shared_ptr<io::MappedFile>& file);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_SAFETENSORS_SAFETENSORS_H_
