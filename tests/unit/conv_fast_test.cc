// Convolutions of dense f32 beside sums in f64: strides, paddings, dilations, groups, depthwise, one to three dims.
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/conv_fast.h"

namespace slipway::kernels {
namespace {

Tensor Of(std::vector<float>& data, std::vector<int64_t> sizes) {
  Tensor x;
  x.data = data.data(), x.rank = static_cast<int>(sizes.size());
  int64_t step = 1;
  for (int d = x.rank - 1; d >= 0; --d) x.sizes[d] = sizes[d], x.strides[d] = step, step *= sizes[d];
  return x;
}

struct Case {
  int64_t n, c, o, groups;
  int64_t in[3], kernel[3], stride[3], pad[3], dilation[3];
  bool bias;
};

void Check(const Case& k) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> range(-1, 1);
  auto values = [&](int64_t n) {
    std::vector<float> v(n);
    for (float& x : v) x = range(random);
    return v;
  };
  int64_t to[3];
  for (int d = 0; d < 3; ++d)
    to[d] = (k.in[d] + 2 * k.pad[d] - k.dilation[d] * (k.kernel[d] - 1) - 1) / k.stride[d] + 1;
  const int64_t per = k.c / k.groups, group_out = k.o / k.groups;
  std::vector<float> xs = values(k.n * k.c * k.in[0] * k.in[1] * k.in[2]),
                     ws = values(k.o * per * k.kernel[0] * k.kernel[1] * k.kernel[2]), bs = values(k.o),
                     ys(k.n * k.o * to[0] * to[1] * to[2], 99);
  const Tensor x = Of(xs, {k.n, k.c, k.in[0], k.in[1], k.in[2]}),
               w = Of(ws, {k.o, per, k.kernel[0], k.kernel[1], k.kernel[2]}),
               y = Of(ys, {k.n, k.o, to[0], to[1], to[2]});
  ConvShape shape;
  shape.groups = k.groups;
  for (int d = 0; d < 3; ++d) shape.stride[d] = k.stride[d], shape.pad[d] = k.pad[d], shape.dilation[d] = k.dilation[d];
  ConvEpilogue epilogue;
  if (k.bias) epilogue.shift = bs.data();
  ASSERT_TRUE(FastConv(x, w, y, shape, epilogue));
  size_t at = 0;
  for (int64_t n = 0; n < k.n; ++n)
    for (int64_t o = 0; o < k.o; ++o)
      for (int64_t p = 0; p < to[0] * to[1] * to[2]; ++p, ++at) {
        const int64_t place[3] = {p / (to[1] * to[2]), p / to[2] % to[1], p % to[2]};
        double want = k.bias ? bs[o] : 0;
        for (int64_t c = 0; c < per; ++c)
          for (int64_t t = 0; t < k.kernel[0] * k.kernel[1] * k.kernel[2]; ++t) {
            const int64_t tap[3] = {t / (k.kernel[1] * k.kernel[2]), t / k.kernel[2] % k.kernel[1], t % k.kernel[2]};
            int64_t from[3];
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              from[d] = place[d] * k.stride[d] - k.pad[d] + tap[d] * k.dilation[d];
              inside = inside && from[d] >= 0 && from[d] < k.in[d];
            }
            if (!inside) continue;
            want += static_cast<double>(ws[(o * per + c) * k.kernel[0] * k.kernel[1] * k.kernel[2] + t]) *
                    xs[((n * k.c + o / group_out * per + c) * k.in[0] + from[0]) * k.in[1] * k.in[2] +
                       from[1] * k.in[2] + from[2]];
          }
        ASSERT_NEAR(ys[at], want, 1e-4) << "at " << at;
      }
}

TEST(FastConv, AgreesWithSumsInDouble) {
  const Case cases[] = {
      {1, 1, 1, 1, {1, 1, 5}, {1, 1, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, false},
      {2, 3, 8, 1, {1, 9, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, true},
      {1, 4, 6, 2, {1, 10, 37}, {1, 3, 5}, {1, 2, 2}, {0, 1, 2}, {1, 1, 1}, true},
      {1, 5, 5, 5, {1, 20, 50}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, true},
      {2, 4, 8, 4, {1, 13, 14}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}, {1, 1, 1}, false},
      {1, 2, 2, 2, {1, 1, 40}, {1, 1, 4}, {1, 1, 3}, {0, 0, 5}, {1, 1, 2}, true},
      {2, 16, 24, 1, {1, 7, 9}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true},
      {1, 6, 6, 3, {1, 8, 8}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true},
      {1, 2, 3, 1, {4, 5, 6}, {2, 3, 2}, {1, 1, 2}, {1, 1, 1}, {2, 1, 1}, true},
      {1, 64, 16, 1, {1, 30, 30}, {1, 3, 3}, {1, 1, 1}, {0, 2, 2}, {1, 2, 2}, true},
  };
  for (const Case& k : cases) {
    Check(k);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace slipway::kernels
