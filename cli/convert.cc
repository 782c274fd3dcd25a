// `slipway convert`, and the flags of its table for whichever command takes them.
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "driver/convert.h"

namespace slipway::cli {
namespace {

// A flag's help without the marks that docs/cli.md sets it with.
std::string Plain(std::string_view help) {
  std::string out;
  for (char c : help)
    if (c != '`' && c != '*') out += c;
  return out;
}

void AddFlag(CLI::App* cmd, driver::ConvertOptions& o, const driver::ConvertFlag& flag, const std::string& help) {
  using Flag = driver::ConvertFlag;
  const std::string name = "--" + std::string(flag.name);
  const auto set = [&o, &flag](const std::string& value) {
    if (absl::Status s = driver::SetConvertFlag(o, flag.name, value); !s.ok()) throw CLI::ValidationError("--" + std::string(s.message()));
  };
  if (flag.kind == Flag::kSwitch) {
    cmd->add_flag_callback(name, [set] { set("true"); }, help);
    return;
  }
  CLI::Option* option;
  if (flag.kind == Flag::kOne) {
    option = cmd->add_option_function<std::string>(name, set, help);
  } else {
    option = cmd->add_option_function<std::vector<std::string>>(
        name, [set](const std::vector<std::string>& values) { for (const std::string& v : values) set(v); }, help);
    if (flag.kind == Flag::kRepeated) option->expected(1)->take_all();
  }
  option->type_name(std::string(flag.value))->default_str(flag.get(o));
}

}  // namespace

void AddFlags(CLI::App* cmd, driver::ConvertOptions& o, std::initializer_list<std::string_view> names) {
  for (const driver::ConvertFlag& flag : driver::kConvertFlags)
    if (std::find(names.begin(), names.end(), flag.name) != names.end()) AddFlag(cmd, o, flag, Plain(flag.help));
}

void AddConvert(CLI::App& app, int* code) {
  struct State {
    driver::ConvertOptions options;
    std::string diagnostics = "text";
    bool quiet = false;
  };
  auto state = std::make_shared<State>();
  driver::ConvertOptions& o = state->options;
  CLI::App* cmd = app.add_subcommand("convert", "Convert a model to the format of OUT's suffix");
  cmd->add_option("IN", o.inputs, "exported program (.pt2, NAME=FILE where there are several), or weights: .safetensors, checkpoint, folder of shards, distributed checkpoint")
      ->required();
  cmd->add_option("-o,--output", o.output, "where to write; the suffix chooses the format")->required();
  for (const driver::ConvertFlag& flag : driver::kConvertFlags) {
    const std::string targets = driver::FlagTargets(flag);
    AddFlag(cmd, o, flag, targets.empty() ? Plain(flag.help) : targets + ": " + Plain(flag.help));
  }
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->add_flag("-q,--quiet", state->quiet, "no summary");
  cmd->callback([state, code] {
    driver::ConvertOptions& o = state->options;
    if (!state->quiet && state->diagnostics == "text") o.progress = ProgressBar();
    driver::ConvertSummary summary;
    driver::Outcome outcome = driver::Convert(o, &summary);
    const bool json = state->diagnostics == "json";
    if (outcome.code == driver::kDone && !state->quiet && !json) PrintSummary(o.output, o.dry_run, summary);
    Report(outcome, json);
    *code = outcome.code;
  });
}

}  // namespace slipway::cli
