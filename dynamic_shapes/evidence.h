// What tells whether a number of a program was a size when the program was traced: the source line that its node keeps,
// and what the number is computed with.
#ifndef SLIPWAY_DYNAMIC_SHAPES_EVIDENCE_H_
#define SLIPWAY_DYNAMIC_SHAPES_EVIDENCE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace slipway::dynamic_shapes {

// What the source line of a node says of a number among its arguments; of floats without `number` it never says
// kWritten.
enum class Evidence : uint8_t {
  kWritten,   // the line has the number itself, which is then no size
  kUnlikely,  // it has no name that the number may be of but attributes of the module
  kPossible,  // it has a name of a size, or begins a call whose arguments are on the next lines
  kUnseen,  // it has more names than tensors, or calls a function of the program's own, whose lines files do not have;
            // or there is no line
  kLikely,  // it asks a tensor for its size
};
Evidence EvidenceOf(const ir::Node& n, std::optional<int64_t> number);
// Whether the file says where the node comes from.
bool HasLine(const ir::Node& n);

// Whether programs make such a number of a size k, or of two: one less, the double, the root, the product … Not the
// size itself.
bool IsDerivedFrom(double v, double k);
bool IsDerivedFrom(double v, double k, double m);

// A number that a tensor is computed with and that may be a dimension, or made of one.
struct AmbiguousScalar {
  const ir::Node* node;
  ir::Sym symbol;
  std::string number;
};
// Of all nodes, and of constants that the trace lifted out of the program. `symbols` are the dimensions that are free,
// `leading` tells those that are the first of their inputs; `value` gives the example's sizes. Looked at are operands,
// fills, and what no symbolic size may stand for (ir/ops/op_numbers.h). Doubtful is a number that is a size; where the
// line asks for a size, or there is no line, also what is made of one or two (one less, the double, the root, the
// product …) unless a fixed size near by makes it or the number is met everywhere (1, 2, 0.5). Where a line only may
// name a size, what tensors of floats are divided by or multiplied with besides is doubtful only where a dimension of
// that size was reduced a few nodes before.
void FindAmbiguousScalars(const ir::Program& p, const std::vector<ir::Sym>& symbols,
                          const std::function<bool(ir::Sym)>& leading,
                          const std::function<std::optional<int64_t>(ir::Sym)>& value,
                          std::vector<AmbiguousScalar>* ambiguous);

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_EVIDENCE_H_
