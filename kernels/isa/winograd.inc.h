// Winograd's one-dimensional transforms of F(2, 3) and F(4, 3) over vectors (conv/winograd.h has the matrices), which
// the NCHW and NHWC transforms apply to rows and columns of tiles. Included after simd.inc.h.

template <int M>
struct WinogradTransform;
template <>
struct WinogradTransform<2> {
  static SLIPWAY_INLINE void Input(const Vec* d, Vec* t) {
    t[0] = d[0] - d[2], t[1] = d[1] + d[2], t[2] = d[2] - d[1], t[3] = d[1] - d[3];
  }
  static SLIPWAY_INLINE void Weights(const Vec* g, Vec* u) {
    const Vec even = (g[0] + g[2]) * 0.5f, odd = g[1] * 0.5f;
    u[0] = g[0], u[1] = even + odd, u[2] = even - odd, u[3] = g[2];
  }
  static SLIPWAY_INLINE void Output(const Vec* p, Vec* y) { y[0] = p[0] + p[1] + p[2], y[1] = p[1] - p[2] - p[3]; }
};
template <>
struct WinogradTransform<4> {
  static constexpr float a = 0.75f, b = 1.5f, a2 = a * a, b2 = b * b;
  static SLIPWAY_INLINE void Input(const Vec* d, Vec* t) {
    t[0] = d[0] * (a2 * b2) - d[2] * (a2 + b2) + d[4];
    t[5] = d[1] * (a2 * b2) - d[3] * (a2 + b2) + d[5];
    const Vec p = d[4] - d[2] * b2, q = (d[3] - d[1] * b2) * a;
    t[1] = p + q, t[2] = p - q;
    const Vec r = d[4] - d[2] * a2, s = (d[3] - d[1] * a2) * b;
    t[3] = r + s, t[4] = r - s;
  }
  static SLIPWAY_INLINE void Weights(const Vec* g, Vec* u) {
    constexpr float na = 1 / (2 * a2 * (a2 - b2)), nb = 1 / (2 * b2 * (b2 - a2));
    u[0] = g[0] * (1 / (a2 * b2));
    const Vec p = (g[0] + g[2] * a2) * na, q = g[1] * (a * na);
    u[1] = p + q, u[2] = p - q;
    const Vec r = (g[0] + g[2] * b2) * nb, s = g[1] * (b * nb);
    u[3] = r + s, u[4] = r - s;
    u[5] = g[2];
  }
  static SLIPWAY_INLINE void Output(const Vec* m, Vec* y) {
    const Vec p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], s = m[3] - m[4];
    y[0] = m[0] + p + r;
    y[1] = q * a + s * b;
    y[2] = p * a2 + r * b2;
    y[3] = q * (a2 * a) + s * (b2 * b) + m[5];
  }
};
