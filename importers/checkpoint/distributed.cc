// The .metadata pickle is read without making any of its classes: records are dicts of fields. Entries name a file, an
// offset and a length, all of which are checked against the files before a shard is believed.
#include "importers/checkpoint/distributed.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string_view>

#include "base/text.h"
#include "importers/checkpoint/torch_zip.h"
#include "importers/checkpoint/unpickler.h"
#include "importers/json.h"
#include "importers/safetensors/safetensors.h"
#include "io/mapped_file.h"

namespace slipway::importers {
namespace {

constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata ";
constexpr std::string_view kStorageInfo = "torch.distributed.checkpoint.filesystem _StorageInfo";
// The classes of the records in .metadata; none is made, their fields are read.
const char* const kRecords[] = {
    "torch.distributed.checkpoint.metadata Metadata",
    "torch.distributed.checkpoint.metadata MetadataIndex",
    "torch.distributed.checkpoint.metadata TensorStorageMetadata",
    "torch.distributed.checkpoint.metadata BytesStorageMetadata",
    "torch.distributed.checkpoint.metadata ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata TensorProperties",
    "torch.distributed.checkpoint.metadata _MEM_FORMAT_ENCODING",
    "torch.distributed.checkpoint.metadata StorageMeta",
    "torch.distributed._shard.sharded_tensor.metadata TensorProperties",  // torch 2.0 … 2.2
    "torch.distributed._shard.sharded_tensor.metadata MEM_FORMAT_ENCODING",
    "torch.distributed.checkpoint.filesystem _StorageInfo",
    "pathlib PosixPath",  // where the checkpoint was written
    "pathlib PurePosixPath",
    "pathlib WindowsPath",
    "pathlib PureWindowsPath",
    "pathlib Path",
    "pathlib._local PosixPath",
    "pathlib._local WindowsPath",
};
constexpr std::string_view kPlaces = "DCP_SHARDING_INFO", kPlacesVersion = "DCP_VERSION";

using Offsets = std::vector<int64_t>;

absl::Status BadCheckpoint(const std::string& what) { return absl::InvalidArgumentError(what); }

// A field of a record of class `type`; nullptr where it has none.
const PickleValue* Field(const PickleValue& record, std::string_view type, std::string_view name) {
  if (!record.is(PickleKind::kObject) || record.text() != type || record.items().empty()) return nullptr;
  return record.items().back()->Find(name);
}

bool Ints(const PickleValue* tuple, Offsets* out) {
  if (tuple == nullptr || !(tuple->is(PickleKind::kTuple) || tuple->is(PickleKind::kList))) return false;
  for (const PickleValue* item : tuple->items()) {
    if (!item->is(PickleKind::kInt) || item->integer() < 0) return false;
    out->push_back(item->integer());
  }
  return true;
}

bool Natural(const PickleValue* value, uint64_t* out) {
  if (value == nullptr || !value->is(PickleKind::kInt) || value->integer() < 0) return false;
  *out = static_cast<uint64_t>(value->integer());
  return true;
}

std::string Shape(const Offsets& sizes) { return text::StrCat("[", text::Join(sizes, ","), "]"); }

// An empty tensor lies nowhere.
ir::TensorRef EmptyTensor(ir::DType dtype, Offsets sizes) { return ir::OwnedTensor(dtype, std::move(sizes), ""); }

void AddTensor(std::string name, ir::ShardedTensor tensor, ir::TensorSet* set) {
  if (const ir::TensorRef* whole = tensor.whole(); whole && whole->sizes == tensor.sizes)
    set->tensors.emplace(std::move(name), *whole);
  else
    set->sharded.emplace(std::move(name), std::move(tensor));
}

// Where an entry's bytes are.
struct Stored {
  std::string file;
  uint64_t offset = 0, length = 0;
  bool transformed = false;
};

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<ir::TensorSet> Read() {
    const std::string place = text::StrCat(path_, "/.metadata");
    auto file = io::MappedFile::Open(place);
    if (!file.ok()) return file.status();
    const auto annotate = [&](const absl::Status& s) {
      return absl::Status(s.code(), text::StrCat(place, ": ", text::FromAbsl(s.message())));
    };
    UnpickleOptions options;
    options.inert_names.assign(std::begin(kRecords), std::end(kRecords));
    auto pickle = Unpickle((*file)->data(), options);
    if (!pickle.ok()) return annotate(pickle.status());
    if (pickle->consumed() != (*file)->size())
      return annotate(BadCheckpoint(text::StrCat("bytes follow the pickle at byte ", pickle->consumed())));
    const std::string type = text::StrCat(kMetadata, "Metadata");
    const PickleValue* entries = Field(pickle->root(), type, "state_dict_metadata");
    const PickleValue* stored = Field(pickle->root(), type, "storage_data");
    if (!entries || !entries->is(PickleKind::kDict) || !stored || !stored->is(PickleKind::kDict))
      return annotate(BadCheckpoint("not the metadata of a distributed checkpoint"));
    if (absl::Status s = IndexStorage(*stored); !s.ok()) return annotate(s);

    ir::TensorSet set;
    std::vector<std::string> others;
    for (size_t i = 0; i < entries->pairs(); ++i) {
      if (!entries->key(i).is(PickleKind::kString)) return annotate(BadCheckpoint("a tensor's name is not a string"));
      std::string name(entries->key(i).text());
      const PickleValue& entry = entries->value(i);
      if (entry.is(PickleKind::kObject) && entry.text() == text::StrCat(kMetadata, "BytesStorageMetadata")) {
        others.push_back(std::move(name));
        continue;
      }
      auto tensor = ReadTensor(name, entry);
      if (!tensor.ok())
        return absl::Status(tensor.status().code(),
                            text::StrCat(place, ": '", name, "': ", text::FromAbsl(tensor.status().message())));
      AddTensor(std::move(name), *std::move(tensor), &set);
    }
    if (!others.empty()) {
      constexpr size_t kShown = 8;
      const size_t count = others.size();
      if (count > kShown) others.resize(kShown);
      set.notes.push_back(text::StrCat(count,
                                       count == 1 ? " entry that is no tensor is" : " entries that are no tensors are",
                                       " left out: ", text::Join(others, ", "), count > kShown ? ", …" : ""));
    }
    set.metadata["format"] = "pt";
    return set;
  }

 private:
  std::string path_;
  std::map<std::pair<std::string_view, Offsets>, Stored> stored_;  // by name and offsets
  std::map<std::string, std::shared_ptr<io::MappedFile>> files_;
  std::map<std::pair<std::string, uint64_t>, ir::TensorSet> sets_;  // the safetensors that begin in a file at a byte

  absl::Status IndexStorage(const PickleValue& stored) {
    for (size_t i = 0; i < stored.pairs(); ++i) {
      const std::string index = text::StrCat(kMetadata, "MetadataIndex");
      const PickleValue* name = Field(stored.key(i), index, "fqn");
      if (name == nullptr || !name->is(PickleKind::kString))
        return BadCheckpoint("an entry of storage_data has no name");
      const auto bad = [&](std::string_view what) {
        return BadCheckpoint(text::StrCat("storage_data of '", name->text(), "': ", what));
      };
      Offsets offsets;
      const PickleValue* at = Field(stored.key(i), index, "offset");
      if (at != nullptr && !at->is(PickleKind::kNone) && !Ints(at, &offsets))
        return bad("the offsets are not natural numbers");
      Stored s;
      const PickleValue& info = stored.value(i);
      const PickleValue* path = Field(info, kStorageInfo, "relative_path");
      if (path == nullptr || !path->is(PickleKind::kString) ||
          !Natural(Field(info, kStorageInfo, "offset"), &s.offset) ||
          !Natural(Field(info, kStorageInfo, "length"), &s.length))
        return bad("it has no path, offset and length");
      s.file = std::string(path->text());
      if (s.file.empty() || s.file == "." || s.file == ".." || s.file.find('/') != s.file.npos ||
          s.file.find('\0') != s.file.npos)
        return bad(text::StrCat("'", s.file, "' is not a file of the checkpoint's folder"));
      const PickleValue* transforms = Field(info, kStorageInfo, "transform_descriptors");
      s.transformed = transforms != nullptr && !transforms->is(PickleKind::kNone) && !transforms->items().empty();
      if (!stored_.emplace(std::pair(name->text(), std::move(offsets)), std::move(s)).second)
        return bad("it is there twice");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ir::ShardedTensor> ReadTensor(const std::string& name, const PickleValue& entry) {
    const std::string type = text::StrCat(kMetadata, "TensorStorageMetadata");
    const PickleValue* properties = Field(entry, type, "properties");
    const PickleValue* chunks = Field(entry, type, "chunks");
    ir::ShardedTensor t;
    if (properties == nullptr || !properties->is(PickleKind::kObject) || properties->items().empty() ||
        chunks == nullptr || !chunks->is(PickleKind::kList) || !Ints(Field(entry, type, "size"), &t.sizes))
      return BadCheckpoint("it is not described as a tensor of pieces");
    // (dtype, layout, …)
    const auto state = properties->items().back()->items();
    if (state.size() < 2 || !state[0]->is(PickleKind::kDtype)) return BadCheckpoint("its properties name no dtype");
    auto dtype = ir::DTypeFromTorchName(state[0]->text());
    if (!dtype) return absl::UnimplementedError(text::StrCat("dtype ", state[0]->text()));
    if (state[1]->is(PickleKind::kLayout) && state[1]->text() != "torch.strided")
      return absl::UnimplementedError(text::StrCat("layout ", state[1]->text()));
    t.dtype = *dtype;
    // The places of pieces would be in packed elements.
    if (ir::ByteSize(t.dtype) == 0)
      return absl::UnimplementedError(text::StrCat("dtype ", state[0]->text(), " in a distributed checkpoint"));
    for (const PickleValue* chunk : chunks->items()) {
      const std::string chunk_type = text::StrCat(kMetadata, "ChunkStorageMetadata");
      Offsets offsets, sizes;
      if (!Ints(Field(*chunk, chunk_type, "offsets"), &offsets) || !Ints(Field(*chunk, chunk_type, "sizes"), &sizes) ||
          offsets.size() != sizes.size())
        return BadCheckpoint("a piece has no offsets and sizes");
      if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) continue;
      const auto found = stored_.find(std::pair(std::string_view(name), offsets));
      if (found == stored_.end())
        return BadCheckpoint(text::StrCat("its piece at ", Shape(offsets), " is not in storage_data"));
      auto piece = ReadPiece(name, offsets, found->second);
      if (!piece.ok())
        return absl::Status(piece.status().code(), text::StrCat("its piece at ", Shape(offsets), ": ",
                                                                text::FromAbsl(piece.status().message())));
      if (piece->dtype != t.dtype || piece->sizes != sizes)
        return BadCheckpoint(text::StrCat("its piece at ", Shape(offsets), " is ", ir::Name(piece->dtype),
                                          Shape(piece->sizes), " in ", found->second.file, ", not ", ir::Name(t.dtype),
                                          Shape(sizes)));
      t.pieces.push_back({*std::move(piece), std::move(offsets)});
    }
    if (absl::Status s = ir::Validate(t); !s.ok()) return s;
    if (t.pieces.empty()) return ir::ShardedTensor(EmptyTensor(t.dtype, t.sizes));
    return t;
  }

  // A shard is what torch.save makes of a tensor, or lies under its name in a safetensors file, of which storage_data
  // does not say the place.
  absl::StatusOr<ir::TensorRef> ReadPiece(const std::string& name, const Offsets& offsets, const Stored& s) {
    if (s.transformed) return absl::UnimplementedError(text::StrCat("it is transformed (compressed) in ", s.file));
    auto& file = files_[s.file];
    if (!file) {
      auto opened = io::MappedFile::Open(text::StrCat(path_, "/", s.file));
      if (!opened.ok()) return opened.status();
      file = *std::move(opened);
    }
    // All of a file's tensors are said to lie where its safetensors begin, behind what a rank has besides tensors.
    auto set = sets_.find({s.file, s.offset});
    if (set == sets_.end() && s.offset < file->size() && LooksLikeSafetensors(file->data().subspan(s.offset))) {
      auto read = ReadSafetensors(file, s.offset);
      if (!read.ok()) return read.status();
      set = sets_.emplace(std::pair(s.file, s.offset), *std::move(read)).first;
    }
    if (set != sets_.end()) {
      const auto tensor = set->second.tensors.find(name);
      if (tensor == set->second.tensors.end()) return BadCheckpoint(text::StrCat(s.file, " has no tensor of its name"));
      if (const auto places = set->second.metadata.find(std::string(kPlaces)); places != set->second.metadata.end()) {
        auto document = json::Document::Parse(places->second);
        if (!document.ok())
          return absl::Status(document.status().code(),
                              text::StrCat(s.file, ": ", kPlaces, ": ", document.status().message()));
        const json::Value* entry = document->root().Find(name);
        const json::Value* saved = entry ? entry->Find("saved_offsets") : nullptr;
        Offsets stated;
        if (saved && saved->is_array()) {
          const absl::Span<const json::Value> starts = *saved->AsArray();
          for (const json::Value& at : starts) stated.push_back(at.AsInt().value_or(-1));
        }
        if (saved && stated != offsets) return BadCheckpoint(text::StrCat(s.file, " has its piece at ", Shape(stated)));
      }
      return tensor->second;
    }
    if (s.offset > file->size() || s.length > file->size() - s.offset)
      return BadCheckpoint(text::StrCat("bytes ", s.offset, " … ", s.offset, " + ", s.length, " lie outside ", s.file,
                                        " of ", file->size(), " bytes"));
    auto checkpoint = OpenTorchZip(io::FileRange{file, s.offset, s.length});
    if (!checkpoint.ok()) return checkpoint.status();
    const PickleTensor* t = checkpoint->object.root().tensor();
    if (t == nullptr)
      return BadCheckpoint(text::StrCat("what lies at byte ", s.offset, " of ", s.file, " is no tensor"));
    auto storage = std::make_shared<ir::Storage>();
    storage->bytes = checkpoint->storages.find(t->storage.key)->second;
    storage->size = std::get<io::Bytes>(storage->bytes).size();
    auto ref = ReferTo(*t, std::move(storage));
    if (!ref.ok()) return ref.status();
    file->Release(s.offset, s.length);  // thousands of headers lie among the data
    return ref;
  }
};

}  // namespace

absl::StatusOr<ir::TensorSet> ReadDistributed(const std::string& folder) { return Folder(folder).Read(); }

bool HasShardPlaces(const ir::TensorSet& file) { return file.metadata.contains(std::string(kPlaces)); }

absl::StatusOr<ir::TensorSet> JoinShards(std::vector<std::pair<std::string, ir::TensorSet>> files) {
  std::map<std::string, ir::ShardedTensor> joined;
  ir::TensorSet set;
  for (auto& [path, file] : files) {
    const auto annotate = [&, &path = path](const absl::Status& s) {
      return absl::Status(s.code(), text::StrCat(path, ": ", kPlaces, ": ", text::FromAbsl(s.message())));
    };
    const auto text = file.metadata.find(std::string(kPlaces));
    if (text == file.metadata.end())
      return annotate(BadCheckpoint("it is missing, where other files of the folder have it"));
    auto places = json::Document::Parse(text->second);
    if (!places.ok()) return annotate(places.status());
    for (auto& [name, tensor] : file.tensors) {
      const auto bad = [&, &name = name](std::string_view what) {
        return annotate(BadCheckpoint(text::StrCat("'", name, "': ", what)));
      };
      const json::Value* entry = places->root().Find(name);
      const json::Value* saved = entry ? entry->Find("saved_offsets") : nullptr;
      if (!saved || !saved->is_array()) return bad("it has no saved_offsets");
      const auto values = *saved->AsArray();
      if (values.size() != tensor.sizes.size()) return bad("it has another number of offsets than dimensions");
      ir::ShardedTensor& whole = joined[name];
      if (whole.dtype == ir::DType::kUnknown) {
        whole.dtype = tensor.dtype;
        whole.sizes.assign(values.size(), 0);
      }
      if (whole.dtype != tensor.dtype || whole.sizes.size() != values.size())
        return bad("its pieces have several types or numbers of dimensions");
      ir::Piece piece{std::move(tensor), {}};
      for (size_t d = 0; d < values.size(); ++d) {
        auto offset = values[d].AsInt();
        int64_t end;
        if (!offset.ok() || *offset < 0 || __builtin_add_overflow(*offset, piece.tensor.sizes[d], &end))
          return bad("an offset is no natural number, or too large");
        piece.offsets.push_back(*offset);
        whole.sizes[d] = std::max(whole.sizes[d], end);
      }
      if (piece.tensor.numel() > 0) whole.pieces.push_back(std::move(piece));
    }
    file.metadata.erase(text);
    file.metadata.erase(std::string(kPlacesVersion));
    set.metadata.merge(file.metadata);
  }
  for (auto& [name, tensor] : joined) {
    if (absl::Status s = ir::Validate(tensor); !s.ok())
      return absl::Status(s.code(), text::StrCat(files[0].first, " and the files beside it: '", name,
                                                 "': ", text::FromAbsl(s.message())));
    if (tensor.pieces.empty()) tensor = ir::ShardedTensor(EmptyTensor(tensor.dtype, tensor.sizes));
    AddTensor(name, std::move(tensor), &set);
  }
  return set;
}

}  // namespace slipway::importers
