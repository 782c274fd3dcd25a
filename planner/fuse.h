// What makes fewer steps of a finished plan. The numbers that it gives stay the same, bit by bit, unless a function
// here says otherwise.
#ifndef SLIPWAY_PLANNER_FUSE_H_
#define SLIPWAY_PLANNER_FUSE_H_

#include "planner/planner.h"

namespace slipway::planner {

// A convolution of f32 whose result one step alone reads takes that step over, and the one after it: a batch norm, then
// the addition of a tensor of the same sizes, then a function (relu, clamps by numbers, silu, hardswish, hardsigmoid).
// Results differ from those of the steps by rounding where there is a batch norm, which becomes one multiplication and
// addition. Weights stay as they are. Origins are those of the steps, joined.
void FuseConvs(PlannedProgram& p);

// Depthwise convolutions of f32 become one step with pointwise ones beside them where an image between is large: it is
// never whole in memory. Numbers stay the same. Origins are those of the steps, joined.
void FuseDepthwiseBlocks(PlannedProgram& p);

// Elementwise steps of the same sizes of which one reads what another gives become one step of kernel `chain`; what
// only they use needs no memory then. Origins are those of the steps, joined.
void FuseChains(PlannedProgram& p);

// What begins as a copy of a tensor that nothing reads any more is made in that tensor's memory: a state that a step
// updates in part is written there and nowhere else. So is one that a step makes anew. Numbers stay the same.
void InplaceUpdates(PlannedProgram& p);

// Temporaries that are copied into a larger tensor are computed there where nothing tells the difference, and the
// copies are left out. Parts of parts come first. Numbers stay the same.
void ConcatInPlace(PlannedProgram& p);

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_FUSE_H_
