// Operators of one operand.
#include <cmath>
#include <type_traits>

#include "kernels/elementwise.h"
#include "kernels/isa.h"

namespace slipway::kernels {
namespace {

// F(x, attributes) per element. Those of floating types only refuse integers.
template <auto F, bool kIntegers = false>
const char* Unary(const Call& c) {
  return WithComputeType(c.compute, [&]<typename T>() -> const char* {
    if constexpr (std::is_floating_point_v<T> || kIntegers) {
      double attributes[4] = {};
      std::copy_n(c.floats.begin(), std::min<size_t>(c.floats.size(), 4), attributes);
      const double* a = attributes;
      Elementwise<T, 1>(c, [a](const std::array<const T*, 1>& in, T* out, int64_t n) {
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(F(in[0][i], a));
      });
      return nullptr;
    } else {
      return "the operator is for floating-point numbers";
    }
  });
}

// The same with f32 by the instruction set's loop.
template <RowOp kOp, auto F, bool kIntegers = false>
const char* Fast(const Call& c) {
  if (ComputeType(c.compute) != DType::kF32) return Unary<F, kIntegers>(c);
  const auto run = BestIsa().row[static_cast<int>(kOp)];
  Elementwise<float, 1>(c, [run](const std::array<const float*, 1>& in, float* out, int64_t n) { run(in[0], out, n); });
  return nullptr;
}

using Attrs = const double*;
constexpr double kSqrtHalf = 0.70710678118654752440;

template <typename T>
T Sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
// Bitwise complement; of bool the caller asks for logical_not.
int64_t Not(int64_t x) { return ~x; }

constexpr auto kAbs = [](auto x, Attrs) { return x < 0 ? -x : x == 0 ? decltype(x)(0) : x; };
constexpr auto kNeg = [](auto x, Attrs) {
  if constexpr (std::is_integral_v<decltype(x)>)
    return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
  else
    return -x;
};
constexpr auto kSign = [](auto x, Attrs) { return (x > 0) - (x < 0); };
constexpr auto kSquare = [](auto x, Attrs) {
  if constexpr (std::is_integral_v<decltype(x)>)
    return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
  else
    return x * x;
};
constexpr auto kLogicalNot = [](auto x, Attrs) { return x == 0; };
constexpr auto kRelu = [](auto x, Attrs) { return x < 0 ? decltype(x)(0) : x; };
constexpr auto kIsNan = [](auto x, Attrs) { return x != x; };
constexpr auto kIsInf = [](auto x, Attrs) { return std::isinf(static_cast<double>(x)); };
constexpr auto kIsFinite = [](auto x, Attrs) { return std::isfinite(static_cast<double>(x)); };
constexpr auto kRounding = [](auto f) {
  return [f](auto x, Attrs) {
    if constexpr (std::is_integral_v<decltype(x)>)
      return x;
    else
      return f(x);
  };
};
constexpr auto kCeil = kRounding([](auto x) { return std::ceil(x); });
constexpr auto kFloor = kRounding([](auto x) { return std::floor(x); });
constexpr auto kTrunc = kRounding([](auto x) { return std::trunc(x); });
constexpr auto kRound = kRounding([](auto x) { return std::nearbyint(x); });

// `a` are the attributes `floats`, in the order that the remark gives.
constexpr Kernel kKernels[] = {
    {"abs", Unary<kAbs, true>},
    {"neg", Fast<RowOp::kNeg, kNeg, true>},
    {"sign", Unary<kSign, true>},
    {"square", Unary<kSquare, true>},
    {"relu", Fast<RowOp::kRelu, kRelu, true>},
    {"logical_not", Unary<kLogicalNot, true>},
    {"isnan", Unary<kIsNan, true>},
    {"isinf", Unary<kIsInf, true>},
    {"isfinite", Unary<kIsFinite, true>},
    {"ceil", Unary<kCeil, true>},
    {"floor", Unary<kFloor, true>},
    {"trunc", Unary<kTrunc, true>},
    {"round", Unary<kRound, true>},
    {"bitwise_not",
     [](const Call& c) -> const char* {
       if (IsFloating(c.compute)) return "the operator is for integers";
       Elementwise<int64_t, 1>(c, [](const std::array<const int64_t*, 1>& in, int64_t* out, int64_t n) {
         for (int64_t i = 0; i < n; ++i) out[i] = Not(in[0][i]);
       });
       return nullptr;
     }},
    {"acos", Unary<[](auto x, Attrs) { return std::acos(x); }>},
    {"acosh", Unary<[](auto x, Attrs) { return std::acosh(x); }>},
    {"asin", Unary<[](auto x, Attrs) { return std::asin(x); }>},
    {"asinh", Unary<[](auto x, Attrs) { return std::asinh(x); }>},
    {"atan", Unary<[](auto x, Attrs) { return std::atan(x); }>},
    {"atanh", Unary<[](auto x, Attrs) { return std::atanh(x); }>},
    {"cos", Unary<[](auto x, Attrs) { return std::cos(x); }>},
    {"cosh", Unary<[](auto x, Attrs) { return std::cosh(x); }>},
    {"erf", Fast<RowOp::kErf, [](auto x, Attrs) { return std::erf(x); }>},
    {"erfc", Unary<[](auto x, Attrs) { return std::erfc(x); }>},
    {"exp", Fast<RowOp::kExp, [](auto x, Attrs) { return std::exp(x); }>},
    {"exp2", Unary<[](auto x, Attrs) { return std::exp2(x); }>},
    {"expm1", Unary<[](auto x, Attrs) { return std::expm1(x); }>},
    {"frac", Unary<[](auto x, Attrs) { return x - std::trunc(x); }>},
    {"lgamma", Unary<[](auto x, Attrs) { return std::lgamma(x); }>},
    {"log", Unary<[](auto x, Attrs) { return std::log(x); }>},
    {"log10", Unary<[](auto x, Attrs) { return std::log10(x); }>},
    {"log1p", Unary<[](auto x, Attrs) { return std::log1p(x); }>},
    {"log2", Unary<[](auto x, Attrs) { return std::log2(x); }>},
    {"reciprocal", Unary<[](auto x, Attrs) { return 1 / x; }>},
    {"rsqrt", Fast<RowOp::kRsqrt, [](auto x, Attrs) { return 1 / std::sqrt(x); }>},
    {"sigmoid", Fast<RowOp::kSigmoid, [](auto x, Attrs) { return Sigmoid(x); }>},
    {"signbit", Unary<[](auto x, Attrs) { return std::signbit(static_cast<double>(x)); }, true>},
    {"silu", Fast<RowOp::kSilu, [](auto x, Attrs) { return x * Sigmoid(x); }>},
    {"sin", Unary<[](auto x, Attrs) { return std::sin(x); }>},
    {"sinh", Unary<[](auto x, Attrs) { return std::sinh(x); }>},
    {"sqrt", Fast<RowOp::kSqrt, [](auto x, Attrs) { return std::sqrt(x); }>},
    {"tan", Unary<[](auto x, Attrs) { return std::tan(x); }>},
    {"tanh", Fast<RowOp::kTanh, [](auto x, Attrs) { return std::tanh(x); }>},
    {"gelu", Fast<RowOp::kGelu, [](auto x, Attrs) { return x * (1 + std::erf(x * decltype(x)(kSqrtHalf))) / 2; }>},
    {"gelu_tanh", Fast<RowOp::kGeluTanh,
                       [](auto x, Attrs) {
                         using T = decltype(x);
                         return x / 2 * (1 + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
                       }>},
    {"elu",  // alpha, scale, input scale
     Unary<[](auto x, Attrs a) {
       using T = decltype(x);
       return x <= 0 ? std::expm1(x * T(a[2])) * T(a[0]) * T(a[1]) : x * T(a[1]);
     }>},
    {"hardsigmoid", Unary<[](auto x, Attrs) {
       using T = decltype(x);
       return std::fmin(std::fmax(x + 3, T(0)), T(6)) / 6;
     }>},
    {"hardswish", Unary<[](auto x, Attrs) {
       using T = decltype(x);
       return x * std::fmin(std::fmax(x + 3, T(0)), T(6)) / 6;
     }>},
    {"leaky_relu",  // slope
     Unary<[](auto x, Attrs a) { return x < 0 ? x * decltype(x)(a[0]) : x; }>},
    {"mish", Unary<[](auto x, Attrs) { return x * std::tanh(std::log1p(std::exp(x))); }>},
    {"nan_to_num",  // for nan, inf, -inf
     Unary<[](auto x, Attrs a) {
       using T = decltype(x);
       return x != x ? T(a[0]) : std::isinf(x) ? T(x < 0 ? a[2] : a[1]) : x;
     }>},
    {"logit",  // eps, negative for none
     Unary<[](auto x, Attrs a) {
       using T = decltype(x);
       const T eps = T(a[0]), z = eps < 0 ? x : x < eps ? eps : 1 - eps < x ? 1 - eps : x;
       return std::log(z / (1 - z));
     }>},
    {"round_decimals",  // the power of ten of the digits to keep, whether it is one of digits to drop
     Unary<[](auto x, Attrs a) {
       using T = decltype(x);
       return a[1] != 0 ? std::nearbyint(x / T(a[0])) * T(a[0]) : std::nearbyint(x * T(a[0])) / T(a[0]);
     }>},
    {"softplus",  // beta, threshold
     Unary<[](auto x, Attrs a) {
       using T = decltype(x);
       return T(a[1]) < x * T(a[0]) ? x : std::log1p(std::exp(x * T(a[0]))) / T(a[0]);
     }>},
};

}  // namespace

std::span<const Kernel> UnaryKernels() { return kKernels; }

}  // namespace slipway::kernels
