// Convert's pipeline: open, join weights, run the passes the target needs, export.
#include "driver/convert.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <set>

#include "base/text.h"
#include "driver/convert_internal.h"
#include "driver/open.h"
#include "exporters/onnx/export.h"
#include "io/mapped_file.h"
#include "ir/verify.h"
#include "passes/outline_blocks.h"
#include "passes/pass.h"
#include "planner/evaluator.h"

namespace slipway::driver {
namespace {

using exporters::OnnxOptions;
using exporters::OnnxReport;

// Programs exported elsewhere convert as for cpu; the summary says so.
void NoteDevices(const ir::Program& p, ConvertSummary& summary) {
  std::set<std::string> devices;
  for (const ir::Value* v : p.graph->inputs())
    if (v->type().is_tensor() && v->type().device) devices.insert(v->type().device->type);
  devices.erase("cpu");
  for (const std::string& d : devices) summary.lines.push_back(text::StrCat("exported on ", d, ", converted as for cpu"));
}

// Runs the passes in order; with `verify` the program is checked after each. `dropped` receives
// the names of updated state that the target does not carry.
absl::Status RunPasses(ir::Program& p, const OnnxOptions& options, const ConvertOptions& o, passes::Refusals* refusals,
                       std::vector<std::string>* dropped) {
  auto legal = [&options](const ir::Node& n) { return exporters::OnnxLegal(n, options); };
  planner::PlanEvaluator evaluator({.memory_limit = uint64_t{1} << 26});
  auto fold = [&](ir::Program& program) { return passes::FoldConstants(program, evaluator); };
  const struct {
    const char* name;
    std::function<absl::Status(ir::Program&)> run;
  } passes[] = {
      {"infer-shapes", passes::InferShapes},
      {"unwrap-subclasses", passes::UnwrapSubclasses},
      {"inline-subgraphs", passes::InlineSubgraphs},
      {"remove-vmap", passes::RemoveVmap},
      {"functionalize", passes::Functionalize},
      {"drop-mutations", [&](ir::Program& program) {
         if (!options.state_io) *dropped = passes::DropMutations(program);
         return absl::OkStatus();
       }},
      {"remove-no-ops", passes::RemoveNoOps},
      {"eliminate-dead-code", passes::EliminateDeadCode},
      {"merge-common-subexpressions", passes::MergeCommonSubexpressions},
      {"fold-constants", fold},
      {"lower-complex", passes::LowerComplex},
      {"legalize", [&](ir::Program& program) { return passes::Legalize(program, legal, refusals); }},
      {"remove-no-ops", passes::RemoveNoOps},
      {"eliminate-dead-code", passes::EliminateDeadCode},
      {"merge-common-subexpressions", passes::MergeCommonSubexpressions},
      {"fold-constants", fold},
      {"outline-blocks", [&](ir::Program& program) { return o.functions ? passes::OutlineBlocks(program) : absl::OkStatus(); }},
  };
  for (const auto& pass : passes) {
    if (absl::Status s = pass.run(p); !s.ok()) return s;
    if (absl::Status s = o.verify_each ? ir::Verify(p) : absl::OkStatus(); !s.ok())
      return absl::InternalError(text::StrCat("after ", pass.name, ": ", text::FromAbsl(s.message())));
  }
  return absl::OkStatus();
}

Outcome ToOnnx(const ConvertOptions& o, ConvertSummary* summary) {
  Outcome out;
  if (o.inputs.size() != 1) return Usage("ONNX takes one program");
  const std::string& path = o.inputs[0];
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return Fail(out, file.status(), path);
  auto archive = OpenArchive(*file);
  if (!archive.ok()) return Fail(out, archive.status(), path);
  if (archive->programs.size() != 1) {
    std::vector<std::string> names;
    for (const auto& p : archive->programs) names.push_back(p->name);
    return Fail(out, absl::UnimplementedError(text::StrCat("an archive of ", names.size(), " programs (", text::Join(names, ", "), ")")), path);
  }
  ir::Program& p = *archive->programs[0];
  summary->nodes_before = static_cast<int>(p.graph->node_count());
  NoteDevices(p, *summary);
  if (!o.weights.empty())
    if (absl::Status s = JoinWeights(p, o, *summary); !s.ok()) return FailWeights(out, s, path);
  if (o.opset < exporters::kMinOpset || o.opset > exporters::kMaxOpset)
    return Fail(out, absl::UnimplementedError(text::StrCat("opset ", o.opset, " (supported: ", exporters::kMinOpset, " … ",
                                                           exporters::kMaxOpset, ")")));
  passes::Refusals refusals;
  OnnxOptions options;
  options.refusals = &refusals;
  options.opset = o.opset;
  options.strict_types = o.strict_types;
  options.state_io = o.state_io;
  options.input_names = o.input_names;
  options.output_names = o.output_names;
  options.progress = o.progress;
  for (const std::string& spec : o.custom_ops)
    if (absl::Status s = exporters::AddCustomOp(spec, &options.custom_ops); !s.ok())
      return Usage(text::StrCat("--custom-op: ", text::FromAbsl(s.message())));
  if (absl::Status s = exporters::CheckNames(p, options); !s.ok()) return Usage(std::string(s.message()));
  std::vector<std::string> dropped;
  if (absl::Status s = RunPasses(p, options, o, &refusals, &dropped); !s.ok()) return Fail(out, s, path);

  options.external_data = o.external_data == "always" ? exporters::ExternalData::kAlways
                          : o.external_data == "never" ? exporters::ExternalData::kNever : exporters::ExternalData::kAuto;
  options.metadata = o.metadata;
  options.metadata.emplace_back("slipway.version", SLIPWAY_VERSION);
  options.metadata.emplace_back("slipway.source", archive->producer);
  options.metadata.emplace_back("slipway.source_digest", SourceDigest(*file));
  OnnxReport failure;
  auto report = exporters::ExportOnnx(p, o.output, options, o.dry_run, &failure);
  if (!report.ok()) {
    for (const exporters::Unsupported& u : failure.unsupported) {
      out.diagnostics.push_back({Severity::kError, id::kUnsupportedOps,
                                 text::StrCat(u.count > 1 ? text::StrCat(u.count, " × ") : "", u.reason), u.first_place, ""});
    }
    out = Fail(out, report.status(), failure.unsupported.empty() ? path : "");
    if (!failure.unsupported.empty()) {
      Diagnostic& last = out.diagnostics.back();
      last.id = id::kUnsupportedOps;
      std::vector<std::string> names;
      for (const auto& u : failure.unsupported)
        if (std::find(names.begin(), names.end(), u.reason) == names.end()) names.push_back(u.reason);
      last.cause = text::StrCat("not supported at opset ", o.opset, ": ", text::Join(names, "; "));
    }
    return out;
  }
  for (const std::string& name : dropped)
    out.diagnostics.push_back({Severity::kWarning, id::kDroppedState,
                               text::StrCat("the program updates '", name, "'; the updated state is not an output"), "", ""});
  summary->nodes_after = report->nodes_out;
  summary->dims = report->dynamic_dims;
  summary->weight_bytes = report->weight_bytes;
  summary->bytes_written = report->file_bytes;
  return out;
}

// The lowest newer opset at which the conversion would succeed; 0 for none.
int HelpfulOpset(ConvertOptions o) {
  o.dry_run = true;
  auto succeeds = [&o](int opset) {
    ConvertSummary unused;
    o.opset = opset;
    return ToOnnx(o, &unused).code == kDone;
  };
  const int first = o.opset + 1;
  if (first > exporters::kMaxOpset || !succeeds(exporters::kMaxOpset)) return 0;
  for (int opset = first; opset < exporters::kMaxOpset; ++opset)
    if (succeeds(opset)) return opset;
  return exporters::kMaxOpset;
}

// The most memory this process has had resident, in bytes; 0 where the system does not say. (getrusage would also count what
// the process that started this one had.)
uint64_t PeakMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    uint64_t kib = 0;
    std::string_view rest = line;
    if (text::ConsumePrefix(&rest, "VmHWM:") && text::ConsumeSuffix(&rest, "kB") && text::ParseNumber(text::Strip(rest), &kib))
      return kib * 1024;
  }
  return 0;
}

}  // namespace

SummaryClock::~SummaryClock() {
  summary_->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  summary_->peak_rss = PeakMemory();
}

Outcome Convert(const ConvertOptions& o, ConvertSummary* summary) {
  const SummaryClock clock(summary);
  std::string to = o.to;
  if (to.empty()) to = FormatOfOutput(o.output);
  Outcome out;
  if (to == "onnx") {
    out = ToOnnx(o, summary);
    if (out.code == kNotSupported && out.diagnostics.back().id == id::kUnsupportedOps)
      if (int opset = HelpfulOpset(o)) out.diagnostics.back().help = text::StrCat("--opset ", opset, " has all that is needed");
  } else if (to == "pt2") {
    out = ToPt2(o, summary);
  } else if (to == "safetensors") {
    out = ToSafetensors(o, summary);
  } else if (to == "so" || to == "native-pt2") {
    out = ToNative(o, to == "native-pt2", summary);
  } else {
    out = Usage(text::StrCat("the output format is not known from '", o.output, "'"), "end the name in .onnx, .pt2, .so or .safetensors, or in / for a folder of shards, or give --to", id::kUnknownFormat);
  }
  return out;
}

}  // namespace slipway::driver
