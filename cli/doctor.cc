// `slipway doctor`: versions, processor, Pythons, caches; exit code 1 where there are problems.
#include "driver/doctor/doctor.h"

#include <memory>
#include <string>

#include "base/text.h"
#include "cli/commands.h"

namespace slipway::cli {

void AddDoctor(CLI::App& app, int* code) {
  struct State {
    driver::DoctorOptions options;
    std::string diagnostics = "text";
    bool json = false;
  };
  auto state = std::make_shared<State>();
  CLI::App* cmd = app.add_subcommand("doctor", "Say what of this machine slipway works with, and what is in its way");
  cmd->add_option("--python", state->options.python,
                  "the Python to look at; python3 and python of PATH, as for verify, if not said")
      ->type_name("FILE");
  cmd->add_flag("--json", state->json, "one JSON object (schemas/doctor.schema.json)");
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->callback([state, code] {
    state->options.self = Self();
    const driver::DoctorReport report = driver::Doctor(state->options);
    driver::Outcome outcome;
    if (absl::Status s = WriteOut(state->json ? driver::ToJson(report) : driver::ToTable(report)); !s.ok())
      outcome = driver::Fail(s);
    else if (const size_t n = report.problems.size(); n > 0)
      outcome = driver::Fail(driver::AnswerIsNo(
          text::StrCat("doctor found ", n, n == 1 ? " problem" : " problems", ": ", report.problems[0].cause),
          driver::id::kUnfit));
    *code = Report(outcome, state->diagnostics == "json");
  });
}

}  // namespace slipway::cli
