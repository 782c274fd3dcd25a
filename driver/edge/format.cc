// The table of formats. Each is recognised by its structure and not by a few magic bytes: the length that a safetensors
// file begins with may look like the magic of any other. A new one is a row here and its importer.
#include "driver/edge/format.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "base/list_error.h"
#include "base/machine.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/foreign_formats.h"
#include "driver/inspect/inspect.h"
#include "importers/checkpoint/distributed.h"
#include "importers/checkpoint/state_dict.h"
#include "importers/checkpoint/torch_legacy.h"
#include "importers/checkpoint/torch_zip.h"
#include "importers/dlpack/library.h"
#include "importers/json.h"
#include "importers/native/native_file.h"
#include "importers/npy/npy.h"
#include "importers/onnx/onnx.h"
#include "importers/pt2/pt2.h"
#include "importers/safetensors/safetensors.h"
#include "io/digest.h"
#include "io/io_error.h"
#include "io/zip_reader.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "weights/checkpoint_folder.h"

namespace slipway::driver {
namespace {

using ir::TensorSet;

constexpr std::string_view kLibraryPrefix = "dlpack:", kIndexSuffix = ".index.json";

std::string_view TextOf(const Source& source) {
  const absl::Span<const uint8_t> data = source.file->data();
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

// ---- Programs

bool IsText(const Source& s) { return s.file && ir::LooksLikeText(TextOf(s)); }

absl::StatusOr<ir::Archive> ReadText(const Source& s) {
  ir::ParseOptions options;
  options.base = FolderOf(s.path);
  options.name = s.path;
  ASSIGN_OR_RETURN(ir::Archive archive, ir::Parse(TextOf(s), options));
  // Parts of the JSON form that no program is made of are kept as they are.
  for (const auto& p : archive.programs) {
    for (const std::string* json : {&p->module_call_graph_json, &p->namedtuple_fields_json}) {
      if (json->empty()) continue;
      if (auto document = importers::json::Document::Parse(*json); !document.ok())
        return absl::InvalidArgumentError(
            text::StrCat(s.path, ": what is kept of the JSON form: ", document.status().message()));
    }
  }
  return archive;
}

bool IsPt2(const Source& s) { return s.file && importers::LooksLikePt2(s.file); }

absl::StatusOr<ir::Archive> ReadPt2(const Source& s) { return importers::ReadPt2(s.file); }

bool IsNative(const Source& s) { return s.file && importers::LooksNative(s.file); }

absl::Status DescribeNative(const Source& s, FileReport* report) {
  auto native = importers::ReadNative(s.file);
  if (!native.ok()) return native.status();
  const Machine* machine = FindMachine(native->machine);
  report->target =
      machine != nullptr ? std::string(machine->name) : text::StrCat("machine ", int{native->machine}, " of ELF");
  report->runtime_bytes = native->runtime_bytes;
  Describe(native->model, report);
  return absl::OkStatus();
}

// ---- Tensors

bool IsSafetensors(const Source& s) { return s.file && importers::LooksLikeSafetensors(s.file->data()); }

absl::StatusOr<TensorSet> ReadSafetensors(const Source& s, const std::string&) {
  return importers::ReadSafetensors(s.file);
}

bool IsNpy(const Source& s) { return s.file && importers::LooksLikeNpy(s.file->data()); }

absl::StatusOr<TensorSet> ReadNpy(const Source& s, const std::string&) { return importers::ReadNpy(s.file); }

bool IsNpz(const Source& s) { return s.file && importers::LooksLikeNpz(s.file); }

absl::StatusOr<TensorSet> ReadNpz(const Source& s, const std::string&) { return importers::ReadNpz(s.file); }

bool IsCheckpoint(const Source& s) {
  return s.file && (importers::LooksLikeTorchZip(s.file) || importers::LooksLikeTorchLegacy(s.file->data()));
}

TensorSet SetOf(importers::CheckpointTensors read) {
  TensorSet set;
  for (auto& [name, tensor] : read.tensors) set.tensors.insert_or_assign(name, std::move(tensor));
  set.unreadable.insert(read.unreadable.begin(), read.unreadable.end());
  if (!read.note.empty()) set.notes.push_back(std::move(read.note));
  return set;
}

absl::StatusOr<TensorSet> ReadCheckpoint(const Source& s, const std::string& key) {
  auto tensors = importers::ReadCheckpoint(io::Bytes::Of(s.file), key);
  if (!tensors.ok()) return tensors.status();
  TensorSet set = SetOf(*std::move(tensors));
  set.metadata["format"] = "pt";
  return set;
}

// All tensors, not only those of one dict.
absl::Status DescribeCheckpoint(const Source& s, FileReport* report) {
  auto tensors = importers::ListCheckpoint(io::Bytes::Of(s.file));
  if (!tensors.ok()) return tensors.status();
  Describe(SetOf(*std::move(tensors)), report);
  return absl::OkStatus();
}

// ---- Folders of shards

absl::Status Merge(TensorSet from, const std::string& path, TensorSet* into) {
  for (auto& [name, tensor] : from.tensors)
    if (!into->tensors.emplace(name, std::move(tensor)).second)
      return absl::InvalidArgumentError(text::StrCat(path, ": another shard has a tensor '", name, "' too"));
  into->metadata.merge(from.metadata);
  into->unreadable.merge(from.unreadable);
  for (std::string& note : from.notes) into->notes.push_back(text::StrCat(path, ": ", note));
  return absl::OkStatus();
}

// The shards that an index names, each with the tensors it must hold.
absl::StatusOr<TensorSet> ReadIndexed(const std::string& folder, const std::string& index, const std::string& key) {
  auto shards = weights::ReadIndex(index);
  if (!shards.ok()) return shards.status();
  TensorSet all;
  for (const auto& [shard, names] : *shards) {
    const std::string path = text::StrCat(folder, "/", shard);
    auto set = OpenTensors(path, key);
    if (!set.ok()) return set.status();
    std::set<std::string_view> named(names.begin(), names.end());
    std::vector<std::string> unnamed;
    for (const auto& [name, tensor] : set->tensors)
      if (!named.contains(name)) unnamed.push_back(name);
    if (!unnamed.empty())
      return WithHelp(
          ListError(text::StrCat(path, " holds ", unnamed.size(), unnamed.size() == 1 ? " tensor" : " tensors",
                                 " that ", index, " does not name"),
                    unnamed),
          "the index is of another checkpoint, or damaged; without it the folder's files are read whole");
    for (const std::string& name : names)
      if (!set->tensors.contains(name))
        return absl::InvalidArgumentError(text::StrCat(index, ": '", name, "' is not in ", shard));
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

// The one file of torch.save's, of those of a folder, that is a checkpoint; what trainers leave beside it is none.
absl::StatusOr<std::string> CheckpointIn(const std::string& folder, const std::set<std::string>& names) {
  static constexpr std::string_view kSuffixes[] = {".bin", ".pt", ".pth", ".ckpt"};
  static constexpr std::string_view kOfTrainers[] = {"training_args", "optimizer", "scheduler", "scaler", "rng_state"};
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (!std::any_of(std::begin(kSuffixes), std::end(kSuffixes), [&](std::string_view s) { return name.ends_with(s); }))
      continue;
    if (std::any_of(std::begin(kOfTrainers), std::end(kOfTrainers),
                    [&](std::string_view s) { return name.starts_with(s); }))
      continue;
    const auto source = OpenSource(text::StrCat(folder, "/", name));
    if (source.ok() && IsCheckpoint(*source)) found.push_back(name);
  }
  if (absl::Status s = weights::CheckComplete(folder, {found.begin(), found.end()}); !s.ok()) return s;
  if (found.size() == 1) return found[0];
  if (!found.empty())
    return WithHelp(
        absl::InvalidArgumentError(text::StrCat(folder, ": several checkpoints: ", text::Join(found, ", "))),
        "give one of them");
  return WithHelp(
      absl::InvalidArgumentError(text::StrCat(
          folder, ": a folder without .metadata, an index, .safetensors files or a checkpoint of torch.save")),
      "give the file, or the folder that it is in");
}

absl::StatusOr<TensorSet> ReadFolder(const std::string& folder, const std::string& key) {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (!dir) return io::IoError(errno, folder);
  std::set<std::string> indexes, files, others;
  bool distributed = false;
  while (const dirent* e = readdir(dir.get())) {
    const std::string_view name = e->d_name;
    if (name.ends_with(".index.json")) indexes.emplace(name);
    if (name.ends_with(".safetensors"))
      files.emplace(name);
    else
      others.emplace(name);
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
    return absl::InvalidArgumentError(
        text::StrCat(folder, ": several indexes (", text::Join(indexes, ", "), "): give one of them"));
  if (!indexes.empty()) {
    const std::string path = text::StrCat(folder, "/", *indexes.begin());
    auto shards = weights::ReadIndex(path);
    if (!shards.ok()) return shards.status();
    std::set<std::string> indexed;
    for (const auto& [shard, names] : *shards) indexed.insert(shard);
    if (absl::Status s = weights::CheckOneCheckpoint(folder, files, *indexes.begin(), indexed); !s.ok()) return s;
    if (absl::Status s = weights::CheckComplete(path, indexed); !s.ok()) return s;
    return ReadIndexed(folder, path, key);
  }
  if (absl::Status s = weights::CheckOneCheckpoint(folder, files, "", {}); !s.ok()) return s;
  if (files.empty()) {
    RETURN_IF_ERROR(CheckForeignFolder(folder, others));
    ASSIGN_OR_RETURN(const std::string name, CheckpointIn(folder, others));
    return OpenTensors(text::StrCat(folder, "/", name), key);
  }
  std::vector<std::pair<std::string, TensorSet>> sets;
  bool shards = false;
  for (const std::string& name : files) {
    const std::string path = text::StrCat(folder, "/", name);
    auto set = OpenTensors(path, key);
    if (!set.ok()) return set.status();
    shards |= importers::HasShardPlaces(*set);
    if (set->metadata.contains(weights::kRunKey) && name != "model.safetensors")
      return WithHelp(
          absl::InvalidArgumentError(text::StrCat(
              folder, ": unfinished: ", name, " is of a run of several processes, the last of which writes the index")),
          "run the ranks that are missing, with the same configuration");
    sets.emplace_back(path, *std::move(set));
  }
  if (shards) {
    auto set = importers::JoinShards(std::move(sets));
    return set.ok() ? Below(*std::move(set), key, folder) : set;
  }
  if (absl::Status s = weights::CheckComplete(folder, files); !s.ok())
    return WithHelp(s, "whoever writes the checkpoint has not finished, or a download is not complete");
  TensorSet all;
  for (auto& [path, set] : sets)
    if (absl::Status s = Merge(std::move(set), path, &all); !s.ok()) return s;
  return all;
}

std::set<std::string> FileNamesIn(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  std::set<std::string> names;
  while (const dirent* e = dir ? readdir(dir.get()) : nullptr) names.emplace(e->d_name);
  return names;
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool IsShards(const Source& s) { return s.file ? s.path.ends_with(kIndexSuffix) : !s.path.starts_with(kLibraryPrefix); }

absl::StatusOr<TensorSet> ReadShards(const Source& s, const std::string& key) {
  return s.file ? ReadIndexed(FolderOf(s.path), s.path, key) : ReadFolder(s.path, key);
}

absl::Status DescribeShards(const Source& s, FileReport* report) {
  auto set = ReadShards(s, "");
  if (!set.ok()) return set.status();
  Describe(*set, s.path, report);
  report->bytes = 0;
  for (const TensorRow& t : report->tensors) report->bytes += t.bytes;
  return absl::OkStatus();
}

// ---- Libraries

bool IsLibrary(const Source& s) { return s.path.starts_with(kLibraryPrefix); }

absl::StatusOr<TensorSet> ReadLibrary(const Source& s, const std::string&) {
  return importers::ReadDlpackLibrary(s.path.substr(kLibraryPrefix.size()));
}

// ---- ONNX models

bool IsOnnx(const Source& s) { return s.file && importers::LooksLikeOnnx(*s.file); }

absl::StatusOr<std::unique_ptr<ir::Program>> ReadOnnx(const Source& s) {
  ASSIGN_OR_RETURN(importers::OnnxModel model, importers::ReadOnnx(s.file));
  return std::move(model.program);
}

absl::Status DescribeOnnx(const Source& s, FileReport* report) {
  ASSIGN_OR_RETURN(const importers::OnnxModel model, importers::ReadOnnx(s.file));
  return Describe(model, report);
}

constexpr std::string_view kHowPrograms =
    "torch.export.save(torch.export.export(model, args), 'model.pt2') makes a program; where save refuses one (masks "
    "made of "
    "functions), save program.run_decompositions({})";

constexpr Format kFormats[] = {
    {"dlpack", "library of tensors", "", IsLibrary, nullptr, ReadLibrary, nullptr, nullptr},
    {"shards", "shards", "", IsShards, nullptr, ReadShards, nullptr, DescribeShards},
    {"text", "slipway text", "", IsText, ReadText, nullptr, nullptr, nullptr},
    {"safetensors", "safetensors file", ".safetensors", IsSafetensors, nullptr, ReadSafetensors, nullptr, nullptr},
    {"npy", "NumPy array", ".npy", IsNpy, nullptr, ReadNpy, nullptr, nullptr},
    {"npz", "NumPy archive", ".npz", IsNpz, nullptr, ReadNpz, nullptr, nullptr},
    {"pt2", "PT2 archive", ".pt2", IsPt2, ReadPt2, nullptr, nullptr, nullptr},
    {"native", "native library", ".so", IsNative, nullptr, nullptr, nullptr, DescribeNative},
    {"checkpoint", "torch.save checkpoint", "", IsCheckpoint, nullptr, ReadCheckpoint, nullptr, DescribeCheckpoint},
    {"onnx", "ONNX model", ".onnx", IsOnnx, nullptr, nullptr, ReadOnnx, DescribeOnnx},
};

// What is wrong with a file that no format recognises: a broken zip archive says where.
absl::Status Unknown(const Source& source) {
  if (TextOf(source).starts_with("PK"))
    if (auto zip = io::ZipReader::Open(source.file); !zip.ok()) return zip.status();
  return WithHelp(
      absl::InvalidArgumentError(text::StrCat(source.path, ": of no format that slipway reads")),
      text::StrCat("programs are what torch.export.save writes, weights safetensors or torch.save's; ", kHowPrograms));
}

constexpr std::string_view kOnnxProducer = "ONNX model";

// An ONNX model in ATen's operators.
absl::StatusOr<ir::Archive> OnnxArchive(const Source& source, const std::map<std::string, ir::TensorRef>& constants,
                                        int written) {
  importers::OnnxNotes notes;
  auto read = importers::ReadOnnxProgram(source.file, constants, written, &notes);
  if (absl::IsUnimplemented(read.status()))
    return WithHelp(read.status(),
                    "slipway inspect, diff and minify take the model as it is, and so does run --onnxruntime");
  ASSIGN_OR_RETURN(std::unique_ptr<ir::Program> program, std::move(read));
  RETURN_IF_ERROR(ir::Verify(*program));
  ir::Archive archive;
  archive.producer = kOnnxProducer;
  archive.programs.push_back(std::move(program));
  archive.extra_files = std::move(notes.metadata);
  // What this conversion states itself.
  for (const std::string_view key : {"version", "source", "source_digest", "dims"})
    archive.extra_files.erase(text::StrCat("slipway.", key));
  archive.extra_files.erase(std::string(kNarrowTypes));
  if (!notes.narrow.empty()) archive.extra_files[std::string(kNarrowTypes)] = text::Join(notes.narrow, "; ");
  return archive;
}

}  // namespace

absl::Span<const Format> Formats() { return kFormats; }

bool IsFromOnnx(const ir::Archive& archive) { return archive.producer == kOnnxProducer; }

absl::StatusOr<Source> OpenSource(const std::string& path) {
  if (path.starts_with(kLibraryPrefix) || IsDirectory(path)) return Source{path, nullptr};
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return Source{path, *std::move(file)};
}

absl::StatusOr<const Format*> FormatOf(const Source& source) {
  for (const Format& f : kFormats) {
    if (!f.matches(source)) continue;
    // A TorchScript archive is a checkpoint's zip with code in it, a tar one of old ones or any other.
    if (f.matches == IsCheckpoint) RETURN_IF_ERROR(CheckForeign(source.path, source.file, /*by_name=*/false));
    return &f;
  }
  RETURN_IF_ERROR(CheckForeign(source.path, source.file, /*by_name=*/false));
  for (const Format& f : kFormats)
    if (!f.suffix.empty() && source.path.ends_with(f.suffix)) return &f;
  RETURN_IF_ERROR(CheckForeign(source.path, source.file, /*by_name=*/true));
  return Unknown(source);
}

absl::StatusOr<ir::Archive> OpenOnnxArchive(const Source& source, const ir::TensorSet& constants, int written) {
  ASSIGN_OR_RETURN(const Format* format, FormatOf(source));
  if (!format->onnx_graph)
    return UsageError("--constant-inputs goes with ONNX models",
                      "programs of torch.export have constants of their own");
  return OnnxArchive(source, constants.tensors, written);
}

absl::StatusOr<ir::Archive> OpenArchive(const Source& source, int written) {
  auto format = FormatOf(source);
  if (!format.ok()) return format.status();
  if ((*format)->onnx_graph) return OnnxArchive(source, {}, written);
  if (!(*format)->programs)
    return WithHelp(absl::UnimplementedError(text::StrCat(
                        source.path, ": a ", (*format)->title,
                        (*format)->tensors ? " holds weights, no program" : ", of which no program is read")),
                    kHowPrograms);
  auto archive = (*format)->programs(source);
  if (!archive.ok()) return archive;
  for (const auto& p : archive->programs)
    if (absl::Status s = ir::Verify(*p); !s.ok()) return s;
  return archive;
}

absl::StatusOr<ir::Archive> OpenArchive(const std::string& path, int written) {
  if (IsDirectory(path)) RETURN_IF_ERROR(CheckForeignFolder(path, FileNamesIn(path)));
  auto file = io::MappedFile::Open(path);  // whose error says that a folder is none
  if (!file.ok()) return file.status();
  return OpenArchive(Source{path, *std::move(file)}, written);
}

absl::StatusOr<std::unique_ptr<ir::Program>> OpenOnnxGraph(const Source& source) {
  ASSIGN_OR_RETURN(const Format* format, FormatOf(source));
  if (!format->onnx_graph) return nullptr;
  ASSIGN_OR_RETURN(std::unique_ptr<ir::Program> program, format->onnx_graph(source));
  RETURN_IF_ERROR(ir::Verify(*program));
  return program;
}

absl::StatusOr<TensorSet> OpenTensors(const Source& source, const std::string& key) {
  auto format = FormatOf(source);
  if (!format.ok()) return format.status();
  if ((*format)->tensors) return (*format)->tensors(source, key);
  if ((*format)->onnx_graph) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ir::Program> program, (*format)->onnx_graph(source));
    return WeightsOf({program.get()});
  }
  if (!(*format)->programs)
    return absl::InvalidArgumentError(
        text::StrCat(source.path, ": a ", (*format)->title, ", of which no tensors are read"));
  auto archive = OpenArchive(source);
  if (!archive.ok()) return archive.status();
  std::vector<const ir::Program*> programs;
  for (const auto& p : archive->programs) programs.push_back(p.get());
  return WeightsOf(programs);
}

absl::StatusOr<TensorSet> OpenTensors(const std::string& path, const std::string& key) {
  auto source = OpenSource(path);
  if (!source.ok()) return source.status();
  auto set = OpenTensors(*source, key);
  return set.ok() ? std::move(set) : WithPlace(set.status(), path);
}

absl::StatusOr<TensorSet> OpenWholeTensors(const std::string& path, const std::string& key) {
  auto set = OpenTensors(path, key);
  if (set.ok())
    if (absl::Status s = CheckReadable(*set); !s.ok()) return s;
  if (set.ok() && !set->sharded.empty())
    return absl::UnimplementedError(
        text::StrCat(path, ": '", set->sharded.begin()->first,
                     "' lies in several pieces; convert the checkpoint to safetensors first"));
  return set;
}

absl::Status CheckReadable(const TensorSet& set) {
  if (set.unreadable.empty()) return absl::OkStatus();
  std::vector<std::string> items;
  for (const auto& [name, what] : set.unreadable) items.push_back(text::StrCat("'", name, "' (", what, ")"));
  return WithHelp(ListError(text::StrCat(items.size(), items.size() == 1 ? " tensor is" : " tensors are", " not read"),
                            items, absl::StatusCode::kUnimplemented),
                  "convert --exclude passes over them");
}

absl::StatusOr<TensorSet> WeightsOf(absl::Span<const ir::Program* const> programs) {
  TensorSet set;
  for (const ir::Program* p : programs) {
    const std::string before = programs.size() > 1 ? text::StrCat(p->name, ".") : "";
    for (const auto& [name, tensor] : p->weights)
      if (!set.tensors.emplace(before + name, tensor).second)
        return absl::InvalidArgumentError(text::StrCat("two weights are named '", name, "'"));
    for (const std::string& name : ir::AbsentWeights(*p)) set.without_values.push_back(before + name);
  }
  set.metadata["format"] = "pt";
  return set;
}

std::string SourceDigest(const std::shared_ptr<io::MappedFile>& file) {
  io::Sha256 digest;
  if (auto zip = io::ZipReader::Open(file); zip.ok()) {
    for (const io::ZipEntry& e : (*zip)->entries())
      digest.Update(text::StrCat(e.name, "\n", e.size, " ", e.crc32, "\n"));
  } else {
    digest.Update(file->data());
  }
  return text::StrCat("sha256:", io::ToHex(digest.Finish()));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace slipway::driver
