// The right operand of a GEMM in panels: B [k,n] becomes [n / nr][k][nr] with zeros beyond n. Included after
// squares.inc.h, where SLIPWAY_ISA::kElementwise is declared.

// to[p * kTo + j] = from[p * row + j * column] for p < k, j < n <= kTo; zeros beyond n.
template <int kTo, typename S>
void PackB(const S* from, int64_t row, int64_t column, int64_t k, int64_t n, float* to) {
  if (column == 1 && n == kTo) {
    for (int64_t p = 0; p < k; ++p, from += row, to += kTo) {
#pragma GCC unroll 4
      for (int v = 0; v < kTo; v += kLanes) Store(to + v, LoadAs(from + v));
    }
    return;
  }
  if (row == 1) {  // along k, then transposed
    for (int64_t p = 0; p < k && n < kTo; ++p)
      for (int64_t j = n / kLanes * kLanes; j < kTo; j += kLanes) Store(to + p * kTo + j, Vec{});
    if constexpr (sizeof(S) == 4)
      return SLIPWAY_ISA::kElementwise.transpose(reinterpret_cast<const uint32_t*>(from), column,
                                                 reinterpret_cast<uint32_t*>(to), kTo, k, n);
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
      const S* at = from + j * column;
      int64_t p = 0;
      for (; p + 4 <= k; p += 4) {
        Vec4 r[4] = {Load4(at + p), Load4(at + column + p), Load4(at + 2 * column + p), Load4(at + 3 * column + p)};
        Transpose4x4(r);
        for (int i = 0; i < 4; ++i) *reinterpret_cast<Vec4At*>(to + (p + i) * kTo + j) = r[i];
      }
      for (; p < k; ++p)
        for (int i = 0; i < 4; ++i) to[p * kTo + j + i] = ToFloat(at[i * column + p]);
    }
    for (; j < n; ++j)
      for (int64_t p = 0; p < k; ++p) to[p * kTo + j] = ToFloat(from[j * column + p]);
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    int64_t j = 0;
    for (; j < n; ++j) to[p * kTo + j] = ToFloat(from[p * row + j * column]);
    for (; j < kTo; ++j) to[p * kTo + j] = 0;
  }
}
