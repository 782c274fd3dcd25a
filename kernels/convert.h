// Rows of elements in and out of the types kernels compute in: f32, f64 and i64.
#ifndef SLIPWAY_KERNELS_CONVERT_H_
#define SLIPWAY_KERNELS_CONVERT_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/tensor.h"

namespace slipway::kernels {

// bfloat16: the upper half of an f32, rounded to nearest even.
struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  BF16(float f) {  // NOLINT: converts as the built-in types do
    uint32_t u = std::bit_cast<uint32_t>(f);
    bits = f != f ? 0x7fc0 : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }  // NOLINT
};
using F16 = _Float16;

// Floats of 8 bits: 1 sign, 7 - kMantissa exponent, kMantissa bits. Rounded to nearest even; what is too large becomes
// infinity where the type has it, the largest number in e4m3fn, and NaN in the others, as torch does. kUnsignedZero: no
// infinity, no -0, whose bits are the one NaN.
template <int kMantissa, bool kUnsignedZero>
struct F8 {
  static constexpr int kBias = (1 << (6 - kMantissa)) - (kUnsignedZero ? 0 : 1);
  static constexpr bool kInfinity = kMantissa == 2 && !kUnsignedZero;
  static constexpr uint8_t kNan = kUnsignedZero ? 0x80 : 0x7f;
  static constexpr uint8_t kMost = kInfinity ? 0x7b : kUnsignedZero ? 0x7f : 0x7e;
  uint8_t bits = 0;
  F8() = default;
  F8(float f) {  // NOLINT: converts as the built-in types do
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const uint8_t sign = static_cast<uint8_t>(u >> 24 & 0x80);
    const uint32_t magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000) {
      bits = static_cast<uint8_t>(kUnsignedZero ? kNan : sign | kNan);
      return;
    }
    constexpr uint32_t kSmallest = static_cast<uint32_t>(127 + 1 - kBias) << 23;  // the least normal number
    uint32_t code;
    if (magnitude < kSmallest) {  // a multiple of the least number
      const float unit = std::bit_cast<float>(magnitude) * std::bit_cast<float>(static_cast<uint32_t>(127 + kBias + kMantissa - 1) << 23);
      code = static_cast<uint32_t>(std::nearbyint(unit));
    } else {
      constexpr int kDrop = 23 - kMantissa;
      const uint32_t rounded = magnitude + ((1u << (kDrop - 1)) - 1) + (magnitude >> kDrop & 1);
      code = (rounded >> kDrop) - (static_cast<uint32_t>(127 - kBias) << kMantissa);
    }
    if (code > kMost) code = kInfinity ? 0x7c : kUnsignedZero ? kNan : kMost;
    bits = kUnsignedZero && (code == 0 || code == kNan) ? static_cast<uint8_t>(code) : static_cast<uint8_t>(sign | code);
  }
  operator float() const {  // NOLINT
    const int exponent = bits >> kMantissa & ((1 << (7 - kMantissa)) - 1), mantissa = bits & ((1 << kMantissa) - 1);
    if (kUnsignedZero ? bits == kNan : (bits & 0x7f) > (kInfinity ? 0x7c : kMost)) return std::bit_cast<float>(0x7fc00000u);
    if (kInfinity && (bits & 0x7f) == 0x7c) return bits & 0x80 ? -HUGE_VALF : HUGE_VALF;
    const float m = static_cast<float>(exponent == 0 ? mantissa : mantissa | 1 << kMantissa);
    const float v = std::ldexp(m, (exponent == 0 ? 1 : exponent) - kBias - kMantissa);
    return bits & 0x80 ? -v : v;
  }
};

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
    // Within the range of i64 the conversion is defined; narrower types then wrap.
    const int64_t i = d >= -0x1p63 && d < 0x1p63 ? static_cast<int64_t>(d) : std::numeric_limits<int64_t>::min();
    return static_cast<To>(i);
  } else if constexpr (std::is_same_v<From, BF16> || std::is_same_v<From, F16>) {
    return static_cast<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, BF16>) {
    return BF16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, F16>) {
    return static_cast<F16>(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <typename T>
constexpr bool kIsF8 = false;
template <int kMantissa, bool kUnsignedZero>
constexpr bool kIsF8<F8<kMantissa, kUnsignedZero>> = true;

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

// Calls f.operator()<T>() with the C++ type of `t`, which is not stored only.
template <typename F>
decltype(auto) WithType(DType t, F&& f) {
  switch (t) {
    case DType::kBool:
      return f.template operator()<bool>();
    case DType::kU8:
      return f.template operator()<uint8_t>();
    case DType::kI8:
      return f.template operator()<int8_t>();
    case DType::kI16:
      return f.template operator()<int16_t>();
    case DType::kI32:
      return f.template operator()<int32_t>();
    case DType::kI64:
      return f.template operator()<int64_t>();
    case DType::kF16:
      return f.template operator()<F16>();
    case DType::kBF16:
      return f.template operator()<BF16>();
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kF64:
      return f.template operator()<double>();
    default:
      __builtin_unreachable();
  }
}
// The same for all types.
template <typename F>
decltype(auto) WithAnyType(DType t, F&& f) {
  switch (t) {
    case DType::kU16:
      return f.template operator()<uint16_t>();
    case DType::kU32:
      return f.template operator()<uint32_t>();
    case DType::kF8E4M3FN:
      return f.template operator()<F8<3, false>>();
    case DType::kF8E5M2:
      return f.template operator()<F8<2, false>>();
    case DType::kF8E4M3FNUZ:
      return f.template operator()<F8<3, true>>();
    case DType::kF8E5M2FNUZ:
      return f.template operator()<F8<2, true>>();
    default:
      return WithType(t, std::forward<F>(f));
  }
}
// The same for the three types that are computed in.
template <typename F>
decltype(auto) WithComputeType(DType t, F&& f) {
  switch (ComputeType(t)) {
    case DType::kF64:
      return f.template operator()<double>();
    case DType::kF32:
      return f.template operator()<float>();
    default:
      return f.template operator()<int64_t>();
  }
}
// The same by the size of an element: for kernels that only move data.
template <typename F>
decltype(auto) WithWord(DType t, F&& f) {
  switch (ByteSize(t)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

// Reads n elements of a row (`stride` in elements) as the compute type T, rounded to `as` on the way where that is
// narrower; writes n elements of T to a row. T is float, double or int64_t.
template <typename T>
void LoadRow(const void* from, DType dtype, int64_t stride, int64_t n, DType as, T* to);
template <typename T>
void StoreRow(const T* from, int64_t n, void* to, DType dtype, int64_t stride);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONVERT_H_
