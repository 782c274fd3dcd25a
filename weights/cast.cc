// Casts as loops over the conversions of base/floats.h, which have no branches, so that compilers turn them into vector
// code. f64 goes through f32, as in torch.
#include "weights/cast.h"

#include <cstring>
#include <type_traits>

#include "base/floats.h"

namespace slipway::weights {
namespace {

using ir::DType;

template <typename From, typename To>
void Cast(const uint8_t* __restrict from, uint8_t* __restrict to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    From in;
    std::memcpy(&in, from + i * sizeof in, sizeof in);
    const To out = static_cast<To>(static_cast<float>(in));
    std::memcpy(to + i * sizeof out, &out, sizeof out);
  }
}

// The bits of a type: those but the sign, of which the infinite ones are the least that are not finite.
template <typename T>
struct Bits {
  using Int = uint16_t;
  static constexpr Int kMagnitude = 0x7fff, kInfinite = std::is_same_v<T, F16> ? 0x7c00 : 0x7f80;
};
template <>
struct Bits<float> {
  using Int = uint32_t;
  static constexpr Int kMagnitude = 0x7fffffff, kInfinite = 0x7f800000;
};
template <>
struct Bits<double> {
  using Int = uint64_t;
  static constexpr Int kMagnitude = ~uint64_t{0} >> 1, kInfinite = uint64_t{0x7ff} << 52;
};

template <typename From, typename To>
void CountLosses(const uint8_t* __restrict from, const uint8_t* __restrict to, uint64_t count, CastLosses* losses) {
  uint64_t infinite = 0, zero = 0;
  // In blocks whose counts fit the width of the elements, so that they become vector code.
  constexpr uint64_t kBlock = 4096;
  for (uint64_t begin = 0; begin < count; begin += kBlock) {
    const uint64_t end = begin + kBlock < count ? begin + kBlock : count;
    uint32_t infinite_here = 0, zero_here = 0;
    for (uint64_t i = begin; i < end; ++i) {
      typename Bits<From>::Int in;
      typename Bits<To>::Int out;
      std::memcpy(&in, from + i * sizeof in, sizeof in);
      std::memcpy(&out, to + i * sizeof out, sizeof out);
      in &= Bits<From>::kMagnitude;
      out &= Bits<To>::kMagnitude;
      infinite_here += (in < Bits<From>::kInfinite) & (out == Bits<To>::kInfinite);
      zero_here += (in != 0) & (out == 0);
    }
    infinite += infinite_here;
    zero += zero_here;
  }
  losses->infinite += infinite;
  losses->zero += zero;
}

template <typename From>
CastFunction FindTo(DType to) {
  switch (to) {
    case DType::kFloat64: return std::is_same_v<From, double> ? nullptr : Cast<From, double>;
    case DType::kFloat32: return std::is_same_v<From, float> ? nullptr : Cast<From, float>;
    case DType::kFloat16: return std::is_same_v<From, F16> ? nullptr : Cast<From, F16>;
    case DType::kBFloat16: return std::is_same_v<From, BF16> ? nullptr : Cast<From, BF16>;
    default: return nullptr;
  }
}

}  // namespace

CastFunction FindCast(DType from, DType to) {
  switch (from) {
    case DType::kFloat64: return FindTo<double>(to);
    case DType::kFloat32: return FindTo<float>(to);
    case DType::kFloat16: return FindTo<F16>(to);
    case DType::kBFloat16: return FindTo<BF16>(to);
    default: return nullptr;
  }
}

CountLossesFunction FindCountLosses(DType from, DType to) {
  if (FindCast(from, to) == nullptr) return nullptr;
  const auto narrows = [&](auto in) -> CountLossesFunction {
    using From = decltype(in);
    if (to == DType::kFloat16) return CountLosses<From, F16>;
    if (to == DType::kBFloat16) return CountLosses<From, BF16>;
    return to == DType::kFloat32 ? CountLosses<From, float> : nullptr;
  };
  switch (from) {
    case DType::kFloat64: return narrows(double());
    case DType::kFloat32: return to == DType::kFloat64 ? nullptr : narrows(float());
    case DType::kBFloat16: return to == DType::kFloat16 ? narrows(BF16()) : nullptr;
    default: return nullptr;
  }
}

}  // namespace slipway::weights
