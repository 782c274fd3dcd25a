// `slipway run`: a program on given inputs.
#include "driver/run/run.h"

#include <cerrno>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "io/io_error.h"

namespace slipway::cli {

void AddRun(CLI::App& app, int* code) {
  struct State {
    driver::RunOptions options;
    bool json = false;
    std::string diagnostics = "text";
  };
  auto state = std::make_shared<State>();
  CLI::App* cmd = app.add_subcommand("run", "Run a program, a native library or an ONNX model on inputs from a file");
  cmd->add_option("MODEL", state->options.model,
                  "exported program (.pt2), text form, native library (.so), or ONNX model (.onnx)")
      ->required();
  cmd->add_option("--inputs", state->options.inputs,
                  ".safetensors with input.0, input.1, …: the flattened arguments, tensors and symbolic numbers only")
      ->type_name("FILE")
      ->required();
  cmd->add_option("--outputs", state->options.outputs, ".safetensors to write, with output.0, output.1, …")
      ->type_name("FILE")
      ->required();
  cmd->add_option("--decode", state->options.decode,
                  "inputs of one token: a library with state runs --inputs, the prompt, and then these --repeat times")
      ->type_name("FILE");
  cmd->add_option("--plugin", state->options.plugins,
                  "a shared library with kernels of your own (slipway_kernel.h), whose code is run")
      ->type_name("LIBRARY")
      ->expected(1)
      ->take_all();
  cmd->add_option("--repeat", state->options.repeat, "runs; outputs are those of the last")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  cmd->add_option("--threads", state->options.threads,
                  "threads at once; 0: SLIPWAY_NUM_THREADS, OMP_NUM_THREADS or one a processor")
      ->type_name("N")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  cmd->add_flag("--onnxruntime", state->options.onnxruntime, "run an .onnx by onnxruntime, not by slipway's kernels");
  cmd->add_option("--python", state->options.python,
                  "the same in this Python, which has onnxruntime and numpy; python3 of PATH if not said")
      ->type_name("FILE");
  cmd->add_option("--emulator", state->options.emulator,
                  "the qemu-user that runs a library of another machine; by its name in PATH if not said")
      ->type_name("FILE");
  CLI::Option* profile = cmd->add_flag("--profile", state->options.profile, "time by operator");
  cmd->add_option("--html", state->options.html,
                  "with --profile: write a page, too: time by module and by step, and what bounds the steps "
                  "(docs/pages.md)")
      ->type_name("FILE")
      ->needs(profile);
  cmd->add_flag("--json", state->json, "timings as one JSON object (schemas/run.schema.json)");
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->callback([state, code] {
    driver::Outcome outcome;
    auto report = driver::Run(state->options);
    const absl::Status page = report.ok() ? driver::WriteRunPage(*report, state->options) : absl::OkStatus();
    if (!report.ok() || !page.ok()) {
      outcome = page.ok() ? driver::Fail(report.status(), state->options.model) : driver::Fail(page);
    } else if (state->json || state->options.profile || state->options.repeat > 1 || !state->options.decode.empty()) {
      const std::string text = state->json ? driver::ToJson(*report) : driver::ToTable(*report);
      if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        outcome = driver::Fail(io::IoError(errno, "standard output"));
    }
    *code = Report(outcome, state->diagnostics == "json");
  });
}

}  // namespace slipway::cli
