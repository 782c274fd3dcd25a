// A program as a native library, or as torch's package of one.
#include "base/text.h"
#include "driver/plugins.h"
#include "driver/target.h"
#include "exporters/native/native.h"
#include "io/mapped_file.h"
#include "planner/pack_weights.h"
#include "planner/planner.h"

namespace slipway::driver {
namespace {

// The program as it was before the passes, for --with-program.
absl::StatusOr<ir::Archive> Original(Conversion& c) {
  ConvertSummary again;
  auto archive = ReadPrograms(c.options, c.reader, *FindTarget("native-pt2"), again);
  if (!archive.ok()) return archive;
  VetSampleInputs(*archive->programs[0], c.summary);
  archive->programs[0]->name = "model";  // what torch.export.load asks for
  return archive;
}

absl::Status Write(Conversion& c, bool package) {
  const ConvertOptions& o = c.options;
  auto plugins = Plugins::Open(o.plugins);
  if (!plugins.ok()) return plugins.status();
  planner::PlanOptions plan_options{.verify_each = o.verify_each};
  if (!o.plugins.empty()) plan_options.plugins = [&](std::string_view name) { return plugins->Find(name); };
  std::vector<passes::Unsupported> unsupported;
  auto planned = planner::LegalizeAndPlan(c.program(), plan_options, &unsupported);
  if (!planned.ok()) return unsupported.empty() ? planned.status() : UnsupportedError(unsupported, kByKernels);
  planner::ChooseWeightsToPack(*planned);

  exporters::NativeOptions options;
  absl::StatusOr<ir::Archive> original = ir::Archive();
  if (o.with_program) {
    original = Original(c);
    if (!original.ok()) return original.status();
    options.with_program = &*original;
  }
  options.package = package;
  options.metadata = c.Metadata();
  options.progress = o.progress;
  options.max_output = c.max_output;
  for (const std::string& plugin : o.plugins) {
    auto file = io::MappedFile::Open(plugin);
    if (!file.ok()) return WithPlace(file.status(), plugin);
    options.plugins.emplace_back(plugin.substr(plugin.rfind('/') + 1), io::Bytes::Of(*std::move(file)));
  }
  auto report = exporters::ExportNative(c.program(), *planned, o.output, options, o.dry_run);
  if (!report.ok()) return report.status();
  c.summary.nodes_after = report->steps;
  c.summary.weight_bytes = report->weight_bytes;
  c.summary.bytes_written = report->file_bytes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Legality> NativeLegality(const ConvertOptions&) { return Legality(planner::NativeLegal); }

absl::Status WriteLibrary(Conversion& c) { return Write(c, /*package=*/false); }

absl::Status WritePackage(Conversion& c) { return Write(c, /*package=*/true); }

}  // namespace slipway::driver
