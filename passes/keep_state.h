// State that a target keeps between runs, in place of an input that the caller gives and a longer output that it gives
// back: a decoder's past keys and values.
#ifndef SLIPWAY_PASSES_KEEP_STATE_H_
#define SLIPWAY_PASSES_KEEP_STATE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/graph.h"

namespace slipway::passes {

// The outputs that are results of the call, not updates of state: indices among all.
std::vector<size_t> UserOutputs(const ir::Program& p);

// An operator whose result is its argument `self` with some elements, or some behind them, from `written`: how programs
// update their caches.
struct StateUpdate {
  std::string_view op, self, written;
};
// Null for others. With accumulate=True elements are sums.
const StateUpdate* FindStateUpdate(const ir::Node& n);

// An input that grows along `dim`, to the size `after` in a run. Its other sizes are numbers.
struct GrowingState {
  std::string input, output;  // names
  size_t output_index = 0;    // of the output among those of the signature before
  int dim = 0;
  ir::Sym after;
};

// The pairs that KeepState() is about to take, from the same arguments, with the same errors.
absl::StatusOr<std::vector<std::pair<std::string, size_t>>> FindStates(
    const ir::Program& p, absl::Span<const std::pair<std::string, size_t>> pairs);

// Finds outputs that are an input with something behind it along one dim: cat([input, …], dim), or tensors stacked of
// such cats of the input's parts. The cats become slipway.append, which writes behind the input where it lies, and the
// outputs leave the signature:
//
//   slipway.append(past, tensors, dim) = cat([past, *tensors], dim), in memory that has `past`, a part of a state,
//   already
//
// `pairs` are names of inputs and indices of outputs; all that there are where it is empty. The program is in the
// functional form. Of a
// pair that is asked for: NotFound where there is no such input or output, or another pair has it, Unimplemented,
// saying why, where the output is something else. Nothing changes then.
absl::StatusOr<std::vector<GrowingState>> KeepState(ir::Program& p,
                                                    absl::Span<const std::pair<std::string, size_t>> pairs);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_KEEP_STATE_H_
