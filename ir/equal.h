// Whether two programs are the same: structure, names, types, weights and everything else that the text form keeps.
#ifndef SLIPWAY_IR_EQUAL_H_
#define SLIPWAY_IR_EQUAL_H_

#include <string>

#include "ir/graph.h"

namespace slipway::ir {

// True when nothing differs; else `*why` (may be null) names the first difference. Weights are equal when they refer to
// the same bytes of the same file or to equal bytes in memory, and share storages alike. Ranges and expressions of
// symbols are compared by structure.
bool Equal(const Program& a, const Program& b, std::string* why = nullptr);
bool Equal(const Archive& a, const Archive& b, std::string* why = nullptr);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_EQUAL_H_
