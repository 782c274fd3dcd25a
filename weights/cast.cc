// Casts as loops over the conversions of base/floats.h, which have no branches, so that compilers turn them into vector code. f64 goes
// through f32, as in torch.
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

}  // namespace slipway::weights
