// The call of a step before there is memory: what kernels are asked about with it, which loop they would take or
// whether a result may lie where an operand does.
#ifndef SLIPWAY_KERNELS_EXECUTOR_STEP_CALL_H_
#define SLIPWAY_KERNELS_EXECUTOR_STEP_CALL_H_

#include <cstdint>
#include <vector>

#include "kernels/executor/plan.h"

namespace slipway::kernels {

// Refers to itself: stays where it is.
struct StepCall {
  static constexpr int64_t kMaxElements = int64_t{1} << 40;

  StepCall() = default;
  StepCall(const StepCall&) = delete;
  StepCall& operator=(const StepCall&) = delete;

  // With these values of the plan's expressions; the tensors of `call` get sizes and no memory. False where a value is
  // not known, or a tensor has no elements or more than memory has.
  bool Bind(const Plan& plan, const Step& step, const std::vector<Scalar>& values);

  std::vector<Tensor> tensors;
  std::vector<int64_t> ints;
  std::vector<double> reals;
  Call call;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_EXECUTOR_STEP_CALL_H_
