// What torch.save writes (a zip with a protocol-2 pickle): dicts of tensors, which archives of torch up to 2.8 keep
// weights in, and the arguments of a call, which archives keep as sample inputs.
#ifndef SLIPWAY_EXPORTERS_PT2_TORCH_SAVE_H_
#define SLIPWAY_EXPORTERS_PT2_TORCH_SAVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "exporters/pt2/payloads.h"
#include "io/zip_writer.h"
#include "ir/tensor.h"

namespace slipway::exporters {

// The archive, laid out: name -> Parameter or Tensor, in that order. Unimplemented for element types that torch's
// pickles have no name for.
absl::StatusOr<io::ZipLayout> TorchSaveDict(const std::vector<NamedTensor>& tensors, const PlacedTensors& placed);

// The same as a file. ResourceExhausted where its tensors take more than `max_output`; errors as
// above, and those of io::AtomicFile.
struct TorchSaveReport {
  uint64_t tensor_bytes = 0, file_bytes = 0;
};
absl::StatusOr<TorchSaveReport> ExportTorchSave(const std::vector<NamedTensor>& tensors, const std::string& path,
                                                uint64_t max_output, bool dry_run);

// The positional arguments of a call, ((a, b, …), {}): tensors, and the element of a 0-d i64 tensor as a Python int
// where `number` says so. The bytes of the file. As above.
struct SampleArgument {
  ir::TensorRef tensor;
  bool number = false;
};
absl::StatusOr<std::string> TorchSaveArguments(const std::vector<SampleArgument>& arguments);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_PT2_TORCH_SAVE_H_
