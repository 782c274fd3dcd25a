// `slipway verify`: whether two models compute the same.
#include "driver/verify/verify.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "io/atomic_writer.h"
#include "io/io_error.h"

namespace slipway::cli {
namespace {

// An error where it cannot be written, unless there is another.
void WriteJunit(const driver::VerifyReport* report, const driver::VerifyOptions& o, driver::Outcome& outcome) {
  if (o.junit.empty()) return;
  const absl::Status s = io::WriteFile(o.junit, driver::ToJunit(report, outcome));
  if (!s.ok() && outcome.code <= driver::kNo) outcome = driver::Fail(s);
}

}  // namespace

void AddVerify(CLI::App& app, int* code) {
  struct State {
    driver::VerifyOptions options;
    std::string diagnostics = "text", html;
    bool json = false, no_reference = false;
  };
  auto state = std::make_shared<State>();
  driver::VerifyOptions& o = state->options;
  CLI::App* cmd = app.add_subcommand(
      "verify", "Run two models on the same inputs and compare what they give: exit 0 where they agree, 1 where not");
  cmd->add_option("A", o.a,
                  "exported program (.pt2), text form, native library (.so), whose code is run, or ONNX model (.onnx)")
      ->required();
  cmd->add_option("B", o.b, "the same, of any kind; without it the library that convert makes of A");
  CLI::Option* inputs = cmd->add_option("--inputs", o.inputs,
                                        ".safetensors with input.0, input.1, …, as for run; may be repeated. Without "
                                        "it the program's sample inputs, else what --seed makes")
                            ->type_name("FILE")
                            ->expected(1)
                            ->take_all();
  cmd->add_option("--seed", o.seed,
                  "make inputs within the program's types, ranges and relations; another number makes others")
      ->type_name("N")
      ->excludes(inputs);
  cmd->add_flag("--adversarial", o.adversarial,
                "make inputs with edge values: zeros, infinities, NaN, denormals, extremes")
      ->excludes(inputs);
  cmd->add_option("--sweep", o.sweep, "make inputs of N sets of sizes from the ranges, their ends first")
      ->type_name("N")
      ->check(CLI::Range(1, 10000))
      ->excludes(inputs);
  cmd->add_option(
         "--rtol", o.rtol,
         "elements may differ by RTOL · |a| + ATOL, as in torch.testing.assert_close; of floating-point outputs")
      ->type_name("RTOL")
      ->check(CLI::NonNegativeNumber);
  cmd->add_option("--atol", o.atol, "see --rtol; one that is given alone makes the other 0")
      ->type_name("ATOL")
      ->check(CLI::NonNegativeNumber);
  cmd->add_flag("--no-reference", state->no_reference,
                "do not run the program in f64 to say which side is further from it");
  cmd->add_flag("--layers", o.layers, "find the first node whose value differs, and where it comes from");
  cmd->add_option("--html", state->html,
                  "write a page, too: outputs, and of a program how far the values of each node differ "
                  "(docs/pages.md)")
      ->type_name("FILE");
  cmd->add_option("--python", o.python,
                  "the Python with onnxruntime and numpy that runs an .onnx; python3 of PATH if not said")
      ->type_name("FILE");
  cmd->add_option("--emulator", o.emulator,
                  "the qemu-user that runs a library of another machine; by its name in PATH if not said")
      ->type_name("FILE");
  cmd->add_flag("--ort-unoptimized", o.unoptimized,
                "A, an .onnx, is run without onnxruntime's optimizations; it may be B, too");
  cmd->add_option("--timeout", o.timeout, "seconds that onnxruntime may take")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  cmd->add_option("--plugin", o.plugins,
                  "a shared library with kernels of your own (slipway_kernel.h), whose code is run")
      ->type_name("LIBRARY")
      ->expected(1)
      ->take_all();
  cmd->add_option("--threads", o.threads, "threads at once; 0: as for run")
      ->type_name("N")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  cmd->add_option("--junit", o.junit, "a file to write as JUnit XML: a test case an output")->type_name("FILE");
  cmd->add_flag("--json", state->json, "one JSON object (schemas/verify.schema.json)");
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->callback([state, code] {
    driver::VerifyOptions& o = state->options;
    for (const auto& [name, value] : {std::pair("--rtol", o.rtol), std::pair("--atol", o.atol)})
      if (value && !std::isfinite(*value)) throw CLI::ValidationError(name, "is not a finite number");
    o.reference = !state->no_reference;
    o.all_layers = !state->html.empty();
    driver::Outcome outcome;
    auto report = driver::Verify(o);
    const absl::Status page = report.ok() ? driver::WriteVerifyPage(*report, o, state->html) : absl::OkStatus();
    if (!report.ok() || !page.ok()) {
      outcome = driver::Fail(page.ok() ? report.status() : page);
      if (outcome.code != driver::kUsage) WriteJunit(nullptr, o, outcome);
    } else {
      const std::string text = state->json ? driver::ToJson(*report, o) : driver::ToTable(*report, o);
      if (!report->agree)
        outcome = driver::Fail(driver::AnswerIsNo("the two do not compute the same", driver::id::kDiffers));
      WriteJunit(&*report, o, outcome);
      if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        outcome = driver::Fail(io::IoError(errno, "standard output"));
    }
    *code = Report(outcome, state->diagnostics == "json");
  });
}

}  // namespace slipway::cli
