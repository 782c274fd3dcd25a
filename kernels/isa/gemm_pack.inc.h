// Packing of the operands of a GEMM. B [k,n] becomes panels [n / nr][k][nr] with zeros beyond n, A [m,k] rows of f32
// kPackedAStride apart. Part of isa.inc.h.

// A square of 4 × 4.
SLIPWAY_INLINE void Transpose4x4(Vec4 r[4]) {
  const Vec4 a = Permute(r[0], r[1], Int4{0, 4, 1, 5}), b = Permute(r[2], r[3], Int4{0, 4, 1, 5});
  const Vec4 c = Permute(r[0], r[1], Int4{2, 6, 3, 7}), d = Permute(r[2], r[3], Int4{2, 6, 3, 7});
  r[0] = Permute(a, b, Int4{0, 1, 4, 5});
  r[1] = Permute(a, b, Int4{2, 3, 6, 7});
  r[2] = Permute(c, d, Int4{0, 1, 4, 5});
  r[3] = Permute(c, d, Int4{2, 3, 6, 7});
}
SLIPWAY_INLINE Vec4 Load4(const float* p) { return *reinterpret_cast<const Vec4At*>(p); }
SLIPWAY_INLINE Vec4 Load4(const _Float16* p) {
  return Vec4{ToFloat(p[0]), ToFloat(p[1]), ToFloat(p[2]), ToFloat(p[3])};
}
SLIPWAY_INLINE Vec4 Load4(const BF16Bits* p) {
  return Vec4{ToFloat(p[0]), ToFloat(p[1]), ToFloat(p[2]), ToFloat(p[3])};
}

void TransposeWords(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride, int64_t rows,
                    int64_t columns);

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
      return TransposeWords(reinterpret_cast<const uint32_t*>(from), column, reinterpret_cast<uint32_t*>(to), kTo, k,
                            n);
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

// to[i * kPackedAStride + p] = from[i * row + p * column] for i < m, p < k.
template <typename S>
void PackA(const S* from, int64_t row, int64_t column, int64_t m, int64_t k, float* to) {
  if (column == 1) {
    for (int64_t i = 0; i < m; ++i, from += row, to += kPackedAStride) {
      int64_t p = 0;
      for (; p + kLanes <= k; p += kLanes) Store(to + p, LoadAs(from + p));
      for (; p < k; ++p) to[p] = ToFloat(from[p]);
    }
    return;
  }
  int64_t i = 0;
  if (row == 1) {
    for (; i + 4 <= m; i += 4) {
      int64_t p = 0;
      for (; p + 4 <= k; p += 4) {
        Vec4 r[4] = {Load4(from + p * column + i), Load4(from + (p + 1) * column + i),
                     Load4(from + (p + 2) * column + i), Load4(from + (p + 3) * column + i)};
        Transpose4x4(r);
        for (int q = 0; q < 4; ++q) *reinterpret_cast<Vec4At*>(to + (i + q) * kPackedAStride + p) = r[q];
      }
      for (; p < k; ++p)
        for (int q = 0; q < 4; ++q) to[(i + q) * kPackedAStride + p] = ToFloat(from[p * column + i + q]);
    }
  }
  for (; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) to[i * kPackedAStride + p] = ToFloat(from[i * row + p * column]);
}

template <typename F>
SLIPWAY_INLINE void WithElement(const MatrixRef& x, F f) {
  if (x.dtype == DType::kF32)
    f(static_cast<const float*>(x.data));
  else if (x.dtype == DType::kBF16)
    f(static_cast<const BF16Bits*>(x.data));
  else
    f(static_cast<const _Float16*>(x.data));
}

void Pack(const MatrixRef& from, int64_t k, int64_t n, float* to) {
  WithElement(from, [&](auto* p) {
    for (int64_t j = 0; j < n; j += kPanel, to += k * kPanel)
      PackB<kPanel>(p + j * from.column, from.row, from.column, k, Min(kPanel, n - j), to);
  });
}
