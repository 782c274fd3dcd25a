// What an export computed while it was traced, or with a count for which torch takes no symbolic size, as nodes whose
// numbers may become sizes: the windows, ramps and tensors of numbers of several exports of one model are then solved
// as all other numbers are.
#ifndef SLIPWAY_DYNAMIC_SHAPES_RECOMPUTE_H_
#define SLIPWAY_DYNAMIC_SHAPES_RECOMPUTE_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/graph.h"

namespace slipway::dynamic_shapes {

// Programs of one model, node by node. Where a count differs among them (the steps of linspace, the length of a
// window), the node becomes others, in all of them; so does a constant that the trace lifted and whose few elements
// differ. Unimplemented, with the node or the constant, where there are none. Programs that do not have the same nodes
// are left as they are from there on: aligning them says so.
absl::Status RecomputeDiffering(absl::Span<ir::Program* const> programs);

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_RECOMPUTE_H_
