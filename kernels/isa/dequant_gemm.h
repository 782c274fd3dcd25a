// GEMM micro-kernels of an instruction set with a weight matrix of small integers and scales, which is dequantized on
// the fly (weight-only quantization). dequant_gemm.inc.h is their source.
#ifndef SLIPWAY_KERNELS_ISA_DEQUANT_GEMM_H_
#define SLIPWAY_KERNELS_ISA_DEQUANT_GEMM_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace slipway::kernels {

// A packed k × n matrix of small integers or float8 (gemm/packing.h). Element (p, j) is rounded((q - zero) · scale)
// with zero and scale of group p / group and column j, in f32; with adds_zero rounded(rounded(q · scale) + zero).
struct QuantizedMatrix {
  int64_t n = 0, k = 0;
  const void* q = nullptr;  // Packing::kNr16K4, or int4
  bool nibbles = false;
  DType dtype = DType::kI8;  // kF8E4M3FN, kF8E5M2: kNr16K4 of these, without offset and zero; all others: integers
  float offset = 0;          // added to each stored integer: an integer
  int64_t group = 0;         // rows that share a scale: divides k
  // Panels of matrices of k / group rows, of f32, bf16, f16 or i8.
  const void *scale = nullptr, *zero = nullptr;  // null: 1, 0
  DType scale_dtype = DType::kF32, zero_dtype = DType::kF32;
  bool adds_zero = false;             // with integers, a scale and a zero
  DType scale_rounded = DType::kF32;  // bf16, f16: the scale is rounded to that first
  DType rounded = DType::kF32;        // bf16, f16: each element is rounded to that
};

// Rows of a column that are stored together, in one 32-bit word.
constexpr int64_t RowsPerWord(const QuantizedMatrix& b) { return b.nibbles ? 8 : 4; }

// c[m,n] = bias[n] + a[m,k] · b[k,n], rows of a and c dense.
struct DequantGemmParams {
  QuantizedMatrix b;
  int64_t m = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;
  int slices = 3;                   // of int8 that stand for an element of a, where it is split: 2 or 3
  bool is_bf16 = false;             // a's rows are bf16 in the program, dense:
  const void* bf16_rows = nullptr;  // these
  float* c = nullptr;
  int64_t c_stride = 0;
  const float* bias = nullptr;  // n, or null
  // With b.adds_zero and elements that are not rounded: the sum of each group of each row, [m, k / group].
  const float* sums = nullptr;
};

struct DequantGemmMicrokernels {
  // b is dequantized in registers: for small m. b is not rounded to f16, and its group is a multiple of RowsPerWord or
  // the only one.
  void (*gemm)(const DequantGemmParams& g);
  // Elements of rows [p, p + depth) of the panel of columns from j on as f32, to[depth][kPanel]. j is a multiple of
  // kPanel.
  void (*dequantize_panel)(const QuantizedMatrix& b, int64_t p, int64_t depth, int64_t j, float* to);
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_DEQUANT_GEMM_H_
