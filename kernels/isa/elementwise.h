// Elementwise micro-kernels of an instruction set over dense rows of f32: functions, conversions, layout changes,
// epilogues. elementwise.inc.h and math.inc.h are their source.
#ifndef SLIPWAY_KERNELS_ISA_ELEMENTWISE_H_
#define SLIPWAY_KERNELS_ISA_ELEMENTWISE_H_

#include <cstdint>

#include "kernels/isa/epilogue.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// Unary functions, within a few units in the last place. The output may be the operand. Sines and cosines are of |x| <
// 2^30.
// clang-format off
enum class RowOp : uint8_t {
  kExp, kTanh, kErf, kSigmoid, kSilu, kGelu, kGeluTanh, kRelu, kNeg, kSqrt, kRsqrt, kHardSigmoid, kHardSwish, kLog,
  kLog1p, kExpm1, kSin, kCos, kMish,
};
// clang-format on
inline constexpr int kRowOps = 19;
enum class PairOp : uint8_t { kAdd, kSub, kMul, kDiv };
inline constexpr int kPairOps = 4;

// out[i] = bias + sum over t < taps of w[t] · x[offsets[t] + i], i < n: a finite impulse response.
struct FirParams {
  const float* x = nullptr;
  const int64_t* offsets = nullptr;
  const float* w = nullptr;
  int64_t taps = 0;
  float bias = 0;
  float* out = nullptr;
  int64_t n = 0;
};

struct ElementwiseMicrokernels {
  void (*unary[kRowOps])(const float* x, float* out, int64_t n);
  // `scalar`: 1: x has one element, which is broadcast; 2: y has; 0: neither.
  void (*binary[kPairOps])(const float* x, const float* y, float* out, int64_t n, int scalar);
  void (*scale)(float* x, float by, int64_t n);
  void (*fir)(const FirParams& p);
  // From bf16, f16, i8, u8 or float8_e4m3fn; to bf16 or f16, rounded to nearest even, or to i8 or u8, truncated, of
  // which the lowest bits stay (0 of what is beyond i32, as x86 converts).
  void (*convert_to_f32)(const void* x, DType dtype, float* out, int64_t n);
  void (*convert_from_f32)(const float* x, void* out, DType dtype, int64_t n);
  // clamp(round(x · by) + zero, low, high), rounded to even; bounds are integers of at most 2^10, NaN becomes `low`.
  void (*quantize)(const float* x, float* out, int64_t n, float by, float zero, float low, float high);
  // to[i * to_stride + j] = from[j * from_stride + i] for i < rows, j < columns.
  void (*transpose)(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride, int64_t rows,
                    int64_t columns);
  // to[2 · i] = to[2 · i + 1] = from[i] for i < n, and the same to `again`, which may be null.
  void (*duplicate)(const uint32_t* from, int64_t n, uint32_t* to, uint32_t* again);
  // The epilogue of n elements of one channel, without its post-ops: scale and bias point to that channel's elements,
  // residual has n elements.
  void (*epilogue)(const float* x, float* out, int64_t n, const Epilogue& e);
  // A batch norm as x · scale + bias: in are its weights and biases, which are overwritten; computed in f64.
  void (*batch_norm_scale_bias)(const float* mean, const float* variance, double epsilon, int64_t n, float* scale,
                                float* bias);
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_ELEMENTWISE_H_
