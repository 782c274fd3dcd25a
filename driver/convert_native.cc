// From a program to a native library, or to torch's package of one.
#include "base/text.h"
#include "driver/convert_internal.h"
#include "driver/run.h"
#include "exporters/native/native.h"
#include "planner/planner.h"

namespace slipway::driver {

Outcome ToNative(const ConvertOptions& o, bool package, const Reader& reader, ConvertSummary* summary) {
  Outcome out;
  if (o.inputs.size() != 1) return Usage("a library takes one program");
  const std::string& path = o.inputs[0];
  auto archive = reader.Programs(path);
  if (!archive.ok()) return Fail(out, archive.status(), path);
  if (archive->programs.size() != 1)
    return Fail(out, absl::UnimplementedError(text::StrCat("an archive of ", archive->programs.size(), " programs")), path, "slipway unpack divides it");
  ir::Program& p = *archive->programs[0];
  summary->nodes_before = static_cast<int>(p.graph->node_count());
  if (!o.weights.empty())
    if (absl::Status s = JoinWeights(p, o, *summary); !s.ok()) return FailWeights(out, s, path);
  std::vector<std::string> dropped;
  if (absl::Status s = PrepareForNative(p, &dropped, o.verify_each); !s.ok()) return Fail(out, s, path);
  std::vector<passes::Unsupported> unsupported;
  auto planned = planner::LegalizeAndPlan(p, {.verify_each = o.verify_each}, &unsupported);
  if (!planned.ok() && !unsupported.empty()) return FailUnsupported(out, unsupported, kByKernels);
  if (!planned.ok()) return Fail(out, planned.status(), path);

  exporters::NativeOptions options;
  options.package = package;
  options.metadata = o.metadata;
  options.metadata.emplace_back("slipway.version", SLIPWAY_VERSION);
  options.metadata.emplace_back("slipway.source", archive->producer);
  if (std::string digest = reader.Digest(path); !digest.empty()) options.metadata.emplace_back("slipway.source_digest", std::move(digest));
  options.progress = o.progress;
  auto report = exporters::ExportNative(p, *planned, o.output, options, o.dry_run);
  if (!report.ok()) return Fail(out, report.status(), path);
  for (const std::string& name : dropped) out.diagnostics.push_back(DroppedState(name));
  summary->nodes_after = report->steps;
  NoteDims(p, *summary);
  summary->weight_bytes = report->weight_bytes;
  summary->bytes_written = report->file_bytes;
  return out;
}

}  // namespace slipway::driver
