// The inner loops of products whose right matrix is small integers with scales, one version per instruction set
// (isa.h); quant_body.h is their source.
#ifndef SLIPWAY_KERNELS_ISA_QUANT_H_
#define SLIPWAY_KERNELS_ISA_QUANT_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace slipway::kernels {

// A k × n matrix of small integers or of float8, packed (panels.h). Element (p, j) counts as rounded((q - zero) ·
// scale), with zero and scale of row p / group and column j, in f32; where zeros are added, as rounded(rounded(q ·
// scale) + zero).
struct QuantMatrix {
  int64_t n = 0, k = 0;
  const void* q = nullptr;  // kQuads, or nibbles
  bool nibbles = false;
  DType dtype = DType::kI8;  // kF8E4M3FN, kF8E5M2: quads of these, without offset and zero; all others: integers
  float offset = 0;          // what is added to each stored integer: an integer
  int64_t group = 0;         // divides k
  // Panels of matrices of k / group rows, of f32, bf16, f16 or i8.
  const void *scale = nullptr, *zero = nullptr;  // null: 1, 0
  DType scale_dtype = DType::kF32, zero_dtype = DType::kF32;
  bool adds_zero = false;             // of integers, with a scale and a zero
  DType scale_rounded = DType::kF32;  // bf16, f16: the scale is rounded to that first
  DType rounded = DType::kF32;        // bf16, f16: each element is rounded to that
};

// Rows of a column that lie together.
constexpr int64_t QuantUnit(const QuantMatrix& b) { return b.nibbles ? 8 : 4; }

// c[m,n] = bias[n] + a[m,k] · b[k,n], rows of a and c dense.
struct QuantCall {
  QuantMatrix b;
  int64_t m = 0;
  const float* a = nullptr;
  int64_t a_row = 0;
  bool is_bf16 = false;          // the program has the rows of a in bf16, dense:
  const void* narrow = nullptr;  // these
  float* c = nullptr;
  int64_t c_row = 0;
  const float* bias = nullptr;  // n, or null
  // Where b's zeros are added and its elements are not rounded: the sum of each group of each row, [m, k / group].
  const float* sums = nullptr;
};

struct QuantIsa {
  // With all of b's integers widened in registers: for a few rows. Not of matrices that are rounded to f16, or of
  // groups that QuantUnit does not divide and of which there are several.
  void (*product)(const QuantCall& g);
  // Elements of rows [p, p + depth) and of a panel of columns from j on, as f32: to[depth][kPanel]. j is a multiple of
  // kPanel.
  void (*expand)(const QuantMatrix& b, int64_t p, int64_t depth, int64_t j, float* to);
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_QUANT_H_
