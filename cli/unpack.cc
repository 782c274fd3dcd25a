// `slipway unpack`.
#include "driver/inspect/unpack.h"

#include <memory>

#include "cli/commands.h"

namespace slipway::cli {

void AddUnpack(CLI::App& app, int* code) {
  struct State {
    driver::UnpackOptions options;
    std::string diagnostics = "text";
    bool quiet = false;
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
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->add_flag("-q,--quiet", state->quiet, "no summary");
  cmd->callback([state, code] {
    driver::UnpackOptions& o = state->options;
    const bool json = state->diagnostics == "json";
    if (!state->quiet && !json) o.convert.progress = ProgressBar();
    driver::ConvertSummary summary;
    const driver::Outcome outcome = driver::Unpack(o, &summary);
    if (outcome.code == driver::kDone && !state->quiet && !json) PrintSummary(o.folder, o.convert.dry_run, summary);
    Report(outcome, json);
    *code = outcome.code;
  });
}

}  // namespace slipway::cli
