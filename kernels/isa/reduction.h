// Reductions, softmax and norms of an instruction set over dense rows of f32. reduction.inc.h is their source.
#ifndef SLIPWAY_KERNELS_ISA_REDUCTION_H_
#define SLIPWAY_KERNELS_ISA_REDUCTION_H_

#include <cstdint>

namespace slipway::kernels {

struct ReductionMicrokernels {
  // out = exp(x - max), which may be x itself; returns the sum of out.
  float (*exp_sum)(const float* x, float max, float* out, int64_t n);
  float (*max)(const float* x, int64_t n);  // -inf for n = 0; NaN is skipped
  // x += mask, or x = mask where that is not 0 (`replace`); returns the maximum as above.
  float (*add_max)(float* x, const float* mask, bool replace, int64_t n);
  void (*softmax)(const float* x, float* out, int64_t n);
  void (*log_softmax)(const float* x, float* out, int64_t n);
  // (x - mean) / sqrt(variance + epsilon) · weight + bias; weight and bias may be null.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon, float* out, int64_t n);
  // x / sqrt(mean of squares + epsilon) · weight, which may be null.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, float* out, int64_t n);
  double (*sum)(const float* x, int64_t n);
  // sums[j] += x[i · stride + j] for i < rows, j < n: whole vectors of columns add up eight rows at a time in f32.
  void (*sum_rows)(const float* x, int64_t stride, int64_t rows, int64_t n, double* sums);
  // The sum of (x - center)², in f64; sums[j] += (x[i · stride + j] - centers[j])² for i < rows, j < n.
  double (*sum_squares)(const float* x, int64_t n, double center);
  void (*sum_squares_of_rows)(const float* x, int64_t stride, int64_t rows, int64_t n, const double* centers,
                              double* sums);
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_REDUCTION_H_
