// Operators of one operand: one row of the table each, for all dtypes. Functions get numbers of the compute type.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/convert.h"
#include "kernels/elementwise/chain.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

// F(x), or F(x, attributes), per element. Those of floating types only refuse integers.
template <auto F, bool kIntegers = false, typename Attributes = NoAttributes>
const char* UnaryRow(const RowCall& r) {
  Attributes a{};
  if (!ReadAttributes(r.ints, r.floats, &a)) return kAttributesMalformed;
  return WithComputeType(r.type, [&]<typename T>() -> const char* {
    if constexpr (std::is_floating_point_v<T> || kIntegers) {
      const T* x = static_cast<const T*>(r.in[0]);
      T* out = static_cast<T*>(r.out);
      auto f = [&](T v) {
        if constexpr (std::is_same_v<Attributes, NoAttributes>)
          return F(v);
        else
          return F(v, a);
      };
#pragma GCC ivdep
      for (int64_t i = 0; i < r.n; ++i) out[i] = static_cast<T>(f(x[i]));
      return nullptr;
    } else {
      return "the operator is for floating-point numbers";
    }
  });
}
// The same with f32 by the instruction set's loop.
template <RowOp kOp, auto F, bool kIntegers = false>
const char* FastRow(const RowCall& r) {
  if (r.type != DType::kF32) return UnaryRow<F, kIntegers>(r);
  BestIsa().elementwise.unary[static_cast<int>(kOp)](static_cast<const float*>(r.in[0]), static_cast<float*>(r.out),
                                                     r.n);
  return nullptr;
}
// Sines and cosines: the loop is for |x| < 2^30.
template <RowOp kOp, auto F>
const char* TurnRow(const RowCall& r) {
  if (const char* why = FastRow<kOp, F>(r); why != nullptr || r.type != DType::kF32) return why;
  const float* x = static_cast<const float*>(r.in[0]);
  for (int64_t i = 0; i < r.n; ++i)
    if (std::fabs(x[i]) >= 0x1p30f) static_cast<float*>(r.out)[i] = F(x[i]);
  return nullptr;
}
// f(x, t(x)) per element of f32, where t, of a block at a time, is what `blocks` makes of before(x) by the instruction
// set's loops.
template <typename Before, typename Blocks, typename After>
void RowByBlocks(const RowCall& r, Before before, Blocks blocks, After after) {
  constexpr int64_t kBlock = 256;
  const float* x = static_cast<const float*>(r.in[0]);
  float *out = static_cast<float*>(r.out), t[kBlock];
  for (int64_t i = 0; i < r.n; i += kBlock, x += kBlock, out += kBlock) {
    const int64_t n = std::min(kBlock, r.n - i);
    for (int64_t j = 0; j < n; ++j) t[j] = before(x[j]);
    blocks(t, n);
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) out[j] = after(x[j], t[j]);
  }
}
void FastInPlace(RowOp op, float* x, int64_t n) { BestIsa().elementwise.unary[static_cast<int>(op)](x, x, n); }

constexpr auto kElu = [](auto x, const EluAttributes& a) {
  using T = decltype(x);
  return x <= 0 ? std::expm1(x * T(a.input_scale)) * T(a.alpha) * T(a.scale) : x * T(a.scale);
};
const char* EluRow(const RowCall& r) {
  if (r.type != DType::kF32) return UnaryRow<kElu, false, EluAttributes>(r);
  EluAttributes a{};
  if (!ReadAttributes(r.ints, r.floats, &a)) return kAttributesMalformed;
  const float input_scale = static_cast<float>(a.input_scale), alpha = static_cast<float>(a.alpha),
              scale = static_cast<float>(a.scale);
  RowByBlocks(
      r, [&](float x) { return x * input_scale; }, [](float* t, int64_t n) { FastInPlace(RowOp::kExpm1, t, n); },
      [&](float x, float t) {
        const float below = t * alpha * scale, above = x * scale;  // both, so that choosing is no branch
        return x <= 0 ? below : above;
      });
  return nullptr;
}
constexpr auto kSoftplus = [](auto x, const SoftplusAttributes& a) {
  using T = decltype(x);
  return T(a.threshold) < x * T(a.beta) ? x : std::log1p(std::exp(x * T(a.beta))) / T(a.beta);
};
const char* SoftplusRow(const RowCall& r) {
  if (r.type != DType::kF32) return UnaryRow<kSoftplus, false, SoftplusAttributes>(r);
  SoftplusAttributes a{};
  if (!ReadAttributes(r.ints, r.floats, &a)) return kAttributesMalformed;
  const float beta = static_cast<float>(a.beta), threshold = static_cast<float>(a.threshold);
  RowByBlocks(
      r, [&](float x) { return x * beta; },
      [](float* t, int64_t n) { FastInPlace(RowOp::kExp, t, n), FastInPlace(RowOp::kLog1p, t, n); },
      [&](float x, float t) {
        const float below = t / beta;
        return threshold < x * beta ? x : below;
      });
  return nullptr;
}
// Bitwise complement; of bool the caller asks for logical_not.
const char* ComplementRow(const RowCall& r) {
  if (r.type != DType::kI64) return "the operator is for integers";
  const int64_t* x = static_cast<const int64_t*>(r.in[0]);
  int64_t* out = static_cast<int64_t*>(r.out);
  for (int64_t i = 0; i < r.n; ++i) out[i] = ~x[i];
  return nullptr;
}

// In f32, as programs with bytes state it.
const char* QuantizeRow(const RowCall& r) {
  QuantizeAttributes a{};
  constexpr int64_t kMost = 1 << 10;
  if (!ReadAttributes(r.ints, r.floats, &a) || std::abs(a.zero_point) > kMost || a.low < -kMost || a.high > kMost ||
      a.low > a.high)
    return kAttributesMalformed;
  if (r.type != DType::kF32) return "the operator is for f32";
  BestIsa().elementwise.quantize(static_cast<const float*>(r.in[0]), static_cast<float*>(r.out), r.n,
                                 static_cast<float>(a.multiplier), static_cast<float>(a.zero_point),
                                 static_cast<float>(a.low), static_cast<float>(a.high));
  return nullptr;
}
constexpr auto kDequantize = [](auto x, const DequantizeAttributes& a) {
  using T = decltype(x);
  return (x - T(a.zero_point)) * T(a.scale);
};

template <auto F, bool kIntegers = false>
constexpr Kernel Unary(std::string_view name, Unsigned64 unsigned64 = Unsigned64::kNever) {
  return RowKernel<UnaryRow<F, kIntegers>, 1>(name, unsigned64);
}
template <typename Attributes, auto F>
constexpr Kernel UnaryWith(std::string_view name) {
  return RowKernel<UnaryRow<F, false, Attributes>, 1, Attributes>(name);
}
template <RowOp kOp, auto F, bool kIntegers = false>
constexpr Kernel Fast(std::string_view name, Unsigned64 unsigned64 = Unsigned64::kNever) {
  return RowKernel<FastRow<kOp, F, kIntegers>, 1>(name, unsigned64);
}

constexpr double kSqrtHalf = 0.70710678118654752440;

template <typename T>
T Sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

constexpr auto kAbs = [](auto x) {
  if constexpr (std::is_integral_v<decltype(x)>)
    return x < 0 ? static_cast<decltype(x)>(-static_cast<uint64_t>(x)) : x;  // the least one stays
  else
    return x < 0 ? -x : x == 0 ? decltype(x)(0) : x;
};
constexpr auto kNeg = [](auto x) {
  if constexpr (std::is_integral_v<decltype(x)>)
    return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
  else
    return -x;
};
constexpr auto kSign = [](auto x) { return (x > 0) - (x < 0); };
constexpr auto kSquare = [](auto x) {
  if constexpr (std::is_integral_v<decltype(x)>)
    return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
  else
    return x * x;
};
constexpr auto kLogicalNot = [](auto x) { return x == 0; };
constexpr auto kRelu = [](auto x) { return x < 0 ? decltype(x)(0) : x; };
constexpr auto kIsNan = [](auto x) { return x != x; };
constexpr auto kIsInf = [](auto x) { return std::isinf(static_cast<double>(x)); };
constexpr auto kIsFinite = [](auto x) { return std::isfinite(static_cast<double>(x)); };
constexpr auto kRounding = [](auto f) {
  return [](auto x) {  // captures nothing, to be a template's argument
    if constexpr (std::is_integral_v<decltype(x)>)
      return x;
    else
      return decltype(f)()(x);
  };
};
constexpr auto kCeil = kRounding([](auto x) { return std::ceil(x); });
constexpr auto kFloor = kRounding([](auto x) { return std::floor(x); });
constexpr auto kTrunc = kRounding([](auto x) { return std::trunc(x); });
constexpr auto kRound = kRounding([](auto x) { return std::nearbyint(x); });

using enum Unsigned64;

constexpr Kernel kKernels[] = {
    Unary<kAbs, true>("abs"),
    Fast<RowOp::kNeg, kNeg, true>("neg", kSame),
    Unary<kSign, true>("sign"),
    Unary<kSquare, true>("square", kSame),
    Fast<RowOp::kRelu, kRelu, true>("relu"),
    Unary<kLogicalNot, true>("logical_not", kSame),
    Unary<kIsNan, true>("isnan", kSame),
    Unary<kIsInf, true>("isinf", kSame),
    Unary<kIsFinite, true>("isfinite", kSame),
    Unary<kCeil, true>("ceil", kSame),
    Unary<kFloor, true>("floor", kSame),
    Unary<kTrunc, true>("trunc", kSame),
    Unary<kRound, true>("round", kSame),
    RowKernel<ComplementRow, 1>("bitwise_not", kSame),
    Unary<[](auto x) { return std::acos(x); }>("acos"),
    Unary<[](auto x) { return std::acosh(x); }>("acosh"),
    Unary<[](auto x) { return std::asin(x); }>("asin"),
    Unary<[](auto x) { return std::asinh(x); }>("asinh"),
    Unary<[](auto x) { return std::atan(x); }>("atan"),
    Unary<[](auto x) { return std::atanh(x); }>("atanh"),
    RowKernel<TurnRow<RowOp::kCos, [](auto x) { return std::cos(x); }>, 1>("cos"),
    Unary<[](auto x) { return std::cosh(x); }>("cosh"),
    Fast<RowOp::kErf, [](auto x) { return std::erf(x); }>("erf"),
    Unary<[](auto x) { return std::erfc(x); }>("erfc"),
    Fast<RowOp::kExp, [](auto x) { return std::exp(x); }>("exp"),
    Unary<[](auto x) { return std::exp2(x); }>("exp2"),
    Fast<RowOp::kExpm1, [](auto x) { return std::expm1(x); }>("expm1"),
    Unary<[](auto x) { return x - std::trunc(x); }>("frac"),
    Unary<[](auto x) { return std::lgamma(x); }>("lgamma"),
    Fast<RowOp::kLog, [](auto x) { return std::log(x); }>("log"),
    Unary<[](auto x) { return std::log10(x); }>("log10"),
    Fast<RowOp::kLog1p, [](auto x) { return std::log1p(x); }>("log1p"),
    Unary<[](auto x) { return std::log2(x); }>("log2"),
    Unary<[](auto x) { return 1 / x; }>("reciprocal"),
    Fast<RowOp::kRsqrt, [](auto x) { return 1 / std::sqrt(x); }>("rsqrt"),
    Fast<RowOp::kSigmoid, [](auto x) { return Sigmoid(x); }>("sigmoid"),
    Unary<[](auto x) { return std::signbit(static_cast<double>(x)); }, true>("signbit"),
    Fast<RowOp::kSilu, [](auto x) { return x * Sigmoid(x); }>("silu"),
    RowKernel<TurnRow<RowOp::kSin, [](auto x) { return std::sin(x); }>, 1>("sin"),
    Unary<[](auto x) { return std::sinh(x); }>("sinh"),
    Fast<RowOp::kSqrt, [](auto x) { return std::sqrt(x); }>("sqrt"),
    Unary<[](auto x) { return std::tan(x); }>("tan"),
    Fast<RowOp::kTanh, [](auto x) { return std::tanh(x); }>("tanh"),
    Fast<RowOp::kGelu, [](auto x) { return x * (1 + std::erf(x * decltype(x)(kSqrtHalf))) / 2; }>("gelu"),
    Fast<RowOp::kGeluTanh,
         [](auto x) {
           using T = decltype(x);
           return x / 2 * (1 + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
         }>("gelu_tanh"),
    RowKernel<EluRow, 1, EluAttributes>("elu"),
    Fast<RowOp::kHardSigmoid,
         [](auto x) {
           using T = decltype(x);
           return x != x ? x : std::fmin(std::fmax(x + 3, T(0)), T(6)) / 6;
         }>("hardsigmoid"),
    Fast<RowOp::kHardSwish,
         [](auto x) {
           using T = decltype(x);
           return x * std::fmin(std::fmax(x + 3, T(0)), T(6)) / 6;
         }>("hardswish"),
    UnaryWith<LeakyReluAttributes,
              [](auto x, const LeakyReluAttributes& a) { return x < 0 ? x * decltype(x)(a.slope) : x; }>("leaky_relu"),
    Fast<RowOp::kMish, [](auto x) { return x * std::tanh(std::log1p(std::exp(x))); }>("mish"),
    UnaryWith<NanToNumAttributes,
              [](auto x, const NanToNumAttributes& a) {
                using T = decltype(x);
                return x != x ? T(a.nan) : std::isinf(x) ? T(x < 0 ? a.negative_infinity : a.positive_infinity) : x;
              }>("nan_to_num"),
    UnaryWith<LogitAttributes,
              [](auto x, const LogitAttributes& a) {
                using T = decltype(x);
                const T eps = T(a.eps), z = eps < 0 ? x : x < eps ? eps : 1 - eps < x ? 1 - eps : x;
                return std::log(z / (1 - z));
              }>("logit"),
    UnaryWith<RoundDecimalsAttributes,
              [](auto x, const RoundDecimalsAttributes& a) {
                using T = decltype(x);
                return a.divides != 0 ? std::nearbyint(x / T(a.power)) * T(a.power)
                                      : std::nearbyint(x * T(a.power)) / T(a.power);
              }>("round_decimals"),
    RowKernel<SoftplusRow, 1, SoftplusAttributes>("softplus"),
    RowKernel<QuantizeRow, 1, QuantizeAttributes>("quantize"),
    UnaryWith<DequantizeAttributes, kDequantize>("dequantize"),
};

}  // namespace

std::span<const Kernel> UnaryKernels() { return kKernels; }

}  // namespace slipway::kernels
