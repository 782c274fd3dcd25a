// Two names are one file where the system says so (device and inode), or, for files that are still to be written, where
// folder and last component are the same.
#include "driver/edge/paths.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/format.h"
#include "driver/edge/target.h"

namespace slipway::driver {
namespace {

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> IdOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileId(info.st_dev, info.st_ino);
}

// What a link that leads nowhere yet would make; the path itself where it is none.
std::string BehindLinks(std::string path) {
  for (int links = 0; links < 40; ++links) {
    std::error_code error;
    const std::filesystem::path to = std::filesystem::read_symlink(path, error);
    if (error) return path;
    path = to.is_absolute() ? to.string() : text::StrCat(FolderOf(path), "/", to.string());
  }
  return path;
}

std::string NameIn(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool SameFile(const std::string& a, const std::string& b) {
  const auto id_a = IdOf(a), id_b = IdOf(b);
  if (id_a || id_b) return id_a == id_b;
  const std::string to_a = BehindLinks(a), to_b = BehindLinks(b);
  const auto folder_a = IdOf(FolderOf(to_a)), folder_b = IdOf(FolderOf(to_b));
  return NameIn(to_a) == NameIn(to_b) &&
         (folder_a || folder_b ? folder_a == folder_b : FolderOf(to_a) == FolderOf(to_b));
}

// A file that a checkpoint's folder is read for or that is written there.
bool IsPartOfCheckpoint(std::string_view name) {
  static constexpr std::string_view kSuffixes[] = {".safetensors", ".bin",    ".pt",         ".pth",
                                                   ".ckpt",        ".distcp", ".index.json", ".metadata"};
  return name == "config.json" ||
         std::any_of(std::begin(kSuffixes), std::end(kSuffixes), [&](std::string_view s) { return name.ends_with(s); });
}

bool InFolder(const std::string& path, const std::string& folder) {
  const std::string to = BehindLinks(path);
  if (!IsFolder(folder) || !IsPartOfCheckpoint(NameIn(to))) return false;
  const auto at = IdOf(FolderOf(to)), id = IdOf(folder);
  if (at || id) return at == id;
  std::string_view bare = folder;
  while (bare.size() > 1 && bare.ends_with('/')) bare.remove_suffix(1);
  return FolderOf(to) == bare;
}

}  // namespace

absl::Status CheckDistinct(absl::Span<const NamedPath> paths) {
  for (size_t i = 0; i < paths.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const NamedPath& a = paths[i].role > paths[j].role ? paths[i] : paths[j];  // what is written, of the two
      const NamedPath& b = paths[i].role > paths[j].role ? paths[j] : paths[i];
      if (a.role < NamedPath::kOutput || (a.role == NamedPath::kOutput && b.role == NamedPath::kModel) ||
          a.path.empty() || b.path.empty())
        continue;
      // an ONNX model's weights, beside it
      const auto is_data_of = [](const std::string& file, const std::string& model) {
        return model.ends_with(".onnx") && SameFile(file, model + ".data");
      };
      if (SameFile(a.path, b.path) || (a.role == NamedPath::kReport && InFolder(a.path, b.path)) ||
          is_data_of(a.path, b.path) || is_data_of(b.path, a.path))
        return UsageError(text::StrCat(a.flag, " '", a.path, "' would take the place of ", b.flag, " '", b.path, "'"),
                          "give it a name of its own");
    }
  return absl::OkStatus();
}

std::vector<NamedPath> PathsOf(const ConvertOptions& o) {
  std::vector<NamedPath> paths;
  const auto add = [&](std::string flag, const std::string& path, NamedPath::Role role) {
    paths.push_back({std::move(flag), path, role});
  };
  const auto add_all = [&](const char* flag, const std::vector<std::string>& all, NamedPath::Role role) {
    for (const std::string& path : all) add(flag, path, role);
  };
  for (const std::string& in : o.inputs) {
    add("the input", in, NamedPath::kModel);
    // NAME=FILE
    if (const size_t eq = in.find('='); eq != std::string::npos) add("the input", in.substr(eq + 1), NamedPath::kModel);
  }
  add_all("--weights", o.weights, NamedPath::kData);
  add_all("--unify", o.unify, NamedPath::kData);
  add_all("--plugin", o.plugins, NamedPath::kData);
  add("--tp-rules", o.tp_rules, NamedPath::kData);
  add("--calibration", o.calibration, NamedPath::kData);
  add("--calibration-images", o.calibration_images, NamedPath::kData);
  if (o.quantize.ends_with(".json") || (IdOf(o.quantize) && !IsFolder(o.quantize)))
    add("the configuration", o.quantize, NamedPath::kData);
  add("-o", o.output, NamedPath::kOutput);
  add("--html", o.html, NamedPath::kReport);
  add("--junit", o.junit, NamedPath::kReport);
  add("--save-config", o.save_config, NamedPath::kReport);
  return paths;
}

}  // namespace slipway::driver
