// Dicts of tensors as torch.save writes them (a zip with a protocol-2 pickle): how archives of torch up to 2.8 keep
// weights.
#ifndef SLIPWAY_EXPORTERS_PT2_TORCH_SAVE_H_
#define SLIPWAY_EXPORTERS_PT2_TORCH_SAVE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "exporters/pt2/payloads.h"
#include "io/zip_writer.h"

namespace slipway::exporters {

// The archive, laid out: name -> Parameter or Tensor, in that order. Unimplemented for element types that torch's
// pickles have no name for.
absl::StatusOr<io::ZipLayout> TorchSaveDict(const std::vector<NamedTensor>& tensors, const PlacedTensors& placed);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_PT2_TORCH_SAVE_H_
