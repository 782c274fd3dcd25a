// The source of the loops (loops.h), included by the file of each instruction set within a namespace of its own.
// Written as plain loops without branches, of which the compiler makes vectors; `#pragma omp simd` allows it to reorder
// what is reduced, which for minima, maxima and sums of errors changes nothing that is stored.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/floats.h"
#include "quantizer/loops/loops.h"

namespace slipway::quantizer {
namespace SLIPWAY_LOOPS {

template <Rounding r>
inline float Round(float x) {
  if constexpr (r == Rounding::kBF16) {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    return std::bit_cast<float>((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u);
  } else if constexpr (r == Rounding::kF16) {
    return static_cast<float>(F16(x));
  } else {
    return x;
  }
}

// Calls `body` with the rounding as a constant.
template <typename Body>
inline void WithRounding(Rounding r, Body&& body) {
  switch (r) {
    case Rounding::kF32: return body.template operator()<Rounding::kF32>();
    case Rounding::kBF16: return body.template operator()<Rounding::kBF16>();
    case Rounding::kF16: return body.template operator()<Rounding::kF16>();
  }
}

inline float Clamp(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

void WidenBF16(const uint16_t* __restrict from, float* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i]) << 16);
}

void WidenF16(const uint16_t* __restrict from, float* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    F16 f;
    f.bits = from[i];
    to[i] = static_cast<float>(f);
  }
}

// Groups may be shorter than a vector of bytes has elements, so that a loop over one would run without vectors.
// Parameters of groups are therefore spread to elements, kSpan at a time, and `body(at, n, e...)` goes through n
// elements from `at` on, whose parameters are e[0], e[1], ….
template <typename Body, typename... Params>
inline void ByElements(int64_t groups, int64_t g, Body&& body, const Params* __restrict... params) {
  constexpr int64_t kSpan = 512;
  alignas(64) float spread[sizeof...(Params)][kSpan];
  const float* from[] = {params...};
  const auto call = [&](int64_t at, int64_t n) {
    [&]<size_t... k>(std::index_sequence<k...>) { body(at, n, spread[k]...); }(std::index_sequence_for<Params...>());
  };
  if (g >= kSpan) {
    for (int64_t j = 0; j < groups; ++j) {
      for (size_t k = 0; k < sizeof...(Params); ++k)
        for (int64_t i = 0; i < kSpan; ++i) spread[k][i] = from[k][j];
      for (int64_t at = 0; at < g; at += kSpan) call(j * g + at, g - at < kSpan ? g - at : kSpan);
    }
    return;
  }
  const int64_t most = kSpan / g;
  for (int64_t j = 0; j < groups; j += most) {
    const int64_t count = groups - j < most ? groups - j : most;
    for (size_t k = 0; k < sizeof...(Params); ++k)
      for (int64_t c = 0; c < count; ++c)
        for (int64_t i = 0; i < g; ++i) spread[k][c * g + i] = from[k][j + c];
    call(j * g, count * g);
  }
}

bool MinMax(const float* __restrict x, int64_t groups, int64_t g, float* __restrict min, float* __restrict max) {
  uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < groups * g; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  for (int64_t j = 0; j < groups; ++j, x += g) {
    float low = x[0], high = x[0];
#pragma omp simd reduction(min : low) reduction(max : high)
    for (int64_t i = 0; i < g; ++i) {
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
    }
    min[j] = low, max[j] = high;
  }
  return largest < 0x7f800000;
}

void ChooseAffine(const float* __restrict min, const float* __restrict max, int64_t groups, Mapping mapping, float low,
                  float high, float eps, Rounding of_weight, Rounding of_scale, float* __restrict scale,
                  float* __restrict inv, float* __restrict zero) {
  const float half = (high - low) / 2, whole = high - low;
  const auto each = [=](auto choose) {
    for (int64_t j = 0; j < groups; ++j) {
      const float least = min[j] < 0 ? min[j] : 0, greatest = max[j] > 0 ? max[j] : 0;
      float z = 0;
      const float s = choose(least, greatest, &z);
      scale[j] = s < eps ? eps : s;
      zero[j] = z;
    }
  };
  WithRounding(of_weight, [&]<Rounding kR>() {
    switch (mapping) {
      case Mapping::kSymmetric:
        return each([=](float a, float b, float*) { return Round<kR>((-a > b ? -a : b) / half); });
      case Mapping::kSymmetricNoClippingErr:
        return each([=](float a, float b, float*) {
          const float of_low = Round<kR>(a / low), of_high = Round<kR>(b / high);
          return of_low > of_high ? of_low : of_high;
        });
      case Mapping::kAsymmetric:
        return each([=](float a, float b, float* z) {
          float s = Round<kR>(Round<kR>(b - a) / whole);
          s = s < eps ? eps : s;
          *z = Clamp(Round<kR>(low - std::rint(Round<kR>(a / s))), low, high);
          return s;
        });
    }
  });
  WithRounding(of_scale, [&]<Rounding kR>() {
    for (int64_t j = 0; j < groups; ++j) scale[j] = Round<kR>(scale[j]), inv[j] = Round<kR>(1 / scale[j]);
  });
}

void ToInt(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict inv,
           const float* __restrict zero, Rounding r, float low, float high, int8_t* __restrict q) {
  WithRounding(r, [&]<Rounding kR>() {
    const auto body = [=](int64_t at, int64_t n, const float* __restrict by, const float* __restrict add) {
      const float* __restrict from = x + at;
      int8_t* __restrict to = q + at;
      for (int64_t i = 0; i < n; ++i)
        to[i] =
            static_cast<int8_t>(static_cast<int32_t>(Clamp(std::rint(Round<kR>(from[i] * by[i])) + add[i], low, high)));
    };
    ByElements(groups, g, body, inv, zero);
  });
}

void FromInt(const int8_t* __restrict q, int64_t groups, int64_t g, const float* __restrict scale,
             const float* __restrict zero, Rounding r, float* __restrict x) {
  WithRounding(r, [&]<Rounding kR>() {
    const auto body = [=](int64_t at, int64_t n, const float* __restrict by, const float* __restrict sub) {
      const int8_t* __restrict from = q + at;
      float* __restrict to = x + at;
      for (int64_t i = 0; i < n; ++i) to[i] = Round<kR>((static_cast<float>(from[i]) - sub[i]) * by[i]);
    };
    ByElements(groups, g, body, scale, zero);
  });
}

void ToUint4(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict base,
             const float* __restrict scale, Rounding r, int8_t* __restrict q) {
  WithRounding(r, [&]<Rounding kR>() {
    const auto body = [=](int64_t at, int64_t n, const float* __restrict sub, const float* __restrict by) {
      const float* __restrict from = x + at;
      int8_t* __restrict to = q + at;
      for (int64_t i = 0; i < n; ++i)
        to[i] = static_cast<int8_t>(
            static_cast<int32_t>(Clamp(std::rint(Round<kR>(Round<kR>(from[i] - sub[i]) / by[i])), 0, 15)));
    };
    ByElements(groups, g, body, base, scale);
  });
}

void FromUint4(const int8_t* __restrict q, int64_t groups, int64_t g, const float* __restrict scale,
               const float* __restrict zero, Rounding r, float* __restrict x) {
  WithRounding(r, [&]<Rounding kR>() {
    const auto body = [=](int64_t at, int64_t n, const float* __restrict by, const float* __restrict add) {
      const int8_t* __restrict from = q + at;
      float* __restrict to = x + at;
      for (int64_t i = 0; i < n; ++i) to[i] = Round<kR>(Round<kR>((static_cast<float>(from[i]) - 8) * by[i]) + add[i]);
    };
    ByElements(groups, g, body, scale, zero);
  });
}

void ToUint4Hqq(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict scale,
                const float* __restrict zero, int8_t* __restrict q) {
  const auto body = [=](int64_t at, int64_t n, const float* __restrict by, const float* __restrict add) {
    const float* __restrict from = x + at;
    int8_t* __restrict to = q + at;
    for (int64_t i = 0; i < n; ++i)
      to[i] = static_cast<int8_t>(static_cast<int32_t>(Clamp(std::rint(from[i] * by[i] + add[i]), 0, 15)));
  };
  ByElements(groups, g, body, scale, zero);
}

// Of a number that the format holds without overflow.
template <int kMantissa, int kBias>
inline uint8_t Float8Code(float x) {
  constexpr int kDrop = 23 - kMantissa;
  const uint32_t u = std::bit_cast<uint32_t>(x), magnitude = u & 0x7fffffff;
  const uint32_t rounded = magnitude + ((1u << (kDrop - 1)) - 1) + (magnitude >> kDrop & 1);
  const uint32_t normal = (rounded >> kDrop) - (static_cast<uint32_t>(127 - kBias) << kMantissa);
  // Below the least normal number a code is a multiple of the least number; an addition rounds to it.
  constexpr uint32_t kAlign = static_cast<uint32_t>(127 + 1 - kBias + kDrop) << 23;
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kAlign)) - kAlign;
  const uint32_t code = magnitude < (static_cast<uint32_t>(127 + 1 - kBias) << 23) ? small : normal;
  return static_cast<uint8_t>((u >> 24 & 0x80) | code);
}

template <int kMantissa, int kBias>
void ToFloat8Of(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict scale, bool reciprocal,
                float largest, uint8_t* __restrict q) {
  const auto body = [=](int64_t at, int64_t n, const float* __restrict by) {
    const float* __restrict from = x + at;
    uint8_t* __restrict to = q + at;
    if (reciprocal)
      for (int64_t i = 0; i < n; ++i) to[i] = Float8Code<kMantissa, kBias>(Clamp(from[i] * by[i], -largest, largest));
    else
      for (int64_t i = 0; i < n; ++i) to[i] = Float8Code<kMantissa, kBias>(Clamp(from[i] / by[i], -largest, largest));
  };
  ByElements(groups, g, body, scale);
}

void ToFloat8(const float* x, int64_t groups, int64_t g, const float* scale, bool reciprocal, bool e5m2, uint8_t* q) {
  e5m2 ? ToFloat8Of<2, 15>(x, groups, g, scale, reciprocal, 57344, q)
       : ToFloat8Of<3, 7>(x, groups, g, scale, reciprocal, 448, q);
}

template <int kMantissa, int kBias, Rounding kR>
void FromFloat8Of(const uint8_t* __restrict q, int64_t groups, int64_t g, const float* __restrict scale,
                  float* __restrict x) {
  const float rebase = std::bit_cast<float>(static_cast<uint32_t>(127 + 127 - kBias) << 23);
  const auto body = [=](int64_t at, int64_t n, const float* __restrict by) {
    const uint8_t* __restrict from = q + at;
    float* __restrict to = x + at;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t code = from[i];
      const float magnitude = std::bit_cast<float>((code & 0x7f) << (23 - kMantissa)) * rebase;
      to[i] = Round<kR>(std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (code & 0x80) << 24) * by[i]);
    }
  };
  ByElements(groups, g, body, scale);
}

void FromFloat8(const uint8_t* q, int64_t groups, int64_t g, const float* scale, bool e5m2, Rounding r, float* x) {
  WithRounding(r, [&]<Rounding kR>() {
    e5m2 ? FromFloat8Of<2, 15, kR>(q, groups, g, scale, x) : FromFloat8Of<3, 7, kR>(q, groups, g, scale, x);
  });
}

// Codes of e2m1 are the ranks of 0, .5, 1, 1.5, 2, 3, 4, 6: how many midpoints lie below; one that is hit goes to the
// even code.
inline uint8_t Float4Code(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const float a = std::bit_cast<float>(u & 0x7fffffff);
  const uint32_t code = (a > 0.25f ? 1u : 0u) + (a >= 0.75f ? 1u : 0u) + (a > 1.25f ? 1u : 0u) +
                        (a >= 1.75f ? 1u : 0u) + (a > 2.5f ? 1u : 0u) + (a >= 3.5f ? 1u : 0u) + (a > 5.0f ? 1u : 0u);
  return static_cast<uint8_t>((u >> 28 & 8) | code);
}

void ToFloat4(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict scale, bool reciprocal,
              uint8_t* __restrict q) {
  const auto body = [=](int64_t at, int64_t n, const float* __restrict by) {
    const float* __restrict from = x + at;
    uint8_t* __restrict to = q + at;
    if (reciprocal)
      for (int64_t i = 0; i < n; ++i) to[i] = Float4Code(from[i] * by[i]);
    else
      for (int64_t i = 0; i < n; ++i) to[i] = Float4Code(from[i] / by[i]);
  };
  ByElements(groups, g, body, scale);
}

void FromFloat4(const uint8_t* __restrict q, int64_t groups, int64_t g, const float* __restrict scale, Rounding r,
                float* __restrict x) {
  WithRounding(r, [&]<Rounding kR>() {
    const auto body = [=](int64_t at, int64_t n, const float* __restrict by) {
      const uint8_t* __restrict from = q + at;
      float* __restrict to = x + at;
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t code = from[i] & 7;
        // Exponent and mantissa as a float's; below 1 there is one number, a half.
        const float normal = std::bit_cast<float>((code << 22) + (126u << 23));
        const float magnitude = code < 2 ? 0.5f * static_cast<float>(code) : normal;
        to[i] = Round<kR>(
            std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | static_cast<uint32_t>(from[i] & 8) << 28) *
            by[i]);
      }
    };
    ByElements(groups, g, body, scale);
  });
}

void Pack4(const int8_t* __restrict q, int64_t n, int add, uint8_t* __restrict to) {
  for (int64_t i = 0; i < n / 2; ++i)
    to[i] = static_cast<uint8_t>(((q[2 * i] + add) & 15) | ((q[2 * i + 1] + add) & 15) << 4);
}

void FitScales(const float* __restrict x, int64_t groups, int64_t g, float low, float high, float eps, int rounds,
               float* __restrict scale, float* __restrict change, uint8_t* __restrict settled) {
  for (int64_t j = 0; j < groups; ++j, x += g) {
    float by = scale[j];
    int round = 0;
    for (; round < rounds; ++round) {
      float xq = 0, qq = 0;
#pragma omp simd reduction(+ : xq, qq)
      for (int64_t i = 0; i < g; ++i) {
        const float q = Clamp(std::rint(x[i] / by), low, high);
        xq += x[i] * q;
        qq += q * q;
      }
      float next = qq > 0 ? xq / qq : by;
      next = std::fabs(next < eps ? eps : next);
      if (next == by) break;  // and so in all rounds to come
      const float moved = std::fabs(next - by) / (by < eps ? eps : by);
      if (change && moved > change[round]) change[round] = moved;
      by = next;
    }
    scale[j] = by;
    if (settled) settled[j] = static_cast<uint8_t>(round);
  }
}

// a · b + c, rounded once where the processor has it: for what is not stored.
inline float MultiplyAdd(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// x^-0.3 of a positive, normal number, to about 5e-6: 2^(-0.3 log2 x).
inline float PowerMinus3Tenths(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const float exponent = static_cast<float>(static_cast<int32_t>(u >> 23) - 127);
  const float m = std::bit_cast<float>((u & 0x7fffff) | 127u << 23), t = m - 1;
  // log2(1 + t) = t · p(t) and 2^f, by Chebyshev fits of 2e-6 and 4e-6.
  float p = 0.0204903463f;
  p = MultiplyAdd(p, t, -0.09606625f);
  p = MultiplyAdd(p, t, 0.215588533f);
  p = MultiplyAdd(p, t, -0.339247774f);
  p = MultiplyAdd(p, t, 0.477705931f);
  p = MultiplyAdd(p, t, -0.721162734f);
  p = MultiplyAdd(p, t, 1.44269326f);
  const float y = -0.3f * MultiplyAdd(t, p, exponent);
  const float whole = std::floor(y), f = y - whole;
  float e = 0.0136839829f;
  e = MultiplyAdd(e, f, 0.0517177355f);
  e = MultiplyAdd(e, f, 0.241621323f);
  e = MultiplyAdd(e, f, 0.692969551f);
  e = MultiplyAdd(e, f, 1.0000036f);
  return e * std::bit_cast<float>(static_cast<uint32_t>(static_cast<int32_t>(whole) + 127) << 23);
}

double HqqStep(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict scale, const float* zero,
               float beta, float* next) {
  double error = 0;
  const float by = 1 / beta;
  for (int64_t j = 0; j < groups; ++j, x += g) {
    const float s = scale[j], z = zero[j], inverse = 1 / s;
    float sum = 0, differences = 0;
#pragma omp simd reduction(+ : sum, differences)
    for (int64_t i = 0; i < g; ++i) {
      const float q = Clamp(std::rint(x[i] * s + z), 0, 15);
      const float d = x[i] - (q - z) * inverse, a = std::fabs(d);
      const float left = a < 1e-30f ? 0.0f : a - by * PowerMinus3Tenths(a < 1e-30f ? 1.0f : a);
      const float e = std::copysign(left > 0 ? left : 0.0f, d);
      sum += q - (x[i] - e) * s;
      differences += a;
    }
    next[j] = sum / static_cast<float>(g);
    error += differences;
  }
  return error;
}

void Errors(const float* __restrict x, const float* __restrict y, int64_t n, ErrorSums* sums) {
  constexpr int64_t kBlock = 4096;  // of floats; then as doubles
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = n - at < kBlock ? n - at : kBlock;
    float d2 = 0, x2 = 0, most = 0;
#pragma omp simd reduction(+ : d2, x2) reduction(max : most)
    for (int64_t i = at; i < at + count; ++i) {
      const float d = std::fabs(x[i] - y[i]);
      d2 += d * d;
      x2 += x[i] * x[i];
      most = d > most ? d : most;
    }
    sums->difference += d2;
    sums->reference += x2;
    sums->max = most > sums->max ? most : sums->max;
  }
}

void Times(const float* x, const float* __restrict by, int64_t rows, int64_t n, Rounding r, float* to) {
  WithRounding(r, [&]<Rounding kR>() {
    for (int64_t j = 0; j < rows; ++j, x += n, to += n)
      for (int64_t i = 0; i < n; ++i) to[i] = Round<kR>(x[i] * by[i]);
  });
}

void AddScaled(const float* __restrict x, float by, int64_t n, float* __restrict to) {
  for (int64_t i = 0; i < n; ++i) to[i] += by * x[i];
}

void Columns(const float* __restrict x, int64_t rows, int64_t n, float* __restrict min, float* __restrict max,
             float* __restrict magnitude) {
  for (int64_t j = 0; j < rows; ++j, x += n)
    for (int64_t i = 0; i < n; ++i) {
      min[i] = x[i] < min[i] ? x[i] : min[i];
      max[i] = x[i] > max[i] ? x[i] : max[i];
      magnitude[i] += std::fabs(x[i]);
    }
}

constexpr Loops kLoops = {SLIPWAY_LOOPS_NAME,
                          WidenBF16,
                          WidenF16,
                          MinMax,
                          ChooseAffine,
                          ToInt,
                          FromInt,
                          ToUint4,
                          FromUint4,
                          ToUint4Hqq,
                          ToFloat8,
                          FromFloat8,
                          ToFloat4,
                          FromFloat4,
                          Pack4,
                          FitScales,
                          HqqStep,
                          Errors,
                          Times,
                          AddScaled,
                          Columns};

}  // namespace SLIPWAY_LOOPS
}  // namespace slipway::quantizer
