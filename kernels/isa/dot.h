// The inner loops of products of integers, and of what makes integers of activations, one version per instruction set.
// Beside those of isa.h there are sets that differ in nothing but these: with instructions for sums of four products
// (VNNI). dot_body.h is their source.
#ifndef SLIPWAY_KERNELS_ISA_DOT_H_
#define SLIPWAY_KERNELS_ISA_DOT_H_

#include <cstdint>

#include "kernels/isa/quant.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// c[m,n] = bias + scale of the row · Σ over groups of (Σ (a - a_zero) · (b - b_zero)) · scale of the group and column.
// The inner sums are exact, in i32. Of one group the product with the row's scale comes first, and is rounded to
// `rounded`; each operation is rounded.
struct DotCall {
  int64_t m = 0, n = 0, k = 0;
  int64_t group = 0;           // rows: k, or a divisor of k that is a multiple of 8
  const uint8_t* b = nullptr;  // kQuads, or nibbles (panels.h)
  bool nibbles = false;
  int32_t offset = 0;            // what is added to each stored integer of b
  const int8_t* zero = nullptr;  // panels of groups, subtracted from that; null: 0
  const float* scale = nullptr;  // panels of groups
  const void* a = nullptr;       // rows as `prepare` makes them, so many bytes apart
  int64_t a_row = 0;
  const int32_t* a_sum = nullptr;   // [m][groups]: of the integers of a
  const float* a_scale = nullptr;   // [m]
  const int32_t* a_zero = nullptr;  // [m], or null
  DType rounded = DType::kF32;      // or kBF16, with one group
  const float* bias = nullptr;      // n, or null
  float* c = nullptr;
  int64_t c_row = 0;
};

// A row of floats in fixed point, for products of floats with small integers by sums of integers (the Ozaki scheme:
// Ozaki, Ogita, Oishi, Rump, "Error-free transformations of matrix multiplication", 2012; Ootomo et al., "DGEMM on
// integer matrix multiplication unit", 2024). Each block of `block` elements, from the first on, is unit · (65536 · d2
// + 256 · d1 + d0) with digits in -128..127, where unit is a power
// of two: an element differs from that by at most 1.01 · 2^-23 of the greatest of its block.
struct Digits {
  // a chunk of a row: kCount · kChunk bytes, elements of one digit after the other
  static constexpr int64_t kCount = 3, kChunk = 16;
  static constexpr int64_t kMostBlock = 128;  // so that sums of a block fit 32 bits
  static constexpr int64_t RowBytes(int64_t k) { return (k + kChunk - 1) / kChunk * kChunk * kCount; }

  int64_t block = 0;              // a multiple of kChunk
  const int8_t* rows = nullptr;   // RowBytes(k) each
  const int32_t* sums = nullptr;  // [m][blocks][kCount]: of each digit, times what `split` was given
  const float* unit = nullptr;    // [m][blocks]
};

// QuantCall (quant.h) with a as Digits, whose block divides b.group or, of one group, does not. b's elements are not
// rounded; its scale is in panels of f32 or null; its zero is null, i8 (then digits.sums are those of the digits, else
// those times b.offset), or f32 that is added.
struct DigitCall {
  QuantCall of;
  Digits a;
};

struct DotIsa {
  const char* name;
  const char* way[2];  // how `product` multiplies, for people: whole bytes, nibbles
  // Bytes of a row of k integers as `product` reads them.
  int64_t (*row_bytes)(int64_t k, bool nibbles);
  // k integers as such a row, and the sum of each group.
  void (*prepare)(const int8_t* a, int64_t k, int64_t group, bool nibbles, void* to, int32_t* sums);
  void (*product)(const DotCall& g);
  // The least and the greatest of n numbers; where there is NaN among them, NaN for both.
  void (*extremes)(const float* x, int64_t n, float* least, float* greatest);
  // clamp(round(x · by) + zero, low, high), rounded to even; 0 where that is NaN.
  void (*quantize)(const float* x, int64_t n, float by, float zero, float low, float high, int8_t* to);
  // k floats as Digits of blocks: to, sums (times `times`) and units of one row. False where there are none: not finite
  // or too great, or a block of which most elements would keep fewer than 12 bits. Null, as is `digit_product`, where
  // there is no instruction for the sums.
  bool (*split)(const float* x, int64_t k, int64_t block, int32_t times, int8_t* to, int32_t* sums,
                float* unit) = nullptr;
  // The sum of each digit's products is exact for each block; three of them are put together with one rounding, scaled,
  // and added in f32.
  void (*digit_product)(const DigitCall& g) = nullptr;
};

// The best of this processor; SLIPWAY_ISA caps it as BestIsa(): v2, avx2, avxvnni, avx512, avx512vnni, avx512bf16.
const DotIsa& BestDot();
// Null where this build or this processor has none of that name.
const DotIsa* FindDot(const char* name);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_DOT_H_
