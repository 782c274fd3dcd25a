// Checkpoints that the ranks of a distributed job wrote, each its shards (torch.distributed.checkpoint): as folders
// with a pickled .metadata beside .distcp files, and as safetensors files that tell the places of their shards.
#ifndef SLIPWAY_IMPORTERS_CHECKPOINT_DISTRIBUTED_H_
#define SLIPWAY_IMPORTERS_CHECKPOINT_DISTRIBUTED_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/tensor_set.h"

namespace slipway::importers {

// The tensors of a folder that holds a `.metadata`, by their flattened names ("model.net.weight"), with their shards by
// reference. Entries that are no tensors are left out, with a note. Only headers are read.
//
// Errors: those of Unpickle() for .metadata and for each shard; InvalidArgument for shards that overlap, leave holes,
// differ from what .metadata says, or lie outside their file, and for files outside the folder; Unimplemented for
// shards that were transformed (compressed); NotFound and the like for files that are missing.
absl::StatusOr<ir::TensorSet> ReadDistributed(const std::string& folder);

// Whether a safetensors file says where its tensors belong in larger ones.
bool HasShardPlaces(const ir::TensorSet& file);

// The tensors that such files hold together; each comes with the path it was read from. Errors: InvalidArgument, as
// above.
absl::StatusOr<ir::TensorSet> JoinShards(std::vector<std::pair<std::string, ir::TensorSet>> files);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_CHECKPOINT_DISTRIBUTED_H_
