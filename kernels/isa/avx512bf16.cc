// Instruction set "avx512bf16": AVX-512 with sums of two bf16 products (BF16): GEMM and convolutions with twice as many
// multiplications per step as f32. All other micro-kernels are avx512vnni's.
#if defined(__x86_64__)
// GCC 12's intrinsics begin with vectors that are not set (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <cstdint>

#include <immintrin.h>

#include "kernels/isa/bf16_conv.h"
#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/isa.h"

#define SLIPWAY_ISA_NAME "avx512bf16"
#define SLIPWAY_ISA_BYTES 64

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/math.inc.h"
#include "kernels/isa/epilogue.inc.h"
#include "kernels/isa/bf16_conv.inc.h"
#include "kernels/isa/bf16_pairs.inc.h"
// clang-format on

constexpr int kRows = 6;

SLIPWAY_INLINE __m512i Word(const uint16_t* p) {
  int32_t two;
  __builtin_memcpy(&two, p, 4);
  __m512i x = _mm512_set1_epi32(two);
#if defined(__clang__) && __clang_major__ < 17
  asm("" : "+v"(x));  // as in AddPairProducts
#endif
  return x;
}

template <int R, int C>
__attribute__((noinline)) void Tile(const uint16_t* a, int64_t a_stride, const uint32_t* b, int64_t depth, float* c,
                                    int64_t c_stride, int64_t n, const float* bias, bool add, const char* fetch,
                                    int64_t fetch_step, uint16_t* rounded, int64_t rounded_stride) {
  __m512 sum[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sum[r][j] = _mm512_setzero_ps();
  for (int64_t p = 0; p < depth; p += 2, b += kPanel * C, fetch += fetch_step) {
    PrefetchOnce(fetch);
    __m512i w[C];
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) w[j] = _mm512_loadu_si512(b + j * kPanel);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i x = Word(a + r * a_stride + p);
#pragma GCC unroll 8
      for (int j = 0; j < C; ++j)
        sum[r][j] = _mm512_dpbf16_ps(sum[r][j], reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w[j]));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) {
      const int64_t left = n - j * kPanel;
      const __mmask16 mask = left >= kPanel ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
      float* to = c + r * c_stride + j * kPanel;
      if (add) sum[r][j] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum[r][j]);
      if (bias != nullptr) sum[r][j] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, bias + j * kPanel), sum[r][j]);
      if (rounded != nullptr)
        _mm256_mask_storeu_epi16(rounded + r * rounded_stride + j * kPanel, mask,
                                 reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum[r][j])));
      else
        _mm512_mask_storeu_ps(to, mask, sum[r][j]);
    }
}

template <int C>
void Rows(const GemmParams& g, const uint32_t* b, int64_t p, int64_t depth, int64_t j, const NextBlock& next) {
  const auto* a = static_cast<const uint16_t*>(g.a.data) + p;
  const float* bias = p == 0 && g.bias != nullptr ? g.bias + j : nullptr;
  const bool add = p > 0 || g.accumulate;
  int64_t i = 0;
  const bool rounds = g.rounded != nullptr && p + depth == g.k;
  int64_t piece = 0;  // of the next block: each tile prefetches one, a line a step
  auto tile = [&]<int R>() {
    for (; i + R <= g.m; i += R, ++piece) {
      const bool fetches = piece < next.panels;
      Tile<R, C>(a + i * g.a.row, g.a.row, b, depth, g.c + i * g.c_stride + j, g.c_stride, g.n - j, bias, add,
                 fetches ? next.at + piece * next.step : reinterpret_cast<const char*>(b), fetches ? 64 : 0,
                 rounds ? g.rounded + i * g.rounded_stride + j : nullptr, g.rounded_stride);
    }
  };
  tile.template operator()<kRows>();
  tile.template operator()<3>();
  tile.template operator()<1>();
}

void Gemm(const GemmParams& g, float* workspace) {
  ForEachPairedBlock(
      g, workspace, [&](const uint32_t* pairs, int panels, int64_t j, int64_t p, int64_t depth, const NextBlock& next) {
        switch (panels) {
          case 1: return Rows<1>(g, pairs, p, depth, j, next);
          case 2: return Rows<2>(g, pairs, p, depth, j, next);
          case 3: return Rows<3>(g, pairs, p, depth, j, next);
          default: return Rows<4>(g, pairs, p, depth, j, next);
        }
      });
}

}  // namespace

extern const Bf16ConvMicrokernels kBf16ConvAvx512Bf16;
const Bf16ConvMicrokernels kBf16ConvAvx512Bf16 = {
    SLIPWAY_ISA_NAME, Bf16Igemm, kBf16DwBlock, kBf16DwPixels, Bf16DwArranged, ArrangeBf16Depthwise, Bf16Dwconv};

extern const Bf16GemmMicrokernels kBf16GemmAvx512;
const Bf16GemmMicrokernels kBf16GemmAvx512 = {"avx512bf16", Supports, Workspace, Gemm, true};

}  // namespace slipway::kernels
#endif
