// `slipway diff`: whether two checkpoints or ONNX models hold the same.
#include "driver/inspect/diff.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "io/io_error.h"

namespace slipway::cli {

void AddDiff(CLI::App& app, int* code) {
  struct State {
    weights::DiffOptions options;
    std::string key, diagnostics = "text", html;
    bool json = false;
  };
  auto state = std::make_shared<State>();
  weights::DiffOptions& o = state->options;
  CLI::App* cmd = app.add_subcommand(
      "diff", "Compare the tensors of two checkpoints, or two ONNX models: exit 0 where all are equal, 1 where not");
  cmd->add_option(
         "A", o.a,
         "weights: .safetensors, checkpoint, folder of shards, distributed checkpoint, exported program, ONNX model")
      ->required();
  cmd->add_option("B", o.b, "the same, of any kind")->required();
  cmd->add_option("--key", state->key,
                  "the dict of a nested checkpoint that holds the tensors, such as model.state_dict")
      ->type_name("PATH");
  cmd->add_option("--tolerance", o.tolerance, "floating-point elements that differ by no more are equal")
      ->type_name("NUMBER")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  cmd->add_flag("--by-value", o.by_value,
                "tensors of f64, f32, f16 and bf16 may be of different types: equal where the wider one, rounded to "
                "the narrower, is");
  cmd->add_option("--html", state->html, "write a page, too: what differs, where and by how much (docs/pages.md)")
      ->type_name("FILE");
  cmd->add_flag("--json", state->json, "one JSON object (schemas/diff.schema.json)");
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->callback([state, code] {
    const weights::DiffOptions& o = state->options;
    if (!std::isfinite(o.tolerance)) throw CLI::ValidationError("--tolerance", "is not a finite number");
    driver::Outcome outcome;
    const auto report = driver::DiffFiles(o, state->key);
    const absl::Status page = report.ok() ? driver::WriteDiffPage(*report, o, state->html) : absl::OkStatus();
    if (!report.ok() || !page.ok()) {
      outcome = driver::Fail(page.ok() ? report.status() : page);
    } else {
      const std::string text = state->json ? driver::ToJson(*report, o) : driver::ToTable(*report, o);
      outcome.code = report->equal() ? driver::kDone : driver::kNo;
      if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        outcome = driver::Fail(io::IoError(errno, "standard output"));
    }
    *code = Report(outcome, state->diagnostics == "json");
  });
}

}  // namespace slipway::cli
