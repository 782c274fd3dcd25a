// See cast.h. Each direction is a loop over integers without branches, which compilers turn into vector code. f64 goes
// through f32, as in torch.
#include "exporters/safetensors/cast.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace slipway::exporters {
namespace {

using ir::DType;

float FromBf16(uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); }

uint16_t ToBf16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const uint32_t nan = bits >> 16 | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

float FromF16(uint16_t v) {
  const uint32_t sign = static_cast<uint32_t>(v & 0x8000) << 16, magnitude = v & 0x7fff;
  // Rebase the exponent; subnormals are normalised by subtracting the implicit one that they lack.
  const uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00 ? (255u - 31) << 23 : (127u - 15) << 23);
  const float subnormal = std::bit_cast<float>((magnitude << 13) + (113u << 23)) - std::bit_cast<float>(113u << 23);
  const uint32_t bits = magnitude < 0x400 ? std::bit_cast<uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(sign | bits);
}

uint16_t ToF16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f), magnitude = bits & 0x7fffffff;
  const uint32_t sign = bits >> 16 & 0x8000;
  // Normal results: rebase the exponent and round the 13 bits that go; a carry runs into the exponent as it should.
  const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  // Subnormal results: an addition aligns the last bit that stays with the last of a float's fraction.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t finite = magnitude < (113u << 23) ? small : normal;
  const uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
  // From 65520 on the nearest is infinity.
  const uint32_t large = magnitude > 0x7f800000 ? nan : 0x7c00;
  return static_cast<uint16_t>(sign | (magnitude >= 0x477ff000 ? large : finite));
}

struct F64 {
  using Bits = double;
  static float Load(double v) { return static_cast<float>(v); }
  static double Store(float v) { return v; }
};
struct F32 {
  using Bits = float;
  static float Load(float v) { return v; }
  static float Store(float v) { return v; }
};
struct F16 {
  using Bits = uint16_t;
  static float Load(uint16_t v) { return FromF16(v); }
  static uint16_t Store(float v) { return ToF16(v); }
};
struct BF16 {
  using Bits = uint16_t;
  static float Load(uint16_t v) { return FromBf16(v); }
  static uint16_t Store(float v) { return ToBf16(v); }
};

template <typename From, typename To>
void Cast(const uint8_t* __restrict from, uint8_t* __restrict to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    typename From::Bits in;
    std::memcpy(&in, from + i * sizeof in, sizeof in);
    const typename To::Bits out = To::Store(From::Load(in));
    std::memcpy(to + i * sizeof out, &out, sizeof out);
  }
}

template <typename From>
CastFunction FindTo(DType to) {
  switch (to) {
    case DType::kFloat64: return std::is_same_v<From, F64> ? nullptr : Cast<From, F64>;
    case DType::kFloat32: return std::is_same_v<From, F32> ? nullptr : Cast<From, F32>;
    case DType::kFloat16: return std::is_same_v<From, F16> ? nullptr : Cast<From, F16>;
    case DType::kBFloat16: return std::is_same_v<From, BF16> ? nullptr : Cast<From, BF16>;
    default: return nullptr;
  }
}

}  // namespace

CastFunction FindCast(DType from, DType to) {
  switch (from) {
    case DType::kFloat64: return FindTo<F64>(to);
    case DType::kFloat32: return FindTo<F32>(to);
    case DType::kFloat16: return FindTo<F16>(to);
    case DType::kBFloat16: return FindTo<BF16>(to);
    default: return nullptr;
  }
}

}  // namespace slipway::exporters
