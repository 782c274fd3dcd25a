// Named tensors of a torch.save checkpoint, as references.
#ifndef SLIPWAY_IMPORTERS_CHECKPOINT_STATE_DICT_H_
#define SLIPWAY_IMPORTERS_CHECKPOINT_STATE_DICT_H_

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "io/byte_source.h"
#include "ir/tensor.h"

namespace slipway::importers {

// Each takes a file of torch.save, in its zip form or the one before 1.6 (torch_legacy.h).

// The tensors of a file whose value is a dict of name -> tensor, in the order written. Tensors of one
// storage share it. Values that are no tensors are left out, and tensors without values (of the device meta, of
// FakeTensorMode); a value that is no dict is InvalidArgument.
absl::StatusOr<std::vector<std::pair<std::string, ir::TensorRef>>> ReadTensorDict(io::Bytes archive);

// What a checkpoint holds, whatever else is pickled with it (UnpickleOptions::records).
struct CheckpointTensors {
  std::vector<std::pair<std::string, ir::TensorRef>> tensors;  // names are unique in what ReadCheckpoint() gives
  // tensors that are not read, each with what it is: "a sparse tensor"
  std::vector<std::pair<std::string, std::string>> unreadable;
  std::string note;  // what was passed over, for people; may be empty
};

// The tensors of a checkpoint that may be nested: those of the value that `key` leads to ("model.state_dict"; "." is
// the outermost), by name; values within it are left out. The value is a dict, a list or tuple (names "0", "1", …), a
// pickled torch.nn.Module (the names of its state_dict()) or another object (its attributes). Without a key it is the
// outermost where no other holds tensors; else the only one of the usual names of a model's weights (state_dict, model,
// …), which the note says. A tensor subclass is given as its parts, `name.attribute`; a DTensor that is whole as
// itself. NumPy's arrays count as tensors; they do not make a dict one of tensors while another has some.
// InvalidArgument where there is no such value or it holds no tensors, naming those that do.
absl::StatusOr<CheckpointTensors> ReadCheckpoint(io::Bytes archive, std::string_view key);

// All tensors of a checkpoint, wherever they lie in containers and objects; names are paths:
// "optimizer.state.0.exp_avg".
absl::StatusOr<CheckpointTensors> ListCheckpoint(io::Bytes archive);

// A leaf of nested containers: a tensor, a number, or (monostate) None and all else.
using PickleLeaf = std::variant<std::monostate, ir::TensorRef, int64_t, double, bool>;
// The leaves of a file's value in the order that torch flattens lists, tuples and dicts in: sample inputs.
absl::StatusOr<std::vector<PickleLeaf>> ReadLeaves(io::Bytes archive);

// Whether a pickle of anything holds only what this project knows to be harmless: OK, or why not.
absl::Status CheckPickle(io::Bytes archive);

// The tensors inside one pickled tensor subclass (torchao's), by attribute: "qdata", "scale", nested ones joined by
// dots.
absl::StatusOr<std::vector<std::pair<std::string, ir::TensorRef>>> ReadTensorSubclass(io::Bytes archive);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_CHECKPOINT_STATE_DICT_H_
