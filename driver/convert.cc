// Convert's pipeline: open, join weights, run the passes the target needs, export.
#include "driver/convert.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>

#include "base/text.h"
#include "driver/convert_internal.h"
#include "driver/passes.h"
#include "exporters/onnx/export.h"

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

Outcome ToOnnx(const ConvertOptions& o, const Reader& reader, ConvertSummary* summary) {
  Outcome out;
  if (o.inputs.size() != 1) return Usage("ONNX takes one program");
  const std::string& path = o.inputs[0];
  auto archive = reader.Programs(path);
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
  PassContext context;
  OnnxOptions& options = context.target;
  if (absl::Status s = SetTarget(o, &options); !s.ok()) return absl::IsInvalidArgument(s) ? Usage(std::string(s.message())) : Fail(out, s);
  options.refusals = &context.refusals;
  options.state_io = o.state_io;
  options.input_names = o.input_names;
  options.output_names = o.output_names;
  options.progress = o.progress;
  if (absl::Status s = exporters::CheckNames(p, options); !s.ok()) return Usage(std::string(s.message()));
  if (absl::Status s = PrepareForOnnx(p, {.state = o.state_io, .functions = o.functions, .verify_each = o.verify_each}, context); !s.ok())
    return Fail(out, s, path);

  options.external_data = o.external_data == "always" ? exporters::ExternalData::kAlways
                          : o.external_data == "never" ? exporters::ExternalData::kNever : exporters::ExternalData::kAuto;
  options.metadata = o.metadata;
  options.metadata.emplace_back("slipway.version", SLIPWAY_VERSION);
  options.metadata.emplace_back("slipway.source", archive->producer);
  if (std::string digest = reader.Digest(path); !digest.empty()) options.metadata.emplace_back("slipway.source_digest", std::move(digest));
  OnnxReport failure;
  auto report = exporters::ExportOnnx(p, o.output, options, o.dry_run, &failure);
  if (!report.ok() && !failure.unsupported.empty()) return FailUnsupported(out, failure.unsupported, text::StrCat("at opset ", o.opset));
  if (!report.ok()) return Fail(out, report.status(), path);
  for (const std::string& name : context.dropped) out.diagnostics.push_back(DroppedState(name));
  summary->nodes_after = report->nodes_out;
  summary->dims = report->dynamic_dims;
  summary->weight_bytes = report->weight_bytes;
  summary->bytes_written = report->file_bytes;
  return out;
}

// The lowest newer opset at which the conversion would succeed; 0 for none.
int HelpfulOpset(ConvertOptions o, const Reader& reader) {
  o.dry_run = true;
  auto succeeds = [&](int opset) {
    ConvertSummary unused;
    o.opset = opset;
    return ToOnnx(o, reader, &unused).code == kDone;
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

Outcome Convert(const ConvertOptions& o, ConvertSummary* summary, const Reader& reader) {
  const SummaryClock clock(summary);
  std::string to = o.to;
  if (to.empty()) to = FormatOfOutput(o.output);
  Outcome out;
  if (to == "onnx") {
    out = ToOnnx(o, reader, summary);
    if (out.code == kNotSupported && out.diagnostics.back().id == id::kUnsupportedOps)
      if (int opset = HelpfulOpset(o, reader)) out.diagnostics.back().help = text::StrCat("--opset ", opset, " has all that is needed");
  } else if (to == "pt2") {
    out = ToPt2(o, reader, summary);
  } else if (to == "safetensors") {
    out = ToSafetensors(o, reader, summary);
  } else if (to == "so" || to == "native-pt2") {
    out = ToNative(o, to == "native-pt2", reader, summary);
  } else {
    out = Usage(text::StrCat("the output format is not known from '", o.output, "'"), "end the name in .onnx, .pt2, .so or .safetensors, or in / for a folder of shards, or give --to", id::kUnknownFormat);
  }
  return out;
}

}  // namespace slipway::driver
