// Storages have no directory: each follows the one before it, in the order of the key list, so every length is read and
// checked in turn before the next can be found.
#include "importers/checkpoint/torch_legacy.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace slipway::importers {
namespace {

// 0x1950a86a20f9469cfc6c, as pickles write it.
constexpr std::string_view kLegacyMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr int64_t kProtocol = 1001;
constexpr uint64_t kMaxPickle = uint64_t{1} << 30;  // the bytes looked at for each of the five
constexpr size_t kTarMagicAt = 257;
constexpr std::string_view kTarMagic = "ustar";

std::string EscapedKey(std::string_view key) { return absl::CHexEscape(absl::string_view(key.data(), key.size())); }

bool IsTar(absl::Span<const uint8_t> file) {
  return file.size() >= kTarMagicAt + kTarMagic.size() &&
         std::equal(kTarMagic.begin(), kTarMagic.end(), file.begin() + kTarMagicAt);
}

// Takes pickles and storages from the front of the file.
class LegacyReader {
 public:
  explicit LegacyReader(const io::Bytes& file) : file_(file), data_(file.data()) {}

  absl::Status Bad(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat("at byte ", at_, ": ", what));
  }

  absl::StatusOr<Unpickled> Pickle(const char* what, const UnpickleOptions& options) {
    auto read = Unpickle(data_.subspan(at_, std::min<uint64_t>(data_.size() - at_, kMaxPickle)), options);
    if (!read.ok())
      return absl::Status(read.status().code(),
                          absl::StrCat(what, ", which begins at byte ", at_, ": ", read.status().message()));
    at_ += read->consumed();
    return read;
  }

  // A storage of `count` elements, `bytes` long: its count and its bytes.
  absl::StatusOr<io::Bytes> Storage(std::string_view key, uint64_t count, uint64_t bytes) {
    if (data_.size() - at_ < 8) return Bad(absl::StrCat("the file ends before storage '", EscapedKey(key), "'"));
    uint64_t stated = 0;
    for (int i = 7; i >= 0; --i) stated = stated << 8 | data_[at_ + i];
    if (stated != count)
      return Bad(absl::StrCat("storage '", EscapedKey(key), "' has ", static_cast<int64_t>(stated),
                              " elements, where the pickle says ", count));
    at_ += 8;
    if (bytes > data_.size() - at_)
      return Bad(absl::StrCat("storage '", EscapedKey(key), "' of ", bytes, " bytes runs past the end of the file, ",
                              data_.size() - at_, " are left"));
    io::Bytes part = file_.Part(at_, bytes);
    at_ += bytes;
    return part;
  }

  uint64_t at() const { return at_; }
  bool done() const { return at_ == data_.size(); }

 private:
  const io::Bytes& file_;
  const absl::Span<const uint8_t> data_;
  uint64_t at_ = 0;
};

}  // namespace

bool LooksLikeTorchLegacy(absl::Span<const uint8_t> file) {
  return (file.size() > 2 && file[0] == 0x80 && file[1] >= 2 && file[1] <= 5) || IsTar(file);
}

absl::StatusOr<TorchCheckpoint> OpenTorchLegacy(io::Bytes file, const UnpickleOptions& options) {
  if (IsTar(file.data()))
    return absl::UnimplementedError("a tar file, as torch.save wrote before 0.4; load it with torch and save it again");
  LegacyReader reader(file);
  auto magic = reader.Pickle("the magic number", {});
  if (!magic.ok()) return magic.status();
  if (!magic->root().is(PickleKind::kBigInt) || magic->root().text() != kLegacyMagic)
    return absl::InvalidArgumentError("at byte 0: a pickle, but not of torch.save: its magic number is missing");
  auto protocol = reader.Pickle("the protocol version", {});
  if (!protocol.ok()) return protocol.status();
  if (!protocol->root().is(PickleKind::kInt) || protocol->root().integer() != kProtocol)
    return reader.Bad(absl::StrCat("the protocol version is not ", kProtocol));
  auto machine = reader.Pickle("the description of the machine", {});
  if (!machine.ok()) return machine.status();
  const PickleValue* little = machine->root().Find("little_endian");
  if (little == nullptr || !little->is(PickleKind::kBool)) return reader.Bad("the file does not say its byte order");
  if (!little->boolean()) return absl::UnimplementedError("a checkpoint written by a big-endian machine");

  TorchCheckpoint checkpoint;
  const uint64_t object_at = reader.at();
  auto object = reader.Pickle("the object", options);
  if (!object.ok()) return object.status();
  checkpoint.pickle = file.Part(object_at, reader.at() - object_at);
  checkpoint.object = *std::move(object);
  // What lies under a key must be told alike by all who mention it.
  std::map<std::string_view, const PickleStorage*> mentioned;
  for (const PickleStorage& storage : checkpoint.object.storages()) {
    const PickleStorage*& first = mentioned[storage.key];
    if (first == nullptr) first = &storage;
    if (first->dtype != storage.dtype || first->whole != storage.whole)
      return reader.Bad(
          absl::StrCat("the object mentions storage '", EscapedKey(storage.key), "' with two types or sizes"));
  }

  const uint64_t keys_at = reader.at();
  auto keys = reader.Pickle("the list of storages", {});
  if (!keys.ok()) return keys.status();
  if (!keys->root().is(PickleKind::kList))
    return absl::InvalidArgumentError(absl::StrCat("at byte ", keys_at, ": the list of storages is no list"));
  for (const PickleValue* key : keys->root().items()) {
    const auto storage = key->is(PickleKind::kString) ? mentioned.find(key->text()) : mentioned.end();
    if (storage == mentioned.end())
      return absl::InvalidArgumentError(absl::StrCat("at byte ", keys_at, ": the list of storages names '",
                                                     EscapedKey(key->text()), "', which the object does not mention"));
    const uint64_t item = static_cast<uint64_t>(TorchItemSize(storage->second->dtype));
    auto bytes = reader.Storage(key->text(), storage->second->whole / item, storage->second->whole);
    if (!bytes.ok()) return bytes.status();
    if (!checkpoint.storages.emplace(std::string(key->text()), *std::move(bytes)).second)
      return absl::InvalidArgumentError(
          absl::StrCat("at byte ", keys_at, ": the list of storages repeats '", EscapedKey(key->text()), "'"));
  }
  for (const auto& [key, storage] : mentioned)
    if (!checkpoint.storages.contains(key))
      return absl::InvalidArgumentError(
          absl::StrCat("at byte ", keys_at, ": storage '", EscapedKey(key), "' is not in the list of storages"));
  if (!reader.done()) return reader.Bad("the file goes on after the last storage");
  return checkpoint;
}

}  // namespace slipway::importers
