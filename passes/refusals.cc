// Refusals are grouped by operator and reason, sorted by both, each with its count and the first place.
#include "passes/refusals.h"

#include <map>

#include "base/text.h"

namespace slipway::passes {

bool IsOfTraining(const Unsupported& u) {
  return text::Contains(u.reason, "training mode") || text::Contains(u.reason, "dropout inside attention");
}

std::vector<Unsupported> Group(absl::Span<const Problem> problems) {
  std::map<std::pair<std::string, std::string>, Unsupported> by;
  for (const Problem& p : problems) {
    std::string op(p.node ? p.node->op_name() : ""), reason(p.status.message());
    Unsupported& u = by[{op, reason}];
    if (u.count++ > 0) continue;
    u.op = op;
    u.reason = reason;
    if (p.node && p.node->source()) u.first_place = p.node->source()->Describe();
  }
  std::vector<Unsupported> out;
  for (auto& [key, u] : by) out.push_back(std::move(u));
  return out;
}

}  // namespace slipway::passes
