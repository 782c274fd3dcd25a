// From a program to a native library, or to torch's package of one.
#include "base/text.h"
#include "driver/convert_internal.h"
#include "driver/plugins.h"
#include "driver/run.h"
#include "exporters/native/native.h"
#include "io/mapped_file.h"
#include "planner/pack_weights.h"
#include "planner/planner.h"

namespace slipway::driver {

Outcome ToNative(const ConvertOptions& o, bool package, const Reader& reader, ConvertSummary* summary) {
  Outcome out;
  if (o.inputs.size() != 1) return Usage("a library takes one program");
  if (o.with_program && !package) return Usage("--with-program is of --to native-pt2");
  const std::string& path = o.inputs[0];
  auto archive = reader.Programs(path);
  if (!archive.ok()) return Fail(out, archive.status(), path);
  if (archive->programs.size() != 1)
    return Fail(out, absl::UnimplementedError(text::StrCat("an archive of ", archive->programs.size(), " programs")),
                path, "slipway unpack divides it");
  ir::Program& p = *archive->programs[0];
  summary->nodes_before = static_cast<int>(p.graph->node_count());
  if (!o.weights.empty())
    if (absl::Status s = JoinWeights(p, o, *summary); !s.ok()) return FailWeights(out, s, path);
  std::vector<std::string> dropped;
  if (absl::Status s = PrepareForNative(p, &dropped, o.verify_each); !s.ok()) return Fail(out, s, path);
  std::vector<passes::Unsupported> unsupported;
  auto plugins = Plugins::Open(o.plugins);
  if (!plugins.ok()) return Fail(out, plugins.status());
  planner::PlanOptions plan_options{.verify_each = o.verify_each};
  if (!o.plugins.empty()) plan_options.plugins = [&](std::string_view name) { return plugins->Find(name); };
  auto planned = planner::LegalizeAndPlan(p, plan_options, &unsupported);
  if (!planned.ok() && !unsupported.empty()) return FailUnsupported(out, unsupported, kByKernels);
  if (!planned.ok()) return Fail(out, planned.status(), path);

  planner::ChooseWeightsToPack(*planned);
  // The pipeline has rewritten the program: the archive gets it as it was.
  absl::StatusOr<ir::Archive> original = absl::NotFoundError("");
  if (o.with_program) {
    original = reader.Programs(path);
    if (!original.ok()) return Fail(out, original.status(), path);
    ir::Program& q = *original->programs[0];
    ConvertSummary again;
    if (!o.weights.empty())
      if (absl::Status s = JoinWeights(q, o, again); !s.ok()) return FailWeights(out, s, path);
    VetSampleInputs(q, *summary);
    q.name = "model";  // what torch.export.load asks for
  }

  exporters::NativeOptions options;
  if (o.with_program) options.with_program = &*original;
  options.package = package;
  options.metadata = o.metadata;
  options.metadata.emplace_back("slipway.version", SLIPWAY_VERSION);
  options.metadata.emplace_back("slipway.source", archive->producer);
  if (std::string digest = reader.Digest(path); !digest.empty())
    options.metadata.emplace_back("slipway.source_digest", std::move(digest));
  options.progress = o.progress;
  for (const std::string& plugin : o.plugins) {
    auto file = io::MappedFile::Open(plugin);
    if (!file.ok()) return Fail(out, file.status(), plugin);
    options.plugins.emplace_back(plugin.substr(plugin.rfind('/') + 1), io::Bytes::Of(*std::move(file)));
  }
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
