// `slipway convert` and `slipway quantize`, and the flags of its table for whichever command takes them.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "driver/convert/convert.h"
#include "driver/quantize/report.h"

namespace slipway::cli {
namespace {

// A flag's help without the marks that docs/cli.md sets it with.
std::string Plain(std::string_view help) {
  std::string out;
  for (char c : help)
    if (c != '`' && c != '*') out += c;
  return out;
}

// The same, with the targets that take the flag.
std::string WithTargets(const driver::ConvertFlag& flag) {
  const std::string targets = driver::FlagTargets(flag);
  return targets.empty() ? Plain(flag.help) : Plain(flag.help) + ". For " + targets;
}

void AddFlag(CLI::App* cmd, driver::ConvertOptions& o, const driver::ConvertFlag& flag, const std::string& help,
             std::string_view as = {}) {
  using Flag = driver::ConvertFlag;
  const std::string name = "--" + std::string(as.empty() ? flag.name : as);
  const auto set = [&o, &flag](const std::string& value) {
    if (absl::Status s = driver::SetConvertFlag(o, flag.name, value); !s.ok())
      throw CLI::ValidationError("--" + std::string(s.message()));
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
        name,
        [set](const std::vector<std::string>& values) {
          for (const std::string& v : values) set(v);
        },
        help);
    if (flag.kind == Flag::kRepeated) option->expected(1)->take_all();
  }
  option->type_name(std::string(flag.value))->default_str(flag.get(o));
}

}  // namespace

void AddFlags(CLI::App* cmd, driver::ConvertOptions& o, std::initializer_list<std::string_view> names) {
  for (const driver::ConvertFlag& flag : driver::kConvertFlags)
    if (std::find(names.begin(), names.end(), flag.name) != names.end()) AddFlag(cmd, o, flag, Plain(flag.help));
}

// What quantize is asked and how, under names of its own where convert's are longer.
void AddQuantize(CLI::App& app, int* code) {
  struct State {
    driver::ConvertOptions options;
    std::string diagnostics = "text";
    bool quiet = false, json = false;
  };
  auto state = std::make_shared<State>();
  driver::ConvertOptions& o = state->options;
  CLI::App* cmd = app.add_subcommand("quantize", "Quantize the weights of a checkpoint or of an exported program");
  cmd->add_option("IN", o.inputs, "weights: .safetensors, checkpoint, folder of shards; or an exported program (.pt2)")
      ->required();
  cmd->add_option("-o,--output", o.output, "where to write; the suffix chooses the format, as for convert")
      ->type_name("OUT")
      ->required();
  static constexpr std::pair<std::string_view, std::string_view> kOwn[] = {
      {"quantize", "config"}, {"quantize-include", "include"}, {"quantize-exclude", "exclude"}};
  static constexpr std::string_view kNot[] = {"include", "exclude", "rename", "dtype", "tp", "tp-rules"};
  for (const driver::ConvertFlag& flag : driver::kConvertFlags) {
    if (std::find(std::begin(kNot), std::end(kNot), flag.name) != std::end(kNot)) continue;
    const auto* own =
        std::find_if(std::begin(kOwn), std::end(kOwn), [&](const auto& p) { return p.first == flag.name; });
    AddFlag(cmd, o, flag, WithTargets(flag), own != std::end(kOwn) ? own->second : "");
  }
  cmd->get_option("--config")->required();
  cmd->add_flag("--json", state->json, "the closing table as one JSON object (schemas/quantize.schema.json)");
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->add_flag("-q,--quiet", state->quiet, "no closing table");
  cmd->callback([state, code] {
    driver::ConvertOptions& o = state->options;
    const bool json = state->diagnostics == "json";
    if (!state->quiet && !json) o.progress = ProgressBar();
    driver::ConvertSummary summary;
    driver::Outcome outcome = driver::Convert(o, &summary);
    if (summary.quantized && (outcome.code == driver::kDone || outcome.code == driver::kNo)) {
      if (!state->quiet && !json) std::fputs(driver::ToTable(*summary.quantized).c_str(), stderr);
      if (state->json) {
        if (absl::Status s = WriteOut(driver::ToJson(*summary.quantized)); !s.ok()) outcome = driver::Fail(s);
      }
    }
    if (outcome.code == driver::kDone && !state->quiet && !json) PrintSummary(o.output, o.dry_run, summary);
    *code = Report(outcome, json);
  });
}

void AddConvert(CLI::App& app, int* code) {
  struct State {
    driver::ConvertOptions options;
    std::string diagnostics = "text";
    bool quiet = false, json = false;
  };
  auto state = std::make_shared<State>();
  driver::ConvertOptions& o = state->options;
  CLI::App* cmd = app.add_subcommand("convert", "Convert a model to the format of OUT's suffix");
  cmd->add_option("IN", o.inputs,
                  "exported program (.pt2, NAME=FILE where there are several), or weights: .safetensors, checkpoint, "
                  "folder of shards, distributed checkpoint")
      ->required();
  cmd->add_option("-o,--output", o.output, "where to write; the suffix chooses the format")
      ->type_name("OUT")
      ->required();
  for (const driver::ConvertFlag& flag : driver::kConvertFlags) AddFlag(cmd, o, flag, WithTargets(flag));
  AddDiagnostics(cmd, &state->diagnostics);
  cmd->add_flag("--json", state->json,
                "the summary as one JSON object on standard output (schemas/convert.schema.json)");
  cmd->add_flag("-q,--quiet", state->quiet, "no summary");
  cmd->callback([state, code] {
    driver::ConvertOptions& o = state->options;
    if (!state->quiet && state->diagnostics == "text") o.progress = ProgressBar();
    driver::ConvertSummary summary;
    driver::Outcome outcome = driver::Convert(o, &summary);
    const bool json = state->diagnostics == "json";
    if (outcome.code == driver::kDone && state->json) {
      if (absl::Status s = PrintJson(o, summary); !s.ok()) outcome = driver::Fail(s);
    } else if (outcome.code == driver::kDone && !state->quiet && !json) {
      PrintSummary(o.output, o.dry_run, summary);
    }
    *code = Report(outcome, json);
  });
}

}  // namespace slipway::cli
