// From a program to a plan that kernels/ runs. The target `native` is the operators that the planner's tables name:
// others are decomposed into them first.
#ifndef SLIPWAY_PLANNER_PLANNER_H_
#define SLIPWAY_PLANNER_PLANNER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/graph.h"
#include "kernels/executor/plan.h"
#include "kernels/gemm/packing.h"
#include "passes/refusals.h"
#include "planner/evaluator.h"

namespace slipway::planner {

// Whether the planner has a row for the node's operator: the legality predicate of the target `native`.
bool NativeLegal(const ir::Node& n);

// Whether it has one that computes a node of 16-bit floats in f32, sums too, and rounds each element of a result once.
bool RoundsOnce(const ir::Node& n);

// A plan with what it refers to. Movable; the constants' memory stays where it is.
struct PlannedProgram {
  kernels::Plan plan;
  // By slot: the program's user inputs that are no Python constants and its outputs that are values.
  struct Signature {
    ir::Type type;
    std::string name;
  };
  std::vector<Signature> inputs, outputs;
  // The weights among the plan's constants, as they lie.
  struct Weight {
    int buffer = 0;
    std::string name;  // FQN
    ir::TensorRef tensor;
    std::optional<kernels::WeightMatrix> packed;  // as which it is to be packed (pack_weights.h)
  };
  std::vector<Weight> weights;
  std::vector<std::string> origins;  // by Step::origin: the operator
  std::vector<std::string> places;   // by Step::origin: where in the model, or ""

  // Copies of whole temporaries into parts of larger tensors, for ConcatInPlace (fuse.h): a step `copy` made from
  // `origin`, of all of the temporary `from`, dense, to the bytes of `to` from `offset` (an expression) on: dense too,
  // or, where `pitch` is not 0, rows of `row` bytes every `pitch` bytes. Those of one origin do not overlap.
  struct Part {
    int from = 0, to = 0, offset = 0, origin = 0;
    int64_t row = 0, pitch = 0;
  };
  std::vector<Part> parts;

  // What keeps the plan's constants alive.
  std::deque<std::array<char, 8>> scalars;
  std::vector<std::shared_ptr<const ir::Storage>> storages;
};

// A node that cannot be planned, and why.
using Refusal = passes::Problem;

// Plans a functional program that is legal for `native`, for all sizes that its symbols allow. The program's symbol
// table may gain symbols. Unimplemented, naming the operator, for what it cannot plan, all such nodes in `refusals`
// (may be null); ResourceExhausted over the limit.
absl::StatusOr<PlannedProgram> MakePlan(const ir::Program& p, const PlanOptions& options = {},
                                        std::vector<Refusal>* refusals = nullptr);

// Legalizes a functional program to `native` and plans it: nodes whose row refuses them are decomposed. Where it is
// Unimplemented, `unsupported` (may be null) gets all that cannot be planned; none where it is no operator's fault.
absl::StatusOr<PlannedProgram> LegalizeAndPlan(ir::Program& p, const PlanOptions& options = {},
                                               std::vector<passes::Unsupported>* unsupported = nullptr);

// The same; what cannot be planned for all sizes is planned for those of these inputs (BindSymbols).
absl::StatusOr<PlannedProgram> PlanFor(ir::Program& p, absl::Span<const ir::TensorRef> inputs,
                                       const PlanOptions& options = {},
                                       std::vector<passes::Unsupported>* unsupported = nullptr);

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_PLANNER_H_
