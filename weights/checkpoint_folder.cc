// Names are taken apart from their end: a checkpoint's own name may hold anything, "-of-" too. What an index names
// counts as the index's whatever it is called, since files without an index are all read.
#include "weights/checkpoint_folder.h"

#include <dirent.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "base/text.h"
#include "importers/json.h"
#include "io/mapped_file.h"

namespace slipway::weights {
namespace {

constexpr std::string_view kSuffix = ".safetensors", kIndexSuffix = ".safetensors.index.json", kModel = "model",
                           kRank = "rank";

// The checkpoint that a file belongs to, and the set of its files, as messages call it.
struct Place {
  std::string checkpoint, set;
};

// Cuts "-00003" off the end; "" where no number of five digits or more is there.
std::string_view CutNumber(std::string_view* name) {
  size_t digits = 0;
  while (digits < name->size() && (*name)[name->size() - 1 - digits] >= '0' &&
         (*name)[name->size() - 1 - digits] <= '9')
    ++digits;
  if (digits < 5 || digits == name->size() || (*name)[name->size() - 1 - digits] != '-') return {};
  const std::string_view number = name->substr(name->size() - digits);
  name->remove_suffix(digits + 1);
  return number;
}

Place PlaceOf(const std::string& file) {
  std::string_view name = file;
  text::ConsumeSuffix(&name, kSuffix);
  std::string_view stem = name;
  if (const std::string_view total = CutNumber(&stem);
      !total.empty() && text::ConsumeSuffix(&stem, "-of") && !CutNumber(&stem).empty() && !stem.empty())
    return {std::string(stem == kRank ? kModel : stem), text::StrCat(stem, "-*-of-", total, kSuffix)};
  return {std::string(name), file};
}

}  // namespace

absl::StatusOr<std::map<std::string, std::vector<std::string>>> ReadIndex(const std::string& path) {
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const auto bad = [&](const absl::Status& s) { return absl::Status(s.code(), text::StrCat(path, ": ", s.message())); };
  auto doc =
      importers::json::Document::Parse({reinterpret_cast<const char*>((*file)->data().data()), (*file)->data().size()});
  if (!doc.ok()) return bad(doc.status());
  auto map = doc->root().Get("weight_map");
  if (!map.ok()) return bad(map.status());
  auto members = (*map)->AsObject();
  if (!members.ok()) return bad(members.status());
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& m : *members) {
    auto name = m.value.AsString();
    if (!name.ok()) return bad(name.status());
    if (name->empty() || *name == "." || *name == ".." || text::Contains(*name, "/") || name->find('\0') != name->npos)
      return bad(m.value.Error(text::StrCat("'", *name, "' is not a file of the index's folder")));
    files[std::string(*name)].emplace_back(m.key);
  }
  return files;
}

absl::Status CheckOneCheckpoint(const std::string& folder, const std::set<std::string>& files, const std::string& index,
                                const std::set<std::string>& indexed) {
  std::map<std::string, std::string> sets;  // by checkpoint, the one that was found first
  std::set<std::string> of_index;           // what its files are sets of
  std::string_view name = index;
  if (text::ConsumeSuffix(&name, kIndexSuffix))
    sets.emplace(name, index);
  else if (!index.empty())
    sets.emplace(kModel, index);  // of another format
  for (const std::string& file : indexed) of_index.insert(PlaceOf(file).set);
  for (const std::string& file : files) {
    const Place place = PlaceOf(file);
    if (of_index.contains(place.set) || (!index.empty() && !sets.contains(place.checkpoint))) continue;
    const auto [it, fresh] = sets.emplace(place.checkpoint, place.set);
    if (!fresh && it->second != place.set)
      return absl::InvalidArgumentError(text::StrCat(folder, ": two checkpoints, ", it->second, " and ", place.set,
                                                     ": remove one of them, or give the file or index that is meant"));
  }
  return absl::OkStatus();
}

absl::Status CheckComplete(const std::string& folder, const std::set<std::string>& files) {
  // by stem, total and suffix: the numbers, each with its digits
  std::map<std::array<std::string, 3>, std::map<uint64_t, size_t>> sets;
  for (const std::string& file : files) {
    const size_t dot = file.rfind('.');
    std::string_view stem = std::string_view(file).substr(0, dot);
    const std::string suffix = dot == file.npos ? "" : file.substr(dot);
    const std::string_view total = CutNumber(&stem);
    if (total.empty() || !text::ConsumeSuffix(&stem, "-of")) continue;
    const std::string_view number = CutNumber(&stem);
    uint64_t n;
    if (number.empty() || !text::ParseNumber(number, &n)) continue;
    sets[{std::string(stem), std::string(total), suffix}][n] = number.size();
  }
  for (const auto& [set, numbers] : sets) {
    uint64_t total;
    if (!text::ParseNumber(std::string_view(set[1]), &total)) continue;
    const uint64_t first = numbers.begin()->first == 0 ? 0 : 1;
    constexpr size_t kShown = 5;
    std::vector<std::string> missing;
    for (uint64_t n = first; n - first < total && missing.size() < kShown; ++n) {
      if (numbers.contains(n)) continue;
      const std::string digits = std::to_string(n);
      const size_t width = std::max(numbers.begin()->second, digits.size());
      missing.push_back(
          text::StrCat(set[0], "-", std::string(width - digits.size(), '0'), digits, "-of-", set[1], set[2]));
    }
    if (missing.empty()) continue;
    return absl::InvalidArgumentError(text::StrCat(folder, ": of ", total, " files there are ", numbers.size(),
                                                   "; missing: ", text::Join(missing, ", "),
                                                   missing.size() == kShown ? ", …" : ""));
  }
  return absl::OkStatus();
}

std::set<std::string> FilesReplaced(const std::string& folder) {
  std::set<std::string> present, replaced;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  while (const dirent* e = dir ? readdir(dir.get()) : nullptr) present.emplace(e->d_name);
  for (const std::string& name : present) {
    if (name.ends_with(kSuffix) && PlaceOf(name).checkpoint == kModel) replaced.insert(name);
    if (!name.ends_with(kIndexSuffix)) continue;
    replaced.insert(name);
    auto files = ReadIndex(text::StrCat(folder, "/", name));
    if (!files.ok()) continue;  // an index that cannot be read names nothing
    for (const auto& [file, tensors] : *files)
      if (file.ends_with(kSuffix) && present.contains(file)) replaced.insert(file);
  }
  return replaced;
}

}  // namespace slipway::weights
