// Operators of two and three operands: one row of the table each, for all dtypes. The caller expands operands to the
// sizes of the result.
#include <cmath>
#include <type_traits>

#include "kernels/convert.h"
#include "kernels/elementwise/chain.h"
#include "kernels/isa/isa.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

enum Types { kAll, kFloats, kInts };

// F(x, y) per element.
template <auto F, Types kTypes = kAll>
const char* BinaryRow(const RowCall& r) {
  return WithComputeType(r.type, [&]<typename T>() -> const char* {
    if constexpr (kTypes == kAll || (kTypes == kFloats) == std::is_floating_point_v<T>) {
      const T *x = static_cast<const T*>(r.in[0]), *y = static_cast<const T*>(r.in[1]);
      T* out = static_cast<T*>(r.out);
#pragma GCC ivdep
      for (int64_t i = 0; i < r.n; ++i) out[i] = static_cast<T>(F(x[i], y[i]));
      return nullptr;
    } else {
      return kTypes == kFloats ? "the operator is for floating-point numbers" : "the operator is for integers";
    }
  });
}
// The same with f32 by the instruction set's loop.
template <PairOp kOp, auto F, Types kTypes = kAll>
const char* FastRow(const RowCall& r) {
  if (r.type != DType::kF32) return BinaryRow<F, kTypes>(r);
  BestIsa().elementwise.binary[static_cast<int>(kOp)](
      static_cast<const float*>(r.in[0]), static_cast<const float*>(r.in[1]), static_cast<float*>(r.out), r.n, 0);
  return nullptr;
}
// The quotient, or what is left, of u64.
template <bool kRest>
const char* UnsignedDivisionRow(const RowCall& r) {
  const uint64_t *x = static_cast<const uint64_t*>(r.in[0]), *y = static_cast<const uint64_t*>(r.in[1]);
  uint64_t* out = static_cast<uint64_t*>(r.out);
  bool zero = false;
  for (int64_t i = 0; i < r.n; ++i) {
    const bool none = y[i] == 0;
    zero |= none;
    out[i] = none ? 0 : kRest ? x[i] % y[i] : x[i] / y[i];
  }
  return zero ? "division by zero" : nullptr;
}
// Division of integers: F is not called on a divisor of 0, which is an error.
template <bool kRest, auto F, auto OfFloats>
const char* DivisionRow(const RowCall& r) {
  if (r.type != DType::kI64) return BinaryRow<OfFloats, kFloats>(r);
  if (r.unsigned64) return UnsignedDivisionRow<kRest>(r);
  const int64_t *x = static_cast<const int64_t*>(r.in[0]), *y = static_cast<const int64_t*>(r.in[1]);
  int64_t* out = static_cast<int64_t*>(r.out);
  bool zero = false;
  for (int64_t i = 0; i < r.n; ++i) {
    const bool none = y[i] == 0;
    zero |= none;
    // Dividing by -1 is negating, which wraps where the quotient does not fit.
    out[i] = none ? 0 : F(x[i], y[i]);
  }
  return zero ? "division by zero" : nullptr;
}

template <auto F, Types kTypes = kAll>
constexpr Kernel Binary(std::string_view name, Unsigned64 unsigned64 = Unsigned64::kNever) {
  return RowKernel<BinaryRow<F, kTypes>, 2>(name, unsigned64);
}
template <PairOp kOp, auto F, Types kTypes = kAll>
constexpr Kernel Fast(std::string_view name, Unsigned64 unsigned64 = Unsigned64::kNever) {
  return RowKernel<FastRow<kOp, F, kTypes>, 2>(name, unsigned64);
}
template <bool kRest, auto F, auto OfFloats>
constexpr Kernel Division(std::string_view name) {
  return RowKernel<DivisionRow<kRest, F, OfFloats>, 2>(name, Unsigned64::kItself);
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

uint64_t UnsignedPow(uint64_t x, uint64_t b) {
  uint64_t result = 1;
  for (; b; b >>= 1, x *= x)
    if (b & 1) result *= x;
  return result;
}
int64_t IntPow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  return Wrap(UnsignedPow(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
}
constexpr auto kPow = [](auto a, auto b) {
  if constexpr (kInt<decltype(a)>)
    return IntPow(a, b);
  else
    return std::pow(a, b);
};
const char* PowRow(const RowCall& r) {
  if (!r.unsigned64) return BinaryRow<kPow>(r);
  const uint64_t *x = static_cast<const uint64_t*>(r.in[0]), *y = static_cast<const uint64_t*>(r.in[1]);
  for (int64_t i = 0; i < r.n; ++i) static_cast<uint64_t*>(r.out)[i] = UnsignedPow(x[i], y[i]);
  return nullptr;
}
// NaN wins over numbers in maximum and minimum, loses in fmax and fmin.
constexpr auto kMaximum = [](auto a, auto b) { return a != a || a > b ? a : b; };
constexpr auto kMinimum = [](auto a, auto b) { return a != a || a < b ? a : b; };
constexpr auto kFmax = [](auto a, auto b) { return b != b || a > b ? a : b; };
constexpr auto kFmin = [](auto a, auto b) { return b != b || a < b ? a : b; };

template <bool kLeft>
const char* ShiftRow(const RowCall& r) {
  if (r.type != DType::kI64) return "the operator is for integers";
  ShiftAttributes a{};
  if (!ReadAttributes(r.ints, r.floats, &a) || a.bits < 1 || a.bits > 64) return kAttributesMalformed;
  const int64_t bits = a.bits, *in = static_cast<const int64_t*>(r.in[0]), *by = static_cast<const int64_t*>(r.in[1]);
  int64_t* out = static_cast<int64_t*>(r.out);
  for (int64_t i = 0; i < r.n; ++i) {
    const int64_t x = in[i], y = by[i];
    const bool empty = y < 0 || y >= bits;
    if constexpr (kLeft)
      out[i] = empty ? 0 : Wrap(static_cast<uint64_t>(x) << y);
    else if (r.unsigned64)
      out[i] = empty ? 0 : Wrap(static_cast<uint64_t>(x) >> y);
    else
      out[i] = empty ? (x < 0 ? -1 : 0) : x >> y;
  }
  return nullptr;
}

// The factor of a row; false where there is none of the type that the row computes in.
template <typename T>
bool ReadFactor(const RowCall& r, T* factor) {
  FactorAttributes a{};
  using Number = std::conditional_t<kInt<T>, int64_t, double>;
  if (!ReadAttributes(r.ints, r.floats, &a) || !std::holds_alternative<Number>(a.factor)) return false;
  *factor = static_cast<T>(std::get<Number>(a.factor));
  return true;
}
// F(x, y, z, factor, &zero), where `zero` becomes true where an integer is divided by 0; without a factor it is 1.
template <auto F, typename Attributes>
const char* TernaryRow(const RowCall& r) {
  return WithComputeType(r.type, [&]<typename T>() -> const char* {
    T factor = 1;
    if constexpr (std::is_same_v<Attributes, FactorAttributes>)
      if (!ReadFactor(r, &factor)) return kAttributesMalformed;
    const T *x = static_cast<const T*>(r.in[0]), *y = static_cast<const T*>(r.in[1]),
            *z = static_cast<const T*>(r.in[2]);
    T* out = static_cast<T*>(r.out);
    bool zero = false;
#pragma GCC ivdep
    for (int64_t i = 0; i < r.n; ++i) out[i] = F(x[i], y[i], z[i], factor, &zero);
    return zero ? "division by zero" : nullptr;
  });
}
template <auto F, typename Attributes = NoAttributes>
constexpr Kernel Ternary(std::string_view name, Unsigned64 unsigned64 = Unsigned64::kNever) {
  return RowKernel<TernaryRow<F, Attributes>, 3, Attributes>(name, unsigned64);
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
const char* AddScaledRow(const RowCall& r) {
  return WithComputeType(r.type, [&]<typename T>() -> const char* {
    T factor;
    if (!ReadFactor(r, &factor)) return kAttributesMalformed;
    const T *x = static_cast<const T*>(r.in[0]), *y = static_cast<const T*>(r.in[1]);
    T* out = static_cast<T*>(r.out);
#pragma GCC ivdep
    for (int64_t i = 0; i < r.n; ++i) out[i] = kAdd(x[i], kMul(factor, y[i]));
    return nullptr;
  });
}

constexpr auto kPrelu = [](auto x, auto w) {
  const auto below = x * w;  // before the choice, which is no branch then
  return x > 0 ? x : below;
};

using enum Unsigned64;

constexpr Kernel kKernels[] = {
    Fast<PairOp::kAdd, kAdd>("add", kSame),
    Fast<PairOp::kSub, kSub>("sub", kSame),
    Fast<PairOp::kMul, kMul>("mul", kSame),
    RowKernel<AddScaledRow, 2, FactorAttributes>("add_scaled", kSame),
    Fast<PairOp::kDiv, [](auto x, auto y) { return x / y; }, kFloats>("div"),
    Division<false, FloorDiv, kFloorDivide>("div_floor"),
    Division<false, TruncDiv, [](auto x, auto y) { return std::trunc(x / y); }>("div_trunc"),
    Division<true, FloorMod, kRemainder>("remainder"),
    Division<true, TruncMod, [](auto x, auto y) { return std::fmod(x, y); }>("fmod"),
    RowKernel<PowRow, 2>("pow", kItself),
    Binary<kMaximum>("maximum", kOrder),
    Binary<kMinimum>("minimum", kOrder),
    Binary<kFmax>("fmax", kOrder),
    Binary<kFmin>("fmin", kOrder),
    Binary<[](auto x, auto y) { return std::atan2(x, y); }, kFloats>("atan2"),
    Binary<[](auto x, auto y) { return std::copysign(x, y); }, kFloats>("copysign"),
    Binary<[](auto x, auto y) { return y != y   ? y
                                       : x == 0 ? decltype(x)(0)
                                                : x * std::log(y); }, kFloats>("xlogy"),
    Binary<[](auto x, auto y) { return y != y   ? y
                                       : x == 0 ? decltype(x)(0)
                                                : x * std::log1p(y); }, kFloats>("xlog1py"),
    Binary<[](auto x, auto y) { return x == 0 ? y : decltype(x)(x > 0 ? 1 : 0); }>("heaviside"),
    Binary<[](auto x, auto y) { return std::hypot(x, y); }, kFloats>("hypot"),
    Binary<kPrelu, kFloats>("prelu"),
    Binary<[](auto x, auto y) { return x == y; }>("eq", kSame),
    Binary<[](auto x, auto y) { return x != y; }>("ne", kSame),
    Binary<[](auto x, auto y) { return x < y; }>("lt", kOrder),
    Binary<[](auto x, auto y) { return x <= y; }>("le", kOrder),
    Binary<[](auto x, auto y) { return y < x; }>("gt", kOrder),
    Binary<[](auto x, auto y) { return y <= x; }>("ge", kOrder),
    Binary<[](auto x, auto y) { return x != 0 && y != 0; }>("logical_and", kSame),
    Binary<[](auto x, auto y) { return x != 0 || y != 0; }>("logical_or", kSame),
    Binary<[](auto x, auto y) { return (x != 0) != (y != 0); }>("logical_xor", kSame),
    Binary<[](auto x, auto y) { return x & y; }, kInts>("bitwise_and", kSame),
    Binary<[](auto x, auto y) { return x | y; }, kInts>("bitwise_or", kSame),
    Binary<[](auto x, auto y) { return x ^ y; }, kInts>("bitwise_xor", kSame),
    RowKernel<ShiftRow<true>, 2, ShiftAttributes>("shift_left", kSame),
    RowKernel<ShiftRow<false>, 2, ShiftAttributes>("shift_right", kItself),
    Ternary<kWhere>("where", kSame),
    Ternary<kAddcmul, FactorAttributes>("addcmul", kSame),
    Ternary<kAddcdiv, FactorAttributes>("addcdiv"),
    Ternary<kLerp>("lerp"),
};

}  // namespace

std::span<const Kernel> BinaryKernels() { return kKernels; }

}  // namespace slipway::kernels
