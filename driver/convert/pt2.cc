// Programs as a PT2 archive: they keep the form they have, and their weights are copied.
#include "exporters/pt2/pt2.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/format.h"
#include "driver/edge/target.h"
#include "exporters/pt2/torch_names.h"

namespace slipway::driver {

absl::Status WritePt2(Conversion& c) {
  const ConvertOptions& o = c.options;
  exporters::Pt2Options options;
  options.target = o.torch == "2.6" ? exporters::TorchTarget::k26 : exporters::TorchTarget::k29;
  options.weights = !o.no_weights;
  options.max_output = c.max_output;
  options.progress = o.progress;
  for (const auto& p : c.archive.programs) DropUnsafeSampleInputs(*p, c.summary);
  for (const auto& p : c.archive.programs) RETURN_IF_ERROR(exporters::NameForTorch(*p));
  if (IsFromOnnx(c.archive))
    std::erase_if(c.archive.extra_files, [](const auto& file) { return !exporters::MayNameExtraFile(file.first); });
  for (const auto& [key, value] : o.metadata) c.archive.extra_files[key] = value;
  for (const auto& p : c.archive.programs)
    if (const size_t absent = ir::AbsentWeights(*p).size(); absent > 0 && !o.no_weights)
      c.summary.lines.push_back(text::StrCat(absent, absent == 1 ? " weight has" : " weights have",
                                             " no values: torch loads the archive once convert --weights has given "
                                             "them"));
  auto report = exporters::ExportPt2({{&c.archive, o.output}}, options, o.dry_run);
  if (!report.ok()) return report.status();
  c.summary.weight_bytes = report->weight_bytes;
  c.summary.bytes_written = report->file_bytes;
  return absl::OkStatus();
}

}  // namespace slipway::driver
