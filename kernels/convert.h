// Rows of elements in and out of the types kernels compute in: f32, f64 and i64.
#ifndef SLIPWAY_KERNELS_CONVERT_H_
#define SLIPWAY_KERNELS_CONVERT_H_

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/floats.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

using slipway::BF16;
using slipway::F16;

// A value of type From as To, as torch converts: floats to integers truncate, and what does not fit (undefined in C++)
// gives what x86 gives; anything but zero is true.
template <typename To, typename From>
To ConvertWide(From x) {
  constexpr bool kFromFloat = std::is_same_v<From, BF16> || std::is_same_v<From, F16> || std::is_floating_point_v<From>;
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, bool>) {
    if constexpr (kFromFloat && sizeof(From) == 2)
      return static_cast<float>(x) != 0;
    else
      return x != From(0);
  } else if constexpr (kFromFloat && std::is_integral_v<To>) {
    const double d = sizeof(From) == 2 ? static_cast<double>(static_cast<float>(x)) : static_cast<double>(x);
    if constexpr (std::is_same_v<To, uint64_t>)
      if (d >= 0x1p63 && d < 0x1p64) return static_cast<uint64_t>(d);
    // Within the range of i64 the conversion is defined; narrower types then wrap.
    const int64_t i = d >= -0x1p63 && d < 0x1p63 ? static_cast<int64_t>(d) : std::numeric_limits<int64_t>::min();
    return static_cast<To>(i);
  } else if constexpr (std::is_same_v<From, BF16> || std::is_same_v<From, F16>) {
    return static_cast<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, BF16> || std::is_same_v<To, F16>) {
    return To(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <typename T>
constexpr bool kIsF8 = false;
template <SmallFloat kFormat>
constexpr bool kIsF8<F8<kFormat>> = true;
template <>
constexpr bool kIsF8<E8M0> = true;

template <typename To, typename From>
To Convert(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (kIsF8<From>)
    return ConvertWide<To>(static_cast<float>(x));
  else if constexpr (kIsF8<To>)
    return To(ConvertWide<float>(x));
  else
    return ConvertWide<To>(x);
}

// Calls f.operator()<T>() with the C++ type of `t`, which is not stored only; of u16, u32 and u64 with the signed type
// of the width, which wraps to the same bits.
template <typename F>
decltype(auto) WithType(DType t, F&& f) {
  switch (t) {
    case DType::kBool: return f.template operator()<bool>();
    case DType::kU8: return f.template operator()<uint8_t>();
    case DType::kI8: return f.template operator()<int8_t>();
    case DType::kU16:
    case DType::kI16: return f.template operator()<int16_t>();
    case DType::kU32:
    case DType::kI32: return f.template operator()<int32_t>();
    case DType::kU64:
    case DType::kI64: return f.template operator()<int64_t>();
    case DType::kF16: return f.template operator()<F16>();
    case DType::kBF16: return f.template operator()<BF16>();
    case DType::kF32: return f.template operator()<float>();
    case DType::kF64: return f.template operator()<double>();
    default: __builtin_unreachable();
  }
}
// The same for all types, each its own.
template <typename F>
decltype(auto) WithAnyType(DType t, F&& f) {
  switch (t) {
    case DType::kU16: return f.template operator()<uint16_t>();
    case DType::kU32: return f.template operator()<uint32_t>();
    case DType::kU64: return f.template operator()<uint64_t>();
    case DType::kF8E4M3FN: return f.template operator()<F8<kE4M3FN>>();
    case DType::kF8E5M2: return f.template operator()<F8<kE5M2>>();
    case DType::kF8E4M3FNUZ: return f.template operator()<F8<kE4M3FNUZ>>();
    case DType::kF8E5M2FNUZ: return f.template operator()<F8<kE5M2FNUZ>>();
    case DType::kF8E8M0: return f.template operator()<E8M0>();
    default: return WithType(t, std::forward<F>(f));
  }
}
// The same for the three types that are computed in.
template <typename F>
decltype(auto) WithComputeType(DType t, F&& f) {
  switch (ComputeType(t)) {
    case DType::kF64: return f.template operator()<double>();
    case DType::kF32: return f.template operator()<float>();
    default: return f.template operator()<int64_t>();
  }
}
// The same for those of floats; f gives null, or why not.
template <typename F>
const char* WithFloatType(DType t, F&& f) {
  return WithComputeType(t, [&]<typename T>() -> const char* {
    if constexpr (std::is_integral_v<T>)
      return "the operator is for floating-point numbers";
    else
      return f.template operator()<T>();
  });
}
// The same by the size of an element: for kernels that only move data.
template <typename F>
decltype(auto) WithWord(DType t, F&& f) {
  switch (ByteSize(t)) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    default: return f.template operator()<uint64_t>();
  }
}

// Reads n elements of a row (`stride` in elements) as the compute type T, rounded to `as` on the way where that is
// narrower; writes n elements of T to a row. T is float, double or int64_t.
inline constexpr int64_t kRowBlock = 512;  // elements that callers convert at once, on their stack
template <typename T>
void LoadRow(const void* from, DType dtype, int64_t stride, int64_t n, DType as, T* to);
template <typename T>
void StoreRow(const T* from, int64_t n, void* to, DType dtype, int64_t stride);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONVERT_H_
