// From a program to a plan that kernels/ runs. The target `native` is the operators that the planner's tables name:
// others are decomposed into them first.
#ifndef SLIPWAY_PLANNER_PLANNER_H_
#define SLIPWAY_PLANNER_PLANNER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/graph.h"
#include "kernels/plan.h"
#include "planner/evaluator.h"

namespace slipway::planner {

// Whether the planner has a row for the node's operator: the legality predicate of the target `native`.
bool NativeLegal(const ir::Node& n);

// A plan with what it refers to. Movable; the constants' memory stays where it is.
struct PlannedProgram {
  kernels::Plan plan;
  // Dense tensors in the order of the program's user inputs and of its outputs.
  struct Signature {
    ir::DType dtype;
    std::vector<int64_t> sizes;
  };
  std::vector<Signature> inputs, outputs;
  std::vector<std::string> origins;  // by Step::origin: the operator

  // What keeps the plan's constants alive.
  std::deque<std::array<char, 8>> scalars;
  std::vector<std::shared_ptr<const ir::Storage>> storages;
};

// Plans a functional program that is legal for `native`, with sizes that are numbers. Unimplemented, naming the
// operator, for what it cannot plan; ResourceExhausted over the limit.
absl::StatusOr<PlannedProgram> MakePlan(const ir::Program& p, const PlanOptions& options = {});

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_PLANNER_H_
