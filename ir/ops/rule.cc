// The node whose rule runs is noted for each thread, so that readers outside of rules (passes that recognise patterns)
// keep the first error and go on instead.
#include "ir/ops/rule.h"

#include <utility>

namespace slipway::ir {
namespace {

struct Left {
  absl::Status error;
};

thread_local const Node* running = nullptr;

}  // namespace

absl::Status RunRule(const Node& n, absl::FunctionRef<void()> rule) {
  const Node* outer = std::exchange(running, &n);
  absl::Status error;
  try {
    rule();
  } catch (const Left& left) {
    error = left.error;
  }
  running = outer;
  return error;
}

void LeaveRule(const absl::Status& error) {
  if (running) throw Left{error};
}
void LeaveRuleFor(const Node& n, const absl::Status& error) {
  if (running == &n) throw Left{error};
}

}  // namespace slipway::ir
