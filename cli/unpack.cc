// `slipway unpack`.
#include "driver/inspect/unpack.h"

#include <memory>

#include "cli/commands.h"

namespace slipway::cli {

void AddUnpack(CLI::App& app, int* code) {
  struct State {
    driver::UnpackOptions options;
    std::string diagnostics = "text";
    bool quiet = false, json = false;
  };
  auto state = std::make_shared<State>();
  driver::UnpackOptions& o = state->options;
  CLI::App* cmd = app.add_subcommand("unpack", "Write each program of a PT2 archive to an archive of its own");
  cmd->add_option("IN", o.input, "a PT2 archive")->required();
  cmd->add_option("-o,--output", o.folder, "the folder that NAME.pt2 goes to")->type_name("DIR")->required();
  cmd->add_option("--program", o.programs, "only the program of this name; may be repeated")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  AddFlags(cmd, o.convert, {"torch", "check-crc", "max-output", "dry-run"});
  cmd->add_flag("--json", state->json, "one JSON object (schemas/unpack.schema.json)");
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->add_flag("-q,--quiet", state->quiet, "no summary");
  cmd->callback([state, code] {
    driver::UnpackOptions& o = state->options;
    const bool json = state->diagnostics == "json";
    if (!state->quiet && !json) o.convert.progress = ProgressBar();
    driver::UnpackReport report;
    driver::Outcome outcome = driver::Unpack(o, &report);
    if (outcome.code == driver::kDone && state->json) {
      if (absl::Status s = WriteOut(driver::ToJson(o, report)); !s.ok()) outcome = driver::Fail(s);
    } else if (outcome.code == driver::kDone && !state->quiet && !json) {
      report.summary.lines.insert(report.summary.lines.end(), report.files.begin(), report.files.end());
      PrintSummary(o.folder, o.convert.dry_run, report.summary);
    }
    *code = Report(outcome, json);
  });
}

}  // namespace slipway::cli
