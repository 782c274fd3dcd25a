// See state_dict.h.
#include "importers/checkpoint/state_dict.h"

#include <map>

#include "base/text.h"
#include "importers/checkpoint/torch_zip.h"

namespace slipway::importers {

absl::StatusOr<std::vector<std::pair<std::string, ir::TensorRef>>> ReadTensorDict(io::Bytes archive) {
  auto checkpoint = OpenTorchZip(std::move(archive));
  if (!checkpoint.ok()) return checkpoint.status();
  const PickleValue& root = checkpoint->object.root();
  if (!root.is(PickleKind::kDict)) return absl::InvalidArgumentError("the pickle holds no dict of tensors");
  std::map<std::string, std::shared_ptr<const ir::Storage>, std::less<>> storages;
  std::vector<std::pair<std::string, ir::TensorRef>> out;
  for (size_t i = 0; i < root.pairs(); ++i) {
    const PickleTensor* t = root.value(i).tensor();
    if (!t) continue;
    if (!root.key(i).is(PickleKind::kString)) return absl::InvalidArgumentError("a tensor's name is not a string");
    std::string name(root.key(i).text());
    auto dtype = ir::DTypeFromTorchName(t->dtype);
    if (!dtype) return absl::UnimplementedError(text::StrCat("'", name, "': dtype ", t->dtype));
    auto& storage = storages[std::string(t->storage.key)];
    if (!storage) {
      auto s = std::make_shared<ir::Storage>();
      s->bytes = checkpoint->BytesOf(t->storage);
      s->size = t->storage.bytes;
      storage = std::move(s);
    }
    ir::TensorRef ref;
    ref.storage = storage;
    ref.dtype = *dtype;
    ref.sizes = t->sizes;
    ref.strides = t->strides;
    if (__builtin_mul_overflow(t->offset, t->item_size, &ref.offset))
      return absl::InvalidArgumentError(text::StrCat("'", name, "': storage offset overflows"));
    out.emplace_back(std::move(name), std::move(ref));
  }
  return out;
}

}  // namespace slipway::importers
