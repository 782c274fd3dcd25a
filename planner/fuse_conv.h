// Convolutions with what follows them.
#ifndef SLIPWAY_PLANNER_FUSE_CONV_H_
#define SLIPWAY_PLANNER_FUSE_CONV_H_

#include "planner/planner.h"

namespace slipway::planner {

// A convolution of f32 whose result one step alone reads takes that step over, and the one after it: a batch norm, then
// the addition of a tensor of the same sizes, then a function (relu, clamps by numbers, silu, hardswish, hardsigmoid).
// Results differ from those of the steps by rounding where there is a batch norm, which becomes one multiplication and
// addition. Weights stay as they are. Origins are those of the steps, joined.
void FuseConvs(PlannedProgram& p);

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_FUSE_CONV_H_
