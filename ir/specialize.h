// Substitution of symbols in a program: by other expressions, or by numbers.
#ifndef SLIPWAY_IR_SPECIALIZE_H_
#define SLIPWAY_IR_SPECIALIZE_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "base/text.h"
#include "ir/graph.h"

namespace slipway::ir {

// Replaces symbols in the types of all values, nested graphs included; nullopt keeps one. The symbol table keeps its
// symbols. Nodes stay as they are: constants among types are what folding works from.
void SubstituteSymbols(Program& p, const std::function<std::optional<Sym>(Sym symbol)>& replace);

// Replaces symbols by numbers. InvalidArgument, naming the symbol, for a number outside its RuntimeRange() and for a
// name that is no symbol's; nothing is replaced then.
absl::Status Specialize(Program& p, const text::Map<int64_t>& values);

// The values that a symbol may have when the program runs. torch notes a least size of 2 for every dynamic dimension:
// it asks for that while exporting (0 and 1 are specialized) and accepts 0 and 1 when the program runs.
SymRange RuntimeRange(SymRange range);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_SPECIALIZE_H_
