// Plans as text, for people and tests: one line a step, with the sizes of what it writes.
//
//   plan(x: f32[B, 4]) -> f32[B, 4]
//     t0: f32[B, 4] = matmul(x, c0{1, 4})
//     out0 = chain(t0, x) { ~0 = add(t0, x), out0 = relu(~0) }
//
// Buffers are named after the input, result (out0), constant (c0) or temporary (t0) they are. A view says what its
// buffer's first one
// does not: [sizes], {strides} where it is not dense, +offset in bytes, its dtype where that is another. A kernel's
// name is followed by the dtype it computes in where that is not the dtype of its first result; attributes come last,
// as numbers. Not read back: there is no parser.
#ifndef SLIPWAY_KERNELS_EXECUTOR_PRINT_PLAN_H_
#define SLIPWAY_KERNELS_EXECUTOR_PRINT_PLAN_H_

#include <string>

#include "kernels/executor/plan.h"

namespace slipway::kernels {

// The plan must be valid (Executable::Make).
std::string PrintPlan(const Plan& plan);

// One expression: "((2*B)+1)"; of long ones the beginning, with "…" in place of operands.
std::string PrintExpression(const Plan& plan, int32_t expression);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_EXECUTOR_PRINT_PLAN_H_
