// Integer GEMM micro-kernels of an instruction set, and the quantization of activations. Some sets differ from one of
// isa.h in these only: those with instructions for sums of four int8 products (VNNI). int8_gemm.inc.h and
// split_int8_gemm.inc.h are their source.
#ifndef SLIPWAY_KERNELS_ISA_INT8_GEMM_H_
#define SLIPWAY_KERNELS_ISA_INT8_GEMM_H_

#include <cstdint>

#include "kernels/isa/dequant_gemm.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// c[m,n] = bias + a_scale[m] · Σ over groups of (Σ (a - a_zero) · (b - b_zero)) · scale[group, n]. The inner sums are
// exact, in i32. With one group, the product with a_scale comes first and is rounded to `rounded`; each operation is
// rounded.
struct Int8GemmParams {
  int64_t m = 0, n = 0, k = 0;
  int64_t group = 0;           // rows: k, or a divisor of k that is a multiple of 8
  const uint8_t* b = nullptr;  // Packing::kNr16K4, or int4 (gemm/packing.h)
  bool nibbles = false;
  int32_t offset = 0;            // added to each stored integer of b
  const int8_t* zero = nullptr;  // panels of groups, subtracted from that; null: 0
  const void* scale = nullptr;   // panels of groups, of f32, bf16 or f16
  DType scale_dtype = DType::kF32;
  const void* a = nullptr;  // rows as `pack_row` writes them, a_stride bytes apart
  int64_t a_stride = 0;
  const int32_t* a_sum = nullptr;   // [m][groups]: sums of a's integers
  const float* a_scale = nullptr;   // [m]
  const int32_t* a_zero = nullptr;  // [m], or null
  // Panels of groups: sums of b's stored integers, as `column_sums` gives them. With a_zero; null only where m is 1,
  // whose tile sums them on its way.
  const int32_t* column_sums = nullptr;
  DType rounded = DType::kF32;  // or kBF16, with one group
  const float* bias = nullptr;  // n, or null
  float* c = nullptr;
  int64_t c_stride = 0;
};

// Rows of floats split into int8 slices, for products of floats with small integers by integer arithmetic (the Ozaki
// scheme: Ozaki, Ogita, Oishi, Rump, "Error-free transformations of matrix multiplication", 2012; Ootomo et al., "DGEMM
// on integer matrix multiplication unit", 2024). Each block of `block` elements is unit · (65536 · s2 + 256 · s1 + s0)
// with slices in -128..127 and `unit` a power of two: an element differs from that by at most 1.01 · 2^-23 of the
// largest magnitude of its block; of two slices, unit · (256 · s1 + s0), by 1.01 · 2^-15.
struct SplitInt8Rows {
  // A chunk of a row: slices · kChunk bytes, elements of one slice after the other.
  static constexpr int64_t kMaxSlices = 3, kChunk = 16;
  static constexpr int64_t kMaxBlock = 128;  // so that sums of a block fit 32 bits
  static constexpr int64_t RowBytes(int64_t k, int64_t slices) { return (k + kChunk - 1) / kChunk * kChunk * slices; }

  int64_t block = 0;              // a multiple of kChunk
  int slices = kMaxSlices;        // 2 or 3
  const int8_t* rows = nullptr;   // RowBytes(k, slices) each
  const int32_t* sums = nullptr;  // [m][blocks][slices]: of each slice, times the factor that split_row was given
  const float* unit = nullptr;    // [m][blocks]
};

// A dequantizing GEMM whose a is split; the block divides gemm.b.group, or not where there is one group. b's elements
// are not rounded, nor is its scale; its zero is null, i8 (then a.sums are sums of slices, else those times b.offset),
// or of floats and added.
struct SplitInt8GemmParams {
  DequantGemmParams gemm;
  SplitInt8Rows a;
};

struct Int8GemmMicrokernels {
  const char* name;
  const char* algorithm[2];  // how `gemm` multiplies, for people: int8, int4
  // Bytes of a packed row of k integers.
  int64_t (*row_bytes)(int64_t k, bool nibbles);
  // Packs a row of k integers and gives the sum of each group.
  void (*pack_row)(const int8_t* a, int64_t k, int64_t group, bool nibbles, void* to, int32_t* sums);
  void (*gemm)(const Int8GemmParams& g);
  // Of each group of each column the sum of b's stored integers: panels of groups.
  void (*column_sums)(const Int8GemmParams& g, int32_t* to);
  // The minimum and the maximum of n floats; NaN for both where one is NaN.
  void (*min_max)(const float* x, int64_t n, float* min, float* max);
  // clamp(round(x · scale) + zero, low, high), rounded to even; 0 where that is NaN.
  void (*quantize)(const float* x, int64_t n, float scale, float zero, float low, float high, int8_t* to);
  // Splits a row of k floats into int8 slices: `to`, sums (times `factor`) and units. False where the row cannot be
  // split: not finite or too large, or, of three slices, a block of which most elements would keep fewer than 12 bits.
  // Null, as is `split_int8_gemm`, without instructions for the sums.
  bool (*split_row)(const float* x, int64_t k, int64_t block, int slices, int32_t factor, int8_t* to, int32_t* sums,
                    float* unit) = nullptr;
  // Each slice's sum is exact for each block; they are combined with one rounding, scaled, and added in f32.
  void (*split_int8_gemm)(const SplitInt8GemmParams& g) = nullptr;
  // What that takes off b's stored integers of a byte each: `offset` of b is so much larger.
  int32_t split_takes_off = 0;
};

// The best of this processor; SLIPWAY_ISA caps it as BestIsa(): v2, avx2, avxvnni, avx512, avx512vnni, avx512bf16, amx;
// on Arm neon, dotprod, i8mm, bf16.
const Int8GemmMicrokernels& BestInt8Gemm();
// Null where this build or this processor has none of that name.
const Int8GemmMicrokernels* FindInt8Gemm(const char* name);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_INT8_GEMM_H_
