// The source of the loops (loops.h), included by the file of each instruction set within a namespace of its own. Written as plain
// loops without branches, of which the compiler makes vectors; `#pragma omp simd` allows it to reorder what is reduced, which
// for minima, maxima and sums of errors changes nothing that is stored.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

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

bool MinMax(const float* __restrict x, int64_t groups, int64_t g, float* __restrict min, float* __restrict max) {
  uint32_t largest = 0;
  for (int64_t j = 0; j < groups; ++j, x += g) {
    float low = x[0], high = x[0];
    uint32_t bits = 0;
#pragma omp simd reduction(min : low) reduction(max : high) reduction(max : bits)
    for (int64_t i = 0; i < g; ++i) {
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
      const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7fffffff;
      bits = magnitude > bits ? magnitude : bits;
    }
    min[j] = low, max[j] = high;
    largest = bits > largest ? bits : largest;
  }
  return largest < 0x7f800000;
}

void ToInt(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict inv, const float* __restrict zero,
           Rounding r, float low, float high, int8_t* __restrict q) {
  WithRounding(r, [&]<Rounding kR>() {
    for (int64_t j = 0; j < groups; ++j, x += g, q += g) {
      const float by = inv[j], add = zero[j];
      for (int64_t i = 0; i < g; ++i)
        q[i] = static_cast<int8_t>(static_cast<int32_t>(Clamp(std::rint(Round<kR>(x[i] * by)) + add, low, high)));
    }
  });
}

void FromInt(const int8_t* __restrict q, int64_t groups, int64_t g, const float* __restrict scale, const float* __restrict zero,
             Rounding r, float* __restrict x) {
  WithRounding(r, [&]<Rounding kR>() {
    for (int64_t j = 0; j < groups; ++j, x += g, q += g) {
      const float by = scale[j], sub = zero[j];
      for (int64_t i = 0; i < g; ++i) x[i] = Round<kR>((static_cast<float>(q[i]) - sub) * by);
    }
  });
}

void ToUint4(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict base, const float* __restrict scale,
             Rounding r, int8_t* __restrict q) {
  WithRounding(r, [&]<Rounding kR>() {
    for (int64_t j = 0; j < groups; ++j, x += g, q += g) {
      const float sub = base[j], by = scale[j];
      for (int64_t i = 0; i < g; ++i)
        q[i] = static_cast<int8_t>(static_cast<int32_t>(Clamp(std::rint(Round<kR>(Round<kR>(x[i] - sub) / by)), 0, 15)));
    }
  });
}

void FromUint4(const int8_t* __restrict q, int64_t groups, int64_t g, const float* __restrict scale,
               const float* __restrict zero, Rounding r, float* __restrict x) {
  WithRounding(r, [&]<Rounding kR>() {
    for (int64_t j = 0; j < groups; ++j, x += g, q += g) {
      const float by = scale[j], add = zero[j];
      for (int64_t i = 0; i < g; ++i) x[i] = Round<kR>(Round<kR>((static_cast<float>(q[i]) - 8) * by) + add);
    }
  });
}

void ToUint4Hqq(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict scale,
                const float* __restrict zero, int8_t* __restrict q) {
  for (int64_t j = 0; j < groups; ++j, x += g, q += g) {
    const float by = scale[j], add = zero[j];
    for (int64_t i = 0; i < g; ++i)
      q[i] = static_cast<int8_t>(static_cast<int32_t>(Clamp(std::rint(x[i] * by + add), 0, 15)));
  }
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
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kAlign)) - kAlign;
  const uint32_t code = magnitude < (static_cast<uint32_t>(127 + 1 - kBias) << 23) ? small : normal;
  return static_cast<uint8_t>((u >> 24 & 0x80) | code);
}

template <int kMantissa, int kBias>
void ToFloat8Of(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict scale, bool reciprocal,
                float largest, uint8_t* __restrict q) {
  for (int64_t j = 0; j < groups; ++j, x += g, q += g) {
    const float by = scale[j];
    if (reciprocal)
      for (int64_t i = 0; i < g; ++i) q[i] = Float8Code<kMantissa, kBias>(Clamp(x[i] * by, -largest, largest));
    else
      for (int64_t i = 0; i < g; ++i) q[i] = Float8Code<kMantissa, kBias>(Clamp(x[i] / by, -largest, largest));
  }
}

void ToFloat8(const float* x, int64_t groups, int64_t g, const float* scale, bool reciprocal, bool e5m2, uint8_t* q) {
  e5m2 ? ToFloat8Of<2, 15>(x, groups, g, scale, reciprocal, 57344, q) : ToFloat8Of<3, 7>(x, groups, g, scale, reciprocal, 448, q);
}

template <int kMantissa, int kBias, Rounding kR>
void FromFloat8Of(const uint8_t* __restrict q, int64_t groups, int64_t g, const float* __restrict scale, float* __restrict x) {
  const float rebase = std::bit_cast<float>(static_cast<uint32_t>(127 + 127 - kBias) << 23);
  for (int64_t j = 0; j < groups; ++j, x += g, q += g) {
    const float by = scale[j];
    for (int64_t i = 0; i < g; ++i) {
      const uint32_t code = q[i];
      const float magnitude = std::bit_cast<float>((code & 0x7f) << (23 - kMantissa)) * rebase;
      x[i] = Round<kR>(std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (code & 0x80) << 24) * by);
    }
  }
}

void FromFloat8(const uint8_t* q, int64_t groups, int64_t g, const float* scale, bool e5m2, Rounding r, float* x) {
  WithRounding(r, [&]<Rounding kR>() {
    e5m2 ? FromFloat8Of<2, 15, kR>(q, groups, g, scale, x) : FromFloat8Of<3, 7, kR>(q, groups, g, scale, x);
  });
}

// Codes of e2m1 are the ranks of 0, .5, 1, 1.5, 2, 3, 4, 6: how many midpoints lie below; one that is hit goes to the even code.
inline uint8_t Float4Code(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const float a = std::bit_cast<float>(u & 0x7fffffff);
  const uint32_t code = (a > 0.25f ? 1u : 0u) + (a >= 0.75f ? 1u : 0u) + (a > 1.25f ? 1u : 0u) + (a >= 1.75f ? 1u : 0u) +
                        (a > 2.5f ? 1u : 0u) + (a >= 3.5f ? 1u : 0u) + (a > 5.0f ? 1u : 0u);
  return static_cast<uint8_t>((u >> 28 & 8) | code);
}

void ToFloat4(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict scale, bool reciprocal,
              uint8_t* __restrict q) {
  for (int64_t j = 0; j < groups; ++j, x += g, q += g) {
    const float by = scale[j];
    if (reciprocal)
      for (int64_t i = 0; i < g; ++i) q[i] = Float4Code(x[i] * by);
    else
      for (int64_t i = 0; i < g; ++i) q[i] = Float4Code(x[i] / by);
  }
}

void FromFloat4(const uint8_t* __restrict q, int64_t groups, int64_t g, const float* __restrict scale, Rounding r,
                float* __restrict x) {
  WithRounding(r, [&]<Rounding kR>() {
    for (int64_t j = 0; j < groups; ++j, x += g, q += g) {
      const float by = scale[j];
      for (int64_t i = 0; i < g; ++i) {
        const uint32_t code = q[i] & 7;
        // Exponent and mantissa as a float's, 2^-126 times as large; below 1 there is one number, a half.
        const float normal = std::bit_cast<float>((code << 22) + (126u << 23));
        const float magnitude = code < 2 ? 0.5f * static_cast<float>(code) : normal;
        x[i] = Round<kR>(std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | static_cast<uint32_t>(q[i] & 8) << 28) * by);
      }
    }
  });
}

void Pack4(const int8_t* __restrict q, int64_t n, int add, uint8_t* __restrict to) {
  for (int64_t i = 0; i < n / 2; ++i)
    to[i] = static_cast<uint8_t>(((q[2 * i] + add) & 15) | ((q[2 * i + 1] + add) & 15) << 4);
}

void ScaleFit(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict scale, float low, float high,
              float* __restrict xq, float* __restrict qq) {
  for (int64_t j = 0; j < groups; ++j, x += g) {
    const float by = scale[j];
    float a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
    for (int64_t i = 0; i < g; ++i) {
      const float q = Clamp(std::rint(x[i] / by), low, high);
      a += x[i] * q;
      b += q * q;
    }
    xq[j] = a, qq[j] = b;
  }
}

// x^-0.3 of a positive, normal number, to about 1e-6: 2^(-0.3 log2 x).
inline float PowerMinus3Tenths(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const float exponent = static_cast<float>(static_cast<int32_t>(u >> 23) - 127);
  const float m = std::bit_cast<float>((u & 0x7fffff) | 127u << 23), t = m - 1;
  // log2(1 + t) = t · p(t) and 2^f, by Chebyshev fits of 4e-8 and 1e-7.
  float p = 0.00757910429f;
  p = p * t - 0.0426870517f;
  p = p * t + 0.113051743f;
  p = p * t - 0.197284995f;
  p = p * t + 0.275719547f;
  p = p * t - 0.358428456f;
  p = p * t + 0.48069547f;
  p = p * t - 0.721340328f;
  p = p * t + 1.442695f;
  const float y = -0.3f * (exponent + t * p);
  const float whole = std::floor(y), f = y - whole;
  float e = 0.00189510729f;
  e = e * f + 0.00894621467f;
  e = e * f + 0.0558632827f;
  e = e * f + 0.24014077f;
  e = e * f + 0.69315462f;
  e = e * f + 0.999999896f;
  return e * std::bit_cast<float>(static_cast<uint32_t>(static_cast<int32_t>(whole) + 127) << 23);
}

double HqqStep(const float* __restrict x, int64_t groups, int64_t g, const float* __restrict scale, const float* __restrict zero,
               float beta, float* __restrict next) {
  double error = 0;
  const float by = 1 / beta;
  for (int64_t j = 0; j < groups; ++j, x += g) {
    const float s = scale[j], z = zero[j];
    float sum = 0, differences = 0;
#pragma omp simd reduction(+ : sum, differences)
    for (int64_t i = 0; i < g; ++i) {
      const float q = Clamp(std::rint(x[i] * s + z), 0, 15);
      const float d = x[i] - (q - z) / s, a = std::fabs(d);
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

constexpr Loops kLoops = {SLIPWAY_LOOPS_NAME, WidenBF16, WidenF16,   MinMax,     ToInt,     FromInt, ToUint4,  FromUint4, ToUint4Hqq,
                          ToFloat8,           FromFloat8, ToFloat4,  FromFloat4, Pack4,     ScaleFit, HqqStep, Errors};

}  // namespace SLIPWAY_LOOPS
}  // namespace slipway::quantizer
