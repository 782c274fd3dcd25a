// Convolutions and pools of dense f32 beside sums in f64: strides, paddings, dilations, groups, depthwise, Winograd's,
// transposed ones, epilogues, one to three dims; the bits are the same for any number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "fenced_scratch.h"
#include "gtest/gtest.h"
#include "kernels/conv/conv_nchw.h"
#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/conv_transposed.h"
#include "kernels/conv/depthwise_nchw.h"
#include "kernels/conv/filters.h"
#include "kernels/conv/pool_f32.h"
#include "kernels/conv/winograd.h"
#include "kernels/isa/isa.h"
#include "kernels/parallel.h"
#include "kernels/strided_iterator.h"

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
  Activation activation = Activation::kNone;
  bool scale = false, add = false;
};

std::vector<float> Values(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> range(-1, 1);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = range(random);
  return v;
}
double Function(Activation a, double x) {
  switch (a) {
    case Activation::kNone: return x;
    case Activation::kClamp: return std::min(std::max(x, -0.25), 1.5);
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kHardSwish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kHardSigmoid: return std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kLeakyRelu: return x < 0 ? -0.25 * x : x;
  }
  return 0;
}

const Workers* ThreeThreads() {
  static const std::unique_ptr<ThreadPool> pool = ThreadPool::Make(3);
  return pool ? &pool->workers() : nullptr;
}

// A convolution, or a transposed one, beside the sums of its definition.
void Check(const Case& k, bool transposed = false, decltype(ConvNchw)* convolution = ConvNchw) {
  int64_t to[3];
  for (int d = 0; d < 3; ++d)
    to[d] = transposed ? (k.in[d] - 1) * k.stride[d] - 2 * k.pad[d] + k.dilation[d] * (k.kernel[d] - 1) + 1
                       : (k.in[d] + 2 * k.pad[d] - k.dilation[d] * (k.kernel[d] - 1) - 1) / k.stride[d] + 1;
  const int64_t per = k.c / k.groups, group_out = k.o / k.groups, taps = k.kernel[0] * k.kernel[1] * k.kernel[2];
  const int64_t plane = k.in[0] * k.in[1] * k.in[2], positions = to[0] * to[1] * to[2];
  std::vector<float> xs = Values(k.n * k.c * plane, 1), ws = Values(k.c * group_out * taps, 2), bs = Values(k.o, 3),
                     scales = Values(k.o, 4), adds = Values(k.n * k.o * positions, 5), ys(k.n * k.o * positions, 99);
  const Tensor x = Of(xs, {k.n, k.c, k.in[0], k.in[1], k.in[2]}),
               w = transposed ? Of(ws, {k.c, group_out, k.kernel[0], k.kernel[1], k.kernel[2]})
                              : Of(ws, {k.o, per, k.kernel[0], k.kernel[1], k.kernel[2]}),
               y = Of(ys, {k.n, k.o, to[0], to[1], to[2]});
  ConvShape shape;
  shape.groups = k.groups;
  for (int d = 0; d < 3; ++d) shape.stride[d] = k.stride[d], shape.pad[d] = k.pad[d], shape.dilation[d] = k.dilation[d];
  Epilogue epilogue;
  if (k.bias) epilogue.bias = bs.data();
  if (k.scale) epilogue.scale = scales.data();
  if (k.add) epilogue.residual = adds.data();
  epilogue.activation = k.activation, epilogue.min = -0.25f, epilogue.max = 1.5f;
  auto run = [&](const Workers* workers) {
    auto convolve = [&](Scratch& scratch) {
      return (transposed ? ConvTransposedNchw : convolution)(x, w, y, shape, epilogue, workers, scratch);
    };
    Scratch counter = Scratch::Counter();
    convolve(counter);
    FencedScratch memory(counter.counted());
    return convolve(*memory) && memory.sufficed();
  };
  ASSERT_TRUE(run(ThreeThreads()));
  const std::vector<float> threaded = ys;
  std::fill(ys.begin(), ys.end(), 99.0f);
  ASSERT_TRUE(run(nullptr));
  ASSERT_EQ(threaded, ys);

  std::vector<double> want(ys.size());
  for (int64_t n = 0; n < k.n; ++n)
    for (int64_t o = 0; o < k.o; ++o)
      for (int64_t p = 0; p < (transposed ? plane : positions); ++p)
        for (int64_t c = 0; c < per; ++c)
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t *from = transposed ? k.in : to, *limit = transposed ? to : k.in;
            const int64_t place[3] = {p / (from[1] * from[2]), p / from[2] % from[1], p % from[2]};
            const int64_t tap[3] = {t / (k.kernel[1] * k.kernel[2]), t / k.kernel[2] % k.kernel[1], t % k.kernel[2]};
            int64_t other[3];
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              other[d] = place[d] * k.stride[d] - k.pad[d] + tap[d] * k.dilation[d];
              inside = inside && other[d] >= 0 && other[d] < limit[d];
            }
            if (!inside) continue;
            const int64_t q = (other[0] * limit[1] + other[1]) * limit[2] + other[2];
            const int64_t channel = o / group_out * per + c, image = n * k.c + channel;
            const double weight =
                transposed ? ws[(channel * group_out + o % group_out) * taps + t] : ws[(o * per + c) * taps + t];
            want[(n * k.o + o) * positions + (transposed ? q : p)] += weight * xs[image * plane + (transposed ? p : q)];
          }
  // Of the sums' root mean square, which winograd.h says.
  const double near = 2e-5 * std::max(5.0, std::sqrt(static_cast<double>(per * taps)) / 3);
  for (size_t i = 0; i < want.size(); ++i) {
    const size_t o = i / static_cast<size_t>(positions) % static_cast<size_t>(k.o);
    double v = want[i] * (k.scale ? scales[o] : 1.0) + (k.bias ? bs[o] : 0.0) + (k.add ? adds[i] : 0.0f);
    v = Function(k.activation, v);
    ASSERT_NEAR(ys[i], v, near) << "at " << i;
  }
}

TEST(ConvNchw, AgreesWithSumsInDouble) {
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
      // More channels than a block has, all kinds of what is left of panels.
      {1, 40, 17, 1, {1, 7, 7}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, true},
      {1, 330, 19, 1, {1, 1, 49}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true},
      {1, 96, 33, 1, {1, 1, 21}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, false},
      {1, 70, 5, 1, {1, 1, 27}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true},
      {3, 70, 7, 1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true},
      {1, 3, 20, 1, {1, 37, 41}, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}, {1, 1, 1}, true},
      {1, 20, 20, 20, {1, 15, 7}, {1, 5, 5}, {1, 3, 3}, {0, 2, 2}, {1, 1, 1}, true},
      {1, 6, 24, 3, {1, 17, 23}, {1, 3, 3}, {1, 1, 2}, {0, 0, 1}, {1, 2, 1}, true},
      {1, 8, 8, 1, {1, 40, 45}, {1, 5, 1}, {1, 1, 1}, {0, 2, 0}, {1, 1, 1}, false},
  };
  for (const Case& k : cases) {
    Check(k);
    if (HasFatalFailure()) return;
  }
}

TEST(ConvNchw, WinogradsAgreeToo) {
  const Case cases[] = {
      {1, 24, 24, 1, {1, 28, 28}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, true},
      {2, 33, 18, 1, {1, 13, 17}, {1, 3, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true},
      {3, 64, 26, 1, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, false},
      {1, 40, 32, 2, {1, 19, 9}, {1, 3, 3}, {1, 1, 1}, {0, 2, 1}, {1, 1, 1}, true},
      {1, 350, 12, 1, {1, 16, 16}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, true},
      // Few filters of large images: kept, slices of several parts and of several images; rows of tiles that are
      // panels.
      {1, 24, 20, 1, {1, 90, 86}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, true},
      {5, 40, 12, 1, {1, 30, 29}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, true},
      {1, 32, 9, 1, {1, 67, 64}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, false},
      {4, 130, 120, 1, {1, 15, 18}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, false},
  };
  for (const Case& k : cases) {
    WinogradCall call;
    call.batch = k.n, call.c = k.c / k.groups, call.o = k.o / k.groups;
    call.height = k.in[1], call.width = k.in[2], call.out_height = k.in[1] + 2 * k.pad[1] - 2;
    call.out_width = k.in[2] + 2 * k.pad[2] - 2;
    // Which way costs less depends on the width of vectors: with AVX-512 the direct one does for some of these.
    if (std::string_view(BestIsa().name) == "avx2") {
      EXPECT_NE(WinogradTile(call), 0);
    }
    Check(k);
    if (HasFatalFailure()) return;
  }
}

// Both tiles, of all sizes at an edge, whichever the costs would say.
TEST(Winograd, BothTilesAtEveryEdge) {
  for (int m : {2, 4})
    for (int64_t size = 1; size <= 9; ++size) {
      WinogradCall call;
      call.batch = 2, call.c = 5, call.o = 3, call.height = size + 1, call.width = size + 2;
      call.pad_y = 1, call.pad_x = 1, call.out_height = size + 1, call.out_width = size + 2;
      const int64_t plane = call.height * call.width;
      call.x_step = call.c * plane, call.out_step = call.o * plane;
      const std::vector<float> x = Values(2 * call.c * plane, 1), w = Values(call.o * call.c * 9, 2);
      std::vector<float> out(static_cast<size_t>(2 * call.o * plane));
      call.x = x.data(), call.w = w.data(), call.out = out.data();
      Scratch counter = Scratch::Counter();
      Winograd(call, m, {}, 0, 0, nullptr, counter);
      FencedScratch memory(counter.counted());
      Winograd(call, m, {}, 0, 0, nullptr, *memory);
      ASSERT_TRUE(memory.sufficed());
      for (int64_t i = 0; i < 2 * call.o * plane; ++i) {
        const int64_t n = i / (call.o * plane), o = i / plane % call.o, y = i / call.width % call.height,
                      z = i % call.width;
        double want = 0;
        for (int64_t c = 0; c < call.c; ++c)
          for (int64_t t = 0; t < 9; ++t) {
            const int64_t iy = y - 1 + t / 3, ix = z - 1 + t % 3;
            if (iy >= 0 && iy < call.height && ix >= 0 && ix < call.width)
              want +=
                  static_cast<double>(w[(o * call.c + c) * 9 + t]) * x[(n * call.c + c) * plane + iy * call.width + ix];
          }
        ASSERT_NEAR(out[i], want, 3e-5) << m << " " << size << " at " << i;
      }
    }
}

TEST(ConvNchw, Epilogues) {
  Case cases[] = {
      {2, 20, 14, 1, {1, 9, 11}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, true},
      {1, 32, 32, 1, {1, 13, 15}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, true},
      {2, 18, 18, 18, {1, 11, 13}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, true},
      {1, 70, 7, 1, {1, 1, 21}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true},
      {1, 16, 40, 1, {1, 5, 9}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, false},
  };
  for (Case& k : cases)
    for (Activation a : {Activation::kNone, Activation::kClamp, Activation::kSilu, Activation::kHardSwish,
                         Activation::kHardSigmoid, Activation::kLeakyRelu})
      for (int parts = 0; parts < 4; ++parts) {
        k.activation = a, k.scale = parts & 1, k.add = parts & 2;
        Check(k);
        if (HasFatalFailure()) return;
      }
}

TEST(ConvNchw, DepthwiseByPanelsOfChannels) {
  const Case cases[] = {
      {1, 16, 16, 16, {1, 20, 33}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, true},
      {2, 40, 40, 40, {1, 13, 14}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}, {1, 1, 1}, false},
      {1, 9, 9, 9, {1, 31, 40}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}, {1, 1, 1}, true, Activation::kClamp},
      {1, 33, 33, 33, {1, 17, 19}, {1, 3, 5}, {1, 3, 2}, {0, 4, 1}, {1, 2, 1}, true, Activation::kSilu, true},
      {2, 24, 24, 24, {1, 12, 12}, {1, 3, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true, Activation::kClamp, true, true},
      {1, 64, 64, 64, {1, 112, 112}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, true},
      {1, 16, 16, 16, {1, 6, 12}, {1, 5, 5}, {1, 1, 1}, {0, 3, 3}, {1, 2, 2}, true},
  };
  for (const Case& k : cases) {
    Check(k, false, DepthwiseNchwByPanels);
    if (HasFatalFailure()) return;
  }
}

TEST(ConvNchw, DepthwiseByRows) {
  const auto check = [](int64_t channels, int64_t height, int64_t width, int64_t stride, int64_t pad,
                        Activation a = Activation::kNone, bool scale = false, bool add = false) {
    Check({2,
           channels,
           channels,
           channels,
           {1, height, width},
           {1, 3, 3},
           {1, stride, stride},
           {0, pad, pad},
           {1, 1, 1},
           true,
           a,
           scale,
           add},
          false, DepthwiseNchw3x3);
    return !HasFatalFailure();
  };
  for (int64_t stride : {1, 2})
    for (int64_t pad : {0, 1, 2})
      for (int64_t to : {24, 29, 32, 48}) {
        if (!check(3, 13, to * stride + 2 - 2 * pad, stride, pad)) return;
        if (!check(2, 150, to * stride + 2 - 2 * pad, stride, pad)) return;  // several bands
      }
  if (!check(2, 1, 48, 1, 1)) return;  // fewer rows than taps
  for (Activation a : {Activation::kNone, Activation::kClamp, Activation::kSilu, Activation::kHardSwish,
                       Activation::kHardSigmoid, Activation::kLeakyRelu})
    for (int parts = 0; parts < 4; ++parts)
      if (!check(4, 10, 28, 1, 1, a, (parts & 1) != 0, (parts & 2) != 0)) return;
}

TEST(ConvNchw, Transposed) {
  const Case cases[] = {
      {1, 8, 6, 1, {1, 9, 11}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true},
      {2, 6, 8, 2, {1, 7, 5}, {1, 4, 4}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, true},
      {1, 5, 3, 1, {1, 6, 30}, {1, 3, 3}, {1, 1, 3}, {0, 1, 2}, {1, 2, 1}, false},
      {1, 340, 3, 1, {1, 23, 25}, {1, 3, 3}, {1, 2, 1}, {0, 1, 1}, {1, 1, 1}, true},
      {1, 3, 2, 1, {3, 4, 5}, {2, 3, 2}, {2, 1, 2}, {1, 0, 0}, {1, 1, 1}, true},
  };
  for (const Case& k : cases) {
    Check(k, true);
    if (HasFatalFailure()) return;
  }
}

// Layouts of image and result: what is not dense, with channels last or otherwise, gives the same within rounding, and
// with the same bits for any number of threads.
TEST(ConvNchw, TransposedOfAnyLayout) {
  struct Layout {
    Tensor t;
    std::vector<float> data;
    // Dense (0), channels last (1), channels last with other channels beside (2), every other element of a row (3).
    Layout(const Tensor& dense, int how) : t(dense) {
      const int64_t c = t.sizes[1], h = t.sizes[3], w = t.sizes[4], pixel = how == 2 ? c + 5 : c;
      if (how == 1 || how == 2)
        t.strides[1] = 1, t.strides[4] = pixel, t.strides[2] = t.strides[3] = w * pixel, t.strides[0] = h * w * pixel;
      if (how == 3)
        for (int d = 0; d < 5; ++d) t.strides[d] *= 2;
      data.assign(static_cast<size_t>(t.sizes[0] * std::max(t.strides[0], t.strides[1])) + 64, 77.0f);
      t.data = data.data();
    }
    void Copy(const Tensor& dense, bool back) {
      for (Positions<2> at(t, {&t, &dense}); at; at.Next())
        std::memcpy(back ? at[1] : at[0], back ? at[0] : at[1], sizeof(float));
    }
  };
  // clang-format off
  const Case cases[] = {
      {2, 8, 20, 1, {1, 9, 11}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true},
      {1, 33, 16, 1, {1, 5, 7}, {1, 4, 4}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, true},
      {1, 5, 3, 1, {1, 6, 30}, {1, 3, 3}, {1, 1, 3}, {0, 1, 2}, {1, 2, 1}, false},
      {2, 6, 8, 2, {1, 7, 5}, {1, 4, 4}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, true},
      // Places whose columns lie together, rows in bands; spans of a long row; taps that only some columns get, or
      // none; heavy weights.
      {1, 24, 32, 1, {1, 30, 33}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true, Activation::kSilu, true, true},
      {2, 40, 17, 1, {1, 33, 30}, {1, 4, 4}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, true, Activation::kClamp, true, true},
      {1, 64, 48, 1, {1, 1, 700}, {1, 1, 16}, {1, 1, 8}, {0, 0, 4}, {1, 1, 1}, true, Activation::kHardSwish, false,
       true},
      {1, 20, 9, 1, {1, 6, 7}, {1, 3, 2}, {1, 4, 4}, {0, 0, 0}, {1, 2, 2}, false, Activation::kNone, true},
      {1, 12, 24, 1, {1, 5, 6}, {1, 5, 7}, {1, 2, 3}, {0, 3, 6}, {1, 2, 1}, true},
      {1, 512, 80, 1, {1, 4, 4}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true, Activation::kNone, false, true},
  };
  // clang-format on
  for (const Case& k : cases) {
    int64_t to[3];
    for (int d = 0; d < 3; ++d)
      to[d] = (k.in[d] - 1) * k.stride[d] - 2 * k.pad[d] + k.dilation[d] * (k.kernel[d] - 1) + 1;
    std::vector<float> xs = Values(k.n * k.c * k.in[1] * k.in[2], 1),
                       ws = Values(k.c * k.o / k.groups * k.kernel[1] * k.kernel[2], 2), bs = Values(k.o, 3),
                       want(static_cast<size_t>(k.n * k.o * to[1] * to[2])), got(want.size());
    const Tensor x = Of(xs, {k.n, k.c, 1, k.in[1], k.in[2]}),
                 w = Of(ws, {k.c, k.o / k.groups, 1, k.kernel[1], k.kernel[2]}),
                 y = Of(want, {k.n, k.o, 1, to[1], to[2]}), z = Of(got, {k.n, k.o, 1, to[1], to[2]});
    ConvShape shape;
    shape.groups = k.groups;
    for (int d = 0; d < 3; ++d)
      shape.stride[d] = k.stride[d], shape.pad[d] = k.pad[d], shape.dilation[d] = k.dilation[d];
    Epilogue epilogue;
    std::vector<float> scale = Values(k.o, 4), added = Values(static_cast<int64_t>(want.size()), 5);
    if (k.bias) epilogue.bias = bs.data();
    if (k.scale) epilogue.scale = scale.data();
    epilogue.activation = k.activation, epilogue.min = -0.25f, epilogue.max = 1.5f;
    const Tensor a = Of(added, {k.n, k.o, 1, to[1], to[2]});
    if (k.add) epilogue.residual = added.data();
    Scratch scratch;
    ASSERT_TRUE(ConvTransposedNchw(x, w, y, shape, epilogue, nullptr, scratch));
    const int64_t taps = k.kernel[1] * k.kernel[2];
    std::vector<float> panels(static_cast<size_t>(taps * PanelsPerElement(k.o / k.groups) * k.c * kPanel), 77.0f),
        back(ws.size());
    PackTransposedFilters(ws.data(), k.c, k.o / k.groups, taps, 0, taps * PanelsPerElement(k.o / k.groups),
                          panels.data());
    UnpackTransposedFilters(panels.data(), k.c, k.o / k.groups, taps, back.data());
    ASSERT_EQ(ws, back);
    for (int in = 0; in < 4; ++in)
      for (int out = 0; out < (k.add ? 3 : 4); ++out) {
        std::vector<float> first;
        for (const Workers* workers : {static_cast<const Workers*>(nullptr), ThreeThreads()}) {
          Layout image(x, in), result(z, out), sum(a, out);
          image.Copy(x, false), sum.Copy(a, false);
          if (k.add) epilogue.residual = sum.data.data();
          Tensor w = Of(ws, {k.c, k.o / k.groups, 1, k.kernel[1], k.kernel[2]});
          if (k.groups == 1 && k.o >= 8 && (in + out) % 2 == 0)
            w.data = panels.data(), w.packed = Packing::kTransposedConvFilters;
          auto run = [&](Scratch& memory) {
            return ConvTransposedNhwc(image.t, w, result.t, shape, epilogue, workers, memory) ||
                   ConvTransposedNchw(image.t, w, result.t, shape, epilogue, workers, memory);
          };
          Scratch counter = Scratch::Counter();
          ASSERT_TRUE(run(counter));
          FencedScratch memory(counter.counted());
          ASSERT_TRUE(run(*memory) && memory.sufficed());
          EXPECT_EQ(CanUseConvTransposedNhwc(image.t, w, result.t, shape),
                    k.groups == 1 && (k.o >= (in == 0 && out == 0 ? 16 : 8) || w.is_packed()))
              << in << " " << out;
          result.Copy(z, true);
          for (size_t i = 0; i < want.size(); ++i)
            ASSERT_NEAR(got[i], want[i], 1e-5 * std::sqrt(static_cast<double>(k.c))) << in << " " << out << " at " << i;
          if (workers == nullptr) first = got;
          ASSERT_EQ(first, got);
          for (int64_t p = 0; out == 2 && p < k.n * to[1] * to[2]; ++p)
            ASSERT_EQ(result.data[static_cast<size_t>(p * (k.o + 5) + k.o)], 77.0f);  // beside
        }
      }
  }
}

// Sizes that follow from a stride do not get beyond those of the result.
TEST(ConvNchw, TransposedOfHugeStrides) {
  constexpr int64_t c = 20, o = 16;
  std::vector<float> xs = Values(c, 1), ws = Values(c * o * 12, 2), got(o * 2);
  const Tensor x = Of(xs, {1, c, 1, 1, 1}), w = Of(ws, {c, o, 1, 3, 4}), y = Of(got, {1, o, 1, 1, 2});
  const ConvShape shape{1, {1, int64_t{1} << 38, int64_t{1} << 39}, {0, 1, 1}, {1, 1, 1}};
  Scratch counter = Scratch::Counter();
  ASSERT_TRUE(ConvTransposedNhwc(x, w, y, shape, {}, nullptr, counter));
  ASSERT_LT(counter.counted(), 1 << 20);
  FencedScratch memory(counter.counted());
  ASSERT_TRUE(ConvTransposedNhwc(x, w, y, shape, {}, nullptr, *memory) && memory.sufficed());
  for (size_t i = 0; i < got.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < c; ++k)
      sum += static_cast<double>(xs[k]) * static_cast<double>(ws[(k * o + i / 2) * 12 + 5 + i % 2]);
    EXPECT_NEAR(got[i], sum, 1e-5) << i;
  }
}

TEST(FastPool, AgreesWithItsDefinition) {
  struct Pool {
    int64_t in[3], kernel[3], stride[3], pad[3], dilation = 1;
  };
  const Pool pools[] = {
      {{1, 17, 23}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},    {{1, 8, 9}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}},
      {{1, 12, 7}, {1, 3, 5}, {1, 1, 3}, {0, 1, 2}},     {{1, 20, 14}, {1, 5, 5}, {1, 1, 1}, {0, 2, 2}},
      {{1, 9, 61}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},     {{1, 3, 32}, {1, 7, 3}, {1, 1, 2}, {0, 3, 1}},
      {{1, 11, 12}, {1, 3, 3}, {1, 1, 2}, {0, 1, 1}, 2}, {{4, 5, 6}, {2, 3, 2}, {2, 1, 1}, {0, 1, 0}},
      {{5, 6, 18}, {3, 3, 3}, {1, 2, 1}, {1, 1, 1}}};
  for (const Pool& k : pools) {
    int64_t to[3];
    Window window;
    for (int d = 0; d < 3; ++d) {
      to[d] = (k.in[d] + 2 * k.pad[d] - k.dilation * (k.kernel[d] - 1) - 1) / k.stride[d] + 1;
      window.kernel[d] = k.kernel[d], window.stride[d] = k.stride[d], window.pad[d] = k.pad[d],
      window.dilation[d] = k.dilation;
    }
    const int64_t plane = k.in[0] * k.in[1] * k.in[2], positions = to[0] * to[1] * to[2], planes = 10;
    std::vector<float> xs = Values(planes * plane, 7), ys(static_cast<size_t>(planes * positions));
    xs[3] = std::nanf("");
    const Tensor x = Of(xs, {2, 5, k.in[0], k.in[1], k.in[2]}), y = Of(ys, {2, 5, to[0], to[1], to[2]});
    // the largest; means by a number, by all, by those inside
    for (int what = 0; what < (k.dilation == 1 ? 4 : 1); ++what) {
      const PoolDivisor divisor{what == 1 ? 7 : 0, what == 2};
      auto pool = [&](Scratch& scratch) {
        return what == 0 ? MaxPoolF32(x, y, window, ThreeThreads(), scratch)
                         : AveragePoolF32(x, y, window, divisor, nullptr, scratch);
      };
      Scratch counter = Scratch::Counter();
      pool(counter);
      FencedScratch memory(counter.counted());
      ASSERT_TRUE(pool(*memory));
      ASSERT_TRUE(memory.sufficed());
      for (size_t i = 0; i < ys.size(); ++i) {
        const int64_t p = static_cast<int64_t>(i) % positions, c = static_cast<int64_t>(i) / positions;
        const int64_t place[3] = {p / (to[1] * to[2]), p / to[2] % to[1], p % to[2]};
        double sum = 0, most = -1e30;
        int64_t inside = 0, all = 0;
        bool nan = false;
        for (int64_t t = 0; t < k.kernel[0] * k.kernel[1] * k.kernel[2]; ++t) {
          const int64_t tap[3] = {t / (k.kernel[1] * k.kernel[2]), t / k.kernel[2] % k.kernel[1], t % k.kernel[2]};
          int64_t from[3];
          bool in = true, padded = true;
          for (int d = 0; d < 3; ++d) {
            from[d] = place[d] * k.stride[d] - k.pad[d] + tap[d] * k.dilation;
            in = in && from[d] >= 0 && from[d] < k.in[d];
            padded = padded && from[d] < k.in[d] + k.pad[d];
          }
          all += padded;
          if (!in) continue;
          const float v = xs[c * plane + (from[0] * k.in[1] + from[1]) * k.in[2] + from[2]];
          ++inside, sum += v, nan = nan || v != v;
          if (v > most) most = v;
        }
        const double want = what == 0 ? most : sum / static_cast<double>(what == 1 ? 7 : what == 2 ? all : inside);
        if (nan)
          ASSERT_NE(ys[i], ys[i]) << what << " at " << i;
        else
          ASSERT_NEAR(ys[i], want, 1e-6) << what << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace slipway::kernels
