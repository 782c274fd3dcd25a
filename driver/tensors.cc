// See tensors.h.
#include "driver/tensors.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "base/text.h"
#include "driver/open.h"
#include "importers/checkpoint/distributed.h"
#include "importers/checkpoint/state_dict.h"
#include "importers/dlpack/library.h"
#include "importers/json.h"
#include "importers/pt2/pt2.h"
#include "io/mapped_file.h"

namespace slipway::driver {
namespace {

using importers::TensorSet;

absl::Status Merge(TensorSet from, const std::string& path, TensorSet* into) {
  for (auto& [name, tensor] : from.tensors)
    if (!into->tensors.emplace(name, std::move(tensor)).second)
      return absl::InvalidArgumentError(text::StrCat(path, ": another shard has a tensor '", name, "' too"));
  into->metadata.merge(from.metadata);
  return absl::OkStatus();
}

absl::StatusOr<TensorSet> ReadFile(const std::string& path, const std::string& key) {
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const FileFormat format = FormatOf(**file);
  if (format == FileFormat::kSafetensors) return importers::ReadSafetensors(*file);
  if (format == FileFormat::kText || (format == FileFormat::kPt2 && importers::LooksLikePt2(*file))) {
    auto archive = OpenArchive(*file);
    if (!archive.ok()) return archive.status();
    std::vector<const ir::Program*> programs;
    for (const auto& p : archive->programs) programs.push_back(p.get());
    auto set = WeightsOf(programs);
    if (!set.ok()) return absl::Status(set.status().code(), text::StrCat(path, ": ", set.status().message()));
    return set;
  }
  if (format != FileFormat::kPt2 && format != FileFormat::kCheckpoint)
    return absl::InvalidArgumentError(text::StrCat(path, ": neither safetensors nor a checkpoint of torch.save nor an exported program"));
  auto tensors = importers::ReadCheckpoint(io::Bytes::Of(*file), key);
  if (!tensors.ok()) {
    const std::string_view message = text::FromAbsl(tensors.status().message());
    if (message.starts_with(path)) return tensors.status();  // as those about members of a zip do
    return absl::Status(tensors.status().code(), text::StrCat(path, ": ", message));
  }
  TensorSet set;
  for (auto& [name, tensor] : *tensors) set.tensors.insert_or_assign(name, std::move(tensor));
  set.metadata["format"] = "pt";
  return set;
}

// The shards that an index names, each with the tensors it must hold.
absl::StatusOr<TensorSet> ReadIndexed(const std::string& folder, const std::string& index, const std::string& key) {
  auto file = io::MappedFile::Open(index);
  if (!file.ok()) return file.status();
  const auto bad = [&](const absl::Status& s) { return absl::Status(s.code(), text::StrCat(index, ": ", s.message())); };
  auto doc = importers::json::Document::Parse({reinterpret_cast<const char*>((*file)->data().data()), (*file)->data().size()});
  if (!doc.ok()) return bad(doc.status());
  auto map = doc->root().Get("weight_map");
  if (!map.ok()) return bad(map.status());
  auto members = (*map)->AsObject();
  if (!members.ok()) return bad(members.status());
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& m : *members) {
    auto shard = m.value.AsString();
    if (!shard.ok()) return bad(shard.status());
    if (shard->empty() || *shard == "." || *shard == ".." || text::Contains(*shard, "/") || shard->find('\0') != shard->npos)
      return bad(m.value.Error(text::StrCat("'", *shard, "' is not a file of the index's folder")));
    shards[std::string(*shard)].emplace_back(m.key);
  }
  TensorSet all;
  for (const auto& [shard, names] : shards) {
    const std::string path = text::StrCat(folder, "/", shard);
    auto set = ReadFile(path, key);
    if (!set.ok()) return set.status();
    for (const std::string& name : names)
      if (!set->tensors.contains(name)) return bad(absl::InvalidArgumentError(text::StrCat("'", name, "' is not in ", shard)));
    if (absl::Status s = Merge(*std::move(set), path, &all); !s.ok()) return s;
  }
  return all;
}

// The tensors whose names begin with `key` and a dot, without that.
absl::StatusOr<TensorSet> Below(TensorSet all, const std::string& key, const std::string& folder) {
  if (key.empty() || key == ".") return all;
  const std::string prefix = key + ".";
  const auto keep = [&](auto* map) {
    std::remove_pointer_t<decltype(map)> kept;
    for (auto& [name, tensor] : *map)
      if (name.starts_with(prefix)) kept.emplace(name.substr(prefix.size()), std::move(tensor));
    *map = std::move(kept);
  };
  keep(&all.tensors);
  keep(&all.sharded);
  if (all.tensors.empty() && all.sharded.empty())
    return absl::InvalidArgumentError(text::StrCat(folder, ": no tensor's name begins with '", prefix, "'"));
  return all;
}

absl::StatusOr<TensorSet> ReadFolder(const std::string& folder, const std::string& key) {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (!dir) return absl::ErrnoToStatus(errno, folder);
  std::set<std::string> indexes, files;
  bool distributed = false;
  while (const dirent* e = readdir(dir.get())) {
    const std::string_view name = e->d_name;
    if (name.ends_with(".index.json")) indexes.emplace(name);
    if (name.ends_with(".safetensors")) files.emplace(name);
    distributed |= name == ".metadata";
  }
  if (distributed) {
    auto set = importers::ReadDistributed(folder);
    return set.ok() ? Below(*std::move(set), key, folder) : set;
  }
  // Beside an index of safetensors there may be one of the .bin files that they were made from.
  std::set<std::string> preferred;
  for (const std::string& i : indexes)
    if (i.ends_with(".safetensors.index.json")) preferred.insert(i);
  if (!preferred.empty()) indexes = preferred;
  if (indexes.size() > 1)
    return absl::InvalidArgumentError(text::StrCat(folder, ": several indexes (", text::Join(indexes, ", "), "): give one of them"));
  if (!indexes.empty()) return ReadIndexed(folder, text::StrCat(folder, "/", *indexes.begin()), key);
  if (files.empty()) return absl::InvalidArgumentError(text::StrCat(folder, ": a folder without .metadata, an index or .safetensors files"));
  std::vector<std::pair<std::string, TensorSet>> sets;
  bool shards = false;
  for (const std::string& name : files) {
    const std::string path = text::StrCat(folder, "/", name);
    auto set = ReadFile(path, key);
    if (!set.ok()) return set.status();
    shards |= importers::HasShardPlaces(*set);
    sets.emplace_back(path, *std::move(set));
  }
  if (shards) {
    auto set = importers::JoinShards(std::move(sets));
    return set.ok() ? Below(*std::move(set), key, folder) : set;
  }
  TensorSet all;
  for (auto& [path, set] : sets)
    if (absl::Status s = Merge(std::move(set), path, &all); !s.ok()) return s;
  return all;
}

}  // namespace

absl::StatusOr<TensorSet> WeightsOf(absl::Span<const ir::Program* const> programs) {
  TensorSet set;
  for (const ir::Program* p : programs)
    for (const auto& [name, tensor] : p->weights)
      if (!set.tensors.emplace(programs.size() > 1 ? text::StrCat(p->name, ".", name) : name, tensor).second)
        return absl::InvalidArgumentError(text::StrCat("two weights are named '", name, "'"));
  set.metadata["format"] = "pt";
  return set;
}

absl::StatusOr<TensorSet> ReadShardedTensors(const std::string& path, const std::string& key) {
  if (std::string_view library = path; text::ConsumePrefix(&library, "dlpack:")) return importers::ReadDlpackLibrary(std::string(library));
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return ReadFolder(path, key);
  if (path.ends_with(".index.json")) return ReadIndexed(FolderOf(path), path, key);
  return ReadFile(path, key);
}

absl::StatusOr<TensorSet> ReadTensors(const std::string& path, const std::string& key) {
  auto set = ReadShardedTensors(path, key);
  if (set.ok() && !set->sharded.empty())
    return absl::UnimplementedError(text::StrCat(path, ": '", set->sharded.begin()->first,
                                                 "' lies in several pieces; convert the checkpoint to safetensors first"));
  return set;
}

}  // namespace slipway::driver
