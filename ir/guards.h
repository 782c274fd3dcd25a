// What a program says of its inputs' sizes besides ranges: the guards that torch.export kept, as conditions over
// symbols.
#ifndef SLIPWAY_IR_GUARDS_H_
#define SLIPWAY_IR_GUARDS_H_

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace slipway::ir {

struct Guard {
  std::string text;  // for people: "x.size()[0] % 2 == 0"
  // bool-valued; null where it speaks of more than sizes and numbers of inputs, such as strides
  std::optional<Sym> condition;
};

// The guards of `p` that do not hold anyway, given the types of its inputs, in the order of the file. Adds no symbols
// to `p`.
std::vector<Guard> GuardsOf(const Program& p);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_GUARDS_H_
