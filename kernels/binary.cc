// Operators of two and three operands, of the sizes of the result (the caller expands them).
#include <cmath>
#include <type_traits>

#include "kernels/check.h"
#include "kernels/elementwise.h"
#include "kernels/isa.h"

namespace slipway::kernels {
namespace {

enum Types { kAll, kFloats, kInts };

template <auto F, Types kTypes = kAll>
const char* Binary(const Call& c) {
  return WithComputeType(c.compute, [&]<typename T>() -> const char* {
    if constexpr (kTypes == kAll || (kTypes == kFloats) == std::is_floating_point_v<T>) {
      Elementwise<T, 2>(c, [](const std::array<const T*, 2>& in, T* out, int64_t n) {
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(F(in[0][i], in[1][i]));
      });
      return nullptr;
    } else {
      return kTypes == kFloats ? "the operator is for floating-point numbers" : "the operator is for integers";
    }
  });
}

// The same with f32 by the instruction set's loop.
template <PairOp kOp, auto F, Types kTypes = kAll>
const char* Fast(const Call& c) {
  if (ComputeType(c.compute) != DType::kF32) return Binary<F, kTypes>(c);
  const auto run = BestIsa().pair[static_cast<int>(kOp)];
  Elementwise<float, 2>(
      c, [run](const std::array<const float*, 2>& in, float* out, int64_t n) { run(in[0], in[1], out, n, 0); });
  return nullptr;
}

// Division of integers: F is not called on a divisor of 0, which is an error.
template <auto F, auto OfFloats>
const char* Division(const Call& c) {
  if (IsFloating(c.compute)) return Binary<OfFloats, kFloats>(c);
  bool zero = false;
  Elementwise<int64_t, 2>(c, [&](const std::array<const int64_t*, 2>& in, int64_t* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      zero |= in[1][i] == 0;
      // Dividing by -1 is negating, which wraps where the quotient does not fit.
      out[i] = in[1][i] == 0 ? 0 : F(in[0][i], in[1][i]);
    }
  });
  return zero ? "division by zero" : nullptr;
}

template <typename T>
constexpr bool kInt = std::is_integral_v<T>;
int64_t Wrap(uint64_t x) { return static_cast<int64_t>(x); }

constexpr auto kAdd = [](auto x, auto y) {
  if constexpr (kInt<decltype(x)>)
    return Wrap(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  else
    return x + y;
};
constexpr auto kSub = [](auto x, auto y) {
  if constexpr (kInt<decltype(x)>)
    return Wrap(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
  else
    return x - y;
};
constexpr auto kMul = [](auto x, auto y) {
  if constexpr (kInt<decltype(x)>)
    return Wrap(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  else
    return x * y;
};

int64_t TruncDiv(int64_t a, int64_t b) { return b == -1 ? Wrap(0 - static_cast<uint64_t>(a)) : a / b; }
int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t q = TruncDiv(a, b);
  return b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
int64_t TruncMod(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
int64_t FloorMod(int64_t a, int64_t b) {
  const int64_t r = TruncMod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
// torch's floor division of floats, after CPython's.
constexpr auto kFloorDivide = [](auto a, auto b) {
  using T = decltype(a);
  if (b == 0) return a / b;
  const T mod = std::fmod(a, b);
  T div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(T(0), a / b);
  T floor = std::floor(div);
  if (div - floor > T(0.5)) floor += 1;
  return floor;
};
constexpr auto kRemainder = [](auto a, auto b) {
  using T = decltype(a);
  const T mod = std::fmod(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
};

int64_t IntPow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t result = 1, x = static_cast<uint64_t>(a);
  for (; b; b >>= 1, x *= x)
    if (b & 1) result *= x;
  return Wrap(result);
}
constexpr auto kPow = [](auto a, auto b) {
  if constexpr (kInt<decltype(a)>)
    return IntPow(a, b);
  else
    return std::pow(a, b);
};
// NaN wins over numbers in maximum and minimum, loses in fmax and fmin.
constexpr auto kMaximum = [](auto a, auto b) { return a != a || a > b ? a : b; };
constexpr auto kMinimum = [](auto a, auto b) { return a != a || a < b ? a : b; };
constexpr auto kFmax = [](auto a, auto b) { return b != b || a > b ? a : b; };
constexpr auto kFmin = [](auto a, auto b) { return b != b || a < b ? a : b; };

// Shifts by `ints[0]` bits or more empty the number.
template <bool kLeft>
const char* Shift(const Call& c) {
  if (IsFloating(c.compute)) return "the operator is for integers";
  if (c.ints.empty() || c.ints[0] < 1 || c.ints[0] > 64) return kAttributeMissing;
  const int64_t bits = c.ints[0];
  Elementwise<int64_t, 2>(c, [bits](const std::array<const int64_t*, 2>& in, int64_t* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t x = in[0][i], y = in[1][i];
      const bool empty = y < 0 || y >= bits;
      if constexpr (kLeft)
        out[i] = empty ? 0 : Wrap(static_cast<uint64_t>(x) << y);
      else
        out[i] = empty ? (x < 0 ? -1 : 0) : x >> y;
    }
  });
  return nullptr;
}

// F(x, y, z, factor) with the attribute floats[0], of integers ints[0], as factor.
template <auto F>
const char* Ternary(const Call& c) {
  return WithComputeType(c.compute, [&]<typename T>() -> const char* {
    T factor = 1;
    if constexpr (kInt<T>) {
      if (!c.ints.empty()) factor = c.ints[0];
    } else {
      if (!c.floats.empty()) factor = static_cast<T>(c.floats[0]);
    }
    bool zero = false;
    Elementwise<T, 3>(c, [&](const std::array<const T*, 3>& in, T* out, int64_t n) {
      for (int64_t i = 0; i < n; ++i) out[i] = F(in[0][i], in[1][i], in[2][i], factor, &zero);
    });
    return zero ? "division by zero" : nullptr;
  });
}
constexpr auto kWhere = [](auto c, auto x, auto y, auto, bool*) { return c != 0 ? x : y; };
constexpr auto kAddcmul = [](auto x, auto y, auto z, auto f, bool*) { return kAdd(x, kMul(f, kMul(y, z))); };
constexpr auto kAddcdiv = [](auto x, auto y, auto z, auto f, bool* zero) {
  if constexpr (kInt<decltype(x)>) {
    if (z == 0) *zero = true;
    return z == 0 ? 0 : kAdd(x, TruncDiv(kMul(f, y), z));
  } else {
    return x + f * (y / z);
  }
};
constexpr auto kLerp = [](auto x, auto y, auto w, auto, bool*) {
  if constexpr (kInt<decltype(x)>)
    return kAdd(x, kMul(w, kSub(y, x)));
  else
    return w < decltype(x)(0.5) && w > decltype(x)(-0.5) ? x + w * (y - x) : y - (y - x) * (1 - w);
};

// x + factor · y: torch's add and sub with alpha.
const char* AddScaled(const Call& c) {
  if (IsFloating(c.compute) ? c.floats.empty() : c.ints.empty()) return kAttributeMissing;
  return WithComputeType(c.compute, [&]<typename T>() -> const char* {
    T factor;
    if constexpr (kInt<T>)
      factor = c.ints[0];
    else
      factor = static_cast<T>(c.floats[0]);
    Elementwise<T, 2>(c, [factor](const std::array<const T*, 2>& in, T* out, int64_t n) {
      for (int64_t i = 0; i < n; ++i) out[i] = kAdd(in[0][i], kMul(factor, in[1][i]));
    });
    return nullptr;
  });
}

constexpr Kernel kKernels[] = {
    {"add", Fast<PairOp::kAdd, kAdd>},
    {"sub", Fast<PairOp::kSub, kSub>},
    {"mul", Fast<PairOp::kMul, kMul>},
    {"add_scaled", AddScaled},  // factor: floats[0], of integers ints[0]
    {"div", Fast<PairOp::kDiv, [](auto x, auto y) { return x / y; }, kFloats>},
    {"div_floor", Division<FloorDiv, kFloorDivide>},
    {"div_trunc", Division<TruncDiv, [](auto x, auto y) { return std::trunc(x / y); }>},
    {"remainder", Division<FloorMod, kRemainder>},
    {"fmod", Division<TruncMod, [](auto x, auto y) { return std::fmod(x, y); }>},
    {"pow", Binary<kPow>},
    {"maximum", Binary<kMaximum>},
    {"minimum", Binary<kMinimum>},
    {"fmax", Binary<kFmax>},
    {"fmin", Binary<kFmin>},
    {"atan2", Binary<[](auto x, auto y) { return std::atan2(x, y); }, kFloats>},
    {"copysign", Binary<[](auto x, auto y) { return std::copysign(x, y); }, kFloats>},
    {"xlogy", Binary<[](auto x, auto y) { return y != y ? y : x == 0 ? decltype(x)(0) : x * std::log(y); }, kFloats>},
    {"xlog1py", Binary<[](auto x, auto y) { return y != y ? y : x == 0 ? decltype(x)(0) : x * std::log1p(y); }, kFloats>},
    {"heaviside", Binary<[](auto x, auto y) { return x == 0 ? y : decltype(x)(x > 0 ? 1 : 0); }>},
    {"hypot", Binary<[](auto x, auto y) { return std::hypot(x, y); }, kFloats>},
    {"eq", Binary<[](auto x, auto y) { return x == y; }>},
    {"ne", Binary<[](auto x, auto y) { return x != y; }>},
    {"lt", Binary<[](auto x, auto y) { return x < y; }>},
    {"le", Binary<[](auto x, auto y) { return x <= y; }>},
    {"gt", Binary<[](auto x, auto y) { return y < x; }>},
    {"ge", Binary<[](auto x, auto y) { return y <= x; }>},
    {"logical_and", Binary<[](auto x, auto y) { return x != 0 && y != 0; }>},
    {"logical_or", Binary<[](auto x, auto y) { return x != 0 || y != 0; }>},
    {"logical_xor", Binary<[](auto x, auto y) { return (x != 0) != (y != 0); }>},
    {"bitwise_and", Binary<[](auto x, auto y) { return x & y; }, kInts>},
    {"bitwise_or", Binary<[](auto x, auto y) { return x | y; }, kInts>},
    {"bitwise_xor", Binary<[](auto x, auto y) { return x ^ y; }, kInts>},
    {"shift_left", Shift<true>},    // bits of the dtype
    {"shift_right", Shift<false>},  // bits of the dtype
    {"where", Ternary<kWhere>, true, 3},
    {"addcmul", Ternary<kAddcmul>, true, 3},  // factor: floats[0], of integers ints[0]
    {"addcdiv", Ternary<kAddcdiv>, true, 3},  // factor likewise
    {"lerp", Ternary<kLerp>, true, 3},
};

}  // namespace

std::span<const Kernel> BinaryKernels() { return kKernels; }

}  // namespace slipway::kernels
