// The loops over weights, compiled once for each instruction set from one source (body.h), so that quantizing runs at
// the speed of reading. They are the arithmetic and nothing else: which scale a group gets is decided in the schemes.
//
// Weights come as floats, `groups` runs of `g` neighbours that share a scale. Every intermediate result is rounded as
// torch
// rounds it: to f32, or to the weight's own dtype where `Rounding` says so. No contraction, no reassociation of what is
// stored: the same bits under every instruction set. (Sums of errors are for reports only; their order differs.)
#ifndef SLIPWAY_QUANTIZER_LOOPS_LOOPS_H_
#define SLIPWAY_QUANTIZER_LOOPS_LOOPS_H_

#include <cstdint>

namespace slipway::quantizer {

// What results of operations in the weight's dtype are rounded to.
enum class Rounding : uint8_t { kF32, kBF16, kF16 };

// torchao's MappingType: how scale and zero point follow from the extremes of a group.
enum class Mapping : uint8_t { kSymmetric, kSymmetricNoClippingErr, kAsymmetric };

// Sums over elements of (x - y)² and x², and the largest |x - y|.
struct ErrorSums {
  double difference = 0, reference = 0;
  float max = 0;
};

struct Loops {
  const char* name;

  void (*widen_bf16)(const uint16_t* from, float* to, int64_t n);
  void (*widen_f16)(const uint16_t* from, float* to, int64_t n);

  // The least and greatest of each group. False where there is an infinity or NaN.
  bool (*min_max)(const float* x, int64_t groups, int64_t g, float* min, float* max);

  // Scales, their reciprocals and zero points of groups from their least and greatest (schemes/affine.cc has the
  // formulas); steps are rounded to `of_weight`, scale and reciprocal to `of_scale`.
  void (*choose_affine)(const float* min, const float* max, int64_t groups, Mapping mapping, float low, float high,
                        float eps, Rounding of_weight, Rounding of_scale, float* scale, float* inv, float* zero);
  // q = clamp(rint(R(x · inv)) + zero, low, high)
  void (*to_int)(const float* x, int64_t groups, int64_t g, const float* inv, const float* zero, Rounding r, float low,
                 float high, int8_t* q);
  // R((q - zero) · scale)
  void (*from_int)(const int8_t* q, int64_t groups, int64_t g, const float* scale, const float* zero, Rounding r,
                   float* x);

  // q = clamp(rint(R(R(x - base) / scale)), 0, 15), one in a byte
  void (*to_uint4)(const float* x, int64_t groups, int64_t g, const float* base, const float* scale, Rounding r,
                   int8_t* q);
  // R(R((q - 8) · scale) + zero)
  void (*from_uint4)(const int8_t* q, int64_t groups, int64_t g, const float* scale, const float* zero, Rounding r,
                     float* x);
  // q = clamp(rint(x · scale + zero), 0, 15)
  void (*to_uint4_hqq)(const float* x, int64_t groups, int64_t g, const float* scale, const float* zero, int8_t* q);

  // clamp(x / scale, ±largest) as e4m3fn or e5m2; with `reciprocal` x · scale.
  void (*to_float8)(const float* x, int64_t groups, int64_t g, const float* scale, bool reciprocal, bool e5m2,
                    uint8_t* q);
  // R(q · scale)
  void (*from_float8)(const uint8_t* q, int64_t groups, int64_t g, const float* scale, bool e5m2, Rounding r, float* x);
  // As e2m1, one code in a byte: of x / scale, or x · scale.
  void (*to_float4)(const float* x, int64_t groups, int64_t g, const float* scale, bool reciprocal, uint8_t* q);
  void (*from_float4)(const uint8_t* q, int64_t groups, int64_t g, const float* scale, Rounding r, float* x);

  // Two codes of 4 bits in a byte, the first in the low half, `add` added to each; n is even.
  void (*pack4)(const int8_t* q, int64_t n, int add, uint8_t* to);

  // Fits scales by least squares, `rounds` times: q = clamp(rint(x / s), low, high), s = max(Σ x·q / Σ q², eps), the
  // old one where all q are 0. scale holds the first and gets the last; change[r] the largest |new - old| / old of
  // round r so far, settled[j] the round from which on nothing changes, `rounds` where there is none; where they are
  // not null.
  void (*fit_scales)(const float* x, int64_t groups, int64_t g, float low, float high, float eps, int rounds,
                     float* scale, float* change, uint8_t* settled);
  // A step of HQQ (Badri & Shaji 2023) for 4 bits: q = clamp(rint(x · scale + zero), 0, 15), y = (q - zero) / scale,
  // e = shrink(x - y): sign · max(|·| - |·|^-0.3 / beta, 0); next = mean(q - (x - e) · scale), which may
  // be written over zero. Returns Σ |x - y|.
  double (*hqq_step)(const float* x, int64_t groups, int64_t g, const float* scale, const float* zero, float beta,
                     float* next);

  void (*errors)(const float* x, const float* y, int64_t n, ErrorSums* sums);

  // R(x · by), where each row of x is as long as `by`; may be written over x.
  void (*times)(const float* x, const float* by, int64_t rows, int64_t n, Rounding r, float* to);
  // to += by · x
  void (*add_scaled)(const float* x, float by, int64_t n, float* to);
  // Of columns, joined with what they hold: least, greatest, and the sum of magnitudes.
  void (*columns)(const float* x, int64_t rows, int64_t n, float* min, float* max, float* magnitude);
};

// The best that the processor has, or what SLIPWAY_ISA (v2, avx2, avx512) asks for.
const Loops& BestLoops();

}  // namespace slipway::quantizer

#endif  // SLIPWAY_QUANTIZER_LOOPS_LOOPS_H_
