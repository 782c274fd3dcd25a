// Reads safetensors files and sharded folders (huggingface/safetensors format 0.x: 8-byte little-endian header length,
// JSON header, data) as references: nothing but the header is read.
#ifndef SLIPWAY_IMPORTERS_SAFETENSORS_SAFETENSORS_H_
#define SLIPWAY_IMPORTERS_SAFETENSORS_SAFETENSORS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/mapped_file.h"
#include "ir/tensor_set.h"

namespace slipway::importers {

// Whether a file begins as the format does: a length, and that many bytes of a JSON object within the file.
bool LooksLikeSafetensors(absl::Span<const uint8_t> file);

// Errors: InvalidArgument, with the tensor's name, for a header that is too long (over 100 MB), not JSON, or whose
// offsets leave holes, overlap, run past the end or disagree with shape and dtype; Unimplemented for unknown dtypes.
// What is read begins at byte `start` and fills the rest of the file.
absl::StatusOr<ir::TensorSet> ReadSafetensors(const std::shared_ptr<io::MappedFile>& file, uint64_t start = 0);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_SAFETENSORS_SAFETENSORS_H_
