// What is said beside a source counts only for files: tensors that a program or another library holds have no folder.
#include "driver/edge/quantized_input.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/format.h"
#include "driver/edge/target.h"
#include "io/mapped_file.h"

namespace slipway::driver {

namespace quantized = weights::quantized;

namespace {

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

std::string FolderAt(const std::string& path) { return IsFolder(path) ? path : FolderOf(path); }

// Whether a path is of all of a checkpoint.
bool IsWhole(const std::string& path) { return IsFolder(path) || path.ends_with(".index.json"); }

// A file may have a neighbour of another kind that is called config.json.
absl::StatusOr<std::optional<quantized::ModelConfig>> ConfigAt(const std::string& path) {
  if (!IsFile(path)) return std::nullopt;
  auto config = quantized::ReadModelConfig(FolderAt(path));
  if (absl::IsInvalidArgument(config.status()) && !IsWhole(path)) return std::nullopt;
  return config;
}

}  // namespace

absl::StatusOr<bool> SaysQuantized(const std::string& path) {
  ASSIGN_OR_RETURN(const auto config, ConfigAt(path));
  return config.has_value();
}

absl::StatusOr<std::optional<quantized::Checkpoint>> FindQuantized(const std::string& path, const ir::TensorSet& set) {
  ASSIGN_OR_RETURN(const auto config, ConfigAt(path));
  const bool whole = IsWhole(path);
  auto found = quantized::Find(set, config, whole);
  if (absl::IsUnimplemented(found.status()))
    return WithHelp(found.status(),
                    text::StrCat("what is dequantized: ", quantized::kFormats,
                                 "; others by the library that wrote them (transformers: model.dequantize(), then "
                                 "save_pretrained()), whose folder slipway then reads"));
  if (absl::IsInvalidArgument(found.status()) && !whole && IsFile(path))
    return WithHelp(found.status(), "a weight may be in several shards: give the folder that they are in");
  return found;
}

absl::StatusOr<uint64_t> DequantizeTensors(const std::string& path, ir::DType to,
                                           const std::function<bool(const std::string&)>& wanted, ir::TensorSet* set,
                                           std::vector<std::string>* lines) {
  ASSIGN_OR_RETURN(const auto found, FindQuantized(path, *set));
  if (!found) return 0;
  const auto keep = [&](const quantized::Weight& w) {
    return wanted && std::all_of(w.parts.begin(), w.parts.end(), wanted);
  };
  const int count = quantized::Replace(*found, to, keep, set);
  if (count == 0) return 0;
  uint64_t bytes = 0;
  std::string_view dtype;
  bool same = true;
  for (const auto& w : found->weights) {
    const auto it = set->sharded.find(w->name);
    if (it == set->sharded.end()) continue;
    bytes += static_cast<uint64_t>(it->second.nbytes());
    same &= dtype.empty() || dtype == ir::Name(it->second.dtype);
    dtype = ir::Name(it->second.dtype);
  }
  lines->push_back(text::StrCat(count, count == 1 ? " weight is" : " weights are", " dequantized",
                                same ? text::StrCat(" to ", dtype) : "", ": ", found->title));
  if (!found->left_out.empty())
    lines->push_back(text::StrCat(found->left_out.size(), " scales of activations are left out"));
  return bytes;
}

absl::StatusOr<std::shared_ptr<io::MappedFile>> OpenConfigBeside(const std::string& path) {
  return io::MappedFile::Open(text::StrCat(FolderAt(path), "/config.json"));
}

std::string ConfigBeside(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    auto file = OpenConfigBeside(path);
    if (file.ok()) return std::string(reinterpret_cast<const char*>((*file)->data().data()), (*file)->data().size());
  }
  return "";
}

}  // namespace slipway::driver
