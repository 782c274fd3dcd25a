// Symbols become numbers: what a plan, whose sizes are numbers, is made after.
#ifndef SLIPWAY_PLANNER_BIND_H_
#define SLIPWAY_PLANNER_BIND_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace slipway::planner {

// Gives the symbols of `p` the values that these user inputs state by their sizes (and, where an input is a symbolic
// number, by their value), and puts them into every type. InvalidArgument naming the input whose dtype, rank or sizes
// are not those that the program takes, or a symbol that is outside its range.
absl::Status BindSymbols(ir::Program& p, absl::Span<const ir::TensorRef> inputs);

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_BIND_H_
