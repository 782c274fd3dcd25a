// The plain product of matrices, over dense rows in one compute type: what kernels use for f64 and integers. f32 goes
// to GemmF32.
#ifndef SLIPWAY_KERNELS_GEMM_REFERENCE_GEMM_H_
#define SLIPWAY_KERNELS_GEMM_REFERENCE_GEMM_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/gemm/gemm.h"

namespace slipway::kernels {

// Sums of integers wrap.
template <typename T>
using Accumulator = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

// c[m,n] += a[m,k] · b[k,n]; leading dimensions in elements. Rows of c are taken four at a time and columns in runs
// that registers hold, so that each element of b is read once for four rows.
template <typename T>
void Gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc) {
  if constexpr (std::is_same_v<T, float>) {
    Scratch scratch;
    return GemmF32({m, n, k, {a, DType::kF32, lda, 1}, {b, DType::kF32, ldb, 1}, c, ldc, 1, nullptr, true}, nullptr,
                   scratch);
  }
  using A = Accumulator<T>;
  constexpr int64_t kRows = 4, kColumns = 32 / static_cast<int64_t>(sizeof(T)) * 2, kDepth = 256;
  for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
    const int64_t depth = std::min(kDepth, k - p0);
    for (int64_t j = 0; j < n; j += kColumns) {
      const int64_t columns = std::min(kColumns, n - j);
      for (int64_t i = 0; i < m; i += kRows) {
        const int64_t rows = std::min(kRows, m - i);
        A sum[kRows][kColumns] = {};
        if (rows == kRows && columns == kColumns) {
          for (int64_t p = p0; p < p0 + depth; ++p) {
            const T* row = b + p * ldb + j;
            for (int64_t r = 0; r < kRows; ++r) {
              const A x = static_cast<A>(a[(i + r) * lda + p]);
              for (int64_t q = 0; q < kColumns; ++q) sum[r][q] += x * static_cast<A>(row[q]);
            }
          }
        } else {
          for (int64_t p = p0; p < p0 + depth; ++p) {
            const T* row = b + p * ldb + j;
            for (int64_t r = 0; r < rows; ++r) {
              const A x = static_cast<A>(a[(i + r) * lda + p]);
              for (int64_t q = 0; q < columns; ++q) sum[r][q] += x * static_cast<A>(row[q]);
            }
          }
        }
        for (int64_t r = 0; r < rows; ++r) {
          T* to = c + (i + r) * ldc + j;
          for (int64_t q = 0; q < columns; ++q) to[q] = static_cast<T>(static_cast<A>(to[q]) + sum[r][q]);
        }
      }
    }
  }
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_GEMM_REFERENCE_GEMM_H_
