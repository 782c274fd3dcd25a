// `slipway explain`: what a diagnostic means, and what to do.
#include <cstdio>
#include <memory>
#include <string>

#include "base/text.h"
#include "cli/commands.h"
#include "driver/edge/explanations.h"

namespace slipway::cli {
namespace {

// All ids with the first sentence of each.
std::string List() {
  std::string out;
  for (const driver::Explanation& e : driver::Explanations())
    text::StrAppend(
        &out, e.id, "  ",
        e.means.substr(0, e.means.find(". ") == std::string_view::npos ? e.means.size() : e.means.find(". ") + 1),
        "\n");
  return out;
}

// One of them, or all.
std::string Json(const driver::Explanation* one) {
  return driver::ExplanationsJson(one ? absl::MakeConstSpan(one, 1) : driver::Explanations());
}

}  // namespace

void AddExplain(CLI::App& app, int* code) {
  struct State {
    std::string id, diagnostics = "text";
    bool json = false;
  };
  auto state = std::make_shared<State>();
  CLI::App* cmd = app.add_subcommand("explain", "Say what a diagnostic means, and what to do about it");
  cmd->add_option("ID", state->id, "the id that a message has in brackets, such as SW1010; without it all are listed");
  cmd->add_flag("--json", state->json, "one JSON object (schemas/explain.schema.json)");
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->callback([state, code] {
    driver::Outcome outcome;
    const auto found = driver::FindExplanation(state->id);
    if (!state->id.empty() && !found.ok())
      outcome = driver::Fail(found.status());
    else if (absl::Status s = WriteOut(state->json         ? Json(state->id.empty() ? nullptr : *found)
                                       : state->id.empty() ? List()
                                                           : driver::ToText(**found));
             !s.ok())
      outcome = driver::Fail(s);
    *code = Report(outcome, state->diagnostics == "json");
  });
}

}  // namespace slipway::cli
