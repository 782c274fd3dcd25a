// See state_dict.h.
#include "importers/checkpoint/state_dict.h"

#include <map>

#include "base/text.h"
#include "importers/checkpoint/torch_zip.h"

namespace slipway::importers {
namespace {

using Named = std::vector<std::pair<std::string, ir::TensorRef>>;

class Collector {
 public:
  explicit Collector(const TorchCheckpoint& checkpoint) : checkpoint_(checkpoint) {}

  absl::Status Add(std::string name, const PickleTensor& t) {
    auto dtype = ir::DTypeFromTorchName(t.dtype);
    if (!dtype) return absl::UnimplementedError(text::StrCat("'", name, "': dtype ", t.dtype));
    auto& storage = storages_[std::string(t.storage.key)];
    if (!storage) {
      auto s = std::make_shared<ir::Storage>();
      s->bytes = checkpoint_.BytesOf(t.storage);
      s->size = t.storage.bytes;
      if (checkpoint_.storages.find(t.storage.key)->second.size() == s->size)
        s->crc32 = checkpoint_.crcs.find(t.storage.key)->second;
      storage = std::move(s);
    }
    ir::TensorRef ref;
    ref.storage = storage;
    ref.dtype = *dtype;
    ref.sizes = t.sizes;
    ref.strides = t.strides;
    if (__builtin_mul_overflow(t.offset, t.item_size, &ref.offset))
      return absl::InvalidArgumentError(text::StrCat("'", name, "': storage offset overflows"));
    found_.emplace_back(std::move(name), std::move(ref));
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

  Named found_;

 private:
  const TorchCheckpoint& checkpoint_;
  std::map<std::string, std::shared_ptr<const ir::Storage>, std::less<>> storages_;
};

absl::StatusOr<Named> Read(io::Bytes archive, const TorchZipOptions& options, bool nested) {
  auto checkpoint = OpenTorchZip(std::move(archive), options);
  if (!checkpoint.ok()) return checkpoint.status();
  const PickleValue& root = checkpoint->object.root();
  if (!root.is(PickleKind::kDict)) return absl::InvalidArgumentError("the pickle holds no dict of tensors");
  Collector c(*checkpoint);
  if (absl::Status s = c.AddDict(root, "", nested); !s.ok()) return s;
  return std::move(c.found_);
}

}  // namespace

absl::StatusOr<Named> ReadTensorDict(io::Bytes archive) { return Read(std::move(archive), {}, /*nested=*/false); }

absl::StatusOr<Named> ReadTensorSubclass(io::Bytes archive) {
  TorchZipOptions options;
  options.unpickle.inert_prefixes = {"torchao."};
  return Read(std::move(archive), options, /*nested=*/true);
}

}  // namespace slipway::importers
