// See dlpack_out.h.
#include "capi/dlpack_out.h"

#include <limits>
#include <memory>
#include <utility>

#include "base/text.h"
#include "importers/dlpack/dlpack.h"

namespace slipway::capi {
namespace {

constexpr uint64_t kReadOnly = uint64_t{1} << 0, kIsCopied = uint64_t{1} << 1;

// The structure given out and what it points to; the deleter frees it.
template <typename Managed>
struct Lent {
  Managed managed = {};
  ir::TensorRef tensor;
};

bool InPlace(const ir::TensorRef& t) {
  if (t.numel() == 0) return true;
  const auto bytes = ir::MappedBytes(*t.storage);
  if (bytes.empty()) return false;
  int64_t alignment = ir::ByteSize(t.dtype);
  if (ir::IsComplex(t.dtype)) alignment /= 2;
  return alignment <= 1 || reinterpret_cast<uintptr_t>(bytes.data() + t.offset) % alignment == 0;
}

absl::StatusOr<ir::TensorRef> Copy(const ir::TensorRef& t) {
  auto bytes = ir::ReadDense(t, std::numeric_limits<uint64_t>::max());
  if (!bytes.ok()) return bytes.status();
  return ir::OwnedTensor(t.dtype, t.sizes, *std::move(bytes));
}

template <typename Managed>
absl::StatusOr<std::unique_ptr<Lent<Managed>>> Lend(const ir::TensorRef& t, bool copy) {
  if (absl::Status s = ir::Validate(t); !s.ok()) return s;
  const auto type = importers::DlpackType(t.dtype);
  if (!type) return absl::UnimplementedError(text::StrCat("DLPack has no type ", ir::Name(t.dtype)));
  auto lent = std::make_unique<Lent<Managed>>();
  lent->tensor = t;
  if (copy) {
    auto copied = Copy(t);
    if (!copied.ok()) return copied.status();
    lent->tensor = *std::move(copied);
  }
  // Always the address itself: there are consumers that forget byte_offset.
  const auto bytes = ir::MappedBytes(*lent->tensor.storage);
  DLTensor& out = lent->managed.dl_tensor;
  out.data = bytes.empty() ? nullptr : const_cast<uint8_t*>(bytes.data() + lent->tensor.offset);
  out.device = {kDLCPU, 0};
  out.ndim = static_cast<int32_t>(lent->tensor.sizes.size());
  out.dtype = *type;
  out.shape = lent->tensor.sizes.data();
  out.strides = lent->tensor.strides.data();
  out.byte_offset = 0;
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = [](Managed* self) {
    if (self) delete static_cast<Lent<Managed>*>(self->manager_ctx);
  };
  return lent;
}

}  // namespace

absl::StatusOr<DLManagedTensorVersioned*> ToDlpack(const ir::TensorRef& t) {
  const bool copy = !InPlace(t);
  auto lent = Lend<DLManagedTensorVersioned>(t, copy);
  if (!lent.ok()) return lent.status();
  DLManagedTensorVersioned& managed = (*lent)->managed;
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.flags = copy ? kIsCopied : kReadOnly;
  return &(*lent).release()->managed;
}

absl::StatusOr<DLManagedTensor*> ToUnversionedDlpack(const ir::TensorRef& t) {
  auto lent = Lend<DLManagedTensor>(t, /*copy=*/true);
  if (!lent.ok()) return lent.status();
  return &(*lent).release()->managed;
}

}  // namespace slipway::capi
