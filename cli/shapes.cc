// `slipway shapes`: which dimensions of a program's inputs are dynamic, and why the others are not.
#include "driver/inspect/shapes.h"

#include <cerrno>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "io/io_error.h"

namespace slipway::cli {

void AddShapes(CLI::App& app, int* code) {
  struct State {
    driver::ConvertOptions options;
    std::string diagnostics = "text";
    bool json = false;
  };
  auto state = std::make_shared<State>();
  driver::ConvertOptions& o = state->options;
  o.inputs.resize(1);
  CLI::App* cmd = app.add_subcommand(
      "shapes", "Show which dimensions of the inputs are dynamic and which node made the others static");
  cmd->add_option("FILE", o.inputs[0], "exported program (.pt2) or its text form")->required();
  AddFlags(cmd, o, {"dynamic", "unify", "dim-names", "require-dynamic", "to", "verify-each"});
  cmd->add_option("-o,--output", o.output,
                  "writes the program as the flags make it, to the format of OUT's suffix, as convert does")
      ->type_name("OUT");
  cmd->add_flag("--json", state->json, "one JSON object (schemas/shapes.schema.json)");
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->callback([state, code] {
    const driver::ConvertOptions& o = state->options;
    driver::Outcome outcome;
    auto report = driver::Shapes(o);
    if (!report.ok()) {
      outcome = driver::Fail(report.status(), o.inputs[0]);
    } else {
      const std::string text = state->json ? driver::ToJson(*report) : driver::ToTable(*report);
      if (!o.output.empty()) {
        driver::ConvertSummary summary;
        outcome = driver::Convert(o, &summary);
        if (outcome.code == driver::kDone) PrintSummary(o.output, o.dry_run, summary);
      }
      if (outcome.code == driver::kDone &&
          (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0))
        outcome = driver::Fail(io::IoError(errno, "standard output"));
    }
    *code = Report(outcome, state->diagnostics == "json");
  });
}

}  // namespace slipway::cli
