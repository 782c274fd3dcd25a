// Instruction set "avx512bf16": AVX-512 with sums of two bf16 products (BF16): GEMM with twice as many multiplications
// per step as f32. All other micro-kernels are avx512vnni's.
#if defined(__x86_64__)
#include <cstdint>

#include <immintrin.h>

#include "kernels/isa/bf16_gemm.h"

namespace slipway::kernels {
namespace {

#define SLIPWAY_INLINE inline __attribute__((always_inline))

// Tile of c, mr rows × nr / 16 panels of accumulators, and kc: a block of b as pairs of rows stays in the second-level
// cache.
constexpr int kRows = 6, kPanels = 4;
constexpr int64_t kDepth = 1024;
// From this m on: fewer rows read b once, unpaired, in the same time.
constexpr int64_t kMinRows = 8;

bool Supports(const GemmParams& g) {
  return g.packed && g.a.dtype == DType::kBF16 &&
         (g.b.dtype == DType::kBF16 || (g.b.dtype == DType::kF32 && g.b_is_bf16)) && g.a.column == 1 &&
         g.c_column_stride == 1 && g.k % 2 == 0 && g.k > 0 && g.m >= kMinRows;
}
int64_t Workspace(const GemmParams&) { return kDepth * kPanel * kPanels / 2; }

SLIPWAY_INLINE __m512i Word(const uint16_t* p) {
  int32_t two;
  __builtin_memcpy(&two, p, 4);
  return _mm512_set1_epi32(two);
}

// Packs rows [0, depth) of a panel as pairs of bf16, `panels` of which are side by side.
void Pair(const uint16_t* panel, int64_t depth, int panels, uint32_t* to) {
  for (int64_t p = 0; p < depth; p += 2, panel += 2 * kPanel, to += kPanel * panels) {
    const __m512i even = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel)));
    const __m512i odd = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + kPanel)));
    _mm512_storeu_si512(to, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
  }
}

void Pair(const float* panel, int64_t depth, int panels, uint32_t* to) {
  for (int64_t p = 0; p < depth; p += 2, panel += 2 * kPanel, to += kPanel * panels) {
    const __m512i even = _mm512_srli_epi32(_mm512_loadu_si512(panel), 16), odd = _mm512_loadu_si512(panel + kPanel);
    _mm512_storeu_si512(
        to, _mm512_or_si512(even, _mm512_and_si512(odd, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000)))));
  }
}

template <int R, int C>
__attribute__((noinline)) void Tile(const uint16_t* a, int64_t a_stride, const uint32_t* b, int64_t depth, float* c,
                                    int64_t c_stride, int64_t n, const float* bias, bool add) {
  __m512 sum[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sum[r][j] = _mm512_setzero_ps();
  for (int64_t p = 0; p < depth; p += 2, b += kPanel * C) {
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
      _mm512_mask_storeu_ps(to, mask, sum[r][j]);
    }
}

template <int C>
void Rows(const GemmParams& g, const uint32_t* b, int64_t p, int64_t depth, int64_t j) {
  const auto* a = static_cast<const uint16_t*>(g.a.data) + p;
  const float* bias = p == 0 && g.bias != nullptr ? g.bias + j : nullptr;
  const bool add = p > 0 || g.accumulate;
  int64_t i = 0;
  auto tile = [&]<int R>() {
    for (; i + R <= g.m; i += R)
      Tile<R, C>(a + i * g.a.row, g.a.row, b, depth, g.c + i * g.c_stride + j, g.c_stride, g.n - j, bias, add);
  };
  tile.template operator()<kRows>();
  tile.template operator()<3>();
  tile.template operator()<1>();
}

void Gemm(const GemmParams& g, float* workspace) {
  auto* const pairs = reinterpret_cast<uint32_t*>(workspace);
  for (int64_t j = 0; j < g.n; j += kPanels * kPanel) {
    const auto panels =
        static_cast<int>((g.n - j + kPanel - 1) / kPanel < kPanels ? (g.n - j + kPanel - 1) / kPanel : kPanels);
    for (int64_t p = 0; p < g.k; p += kDepth) {
      const int64_t depth = g.k - p < kDepth ? g.k - p : kDepth;
      for (int c = 0; c < panels; ++c)
        if (const int64_t at = (j / kPanel + c) * kPanel * g.b.row + p * kPanel; g.b.dtype == DType::kBF16)
          Pair(static_cast<const uint16_t*>(g.b.data) + at, depth, panels, pairs + c * kPanel);
        else
          Pair(static_cast<const float*>(g.b.data) + at, depth, panels, pairs + c * kPanel);
      switch (panels) {
        case 1: Rows<1>(g, pairs, p, depth, j); break;
        case 2: Rows<2>(g, pairs, p, depth, j); break;
        case 3: Rows<3>(g, pairs, p, depth, j); break;
        default: Rows<4>(g, pairs, p, depth, j); break;
      }
    }
  }
}

}  // namespace

extern const Bf16GemmMicrokernels kBf16GemmAvx512;
const Bf16GemmMicrokernels kBf16GemmAvx512 = {"avx512bf16", Supports, Workspace, Gemm};

}  // namespace slipway::kernels
#endif
