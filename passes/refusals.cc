// Refusals are grouped by operator and reason, sorted by both, each with its count and the first place.
#include "passes/refusals.h"

#include <map>

#include "base/text.h"

namespace slipway::passes {
namespace {

// The innermost frame, `File "PATH", line N`, as PATH:N; "" where the trace has none.
std::string LineOf(std::string_view stack_trace) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  const size_t at = stack_trace.rfind(kFile);
  if (at == stack_trace.npos) return "";
  const std::string_view frame = stack_trace.substr(at + kFile.size());
  const size_t end = frame.find(kLine);
  if (end == frame.npos) return "";
  const std::string_view number = frame.substr(end + kLine.size());
  return text::StrCat(frame.substr(0, end), ":", number.substr(0, number.find_first_not_of("0123456789")));
}

}  // namespace

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
    if (!p.node || !p.node->source()) continue;
    u.first_place = p.node->source()->Describe();
    u.first_line = LineOf(p.node->source()->stack_trace);
  }
  std::vector<Unsupported> out;
  for (auto& [key, u] : by) out.push_back(std::move(u));
  return out;
}

}  // namespace slipway::passes
