// Named tensors of a torch.save checkpoint, as references.
#ifndef SLIPWAY_IMPORTERS_CHECKPOINT_STATE_DICT_H_
#define SLIPWAY_IMPORTERS_CHECKPOINT_STATE_DICT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "io/byte_source.h"
#include "ir/tensor.h"

namespace slipway::importers {

// The tensors of a torch.save archive whose value is a dict of name -> tensor, in the order written. Tensors of one
// storage share it. Values that are no tensors are left out; a value that is no dict is InvalidArgument.
absl::StatusOr<std::vector<std::pair<std::string, ir::TensorRef>>> ReadTensorDict(io::Bytes archive);

// The tensors inside one pickled tensor subclass (torchao's), by attribute: "qdata", "scale", nested ones joined by dots.
absl::StatusOr<std::vector<std::pair<std::string, ir::TensorRef>>> ReadTensorSubclass(io::Bytes archive);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_CHECKPOINT_STATE_DICT_H_
