// Storages are told apart by their objects: aliases share one.
#include "driver/convert/storages.h"

#include "base/text.h"
#include "ir/storage_check.h"

namespace slipway::driver {

constexpr uint64_t kSmall = uint64_t{64} << 10;

void Storages::Add(const std::shared_ptr<const ir::Storage>& storage, std::string_view name) {
  if (!storage || !seen_.insert(storage.get()).second) return;
  entries_.push_back({storage, std::string(name)});
  if (const auto* bytes = std::get_if<io::Bytes>(&storage->bytes)) bytes_ += bytes->size();
}

void Storages::Add(const ir::Archive& archive) {
  for (const auto& p : archive.programs) {
    for (const auto& [name, tensor] : p->weights) Add(tensor.storage, name);
    for (const auto& [name, object] : p->objects) Add(object.first, name);
    Add(p->sample_inputs, "sample inputs");
  }
}

void Storages::Add(const ir::TensorSet& set) {
  for (const auto& [name, tensor] : set.tensors) Add(tensor.storage, name);
  for (const auto& [name, tensor] : set.sharded)
    for (const ir::Piece& piece : tensor.pieces) Add(piece.tensor.storage, name);
}

absl::Status Storages::Verify(bool all) const {
  std::vector<std::string> bad;
  for (const Entry& e : entries_) {
    if (!all && e.storage->size > kSmall) continue;
    if (absl::Status s = ir::CheckStorage(*e.storage); absl::IsInvalidArgument(s))
      bad.push_back(text::StrCat("'", e.name, "'"));
    else if (!s.ok())
      return s;
  }
  if (bad.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      text::StrCat(text::Join(bad, ", "), ": the bytes do not have the CRC-32 that the file states"));
}

}  // namespace slipway::driver
