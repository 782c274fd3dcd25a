// Operands of higher-order nodes, which take lists where others take single values.
#ifndef SLIPWAY_IR_OPS_OPERANDS_H_
#define SLIPWAY_IR_OPS_OPERANDS_H_

#include <vector>

#include "ir/graph.h"

namespace slipway::ir {

// A list's members in order, laid flat; another argument alone; nothing of None.
std::vector<Arg> FlatOperands(const Arg& a);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_OPERANDS_H_
