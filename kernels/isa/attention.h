// Attention micro-kernels of an instruction set over keys and values in 8 bits, which are widened in registers, so that
// they cost the memory traffic of their codes. attention.inc.h is their source.
#ifndef SLIPWAY_KERNELS_ISA_ATTENTION_H_
#define SLIPWAY_KERNELS_ISA_ATTENTION_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace slipway::kernels {

// Dense rows of int8 or float8_e4m3fn, `stride` elements apart.
struct CodeRows {
  const void* at = nullptr;
  DType dtype = DType::kI8;
  int64_t stride = 0;
};

struct AttentionMicrokernels {
  // out[i · n + j] = a[i · k + …] · codes[j] for i < m, j < n: dot products along k.
  void (*dots)(const float* a, int64_t m, const CodeRows& codes, int64_t n, int64_t k, float* out);
  // out[i · k + …] = Σ over j < n of a[i · n + j] · codes[j] for i < m: k numbers; added to what is there where
  // `accumulate`.
  void (*combine)(const float* a, int64_t m, const CodeRows& codes, int64_t n, int64_t k, bool accumulate, float* out);
  // out[j · k + …] = scales[j] · codes[j] for j < n.
  void (*dequantize)(const CodeRows& codes, const float* scales, int64_t n, int64_t k, float* out);
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_ATTENTION_H_
