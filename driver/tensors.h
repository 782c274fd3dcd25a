// Named tensors from wherever they are kept: safetensors files, torch.save checkpoints, folders of shards,
// distributed checkpoints, exported programs. Only headers are read.
#ifndef SLIPWAY_DRIVER_TENSORS_H_
#define SLIPWAY_DRIVER_TENSORS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "importers/safetensors/safetensors.h"
#include "ir/graph.h"

namespace slipway::driver {

// The tensors of one file or folder. `key` names the dict of a nested checkpoint: "model.state_dict"; of a distributed
// one it is the beginning of names, which they lose; other kinds of files ignore it. A folder is read by its .metadata
// (a distributed checkpoint), by its index (*.index.json), or, without either, as all its .safetensors files, which may
// be shards of the same tensors.
//
// Errors as of the importers; InvalidArgument where shards lack tensors of the index, or two hold the same name, and
// for a checkpoint without tensors at `key`, naming the dicts that have some.
// "dlpack:LIBRARY" loads a shared library, running its code (include/slipway/dlpack_producer.h).
absl::StatusOr<importers::TensorSet> ReadShardedTensors(const std::string& path, const std::string& key);

// The same for callers that need each tensor in one piece: Unimplemented where TensorSet::sharded would not be empty.
absl::StatusOr<importers::TensorSet> ReadTensors(const std::string& path, const std::string& key);

// The weights of programs; of several, each name with its program's before it. InvalidArgument where two come out alike.
absl::StatusOr<importers::TensorSet> WeightsOf(absl::Span<const ir::Program* const> programs);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_TENSORS_H_
