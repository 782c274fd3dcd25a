// Which convolutions compute with channels last in memory: [n, c, h, w] with strides of [n, h, w, c].
#ifndef SLIPWAY_PLANNER_CHOOSE_LAYOUTS_H_
#define SLIPWAY_PLANNER_CHOOSE_LAYOUTS_H_

#include "absl/container/flat_hash_set.h"
#include "ir/graph.h"

namespace slipway::planner {

// Adds the nodes of this graph, without those of graphs nested in it, whose results are to lie so. Layouts are strides
// of views, which
// every kernel takes: a choice changes how long a program takes, and sums by their rounding, and nothing else.
void ChooseLayouts(const ir::Graph& g, absl::flat_hash_set<const ir::Node*>* last);

// Whether the node surrounds a tensor by a constant: constant_pad_nd, or pad in that mode.
bool PadsByConstant(const ir::Node& n);

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_CHOOSE_LAYOUTS_H_
