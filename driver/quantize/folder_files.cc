// Weights are known by the suffixes that frameworks give them: they are large, hold the same numbers again, and a
// folder with both would load the wrong ones. What says that the source was quantized in another way would be believed,
// too.
#include "driver/quantize/folder_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/io_error.h"
#include "io/mapped_file.h"

namespace slipway::driver {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostConfigBytes = 100'000'000;
constexpr size_t kMostNames = 1000;  // in a folder; more is no checkpoint's
constexpr std::string_view kWeightSuffixes[] = {
    ".safetensors", ".bin",  ".pt",   ".pth",       ".ckpt",   ".distcp",   ".index.json", ".metadata",
    ".gguf",        ".ggml", ".onnx", ".onnx_data", ".data",   ".xml",      ".h5",         ".keras",
    ".msgpack",     ".npz",  ".npy",  ".ot",        ".tflite", ".litertlm", ".pb",         ".mlmodel",
    ".engine",      ".pt2",  ".pte",  ".so",        ".nemo",   ".tmp",      ".lock",       ".incomplete"};
constexpr std::string_view kOwn[] = {"config.json", "quantize_config.json", "quant_config.json"};

bool IsOwn(std::string_view name) { return std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn); }

bool IsWeights(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower(text::ToAbsl(name));
  return std::any_of(std::begin(kWeightSuffixes), std::end(kWeightSuffixes),
                     [&](std::string_view s) { return lower.ends_with(s); });
}

// Names in a folder that do not begin with a dot, sorted.
absl::StatusOr<std::set<std::string>> NamesIn(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator() && names.size() <= kMostNames; it.increment(error))
    if (std::string name = it->path().filename().string(); !name.starts_with('.')) names.insert(std::move(name));
  if (error) return io::IoError(error.value(), folder);
  return names;
}

// Whether a path, with its links followed, is in one of the folders.
bool IsIn(const fs::path& path, const std::vector<fs::path>& folders) {
  return std::any_of(folders.begin(), folders.end(), [&](const fs::path& folder) {
    return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
  });
}

enum class Kind : uint8_t { kSmallFile, kWeights, kFolder, kOther };

// Links lead to files of the folder or, in the cache of Hugging Face's hub (snapshots/REVISION/NAME), to its blobs: of
// a folder that came from elsewhere, any other may lead to what its maker wants to see in the copy.
std::vector<fs::path> TrustedFolders(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> out = {fs::canonical(folder, error)};
  const fs::path blobs = fs::canonical(out[0] / ".." / ".." / "blobs", error);
  if (!error && out[0].parent_path().filename() == "snapshots") out.push_back(blobs);
  return out;
}

Kind KindOf(const std::string& path, const std::string& name, const std::vector<fs::path>& trusted) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error || !IsIn(real, trusted)) return IsWeights(name) ? Kind::kWeights : Kind::kOther;
  const fs::file_status status = fs::status(path, error);  // of what a link leads to
  if (fs::is_directory(status)) return Kind::kFolder;
  if (!fs::is_regular_file(status)) return Kind::kOther;
  if (IsWeights(name)) return Kind::kWeights;
  const uint64_t size = fs::file_size(path, error);
  return !error && size <= kMostConfigBytes ? Kind::kSmallFile : Kind::kOther;
}

absl::Status Add(const std::string& path, std::string name, FolderFiles& out) {
  ASSIGN_OR_RETURN(std::shared_ptr<io::MappedFile> file, io::MappedFile::Open(path));
  out.emplace_back(std::move(name), io::Bytes::Of(std::move(file)));
  return absl::OkStatus();
}

// All files of a folder in the folder, or none and false.
absl::StatusOr<bool> AddFolder(const std::string& path, const std::string& name, const std::vector<fs::path>& trusted,
                               FolderFiles& out) {
  ASSIGN_OR_RETURN(const std::set<std::string> names, NamesIn(path));
  if (names.size() > kMostNames) return false;
  for (const std::string& inner : names)
    if (KindOf(text::StrCat(path, "/", inner), inner, trusted) != Kind::kSmallFile) return false;
  for (const std::string& inner : names)
    RETURN_IF_ERROR(Add(text::StrCat(path, "/", inner), text::StrCat(name, "/", inner), out));
  return true;
}

}  // namespace

absl::StatusOr<FolderFiles> FilesBesideWeights(const std::string& folder, std::vector<std::string>* lines) {
  ASSIGN_OR_RETURN(const std::set<std::string> names, NamesIn(folder));
  const std::vector<fs::path> trusted = TrustedFolders(folder);
  FolderFiles out;
  std::vector<std::string> left_out;
  if (names.size() > kMostNames) {
    lines->push_back(text::StrCat("more than ", kMostNames, " files: none but weights and config.json are written"));
    return out;
  }
  for (const std::string& name : names) {
    const std::string path = text::StrCat(folder, "/", name);
    switch (KindOf(path, name, trusted)) {
      case Kind::kSmallFile:
        if (!IsOwn(name)) RETURN_IF_ERROR(Add(path, name, out));
        break;
      case Kind::kFolder: {
        ASSIGN_OR_RETURN(const bool added, AddFolder(path, name, trusted, out));
        if (!added) left_out.push_back(text::StrCat(text::Printable(name), "/"));
        break;
      }
      case Kind::kWeights: break;
      case Kind::kOther: left_out.push_back(text::Printable(name)); break;
    }
  }
  if (!out.empty())
    lines->push_back(
        text::StrCat(out.size(), out.size() == 1 ? " other file is" : " other files are", " copied from the source"));
  if (!left_out.empty()) lines->push_back(text::StrCat("not copied: ", text::Join(left_out, ", ")));
  return out;
}

}  // namespace slipway::driver
