// Which tensors of a checkpoint are its weights. Without a key only a plain dict of tensors is taken: where dicts of tensors
// lie within, the error names them for --key, whose path is matched key by key, since keys may hold dots themselves.
#include "importers/checkpoint/state_dict.h"

#include <map>

#include "base/text.h"
#include "importers/checkpoint/torch_legacy.h"
#include "importers/checkpoint/torch_zip.h"

namespace slipway::importers {
namespace {

using Named = std::vector<std::pair<std::string, ir::TensorRef>>;

class Collector {
 public:
  explicit Collector(const TorchCheckpoint& checkpoint) : checkpoint_(checkpoint) {}

  absl::Status Add(std::string name, const PickleTensor& t) {
    auto& storage = storages_[std::string(t.storage.key)];
    if (!storage) {
      auto s = std::make_shared<ir::Storage>();
      const io::Bytes& bytes = checkpoint_.storages.find(t.storage.key)->second;
      s->bytes = bytes;
      s->size = bytes.size();
      if (const auto crc = checkpoint_.crcs.find(t.storage.key); crc != checkpoint_.crcs.end()) s->crc32 = crc->second;
      storage = std::move(s);
    }
    auto ref = ReferTo(t, storage);
    if (!ref.ok())
      return absl::Status(ref.status().code(), text::StrCat("'", name, "': ", text::FromAbsl(ref.status().message())));
    found_.emplace_back(std::move(name), *std::move(ref));
    return absl::OkStatus();
  }

  // Every tensor of a dict; `nested` dicts too, names joined by dots.
  absl::Status AddDict(const PickleValue& dict, const std::string& prefix, bool nested) {
    for (size_t i = 0; i < dict.pairs(); ++i) {
      const PickleValue& value = dict.value(i);
      const PickleTensor* t = value.tensor();
      if (!t && !(nested && value.is(PickleKind::kDict))) continue;
      if (!dict.key(i).is(PickleKind::kString)) return absl::InvalidArgumentError("a tensor's name is not a string");
      std::string name = text::StrCat(prefix, dict.key(i).text());
      if (absl::Status s = t ? Add(name, *t) : AddDict(value, name + ".", nested); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // Every tensor below `value`.
  absl::Status AddAll(const PickleValue& value, const std::string& path) {
    if (const PickleTensor* t = value.tensor()) return Add(path, *t);
    const auto below = [&](const PickleValue& child, std::string_view key) {
      return AddAll(child, path.empty() ? std::string(key) : text::StrCat(path, ".", key));
    };
    if (value.is(PickleKind::kDict)) {
      for (size_t i = 0; i < value.pairs(); ++i) {
        const PickleValue& key = value.key(i);
        const std::string name = key.is(PickleKind::kString) ? std::string(key.text())
                                 : key.is(PickleKind::kInt)  ? std::to_string(key.integer())
                                                             : text::StrCat("#", i);
        if (absl::Status s = below(value.value(i), name); !s.ok()) return s;
      }
    } else if (value.is(PickleKind::kList) || value.is(PickleKind::kTuple)) {
      for (size_t i = 0; i < value.items().size(); ++i)
        if (absl::Status s = below(*value.items()[i], std::to_string(i)); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  Named found_;

 private:
  const TorchCheckpoint& checkpoint_;
  std::map<std::string, std::shared_ptr<const ir::Storage>, std::less<>> storages_;
};

// Either form of torch.save.
absl::StatusOr<TorchCheckpoint> Open(io::Bytes file, const TorchZipOptions& options = {}) {
  if (LooksLikeTorchLegacy(file.data())) return OpenTorchLegacy(std::move(file));
  return OpenTorchZip(std::move(file), options);
}

absl::StatusOr<Named> Read(io::Bytes archive, const TorchZipOptions& options, bool nested) {
  auto checkpoint = Open(std::move(archive), options);
  if (!checkpoint.ok()) return checkpoint.status();
  const PickleValue& root = checkpoint->object.root();
  if (!root.is(PickleKind::kDict)) return absl::InvalidArgumentError("the pickle holds no dict of tensors");
  Collector c(*checkpoint);
  if (absl::Status s = c.AddDict(root, "", nested); !s.ok()) return s;
  return std::move(c.found_);
}

// The value that a path of keys joined by dots leads to; keys may hold dots themselves.
const PickleValue* Follow(const PickleValue& dict, std::string_view path) {
  if (path.empty()) return &dict;
  for (size_t i = 0; i < dict.pairs(); ++i) {
    if (!dict.key(i).is(PickleKind::kString)) continue;
    std::string_view rest = path;
    if (!text::ConsumePrefix(&rest, dict.key(i).text())) continue;
    if (rest.empty()) return &dict.value(i);
    if (!text::ConsumePrefix(&rest, ".")) continue;
    if (const PickleValue* found = Follow(dict.value(i), rest)) return found;
  }
  return nullptr;
}

// The paths of the dicts that hold tensors themselves.
void FindTensorDicts(const PickleValue& dict, const std::string& path, std::vector<std::string>* found) {
  bool tensors = false;
  for (size_t i = 0; i < dict.pairs(); ++i) {
    if (!dict.key(i).is(PickleKind::kString)) continue;
    tensors |= dict.value(i).is(PickleKind::kTensor);
    if (dict.value(i).is(PickleKind::kDict))
      FindTensorDicts(dict.value(i),
                      path.empty() ? std::string(dict.key(i).text()) : text::StrCat(path, ".", dict.key(i).text()),
                      found);
  }
  if (tensors && !path.empty()) found->push_back(path);
}

}  // namespace

absl::StatusOr<Named> ReadCheckpoint(io::Bytes archive, std::string_view key) {
  auto checkpoint = Open(std::move(archive));
  if (!checkpoint.ok()) return checkpoint.status();
  const PickleValue& root = checkpoint->object.root();
  const PickleValue* dict = Follow(root, key == "." ? std::string_view() : key);
  std::vector<std::string> candidates;
  FindTensorDicts(root, "", &candidates);
  Collector c(*checkpoint);
  // Without a key, tensors beside dicts of tensors (a state of random numbers, say) are hardly what is wanted.
  if (key.empty() && !candidates.empty()) dict = nullptr;
  if (dict && dict->is(PickleKind::kDict))
    if (absl::Status s = c.AddDict(*dict, "", /*nested=*/false); !s.ok()) return s;
  if (!c.found_.empty()) return std::move(c.found_);
  constexpr size_t kShown = 8;
  const bool more = candidates.size() > kShown;
  if (more) candidates.resize(kShown);
  return absl::InvalidArgumentError(text::StrCat(
      key.empty() ? "the checkpoint is no plain dict of tensors"
                  : text::StrCat("the checkpoint has no dict of tensors at '", key, "'"),
      candidates.empty()
          ? ""
          : text::StrCat("; --key names one of those within: ", text::Join(candidates, ", "), more ? ", …" : "")));
}

absl::StatusOr<Named> ListCheckpoint(io::Bytes archive) {
  auto checkpoint = Open(std::move(archive));
  if (!checkpoint.ok()) return checkpoint.status();
  Collector c(*checkpoint);
  if (absl::Status s = c.AddAll(checkpoint->object.root(), ""); !s.ok()) return s;
  return std::move(c.found_);
}

namespace {

absl::Status AddLeaves(const PickleValue& value, Collector& c, std::vector<PickleLeaf>* out) {
  if (const PickleTensor* t = value.tensor()) {
    if (absl::Status s = c.Add("", *t); !s.ok()) return s;
    out->emplace_back(std::move(c.found_.back().second));
    c.found_.clear();
    return absl::OkStatus();
  }
  const bool dict = value.is(PickleKind::kDict);
  if (dict || value.is(PickleKind::kList) || value.is(PickleKind::kTuple)) {
    for (size_t i = 0; i < (dict ? value.pairs() : value.items().size()); ++i)
      if (absl::Status s = AddLeaves(dict ? value.value(i) : *value.items()[i], c, out); !s.ok()) return s;
    return absl::OkStatus();
  }
  switch (value.kind()) {
    case PickleKind::kInt: out->emplace_back(value.integer()); break;
    case PickleKind::kBool: out->emplace_back(value.boolean()); break;
    case PickleKind::kFloat: out->emplace_back(value.real()); break;
    default: out->emplace_back(); break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PickleLeaf>> ReadLeaves(io::Bytes archive) {
  auto checkpoint = Open(std::move(archive));
  if (!checkpoint.ok()) return checkpoint.status();
  Collector c(*checkpoint);
  std::vector<PickleLeaf> leaves;
  if (absl::Status s = AddLeaves(checkpoint->object.root(), c, &leaves); !s.ok()) return s;
  return leaves;
}

absl::Status CheckPickle(io::Bytes archive) { return Open(std::move(archive)).status(); }

absl::StatusOr<Named> ReadTensorDict(io::Bytes archive) { return Read(std::move(archive), {}, /*nested=*/false); }

absl::StatusOr<Named> ReadTensorSubclass(io::Bytes archive) {
  TorchZipOptions options;
  options.unpickle.inert_prefixes = {"torchao."};
  return Read(std::move(archive), options, /*nested=*/true);
}

}  // namespace slipway::importers
