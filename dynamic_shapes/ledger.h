// The dim ledger: what became of each dimension of a program's inputs, and which node decided it.
#ifndef SLIPWAY_DYNAMIC_SHAPES_LEDGER_H_
#define SLIPWAY_DYNAMIC_SHAPES_LEDGER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace slipway::dynamic_shapes {

// One dimension of a user input.
struct DimFact {
  enum Kind : uint8_t {
    kFree,     // a symbol of its own
    kRelated,  // an expression of other dimensions, or another's symbol
    kStatic,   // a number
  };
  std::string input;  // its name
  int axis = 0;
  Kind kind = kStatic;
  ir::Sym size = 0;      // the symbol, the expression or the number
  ir::SymRange range;    // that the size may have when the program runs; of kStatic the number
  int64_t example = -1;  // the size the program was exported with; -1 where it is not known
  bool asked = false;    // that it be dynamic
  // What decided: "aten.add.Tensor (model.py:7): 8 and 12 differ". Empty where nothing limits the dimension.
  std::string cause;
  std::string help;  // what would keep it dynamic
  // What the nodes need, where that was found out: the size over dimensions called INPUT.AXIS, and its range.
  std::string needs;
  ir::SymRange needs_range;
};

// The cause of a dimension that is a number because the caller wants it so.
inline constexpr char kPinned[] = "pinned as asked";

struct Ledger {
  std::vector<DimFact> dims;  // by input, then axis
  // What sizes must meet besides, each with the node that needs it: the program fails where they do not.
  std::vector<std::pair<std::string, std::string>> conditions;
  std::vector<std::string> notes;  // numbers taken for sizes by evidence, one line each
};

// The ledger of a program as it is. Its dimensions are those that it states; why they are static, related or bounded is
// found out on a copy at the sizes of its example, with every dimension free (generalize_dims.h). What the copy knows
// better than the program, a dimension that no node needs to be static, a smaller range, is in `cause` and `help`.
// Without `explain`, only what the program states.
Ledger LedgerOf(const ir::Program& p, bool explain = true);
// Kinds, sizes and ranges as the program has them now, in a ledger that was made before its symbols were changed; the
// rest stays. A dimension that has become a number since was pinned as asked.
void Restate(const ir::Program& p, Ledger* ledger);

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_LEDGER_H_
