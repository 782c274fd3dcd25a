// `slipway minify`.
#include "driver/minify/minify.h"

#include <unistd.h>

#include <cstdio>
#include <memory>

#include "cli/commands.h"

namespace slipway::cli {
namespace {

std::string Line(const driver::MinifyProgress& p) {
  char line[200];
  std::snprintf(line, sizeof line, "probe %d · %d → %d node%s · %d input%s", p.probes, p.nodes_before, p.nodes,
                p.nodes == 1 ? "" : "s", p.inputs, p.inputs == 1 ? "" : "s");
  return line;
}

}  // namespace

void AddMinify(CLI::App& app, int* code) {
  struct State {
    driver::MinifyOptions options;
    std::string diagnostics = "text";
    int fail_code = -1;
    bool quiet = false, json = false;
  };
  auto state = std::make_shared<State>();
  driver::MinifyOptions& o = state->options;
  CLI::App* cmd = app.add_subcommand("minify", "Find the smallest program that still fails a check");
  cmd->add_option("IN", o.input, "exported program (.pt2), text form, or ONNX model (.onnx)")->required();
  cmd->add_option("-o,--output", o.folder, "the folder for the result; the same command goes on with what is in it")
      ->type_name("DIR")
      ->required();
  cmd->add_option("--check", o.check,
                  "a command that exits 0 where all is well, {} in it being the candidate as .pt2 (of an ONNX model: "
                  ".onnx), {ir} as text, {onnx} as ONNX, {inputs} its inputs; "
                  "or one of slipway's own: convert:onnx[@OPSET], convert:so, run, accuracy:onnx, accuracy:so, "
                  "accuracy:OTHER.pt2, diagnostic:ID[@TARGET]; of an ONNX model run, accuracy:ort-unoptimized, "
                  "accuracy:OTHER.onnx")
      ->type_name("CHECK")
      ->required();
  CLI::Option* fail_code =
      cmd->add_option("--fail-code", state->fail_code, "only this exit code of the command is the failure")
          ->type_name("N")
          ->check(CLI::Range(1, 255));
  cmd->add_option("--fail-regex", o.fail_regex, "only output of the command that matches is the failure (RE2)")
      ->type_name("RE");
  cmd->add_option(
         "--inputs", o.inputs,
         ".safetensors with input.0, input.1, …, as for run; the archive's samples, else made-up numbers, if not said")
      ->type_name("FILE");
  cmd->add_option(
         "--python", o.python,
         "for accuracy:onnx and ONNX models: the Python with onnxruntime and numpy; python3 of PATH if not said")
      ->type_name("FILE");
  cmd->add_option("--html", o.html, "write a page, too: the steps of the reduction and what is left (docs/pages.md)")
      ->type_name("FILE");
  cmd->add_option("--timeout", o.timeout, "seconds that a check may take; 0: any")
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  cmd->add_option("--memory", o.memory, "bytes that each process of a check may have; 0: any")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("8GiB");
  cmd->add_option("-j,--jobs", o.jobs, "checks at once; the result is the same")
      ->type_name("N")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  cmd->add_option("--max-time", o.max_time, "seconds, after which the best so far is the result")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  cmd->add_option("--max-probes", o.max_probes, "checks, after which the best so far is the result")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));
  cmd->add_flag("--json", state->json, "one JSON object (schemas/minify.schema.json)");
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->add_flag("-q,--quiet", state->quiet, "no progress, no summary");
  cmd->callback([state, code, fail_code] {
    driver::MinifyOptions& o = state->options;
    while (o.folder.size() > 1 && o.folder.back() == '/') o.folder.pop_back();
    if (fail_code->count() > 0) o.fail_code = state->fail_code;
    o.slipway = Self();
    const bool json = state->diagnostics == "json", terminal = isatty(2) && !state->quiet && !json;
    if (terminal)
      o.progress = [](const driver::MinifyProgress& p) {
        std::fprintf(stderr, "\r%s\033[K", Line(p).c_str());
        std::fflush(stderr);
      };
    driver::MinifyReport report;
    driver::Outcome outcome = driver::Minify(o, &report);
    if (terminal) std::fputs("\r\033[K", stderr);
    if (outcome.code == driver::kDone && state->json) {
      if (absl::Status s = WriteOut(driver::ToJson(o, report)); !s.ok()) outcome = driver::Fail(s);
    } else if (outcome.code == driver::kDone && !state->quiet && !json) {
      for (const std::string& note : report.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
      std::fprintf(stderr, "%s: %s, %d asked now%s, fails with %s\n", o.folder.c_str(), Line(report.reached).c_str(),
                   report.asked, report.stopped ? ", stopped by a limit" : "", report.failure.c_str());
    }
    *code = Report(outcome, json);
  });
}

}  // namespace slipway::cli
