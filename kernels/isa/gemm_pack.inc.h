// Packing of the operands of a GEMM: of B in panels (pack_b.inc.h), of A [m,k] in rows of f32 kPackedAStride apart.
// Part of gemm.cc.

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
