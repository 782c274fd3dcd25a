// Somebody who can compute a program's results. Passes that need numbers (constant folding, calibration, accuracy
// checks) are handed one, so that they depend on no executor.
#ifndef SLIPWAY_IR_EVALUATOR_H_
#define SLIPWAY_IR_EVALUATOR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace slipway::ir {

class Evaluator {
 public:
  virtual ~Evaluator() = default;

  // False when Evaluate() is sure to refuse a program with such a node. A quick look at tables.
  virtual bool Supports(const Node& n) const = 0;

  // The values of the outputs of `p`, a functional program all of whose outputs are tensors. `inputs` has one entry per
  // user input that is no Python constant, in order (a symbolic number is a 0-d tensor); their sizes are what symbols
  // stand for. All else comes from p.weights. The program belongs to the evaluator during the call and may
  // come back rewritten. Results are dense tensors that own their memory and alias neither each other nor the inputs.
  //
  // Errors: Unimplemented naming the operator for what it cannot compute (a symbolic size among it); InvalidArgument
  // naming the operator where the data are wrong (an index out of range); ResourceExhausted over its memory limit.
  virtual absl::StatusOr<std::vector<TensorRef>> Evaluate(Program& p, absl::Span<const TensorRef> inputs) = 0;
};

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_EVALUATOR_H_
