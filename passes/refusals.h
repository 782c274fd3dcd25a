// What legalization leaves behind for those who report it: exporters need this and no pass.
#ifndef SLIPWAY_PASSES_REFUSALS_H_
#define SLIPWAY_PASSES_REFUSALS_H_

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "ir/graph.h"

namespace slipway::passes {

// Why decompositions were not taken, by the node that stays. For look-ups only: the order says nothing.
using Refusals = absl::flat_hash_map<const ir::Node*, absl::Status>;

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_REFUSALS_H_
