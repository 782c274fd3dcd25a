// What a kernel sees of a tensor: a pointer, an element type, sizes and strides. This room is what runs inside a native
// library, so it knows no program and needs libc only; of base/ it uses two headers of tables and conversions.
#ifndef SLIPWAY_KERNELS_TENSOR_H_
#define SLIPWAY_KERNELS_TENSOR_H_

#include <array>
#include <cstdint>

#include "base/dtypes.h"

namespace slipway::kernels {

// Plans in files hold these numbers: new ones go to the end. Floats of 8 bits are stored and converted only; no kernel
// has them as operands but `copy` and those that move words.
// clang-format off
enum class DType : uint8_t {
  kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64,
  kU16, kU32, kF8E4M3FN, kF8E5M2, kF8E4M3FNUZ, kF8E5M2FNUZ, kU64, kF8E8M0,
};
// clang-format on
inline constexpr int kDTypes = 18;

// The row of the table of element types.
constexpr const ElementType& Info(DType t) {
  return kElementTypes[FindElementType(&ElementType::kernel, static_cast<int>(t))];
}
inline constexpr std::array<int, kDTypes> kByteSizes = [] {
  std::array<int, kDTypes> bytes{};
  for (int t = 0; t < kDTypes; ++t) bytes[t] = Info(static_cast<DType>(t)).bits / 8;
  return bytes;
}();
constexpr int ByteSize(DType t) { return kByteSizes[static_cast<int>(t)]; }
constexpr bool IsStoredOnly(DType t) {
  return (t >= DType::kF8E4M3FN && t <= DType::kF8E5M2FNUZ) || t == DType::kF8E8M0;
}
// Those that products take as matrices.
constexpr bool IsFloat8(DType t) { return t == DType::kF8E4M3FN || t == DType::kF8E5M2; }
constexpr bool IsFloating(DType t) { return (t >= DType::kF16 && t <= DType::kF64) || IsStoredOnly(t); }
constexpr bool IsHalf(DType t) { return t == DType::kF16 || t == DType::kBF16; }
// The type kernels compute elements of `t` in: f32 for f16, bf16 and f8, f64 for f64, i64 for bool and integers (whose
// narrower results wrap when stored). Of u64 it has the bits; which kernels are right about these says their row.
constexpr DType ComputeType(DType t) {
  return t == DType::kF64 ? DType::kF64 : IsFloating(t) ? DType::kF32 : DType::kI64;
}

inline constexpr int kMaxRank = 16;

// How a matrix is packed (gemm/packing.h).
enum class Packing : uint8_t { kNone, kNr16, kNr16K4, kNr16Int4, kNr16UInt4, kConvFilters, kTransposedConvFilters };

// A view of memory, which it does not own. Sizes and strides are in elements; strides may be 0 (expanded) or negative
// (flipped). Every element of a view lies in the memory behind it: its maker has checked that.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  int64_t sizes[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};
  // Of the matrix that the last two dims are, whatever its strides say: products alone take one that lies packed.
  Packing packed = Packing::kNone;
  bool is_packed() const { return packed != Packing::kNone; }

  int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= sizes[d];
    return n;
  }
  bool is_contiguous() const {
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; --d) {
      if (sizes[d] != 1 && strides[d] != step) return numel() == 0;
      step *= sizes[d];
    }
    return true;
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_TENSOR_H_
