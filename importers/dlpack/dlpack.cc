// Versioned (1.x) and unversioned capsules give the same TensorRef. Sizes and strides come from foreign code and are
// checked with overflow-safe arithmetic before an address is computed.
#include "importers/dlpack/dlpack.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/dtypes.h"
#include "base/text.h"

namespace slipway::importers {
namespace {

using ir::DType;

constexpr int kMaxRank = 64;  // as ir::Validate() has it

constexpr uint64_t kSubbytePadded = uint64_t{1} << 2;

bool IsHostMemory(DLDeviceType type) { return type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost; }

// Half of it checks: a producer may hand over anything that the protocol can say.
absl::StatusOr<ir::TensorRef> View(const DLTensor& t, uint64_t flags, std::shared_ptr<void> owner) {
  if (!IsHostMemory(t.device.device_type))
    return absl::UnimplementedError(text::StrCat("a tensor on a device of DLPack's kind ",
                                                 static_cast<int>(t.device.device_type),
                                                 "; only memory of the host is read"));
  const auto dtype = DTypeFromDlpack(t.dtype);
  if (!dtype || t.dtype.lanes == 0)
    return absl::UnimplementedError(text::StrCat("elements of DLPack's code ", static_cast<int>(t.dtype.code), " with ",
                                                 static_cast<int>(t.dtype.bits), " bits and ", t.dtype.lanes,
                                                 " lanes"));
  const int64_t bits = ir::BitSize(*dtype);
  if (bits % 8 != 0 && (flags & kSubbytePadded) != 0)
    return absl::UnimplementedError(text::StrCat("elements of type ", ir::Name(*dtype), ", each padded to a byte"));
  if (t.ndim < 0 || t.ndim > kMaxRank)
    return absl::InvalidArgumentError(text::StrCat("a tensor of ", t.ndim, " dimensions"));
  if (t.ndim > 0 && !t.shape) return absl::InvalidArgumentError("a tensor without a shape");

  ir::TensorRef ref;
  ref.dtype = *dtype;
  ref.sizes.assign(t.shape, t.shape + t.ndim);
  bool empty = false;
  for (int64_t n : ref.sizes) {
    if (n < 0) return absl::InvalidArgumentError(text::StrCat("a size of ", n));
    empty |= n == 0;
  }
  if (t.strides) {
    ref.strides.assign(t.strides, t.strides + t.ndim);
    for (int i = 0; i < t.ndim; ++i) {
      if (empty || ref.sizes[i] == 1) ref.strides[i] = 0;  // never taken: it may have been anything
      if (ref.strides[i] < 0)
        return absl::UnimplementedError(text::StrCat("a negative stride (", ref.strides[i], "); give a dense copy"));
    }
  }
  if (const int64_t lanes = t.dtype.lanes; lanes > 1) {
    if (t.ndim == 0) return absl::UnimplementedError(text::StrCat("a tensor of no dimensions and ", lanes, " lanes"));
    int64_t& last = ref.sizes.back();
    if (t.strides && last > 1 && ref.strides.back() != 1)
      return absl::UnimplementedError(text::StrCat("elements of ", lanes, " lanes that lie apart"));
    if (__builtin_mul_overflow(last, lanes, &last)) return absl::InvalidArgumentError("the tensor's size overflows");
    for (int64_t& stride : ref.strides)
      if (__builtin_mul_overflow(stride, lanes, &stride))
        return absl::InvalidArgumentError("the tensor's strides overflow");
    if (t.strides) ref.strides.back() = 1;
  }

  // The elements' number and the last one's place, so that no later arithmetic overflows.
  int64_t count = 1, elements = 1;
  for (int64_t n : ref.sizes)
    if (__builtin_mul_overflow(count, n > 0 ? n : 1, &count))
      return absl::InvalidArgumentError("the tensor's size overflows");
  const std::vector<int64_t> dense = ir::ContiguousStrides(ref.sizes);
  if (!t.strides) ref.strides = dense;
  for (size_t i = 0; i < ref.sizes.size(); ++i) {
    if (empty || ref.sizes[i] == 1) ref.strides[i] = dense[i];
    int64_t reach;
    if (!empty && (__builtin_mul_overflow(ref.sizes[i] - 1, ref.strides[i], &reach) ||
                   __builtin_add_overflow(elements, reach, &elements)))
      return absl::InvalidArgumentError("the tensor's strides overflow");
  }
  if (empty) elements = 0;
  int64_t extent = 0, total = 0;
  if (__builtin_mul_overflow(elements, bits, &extent) || __builtin_add_overflow(extent, 7, &extent) ||
      __builtin_mul_overflow(count, bits, &total) || __builtin_add_overflow(total, 7, &total))
    return absl::InvalidArgumentError("the tensor's size overflows");
  extent /= 8;
  if (bits % 8 != 0 && !ref.is_contiguous())
    return absl::UnimplementedError(text::StrCat("a strided tensor of type ", ir::Name(*dtype)));

  const uint8_t* first = nullptr;
  if (!empty) {
    if (!t.data) return absl::InvalidArgumentError("a tensor without data");
    uintptr_t begin, end;
    if (__builtin_add_overflow(reinterpret_cast<uintptr_t>(t.data), t.byte_offset, &begin) ||
        __builtin_add_overflow(begin, static_cast<uint64_t>(extent), &end))
      return absl::InvalidArgumentError("the tensor reaches beyond the address space");
    first = reinterpret_cast<const uint8_t*>(begin);
  }
  auto storage = std::make_shared<ir::Storage>();
  storage->bytes = io::Bytes(
      io::MemoryRange{std::shared_ptr<const uint8_t>(std::move(owner), first), 0, static_cast<uint64_t>(extent)});
  storage->size = static_cast<uint64_t>(extent);
  ref.storage = std::move(storage);
  if (absl::Status s = ir::Validate(ref); !s.ok()) return s;
  return ref;
}

template <typename Managed>
std::shared_ptr<void> Own(Managed* tensor) {
  return std::shared_ptr<void>(tensor, [](void* p) {
    auto* managed = static_cast<Managed*>(p);
    if (managed->deleter) managed->deleter(managed);
  });
}

}  // namespace

// They are found by sorting their address ranges.
void ShareStorages(const std::vector<ir::TensorRef*>& tensors) {
  struct Piece {
    uintptr_t begin, end;
    ir::TensorRef* tensor;
  };
  std::vector<Piece> pieces;
  for (ir::TensorRef* t : tensors) {
    const auto* source = std::get_if<io::Bytes>(&t->storage->bytes);
    if (!source || !std::holds_alternative<io::MemoryRange>(source->source) || source->data().empty()) continue;
    const auto begin = reinterpret_cast<uintptr_t>(source->data().data());
    pieces.push_back({begin, begin + source->data().size(), t});
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  for (size_t first = 0, next; first < pieces.size(); first = next) {
    uintptr_t end = pieces[first].end;
    bool shared = true;
    for (next = first + 1; next < pieces.size() && pieces[next].begin < end; ++next) {
      end = std::max(end, pieces[next].end);
      shared = shared && pieces[next].tensor->storage == pieces[first].tensor->storage;
    }
    if (shared) continue;
    auto owners = std::make_shared<std::vector<std::shared_ptr<const ir::Storage>>>();
    for (size_t i = first; i < next; ++i) owners->push_back(pieces[i].tensor->storage);
    auto whole = std::make_shared<ir::Storage>();
    whole->size = end - pieces[first].begin;
    whole->bytes = io::Bytes(io::MemoryRange{
        std::shared_ptr<const uint8_t>(std::move(owners), reinterpret_cast<const uint8_t*>(pieces[first].begin)), 0,
        whole->size});
    for (size_t i = first; i < next; ++i) {
      pieces[i].tensor->offset += static_cast<int64_t>(pieces[i].begin - pieces[first].begin);
      pieces[i].tensor->storage = whole;
    }
  }
}

std::optional<DType> DTypeFromDlpack(DLDataType type) {
  for (size_t t = 1; t < std::size(kElementTypes); ++t)
    if (kElementTypes[t].dlpack == type.code && kElementTypes[t].bits == type.bits) return static_cast<DType>(t);
  return std::nullopt;
}

std::optional<DLDataType> DlpackType(DType type) {
  const ElementType& t = kElementTypes[static_cast<size_t>(type)];
  if (t.dlpack < 0) return std::nullopt;
  return DLDataType{static_cast<uint8_t>(t.dlpack), static_cast<uint8_t>(t.bits), 1};
}

absl::StatusOr<ir::TensorRef> FromDlpack(DLManagedTensorVersioned* tensor) {
  std::shared_ptr<void> owner = Own(tensor);
  if (tensor->version.major != DLPACK_MAJOR_VERSION)
    return absl::UnimplementedError(
        text::StrCat("a tensor of DLPack ", tensor->version.major, ".", tensor->version.minor, "; only 1.x is read"));
  return View(tensor->dl_tensor, tensor->flags, std::move(owner));
}

absl::StatusOr<ir::TensorRef> FromDlpack(DLManagedTensor* tensor) { return View(tensor->dl_tensor, 0, Own(tensor)); }

}  // namespace slipway::importers
