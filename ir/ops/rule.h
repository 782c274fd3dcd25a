// Running the rules of the tables (shape functions, decompositions, lowerings, plans). A rule is left at its first
// error: what could not be read, or built, is never touched. The exception that does this is thrown by ArgReader and by
// Builder and caught here; it leaves no function but rules.
#ifndef SLIPWAY_IR_OPS_RULE_H_
#define SLIPWAY_IR_OPS_RULE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "ir/graph.h"

namespace slipway::ir {

// Calls a rule for `n`. The error that it was left with; ok where it came to its end, which does not say that its
// context holds no error. Rules may run others inside.
absl::Status RunRule(const Node& n, absl::FunctionRef<void()> rule);

// Leaves the innermost rule that runs on this thread, if there is one.
void LeaveRule(const absl::Status& error);
// The same where that is a rule for `n`: readers of other nodes only look what there is.
void LeaveRuleFor(const Node& n, const absl::Status& error);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_RULE_H_
