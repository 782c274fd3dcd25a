// Squares of 4 × 4 floats, transposed in registers. Included after elements.inc.h.

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
