// What a DLPack tensor keeps alive: the storage of a view, or the bytes of a copy.
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
struct Exported {
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
absl::StatusOr<std::unique_ptr<Exported<Managed>>> Export(const ir::TensorRef& t, bool copy) {
  if (absl::Status s = ir::Validate(t); !s.ok()) return s;
  const auto type = importers::DlpackType(t.dtype);
  if (!type) return absl::UnimplementedError(text::StrCat("DLPack has no type ", ir::Name(t.dtype)));
  auto exported = std::make_unique<Exported<Managed>>();
  exported->tensor = t;
  if (copy) {
    auto copied = Copy(t);
    if (!copied.ok()) return copied.status();
    exported->tensor = *std::move(copied);
  }
  // Always the address itself: there are consumers that forget byte_offset.
  const auto bytes = ir::MappedBytes(*exported->tensor.storage);
  DLTensor& out = exported->managed.dl_tensor;
  out.data = bytes.empty() ? nullptr : const_cast<uint8_t*>(bytes.data() + exported->tensor.offset);
  out.device = {kDLCPU, 0};
  out.ndim = static_cast<int32_t>(exported->tensor.sizes.size());
  out.dtype = *type;
  out.shape = exported->tensor.sizes.data();
  out.strides = exported->tensor.strides.data();
  out.byte_offset = 0;
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](Managed* self) {
    if (self) delete static_cast<Exported<Managed>*>(self->manager_ctx);
  };
  return exported;
}

}  // namespace

absl::StatusOr<DLManagedTensorVersioned*> ToDlpack(const ir::TensorRef& t) {
  const bool copy = !InPlace(t);
  auto exported = Export<DLManagedTensorVersioned>(t, copy);
  if (!exported.ok()) return exported.status();
  DLManagedTensorVersioned& managed = (*exported)->managed;
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.flags = copy ? kIsCopied : kReadOnly;
  return &(*exported).release()->managed;
}

absl::StatusOr<DLManagedTensor*> ToUnversionedDlpack(const ir::TensorRef& t) {
  auto exported = Export<DLManagedTensor>(t, /*copy=*/true);
  if (!exported.ok()) return exported.status();
  return &(*exported).release()->managed;
}

}  // namespace slipway::capi
