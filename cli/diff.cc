// `slipway diff`: whether two checkpoints hold the same.
#include "driver/diff.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/commands.h"

namespace slipway::cli {

void AddDiff(CLI::App& app, int* code) {
  struct State {
    driver::DiffOptions options;
    std::string diagnostics = "text";
    bool json = false;
  };
  auto state = std::make_shared<State>();
  driver::DiffOptions& o = state->options;
  CLI::App* cmd =
      app.add_subcommand("diff", "Compare the tensors of two checkpoints: exit 0 where all are equal, 1 where not");
  cmd->add_option("A", o.a,
                  "weights: .safetensors, checkpoint, folder of shards, distributed checkpoint, exported program")
      ->required();
  cmd->add_option("B", o.b, "the same, of any kind")->required();
  cmd->add_option("--key", o.key, "the dict of a nested checkpoint that holds the tensors, such as model.state_dict");
  cmd->add_option("--tolerance", o.tolerance, "floating-point elements that differ by no more are equal")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  cmd->add_flag("--json", state->json, "one JSON object (schemas/diff.schema.json)");
  cmd->add_option("--diagnostics", state->diagnostics, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  cmd->callback([state, code] {
    const driver::DiffOptions& o = state->options;
    if (!std::isfinite(o.tolerance)) throw CLI::ValidationError("--tolerance", "is not a finite number");
    driver::Outcome outcome;
    if (auto report = driver::Diff(o); !report.ok()) {
      outcome = {driver::ExitCodeOf(report.status()), {driver::FromStatus(report.status())}};
    } else {
      const std::string text = state->json ? driver::ToJson(*report, o) : driver::ToTable(*report, o);
      outcome.code = report->rows.empty() ? driver::kDone : driver::kNo;
      if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        outcome = {driver::kIo, {driver::FromStatus(absl::ErrnoToStatus(errno, "standard output"))}};
    }
    Report(outcome, state->diagnostics == "json");
    *code = outcome.code;
  });
}

}  // namespace slipway::cli
