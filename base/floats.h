// Floating-point types that C++ has not: f16, bf16 and types of 8 bits and less, as values that convert from and to
// float. One definition for weights, folding and kernels; the kernels' loops over rows (kernels/isa/) have vector
// versions that give the same bits. Rounding is to nearest even. A NaN stays one; in bf16 it becomes the plain one,
// 0x7fc0, in f16 it keeps its upper bits.
#ifndef SLIPWAY_BASE_FLOATS_H_
#define SLIPWAY_BASE_FLOATS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace slipway {

// The upper half of a float. Conversions have no branches, so that loops over them become vector code.
struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  BF16(float f) {  // NOLINT: converts as the built-in types do
    const uint32_t u = std::bit_cast<uint32_t>(f), rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    bits = static_cast<uint16_t>((u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }  // NOLINT
};

// IEEE binary16.
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  F16(float f) {  // NOLINT
    const uint32_t u = std::bit_cast<uint32_t>(f), magnitude = u & 0x7fffffff, sign = u >> 16 & 0x8000;
    // Normal results: rebase the exponent and round the 13 bits that go; a carry runs into the exponent as it should.
    const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    // Subnormal results: an addition aligns the last bit that stays with the last of a float's fraction.
    const uint32_t small =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
    const uint32_t finite = magnitude < (113u << 23) ? small : normal;
    const uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    // From 65520 on the nearest is infinity.
    const uint32_t large = magnitude > 0x7f800000 ? nan : 0x7c00;
    bits = static_cast<uint16_t>(sign | (magnitude >= 0x477ff000 ? large : finite));
  }
  operator float() const {  // NOLINT
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    // Rebase the exponent; subnormals are normalised by subtracting the implicit one that they lack.
    const uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00 ? (255u - 31) << 23 : (127u - 15) << 23);
    const float subnormal = std::bit_cast<float>((magnitude << 13) + (113u << 23)) - std::bit_cast<float>(113u << 23);
    return std::bit_cast<float>(sign | (magnitude < 0x400 ? std::bit_cast<uint32_t>(subnormal) : normal));
  }
};

// A type of at most 8 bits: sign, exponent, mantissa.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  enum Specials : uint8_t {
    kFinite,        // neither infinity nor NaN
    kIeee,          // the largest exponent is infinity or NaN
    kAllOnesNan,    // only the largest code is NaN
    kMinusZeroNan,  // only the code of -0 is NaN
  } specials;
  bool operator==(const SmallFloat&) const = default;
};
inline constexpr SmallFloat kE4M3FN = {4, 3, 7, SmallFloat::kAllOnesNan}, kE5M2 = {5, 2, 15, SmallFloat::kIeee},
                            kE4M3FNUZ = {4, 3, 8, SmallFloat::kMinusZeroNan},
                            kE5M2FNUZ = {5, 2, 16, SmallFloat::kMinusZeroNan}, kE2M1 = {2, 1, 1, SmallFloat::kFinite},
                            kE2M3 = {2, 3, 1, SmallFloat::kFinite}, kE3M2 = {3, 2, 3, SmallFloat::kFinite};

// The value of a code.
inline float Decode(const SmallFloat& f, unsigned bits) {
  const unsigned all_ones = (1u << (f.exponent_bits + f.mantissa_bits)) - 1, magnitude = bits & all_ones;
  const bool negative = (bits & ~all_ones) != 0;
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const unsigned mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  if ((f.specials == SmallFloat::kAllOnesNan && magnitude == all_ones) ||
      (f.specials == SmallFloat::kMinusZeroNan && negative && magnitude == 0))
    return std::numeric_limits<float>::quiet_NaN();
  float value;
  if (f.specials == SmallFloat::kIeee && exponent == (1 << f.exponent_bits) - 1)
    value = mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  else
    value = std::ldexp(static_cast<float>(exponent == 0 ? mantissa : mantissa | 1u << f.mantissa_bits),
                       (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

// A type of 8 bits. What is too large becomes infinity where the type has it, the largest number in e4m3fn, and NaN in
// those without a negative zero, as torch does.
template <SmallFloat kFormat>
struct F8 {
  static constexpr bool kInfinity = kFormat.specials == SmallFloat::kIeee,
                        kNoMinusZero = kFormat.specials == SmallFloat::kMinusZeroNan;
  static constexpr uint8_t kNan = kNoMinusZero ? 0x80 : 0x7f, kMost = kInfinity ? 0x7b : kNoMinusZero ? 0x7f : 0x7e;
  uint8_t bits = 0;
  F8() = default;
  F8(float f) {  // NOLINT
    const uint32_t u = std::bit_cast<uint32_t>(f), magnitude = u & 0x7fffffff;
    const uint8_t sign = static_cast<uint8_t>(u >> 24 & 0x80);
    if (magnitude > 0x7f800000) {
      bits = static_cast<uint8_t>(kNoMinusZero ? kNan : sign | kNan);
      return;
    }
    constexpr int kBias = kFormat.bias, kMantissa = kFormat.mantissa_bits, kDrop = 23 - kMantissa;
    constexpr uint32_t kSmallest = static_cast<uint32_t>(127 + 1 - kBias) << 23;  // the least normal number
    uint32_t code;
    if (magnitude < kSmallest) {  // a multiple of the least number
      const float unit = std::bit_cast<float>(magnitude) *
                         std::bit_cast<float>(static_cast<uint32_t>(127 + kBias + kMantissa - 1) << 23);
      code = static_cast<uint32_t>(std::nearbyint(unit));
    } else {
      const uint32_t rounded = magnitude + ((1u << (kDrop - 1)) - 1) + (magnitude >> kDrop & 1);
      code = (rounded >> kDrop) - (static_cast<uint32_t>(127 - kBias) << kMantissa);
    }
    if (code > kMost) code = kInfinity ? 0x7c : kNoMinusZero ? kNan : kMost;
    bits = kNoMinusZero && (code == 0 || code == kNan) ? static_cast<uint8_t>(code) : static_cast<uint8_t>(sign | code);
  }
  operator float() const { return Decode(kFormat, bits); }  // NOLINT
};

// The powers of two from 2^-127 to 2^127, and NaN: an exponent without sign or mantissa. Signs are dropped, 0 becomes
// the least power, what lies halfway between two the greater one, infinity NaN, as torch does.
struct E8M0 {
  uint8_t bits = 0;
  E8M0() = default;
  E8M0(float f) {  // NOLINT
    const uint32_t magnitude = std::bit_cast<uint32_t>(f) & 0x7fffffff, exponent = magnitude >> 23;
    // The least power lies among the subnormal floats: half of the least normal one stays what it is.
    const uint32_t half = exponent == 0 ? 0x400001 : 0x400000;
    bits = static_cast<uint8_t>(exponent + (exponent != 0xff && (magnitude & 0x7fffff) >= half));
  }
  operator float() const {  // NOLINT
    return std::bit_cast<float>(bits == 0 ? 0x400000u : bits == 0xff ? 0x7fc00000u : uint32_t{bits} << 23);
  }
};

}  // namespace slipway

#endif  // SLIPWAY_BASE_FLOATS_H_
