// What tells whether a number of a program was a size when the program was traced: the source line that its node keeps, and
// what the number is computed with.
#ifndef SLIPWAY_SHAPES_EVIDENCE_H_
#define SLIPWAY_SHAPES_EVIDENCE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace slipway::shapes {

// Whether the source line of a node has the number itself, which is then no size.
bool IsWrittenOut(const ir::Node& n, int64_t number);

// A number that a tensor is computed with and that may be a dimension, or made of one.
struct ScalarDoubt {
  const ir::Node* node;
  ir::Sym symbol;
  std::string number;
};
// Of all nodes, and of constants that the trace lifted out of the program. `symbols` are the dimensions that are free, `leading`
// tells those that are the first of their inputs; `value` gives the example's sizes. Doubtful are
//   - what tensors of floats are divided by, where a dimension of that size was reduced a few nodes before, or is still there and no
//     leading one; the inverse as a factor, and the roots of both, only where one was reduced and no fixed size explains them;
//   - what tensors of integers are computed with, filled with or compared with: indices and positions are made of sizes.
void FindScalarDoubts(const ir::Program& p, const std::vector<ir::Sym>& symbols, const std::function<bool(ir::Sym)>& leading,
                      const std::function<std::optional<int64_t>(ir::Sym)>& value, std::vector<ScalarDoubt>* doubts);

}  // namespace slipway::shapes

#endif  // SLIPWAY_SHAPES_EVIDENCE_H_
