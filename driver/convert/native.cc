// A program as a native library, or as torch's package of one.
#include <algorithm>

#include "base/machine.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/caches.h"
#include "driver/convert/missing_weights.h"
#include "driver/convert/state.h"
#include "driver/edge/plugins.h"
#include "driver/edge/processor.h"
#include "driver/edge/target.h"
#include "exporters/native/native.h"
#include "exporters/native/template.h"
#include "io/mapped_file.h"
#include "passes/keep_state.h"
#include "planner/pack_weights.h"
#include "planner/planner.h"

namespace slipway::driver {
namespace {

// The program as it was before the passes, for --with-program.
absl::StatusOr<ir::Archive> Original(Conversion& c) {
  ConvertSummary again;
  auto archive = ReadPrograms(c.options, c.reader, *FindTarget("native-pt2"), again);
  if (!archive.ok()) return archive;
  DropUnsafeSampleInputs(*archive->programs[0], c.summary);
  archive->programs[0]->name = "model";  // what torch.export.load asks for
  return archive;
}

// What the library keeps between runs, with lines of the summary; the plan is told in `options`.
absl::Status KeepState(Conversion& c, planner::PlanOptions* options) {
  const std::string& state = c.options.state;
  if (state == "drop") return absl::OkStatus();
  if (state == "io") return UsageError("--state io is for ONNX", "--state auto keeps state in the library");
  ASSIGN_OR_RETURN(const auto pairs, StatePairs(c));
  const std::vector<size_t> before = passes::UserOutputs(c.program());
  auto growing = passes::KeepState(c.program(), pairs);
  if (absl::IsNotFound(growing.status()))
    return UsageError(text::StrCat("--state: ", text::FromAbsl(growing.status().message())));
  if (!growing.ok())
    return WithHelp(
        growing.status(),
        "an input is kept where the output is cat([input, …], dim), or tensors stacked of such cats of its parts; "
        "its other sizes have to be numbers");
  for (passes::GrowingState& g : *growing) {  // by the name that people know
    const auto at = static_cast<size_t>(std::find(before.begin(), before.end(), g.output_index) - before.begin());
    if (at < c.output_names.size() && before.size() == c.output_names.size()) g.output = c.output_names[at];
  }
  // Inputs of the caller's that are written to, but for those that are kept.
  std::vector<ir::Arg> outputs;
  std::vector<ir::OutputSpec> specs;
  int buffers = 0;
  ir::Program& p = c.program();
  for (size_t i = 0; i < p.graph->outputs.size() && i < p.output_specs.size(); ++i) {
    const ir::OutputSpec& s = p.output_specs[i];
    const bool kept = std::any_of(growing->begin(), growing->end(), [&](const auto& g) { return g.input == s.target; });
    if (s.kind == ir::OutputSpec::kUserInputMutation && !kept) {
      c.context.dropped.push_back(s.target);
      continue;
    }
    if (s.updates_weight()) {
      c.summary.lines.push_back(text::StrCat("state: '", s.target, "' is kept and updated by the library"));
      ++buffers;
    }
    outputs.push_back(std::move(p.graph->outputs[i]));
    specs.push_back(s);
  }
  p.graph->outputs = std::move(outputs);
  p.output_specs = std::move(specs);
  if (buffers == 0 && growing->empty())
    return WithHelp(absl::UnimplementedError(
                        "no state: the program updates no buffer, and no output is an input with something behind it"),
                    "--state INPUT=OUTPUT says of one pair why not");
  for (const passes::GrowingState& g : *growing)
    c.summary.lines.push_back(text::StrCat("state: input '", g.input, "' and output '", g.output,
                                           "' are kept by the library; dim ", g.dim, " grows to ", g.after.ToString(),
                                           " in a run"));
  options->keep_state = true;
  options->growing = *std::move(growing);
  return absl::OkStatus();
}

const Machine& MachineOf(const ConvertOptions& o) {
  const Machine* machine = FindMachine(o.target);
  return machine != nullptr ? *machine : kThisMachine;
}

// Whether libraries for the machine that is asked for can be made, before anything is read.
absl::Status CheckMachine(const ConvertOptions& o) {
  const Machine& machine = MachineOf(o);
  if (&machine == &kThisMachine) return absl::OkStatus();
  const std::string target = text::StrCat("--target ", machine.name);
  if (!o.plugins.empty())
    return WithHelp(absl::UnimplementedError(text::StrCat(target, " with --plugin: plugins are code of this machine, ",
                                                          kThisMachine.name, ", which is run to ask for its kernels")),
                    "convert on such a machine, with a plugin that was built for it");
  if (o.to == "native-pt2")
    return WithHelp(absl::UnimplementedError(text::StrCat(
                        target, " with --to native-pt2: the package was tried with torch of this machine alone")),
                    "-o NAME.so makes a library, which slipway_model.h calls");
  if (!exporters::HasTemplate(machine))
    return WithHelp(absl::UnimplementedError(text::StrCat(target, ": this slipway, for ", kThisMachine.name,
                                                          ", does not carry the runtime of such libraries")),
                    text::StrCat(HowToAdd("SLIPWAY_AARCH64=ON"),
                                 " adds that of aarch64-linux to one that was built on x86-64, where "
                                 "aarch64-linux-gnu-g++ is installed (Debian: g++-aarch64-linux-gnu)"));
  return absl::OkStatus();
}

absl::Status Write(Conversion& c, bool package) {
  const ConvertOptions& o = c.options;
  auto plugins = Plugins::Open(o.plugins);
  if (!plugins.ok()) return plugins.status();
  planner::PlanOptions plan_options{.exact_casts = o.exact_casts, .verify_each = o.verify_each};
  if (!o.plugins.empty()) plan_options.plugins = [&](std::string_view name) { return plugins->Find(name); };
  RETURN_IF_ERROR(KeepState(c, &plan_options));
  if (!o.cache_dtype.empty() && !plan_options.keep_state)
    return UsageError("--cache-dtype without --state", "--state auto keeps caches in the library");
  RETURN_IF_ERROR(QuantizeCaches(c, &plan_options.growing));
  std::vector<passes::Unsupported> unsupported;
  auto planned = planner::LegalizeAndPlan(c.program(), plan_options, &unsupported);
  if (!planned.ok())
    return OrMissingWeights(
        c.program(), WeightsWithoutValues(c.program()),
        unsupported.empty() ? planned.status() : UnsupportedError(unsupported, kByKernels, kHowKernels), kGiveWeights);
  planner::ChooseWeightsToPack(*planned);

  exporters::NativeOptions options;
  absl::StatusOr<ir::Archive> original = ir::Archive();
  if (o.with_program) {
    original = Original(c);
    if (!original.ok()) return original.status();
    options.with_program = &*original;
  }
  options.machine = &MachineOf(o);
  options.package = package;
  options.metadata = c.Metadata();
  for (const passes::GrowingState& g : plan_options.growing)
    options.metadata.emplace_back(text::StrCat("slipway.state.", g.input), g.output);
  options.progress = o.progress;
  options.max_output = c.max_output;
  for (const std::string& plugin : o.plugins) {
    auto file = io::MappedFile::Open(plugin);
    if (!file.ok()) return WithPlace(file.status(), plugin);
    options.plugins.emplace_back(plugin.substr(plugin.rfind('/') + 1), io::Bytes::Of(*std::move(file)));
  }
  auto report = exporters::ExportNative(c.program(), *planned, o.output, options, o.dry_run);
  if (!report.ok()) return report.status();
  if (options.machine == &kThisMachine)
    if (std::string only = KernelsOfLibraries(); !only.empty()) c.summary.lines.push_back(std::move(only));
  c.summary.nodes_after = report->steps;
  c.summary.weight_bytes = report->weight_bytes;
  c.summary.bytes_written = report->file_bytes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::pair<std::string, size_t>>> StatePairs(const Conversion& c) {
  const std::string& given = c.options.state;
  std::vector<std::pair<std::string, size_t>> pairs;
  if (given == "auto") return pairs;
  const std::vector<size_t> outputs = passes::UserOutputs(*c.archive.programs[0]);
  for (std::string_view part : text::Split(given, ',')) {
    const size_t at = part.find('=');
    if (at == std::string_view::npos || at == 0 || at + 1 == part.size())
      return UsageError(text::StrCat("--state '", given, "' is not drop, auto or INPUT=OUTPUT,…"),
                        "`slipway inspect` shows the names of inputs and outputs");
    const std::string_view name = part.substr(at + 1);
    const auto it = std::find(c.output_names.begin(), c.output_names.end(), name);
    if (it == c.output_names.end() || c.output_names.size() != outputs.size())
      return UsageError(
          text::StrCat("--state: no output is named '", name, "': there are ", text::Join(c.output_names, ", ")));
    pairs.emplace_back(part.substr(0, at), outputs[static_cast<size_t>(it - c.output_names.begin())]);
  }
  return pairs;
}

absl::StatusOr<Legality> NativeLegality(const ConvertOptions& o) {
  RETURN_IF_ERROR(CheckMachine(o));
  return Legality(planner::NativeLegal);
}

absl::Status WriteLibrary(Conversion& c) { return Write(c, /*package=*/false); }

absl::Status WritePackage(Conversion& c) { return Write(c, /*package=*/true); }

}  // namespace slipway::driver
