// The inner loops of products of integers, and of what makes integers of activations, one version per instruction set. Beside those
// of isa.h there are sets that differ in nothing but these: with instructions for sums of four products (VNNI). dot_body.h is
// their source.
#ifndef SLIPWAY_KERNELS_ISA_DOT_H_
#define SLIPWAY_KERNELS_ISA_DOT_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace slipway::kernels {

// c[m,n] = bias + scale of the row · Σ over groups of (Σ (a - a_zero) · (b - b_zero)) · scale of the group and column. The inner sums
// are exact, in i32. Of one group the product with the row's scale comes first, and is rounded to `rounded`; each operation is rounded.
struct DotCall {
  int64_t m = 0, n = 0, k = 0;
  int64_t group = 0;           // rows: k, or a divisor of k that is a multiple of 8
  const uint8_t* b = nullptr;  // kQuads, or nibbles (panels.h)
  bool nibbles = false;
  int32_t offset = 0;             // what is added to each stored integer of b
  const int8_t* zero = nullptr;   // panels of groups, subtracted from that; null: 0
  const float* scale = nullptr;   // panels of groups
  const void* a = nullptr;        // rows as `prepare` makes them, so many bytes apart
  int64_t a_row = 0;
  const int32_t* a_sum = nullptr;    // [m][groups]: of the integers of a
  const float* a_scale = nullptr;    // [m]
  const int32_t* a_zero = nullptr;   // [m], or null
  DType rounded = DType::kF32;       // or kBF16, with one group
  const float* bias = nullptr;       // n, or null
  float* c = nullptr;
  int64_t c_row = 0;
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
};

// The best of this processor; SLIPWAY_ISA caps it as BestIsa(): v2, avx2, avxvnni, avx512, avx512vnni, avx512bf16.
const DotIsa& BestDot();
// Null where this build or this processor has none of that name.
const DotIsa* FindDot(const char* name);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_DOT_H_
