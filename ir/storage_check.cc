// Storages are compared whole: their containers state no checksums of parts.
#include "ir/storage_check.h"

#include "io/crc32.h"

namespace slipway::ir {
namespace {

// The bytes that there is something to compare with; nullptr for others.
const io::Bytes* Checkable(const Storage& s) {
  const auto* bytes = std::get_if<io::Bytes>(&s.bytes);
  return s.crc32 && bytes && bytes->file_range() ? bytes : nullptr;
}

}  // namespace

absl::Status CheckStorage(const Storage& s) {
  const io::Bytes* bytes = Checkable(s);
  return bytes ? io::CheckCrc(io::Crc32Of(*bytes), *s.crc32) : absl::OkStatus();
}

absl::Status StorageCheck::Read(const TensorRef& t) {
  const Storage& s = *t.storage;
  if (!Checkable(s) || static_cast<uint64_t>(t.nbytes()) < s.size / 2 || !checked_.insert(&s).second)
    return absl::OkStatus();
  return CheckStorage(s);
}

absl::Status StorageCheck::Copy(const Storage& s, uint64_t offset, uint64_t size, io::AtomicFile& out) {
  const io::Bytes& bytes = std::get<io::Bytes>(s.bytes);
  if (offset == 0 && size == bytes.size()) return out.Append(bytes, Checkable(s) ? s.crc32 : std::nullopt);
  return out.Append(bytes.Part(offset, size));
}

}  // namespace slipway::ir
