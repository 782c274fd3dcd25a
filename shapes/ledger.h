// The dim ledger: what became of each dimension of a program's inputs, and which node decided it.
#ifndef SLIPWAY_SHAPES_LEDGER_H_
#define SLIPWAY_SHAPES_LEDGER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace slipway::shapes {

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
};

struct Ledger {
  std::vector<DimFact> dims;       // by input, then axis
  std::vector<std::string> notes;  // numbers taken for sizes by evidence, one line each
};

}  // namespace slipway::shapes

#endif  // SLIPWAY_SHAPES_LEDGER_H_
