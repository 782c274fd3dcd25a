// A planned program with the memory of a run: tensors of ir/ in and out.
#ifndef SLIPWAY_PLANNER_RUNNER_H_
#define SLIPWAY_PLANNER_RUNNER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/tensor.h"
#include "kernels/executor/execute.h"
#include "planner/planner.h"

namespace slipway::planner {

class Runner {
 public:
  explicit Runner(PlannedProgram planned, const PlanOptions& options = {}, bool profile = false, int threads = 1);

  // One entry per input of the plan. InvalidArgument naming the input or the operator, ResourceExhausted over the
  // limit.
  absl::StatusOr<std::vector<ir::TensorRef>> Run(absl::Span<const ir::TensorRef> inputs);

  const PlannedProgram& planned() const { return planned_; }
  const kernels::Plan& plan() const { return executable_->plan(); }
  // Of the last run: how long each step took, where profiled; bytes of temporaries alone, and of these and what kernels
  // took.
  std::span<const int64_t> profile() const { return context_->profile(); }
  std::span<const kernels::Work> work() const { return context_->work(); }
  std::string ShapesOf(int32_t step) const { return context_->ShapesOf(step); }
  uint64_t tensor_memory() const { return context_->tensor_memory(); }
  uint64_t memory() const { return context_->memory() + context_->unplanned_memory(); }
  double seconds() const { return seconds_; }  // of the last run: sizes, memory and steps

 private:
  PlannedProgram planned_;  // without its plan
  PlanOptions options_;
  std::string malformed_;
  double seconds_ = 0;
  std::shared_ptr<const kernels::Executable> executable_;
  std::unique_ptr<kernels::ThreadPool> pool_;
  std::unique_ptr<kernels::Context> context_;
};

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_RUNNER_H_
