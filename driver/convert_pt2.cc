// From programs to a PT2 archive: programs keep their form, weights are copied.
#include <sys/stat.h>

#include <limits>
#include <memory>

#include "base/text.h"
#include "driver/convert_internal.h"
#include "exporters/pt2/pt2.h"
#include "importers/checkpoint/state_dict.h"
#include "io/mapped_file.h"

namespace slipway::driver {
namespace {

struct Input {
  std::string name;  // "" = not given
  std::string path;
};

// NAME=FILE, unless a file has that whole name.
Input ParseInput(const std::string& text) {
  struct stat info;
  const size_t eq = text.find('=');
  if (eq == std::string::npos || eq == 0 || text.find('/') < eq || stat(text.c_str(), &info) == 0) return {"", text};
  return {text.substr(0, eq), text.substr(eq + 1)};
}

std::string StemOf(const std::string& path) {
  std::string stem = path.substr(path.rfind('/') + 1);
  if (const size_t dot = stem.rfind('.'); dot != std::string::npos && dot > 0) stem.resize(dot);
  return stem;
}

absl::Status Add(ir::Archive from, const Input& input, bool several, ir::Archive& into) {
  if (!input.name.empty() && from.programs.size() != 1)
    return absl::InvalidArgumentError(text::StrCat(input.path, " holds ", from.programs.size(), " programs, which cannot all be named '", input.name, "'"));
  for (auto& p : from.programs) {
    if (!input.name.empty()) p->name = input.name;
    else if (several && from.programs.size() == 1) p->name = StemOf(input.path);
    into.programs.push_back(std::move(p));
  }
  for (auto& [name, content] : from.extra_files) {
    auto [it, fresh] = into.extra_files.emplace(name, content);
    if (!fresh && it->second != content)
      return absl::InvalidArgumentError(text::StrCat(input.path, ": its extra file '", name, "' differs from that of another input"));
  }
  return absl::OkStatus();
}

}  // namespace

void NoteDims(const ir::Program& p, ConvertSummary& summary) {
  const auto bound = [](int64_t v) {
    return v == std::numeric_limits<int64_t>::min() ? std::string("-inf") : v == std::numeric_limits<int64_t>::max() ? std::string("inf") : std::to_string(v);
  };
  for (const ir::SymbolInfo& s : p.syms->symbols())
    summary.dims.push_back(text::StrCat(s.name, " = ", bound(s.range.min), "..", bound(s.range.max)));
}

void VetSampleInputs(ir::Program& p, ConvertSummary& summary) {
  if (!p.sample_inputs) return;
  const auto* bytes = std::get_if<io::Bytes>(&p.sample_inputs->bytes);
  const absl::Status s = bytes ? importers::CheckPickle(*bytes) : absl::OkStatus();
  if (s.ok()) return;
  p.sample_inputs = nullptr;
  summary.lines.push_back(text::StrCat("the sample inputs of '", p.name, "' are left out: ", s.message()));
}

Outcome ToPt2(const ConvertOptions& o, const Reader& reader, ConvertSummary* summary) {
  Outcome out;
  exporters::Pt2Options options;
  if (o.torch != "2.9" && o.torch != "2.6") return Usage(text::StrCat("--torch ", o.torch), "2.9 or 2.6");
  options.target = o.torch == "2.6" ? exporters::TorchTarget::k26 : exporters::TorchTarget::k29;
  options.weights = !o.no_weights;
  options.check_crc = o.check_crc;
  options.progress = o.progress;
  ir::Archive archive;
  for (const std::string& text : o.inputs) {
    const Input input = ParseInput(text);
    auto read = reader.Programs(input.path);
    if (!read.ok()) return Fail(out, read.status(), input.path);
    if (absl::Status s = Add(*std::move(read), input, o.inputs.size() > 1, archive); !s.ok()) return Fail(out, s, input.path);
  }
  for (const auto& p : archive.programs) {
    summary->nodes_before += static_cast<int>(p->graph->node_count());
    VetSampleInputs(*p, *summary);
    NoteDims(*p, *summary);
  }
  if (!o.weights.empty()) {
    if (archive.programs.size() != 1) return Usage("--weights goes with one program");
    if (absl::Status s = JoinWeights(*archive.programs[0], o, *summary); !s.ok()) return FailWeights(out, s, o.inputs[0]);
  }
  summary->nodes_after = summary->nodes_before;
  for (const auto& [key, value] : o.metadata) archive.extra_files[key] = value;
  auto report = exporters::ExportPt2({{&archive, o.output}}, options, o.dry_run);
  if (!report.ok()) return Fail(out, report.status(), o.inputs.size() == 1 ? o.inputs[0] : "");
  summary->weight_bytes = report->weight_bytes;
  summary->bytes_written = report->file_bytes;
  return out;
}

}  // namespace slipway::driver
