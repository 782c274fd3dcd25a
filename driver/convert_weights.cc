// From named tensors, wherever they are kept, to safetensors: merge, choose, rename, cast, split.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "base/text.h"
#include "driver/convert_internal.h"
#include "driver/tensor_parallel.h"
#include "importers/safetensors/safetensors.h"
#include "exporters/safetensors/cast.h"
#include "exporters/safetensors/safetensors.h"

namespace slipway::driver {
namespace {

using importers::TensorSet;

// "5GB" in bytes; powers of 1000, or of 1024 for "GiB". 0 where it is no size.
uint64_t ParseSize(std::string_view s) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), number);
  if (error != std::errc()) return 0;
  std::string_view unit = s.substr(end - s.data());
  static constexpr struct { std::string_view name; uint64_t bytes; } kUnits[] = {
      {"", 1}, {"B", 1}, {"KB", 1000}, {"MB", 1000'000}, {"GB", 1000'000'000}, {"TB", 1000'000'000'000},
      {"KiB", uint64_t{1} << 10}, {"MiB", uint64_t{1} << 20}, {"GiB", uint64_t{1} << 30}, {"TiB", uint64_t{1} << 40}};
  for (const auto& u : kUnits) {
    uint64_t bytes;
    if (u.name == unit) return __builtin_mul_overflow(number, u.bytes, &bytes) ? 0 : bytes;
  }
  return 0;
}

absl::StatusOr<std::regex> Compile(const std::string& flag, const std::string& text) {
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& e) {
    return absl::InvalidArgumentError(text::StrCat(flag, " '", text, "': ", e.what()));
  }
}

// --include, --exclude and --rename.
struct Names {
  std::vector<std::regex> include, exclude;
  std::vector<std::pair<std::regex, std::string>> rename;

  static absl::StatusOr<Names> Parse(const ConvertOptions& o) {
    Names n;
    const auto all = [](const char* flag, const std::vector<std::string>& from, std::vector<std::regex>* to) -> absl::Status {
      for (const std::string& text : from) {
        auto re = Compile(flag, text);
        if (!re.ok()) return re.status();
        to->push_back(*std::move(re));
      }
      return absl::OkStatus();
    };
    if (absl::Status s = all("--include", o.include, &n.include); !s.ok()) return s;
    if (absl::Status s = all("--exclude", o.exclude, &n.exclude); !s.ok()) return s;
    for (const std::string& rule : o.rename) {
      const size_t arrow = rule.find("=>");
      if (arrow == std::string::npos) return absl::InvalidArgumentError(text::StrCat("--rename '", rule, "' is not RE=>REPLACEMENT"));
      auto re = Compile("--rename", rule.substr(0, arrow));
      if (!re.ok()) return re.status();
      n.rename.emplace_back(*std::move(re), rule.substr(arrow + 2));
    }
    return n;
  }

  // nullopt: left out.
  absl::StatusOr<std::optional<std::string>> Apply(const std::string& name) const {
    constexpr size_t kLongest = 4096;  // std::regex recurses
    if (!include.empty() || !exclude.empty() || !rename.empty())
      if (name.size() > kLongest) return absl::UnimplementedError(text::StrCat("choosing or renaming a tensor whose name has ", name.size(), " bytes"));
    const auto any = [&](const std::vector<std::regex>& list) {
      for (const std::regex& re : list)
        if (std::regex_search(name, re)) return true;
      return false;
    };
    try {
      if ((!include.empty() && !any(include)) || any(exclude)) return std::optional<std::string>();
      std::string renamed = name;
      for (const auto& [re, replacement] : rename) renamed = std::regex_replace(renamed, re, replacement);
      return std::optional<std::string>(std::move(renamed));
    } catch (const std::regex_error& e) {
      return absl::InvalidArgumentError(text::StrCat("matching '", name, "': ", e.what()));
    }
  }
};

}  // namespace

Outcome ToSafetensors(const ConvertOptions& o, const Reader& reader, ConvertSummary* summary) {
  Outcome out;
  exporters::SafetensorsOptions options;
  const bool folder = FormatOfOutput(o.output) == "safetensors" && !o.output.ends_with(".safetensors");
  if (!folder && (o.shards > 0 || !o.max_shard_size.empty()))
    return Usage("shards are written to a folder", "end the output's name in /");
  if (o.tp > 0 && !folder) return Usage("--tp writes a folder", "end the output's name in /");
  if (o.tp > 0 && (o.shards > 0 || !o.max_shard_size.empty())) return Usage("--tp writes one file a rank", "leave --shards and --max-shard-size out");
  if (o.shards > 0) {
    options.shards = o.shards;
  } else if (folder) {
    options.max_shard_size = ParseSize(o.max_shard_size.empty() ? "5GB" : o.max_shard_size);
    if (options.max_shard_size == 0) return Usage(text::StrCat("--max-shard-size '", o.max_shard_size, "' is no size"), "such as 5GB, 500MB or 1GiB");
  }
  ir::DType to = ir::DType::kUnknown;
  if (!o.dtype.empty()) {
    to = ir::DTypeFromName(o.dtype).value_or(ir::DType::kUnknown);
    if (to != ir::DType::kFloat32 && to != ir::DType::kFloat16 && to != ir::DType::kBFloat16)
      return Usage(text::StrCat("--dtype ", o.dtype), "bf16, f16 or f32");
  }
  auto names = Names::Parse(o);
  if (!names.ok()) return Usage(std::string(names.status().message()));

  std::vector<exporters::OutTensor> tensors;
  std::map<std::string, std::string> origin;  // by the name that is written
  std::vector<std::string> clashes;
  int left_out = 0, cast = 0;
  uint64_t bytes = 0;
  std::set<std::pair<const ir::Storage*, int64_t>> places;
  int copies = 0;
  for (const std::string& path : o.inputs) {
    auto set = reader.Tensors(path, o.key);
    if (!set.ok()) return Fail(out, set.status(), path);
    options.metadata.merge(set->metadata);
    for (std::string& note : set->notes) summary->lines.push_back(text::StrCat(path, ": ", note));
    for (auto& [name, tensor] : set->tensors) set->sharded.emplace(name, std::move(tensor));
    for (auto& [name, tensor] : set->sharded) {
      auto renamed = names->Apply(name);
      if (!renamed.ok()) return Fail(out, renamed.status(), path);
      if (!*renamed) {
        ++left_out;
        continue;
      }
      if (auto [it, fresh] = origin.emplace(**renamed, path); !fresh) {
        clashes.push_back(text::StrCat("'", **renamed, "' (", it->second, " and ", path, ")"));
        continue;
      }
      const ir::TensorRef* whole = tensor.whole();
      if (tensor.numel() > 0 && whole && !places.emplace(whole->storage.get(), whole->offset).second) ++copies;
      const bool casts = to != ir::DType::kUnknown && exporters::FindCast(tensor.dtype, to);
      cast += casts;
      bytes += tensor.nbytes();
      const ir::DType dtype = casts ? to : tensor.dtype;
      tensors.push_back({**renamed, std::move(tensor), dtype});
    }
  }
  if (!clashes.empty())
    return Fail(out, absl::InvalidArgumentError(text::StrCat(clashes.size(), " names are given twice: ", text::Join(clashes, ", "))), "",
                "--rename or --exclude one of each");
  if (tensors.empty()) return Fail(out, absl::InvalidArgumentError("no tensors are left to write"));
  if (o.shards > static_cast<int>(tensors.size()))
    return Fail(out, absl::InvalidArgumentError(text::StrCat("--shards ", o.shards, ": there are ", tensors.size(), " tensors")));
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& [key, value] : o.metadata) options.metadata[key] = value;
  options.dry_run = o.dry_run;
  options.progress = o.progress;
  absl::StatusOr<exporters::SafetensorsReport> report;
  if (o.tp > 0) {
    // What the pieces of a tensor cover is checked before it is cut.
    for (const exporters::OutTensor& t : tensors)
      if (absl::Status s = ir::Validate(t.tensor); !s.ok()) return Fail(out, s, t.name);
    auto split = SplitTensors(tensors, o.tp, o.tp_rules);
    if (!split.ok()) return Fail(out, split.status());
    for (std::string& note : split->notes) summary->lines.push_back(std::move(note));
    report = exporters::ExportRanks(split->ranks, o.output, options);
  } else if (folder) {
    report = exporters::ExportShards(tensors, o.output, options);
  } else {
    report = exporters::ExportSafetensors(tensors, o.output, options);
  }
  if (!report.ok()) return Fail(out, report.status());
  if (left_out > 0) summary->lines.push_back(text::StrCat(left_out, " tensors are left out"));
  if (cast > 0) summary->lines.push_back(text::StrCat(cast, " tensors are cast to ", o.dtype));
  if (copies > 0) summary->lines.push_back(text::StrCat(copies, " tensors share values with others and are written again: the format holds no aliases"));
  if (folder) summary->lines.push_back(text::StrCat(report->files, report->files == 1 ? " file" : " files"));
  summary->tensors = static_cast<int>(tensors.size());
  summary->weight_bytes = bytes;
  summary->bytes_written = report->file_bytes;
  return out;
}

}  // namespace slipway::driver
