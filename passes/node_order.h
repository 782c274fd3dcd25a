// Puts what a rewrite has built into an order that depends on what it computes, not on the compiler: C++ does not say
// in which order the arguments of a call are evaluated, so `d.Sub(d.Mul(a, b), d.Mul(c, e))` makes the two products in
// either order.
#ifndef SLIPWAY_PASSES_NODE_ORDER_H_
#define SLIPWAY_PASSES_NODE_ORDER_H_

#include "ir/graph.h"

namespace slipway::passes {

// Sorts the nodes between `after` and `before` (null: from the first, to the last), all of which ir::Builder made: from
// `results` backwards, what a node reads stands before it in the order of its arguments. Names are given in that order,
// those in the bodies of new loops too. What no result needs is erased.
void OrderNodes(ir::Graph& g, ir::Node* after, ir::Node* before, const ir::Values& results);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_NODE_ORDER_H_
