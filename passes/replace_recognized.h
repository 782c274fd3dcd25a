// The walk of passes that recognize what programs spell out, and make one node of it.
#ifndef SLIPWAY_PASSES_REPLACE_RECOGNIZED_H_
#define SLIPWAY_PASSES_REPLACE_RECOGNIZED_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace slipway::passes {

// Calls `recognize` with each node, those of subgraphs before their owner, and a builder that stands before it. The
// value that it returns takes the place of the node's only result; null leaves the node. Removes what is unused then.
// The builder's error, where it has one.
absl::Status ReplaceRecognized(ir::Program& p, absl::FunctionRef<ir::Value*(ir::Node*, ir::Builder&)> recognize);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_REPLACE_RECOGNIZED_H_
