// Operators that write into an argument, and those that compute what they write.
#ifndef SLIPWAY_IR_OPS_FUNCTIONAL_H_
#define SLIPWAY_IR_OPS_FUNCTIONAL_H_

#include "ir/ops/op_table.h"

namespace slipway::ir {

// The operator that computes what an in-place or out= operator writes; null when torch has none.
const OpDef* FunctionalOf(const OpDef& op);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_FUNCTIONAL_H_
