// Tiles of f32 accumulators of GEMM and convolutions: how many rows and columns they have, and AVX2's inner loops in
// assembler. Included after simd.inc.h.

constexpr int kRows = SLIPWAY_ISA_ROWS;
// mr of the NHWC tiles (conv_nhwc.inc.h), of two vectors each: leaves registers for two vectors of weights and one of
// the image.
constexpr int kNhwcMr = SLIPWAY_ISA_BYTES == 64 ? 14 : 6;
constexpr int kWidth = 2 * kLanes;

#if SLIPWAY_ISA_BYTES == 32 && defined(__FMA__)
#include "kernels/isa/gemm_avx2.inc.h"
#define SLIPWAY_ASM_TILE 1
#else
#define SLIPWAY_ASM_TILE 0
#endif

// Splits n into equal blocks of at most `max`, rounded up to multiples of `multiple`, which divides `max`.
[[maybe_unused]] int64_t EvenBlock(int64_t n, int64_t max, int64_t multiple) {
  const int64_t blocks = (n + max - 1) / max;
  return blocks > 1 ? ((n + blocks - 1) / blocks + multiple - 1) / multiple * multiple : Max(n, 1);
}
