// Archives taken apart: all files appear, or none and no new folder.
#include "driver/inspect/unpack.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/json.h"
#include "base/text.h"
#include "driver/convert/storages.h"
#include "driver/edge/format.h"
#include "driver/edge/paths.h"
#include "driver/edge/target.h"
#include "exporters/pt2/pt2.h"
#include "io/inflated.h"
#include "io/io_error.h"

namespace slipway::driver {
namespace {

// The archive of each program that is asked for; the names that are not there are an error, all at once.
absl::StatusOr<std::vector<ir::Archive>> Divide(ir::Archive whole, const std::vector<std::string>& asked) {
  std::vector<std::string> names, missing;
  for (const auto& p : whole.programs) names.push_back(p->name);
  for (const std::string& name : asked)
    if (std::find(names.begin(), names.end(), name) == names.end()) missing.push_back(text::StrCat("'", name, "'"));
  if (!missing.empty())
    return absl::InvalidArgumentError(
        text::StrCat("no program ", text::Join(missing, ", "), "; the archive holds ", text::Join(names, ", ")));
  std::vector<ir::Archive> parts;
  for (auto& p : whole.programs) {
    if (!asked.empty() && std::find(asked.begin(), asked.end(), p->name) == asked.end()) continue;
    ir::Archive& part = parts.emplace_back();
    part.producer = whole.producer;
    part.extra_files = whole.extra_files;
    part.programs.push_back(std::move(p));
  }
  return parts;
}

}  // namespace

Outcome Unpack(const UnpackOptions& o, UnpackReport* report) {
  ConvertSummary* summary = &report->summary;
  const SummaryClock clock(summary);
  exporters::Pt2Options options;
  options.target = o.convert.torch == "2.6" ? exporters::TorchTarget::k26 : exporters::TorchTarget::k29;
  options.progress = o.convert.progress;
  auto whole = OpenArchive(o.input);
  if (!whole.ok()) return Fail(whole.status(), o.input);
  Storages storages;
  storages.Add(*whole);
  if (absl::Status s = storages.Verify(o.convert.check_crc); !s.ok()) return Fail(s, o.input);
  options.max_output = o.convert.max_output > 0 ? o.convert.max_output : io::MostMadeOf(storages.bytes());
  auto parts = Divide(*std::move(whole), o.programs);
  if (!parts.ok()) return Fail(parts.status(), o.input);

  std::string folder = o.folder;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  std::vector<exporters::Pt2File> files;
  for (ir::Archive& part : *parts) {
    ir::Program& p = *part.programs[0];
    DropUnsafeSampleInputs(p, *summary);
    summary->nodes_before += static_cast<int>(p.graph->node_count());
    files.push_back({&part, text::StrCat(folder, "/", p.name, ".pt2")});
    report->files.push_back(files.back().path);
  }
  summary->nodes_after = summary->nodes_before;
  for (const exporters::Pt2File& file : files)  // programs of an archive that is gone would be the others' only copies
    if (absl::Status s = CheckDistinct({{"the input", o.input}, {"-o", file.path, NamedPath::kOutput}}); !s.ok())
      return Fail(s);
  const bool made = !o.convert.dry_run && mkdir(folder.c_str(), 0777) == 0;
  if (!o.convert.dry_run && !made && errno != EEXIST) return Fail(io::IoError(errno, folder));
  auto written = exporters::ExportPt2(files, options, o.convert.dry_run);
  if (!written.ok()) {
    if (made) rmdir(folder.c_str());
    return Fail(written.status(), o.input);
  }
  summary->weight_bytes = written->weight_bytes;
  summary->bytes_written = written->file_bytes;
  return {};
}

std::string ToJson(const UnpackOptions& o, const UnpackReport& r) {
  json::Writer w;
  w.BeginObject().Key("version").Int(1).Key("output").String(o.folder).Key("dry_run").Bool(o.convert.dry_run);
  w.Key("files").BeginArray();
  for (const std::string& file : r.files) w.String(file);
  w.EndArray().Key("weight_bytes").Int(r.summary.weight_bytes).Key("bytes_written").Int(r.summary.bytes_written);
  w.Key("seconds").Double(r.summary.seconds).Key("notes").BeginArray();
  for (const std::string& note : r.summary.lines) w.String(note);
  w.EndArray().EndObject();
  return w.Take() + "\n";
}

}  // namespace slipway::driver
