// Winograd's transforms over NHWC images, F(4 × 4, 3 × 3) (conv_nhwc.h): vectors hold neighbouring channels of a tile's
// pixels, of filters neighbouring output channels. Part of conv_nhwc.cc.

void WinogradNhwcFilters(const WinogradNhwcFilterParams& f) {
  const float* const panel = f.panel;
  float* const u = f.u;
  const int64_t element_stride = f.element_stride, channels = f.channels, u_stride = f.u_stride;
  for (int64_t c = 0; c < channels * kPanel; c += kLanes) {
    Vec g[9], half[3][6];
#pragma GCC unroll 9
    for (int t = 0; t < 9; ++t) g[t] = Load(panel + t * element_stride + c);
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const Vec column[3] = {g[j], g[3 + j], g[6 + j]};
      WinogradTransform<4>::Weights(column, half[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      const Vec row[3] = {half[0][i], half[1][i], half[2][i]};
      Vec out[6];
      WinogradTransform<4>::Weights(row, out);
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) Store(u + (i * 6 + j) * u_stride + c, out[j]);
    }
  }
}

void WinogradNhwcInput(const WinogradNhwcInputParams& t) {
  for (int64_t c = 0; c < t.channels; c += kLanes) {
    const int64_t n = Min(kLanes, t.channels - c);
    Vec half[6][6];  // by column
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) {
      Vec d[6];
      const bool in = j >= t.x0 && j < t.x1;
#pragma GCC unroll 6
      for (int i = 0; i < 6; ++i)
        d[i] = in && i >= t.y0 && i < t.y1 ? LoadPartial(t.x + i * t.x_stride + j * t.x_pixel_stride + c, n) : Vec{};
      WinogradTransform<4>::Input(d, half[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      const Vec row[6] = {half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i]};
      Vec out[6];
      WinogradTransform<4>::Input(row, out);
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) StorePartial(t.v + (i * 6 + j) * t.v_stride + c, out[j], n);
    }
  }
}

void WinogradNhwcOutput(const WinogradNhwcOutputParams& t) {
  const Epilogue& f = t.epilogue;
  for (int64_t c = 0; c < t.channels; c += kLanes) {
    const int64_t n = Min(kLanes, t.channels - c);
    Vec half[6][4];  // by column
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) {
      Vec m[6];
#pragma GCC unroll 6
      for (int i = 0; i < 6; ++i) m[i] = LoadPartial(t.p + (i * 6 + j) * t.p_stride + c, n);
      WinogradTransform<4>::Output(m, half[j]);
    }
#pragma GCC unroll 4
    for (int y = 0; y < 4; ++y) {
      if (y >= t.rows) break;
      const Vec row[6] = {half[0][y], half[1][y], half[2][y], half[3][y], half[4][y], half[5][y]};
      Vec out[4];
      WinogradTransform<4>::Output(row, out);
      ApplyScaleBias<4, 1>(f.scale, f.bias, c, n, out);
      const int64_t at = y * t.out_stride + c;
      if (f.residual != nullptr)
#pragma GCC unroll 4
        for (int x = 0; x < 4; ++x)
          if (x < t.columns) out[x] += LoadPartial(f.residual + at + x * t.out_pixel_stride, n);
      ApplyActivation<4>(f, out);
      ApplyPostOps<4, 1>(f, c, n, at, t.out_pixel_stride, t.columns, out);
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x)
        if (x < t.columns) StorePartial(t.out + at + x * t.out_pixel_stride, out[x], n);
    }
  }
}
