// The evaluator: computes programs. Passes that need numbers (constant folding, calibration, accuracy checks) are
// handed one, so that they depend on no executor.
#ifndef SLIPWAY_IR_EVALUATOR_H_
#define SLIPWAY_IR_EVALUATOR_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace slipway::ir {

// A program made ready to run any number of times. One run at a time.
class PreparedProgram {
 public:
  virtual ~PreparedProgram() = default;

  // The values of the outputs, then of the observed values. `inputs` has one entry per user input that is no Python
  // constant, in order (a symbolic number is a 0-d tensor); their sizes are what symbols stand for, and may differ from
  // run to run. Results are dense tensors that own their memory and alias neither each other nor the inputs.
  //
  // Errors: Unimplemented naming the operator for what cannot be computed at these sizes; InvalidArgument naming the
  // input or operator where the data are wrong (an index out of range); ResourceExhausted over the memory limit.
  virtual absl::StatusOr<std::vector<TensorRef>> Run(absl::Span<const TensorRef> inputs) = 0;
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;

  // False when Prepare() is sure to refuse a program with such a node. A quick look at tables.
  virtual bool Supports(const Node& n) const = 0;

  // Takes a functional program, all of whose outputs are tensors or symbolic numbers. `observe` names values of its
  // root graph that Run() gives besides the outputs. Weights come from p->weights and are read where they lie.
  //
  // Errors: Unimplemented naming the operator for what cannot be computed; NotFound for a name that is no value's.
  virtual absl::StatusOr<std::unique_ptr<PreparedProgram>> Prepare(std::unique_ptr<Program> p,
                                                                   absl::Span<const std::string> observe = {}) = 0;

  // Prepare() and one Run().
  absl::StatusOr<std::vector<TensorRef>> Evaluate(std::unique_ptr<Program> p, absl::Span<const TensorRef> inputs) {
    auto prepared = Prepare(std::move(p));
    if (!prepared.ok()) return prepared.status();
    return (*prepared)->Run(inputs);
  }
};

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_EVALUATOR_H_
