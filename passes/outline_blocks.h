// Repeated blocks of a model, such as a transformer's layers, as calls of one body.
#ifndef SLIPWAY_PASSES_OUTLINE_BLOCKS_H_
#define SLIPWAY_PASSES_OUTLINE_BLOCKS_H_

#include "absl/status/status.h"
#include "ir/graph.h"

namespace slipway::passes {

// Modules (by the nodes' module paths) whose nodes follow each other and compute the same on values of the same types become
// higher_order.invoke_subgraph of a shared body, outermost modules first. Weights become operands. Nothing else changes.
// Functional form.
absl::Status OutlineBlocks(ir::Program& p);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_OUTLINE_BLOCKS_H_
