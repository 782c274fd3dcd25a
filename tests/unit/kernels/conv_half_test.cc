// Convolutions of bf16 and f16 with channels last beside sums in f64 of the same numbers: as this processor does them,
// and by way of f32; sizes that fill no block, layouts of the image, groups of every kind, strides, dilations and
// borders, what follows the sums; packed weights, plain ones and widened ones; infinities stay what they are beside
// channels and rows that are filled up; the bits are the same for any number of threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "conv_image.h"
#include "fenced_scratch.h"
#include "gtest/gtest.h"
#include "kernels/attributes.h"
#include "kernels/conv/conv_half.h"
#include "kernels/conv/filters.h"
#include "kernels/convert.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

namespace slipway::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float Float(DType dtype, uint16_t bits) {
  float f;
  LoadRow<float>(&bits, dtype, 1, 1, DType::kF32, &f);
  return f;
}
uint16_t Half(DType dtype, float f) {
  uint16_t bits;
  StoreRow<float>(&f, 1, &bits, dtype, 1);
  return bits;
}

struct Case {
  int64_t n = 1, c = 1, o = 1, groups = 1, h = 1, w = 1, ky = 1, kx = 1, sy = 1, sx = 1, py = 0, px = 0, dy = 1, dx = 1;
  int64_t behind = 0;  // more padding behind the image than before it
  Layout from = kLast, to = kLast;
  Activation activation = Activation::kNone;
  bool packed = true, scale = true, residual = false, post = false;
  bool infinite = false;
};

void Check(const Case& k, unsigned seed, DType half, bool widened) {
  const auto bits = [half](float f) { return Half(half, f); };
  const auto value = [half](uint16_t h) { return Float(half, h); };
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> range(-1, 1);
  const int64_t per = k.c / k.groups, outs = k.o / k.groups;
  const int64_t oy = (k.h + 2 * k.py + k.behind - k.dy * (k.ky - 1) - 1) / k.sy + 1,
                ox = (k.w + 2 * k.px + k.behind - k.dx * (k.kx - 1) - 1) / k.sx + 1;
  ASSERT_GT(oy, 0);
  ASSERT_GT(ox, 0);
  using Halves = Image<uint16_t>;
  Halves x(k.from, half, k.n, k.c, k.h, k.w), out(k.to, half, k.n, k.o, oy, ox), residual(k.to, half, k.n, k.o, oy, ox),
      post(k.to, half, k.n, k.o, oy, ox);
  for (Halves* image : {&x, &residual, &post})
    for (uint16_t& v : image->data) v = bits(range(random));
  if (k.infinite) x.at(0, k.c - 1, k.h - 1, k.w - 1) = bits(kInfinity);
  std::vector<uint16_t> weights(static_cast<size_t>(k.o * per * k.ky * k.kx));
  for (uint16_t& v : weights) v = bits(k.infinite ? 0.5f + std::abs(range(random)) : range(random));
  std::vector<float> scale(static_cast<size_t>(k.o)), bias(scale), post_scale(scale), post_bias(scale);
  for (auto* v : {&scale, &bias, &post_scale, &post_bias})
    for (float& f : *v) f = k.infinite ? 1 + std::abs(range(random)) : range(random);

  const FilterShape shape{k.groups, per, k.o, k.ky, k.kx, /*pairs=*/half == DType::kBF16};
  std::vector<uint16_t> panels(static_cast<size_t>(shape.elements()), 0x7fc0);
  PackFilters(weights.data(), shape, 0, shape.panels(), panels.data());
  std::vector<uint16_t> back(weights.size());
  UnpackFilters(panels.data(), shape, back.data());
  EXPECT_EQ(back, weights);
  // Widened panels are those of widened weights.
  FilterShape wide_shape = shape;
  wide_shape.pairs = false;
  std::vector<float> wide(weights.size()), wide_panels(static_cast<size_t>(wide_shape.elements())),
      expected_panels(wide_panels);
  std::transform(weights.begin(), weights.end(), wide.begin(), value);
  WidenFilters(panels.data(), half, shape, wide_panels.data());
  PackFilters(wide.data(), wide_shape, 0, wide_shape.panels(), expected_panels.data());
  EXPECT_EQ(wide_panels, expected_panels);
  Tensor w;
  w.rank = 5, w.dtype = half;
  const int64_t sizes[] = {k.o, per, 1, k.ky, k.kx}, strides[] = {per * k.ky * k.kx, k.ky * k.kx, k.ky * k.kx, k.kx, 1};
  std::copy_n(sizes, 5, w.sizes), std::copy_n(strides, 5, w.strides);
  w.data = k.packed ? panels.data() : weights.data();
  if (k.packed) w.packed = Packing::kConvFilters;
  if (widened) w.data = wide_panels.data(), w.dtype = DType::kF32, w.packed = Packing::kConvFilters;

  HalfEpilogue e;
  e.sums.bias = bias.data(), e.sums.scale = k.scale ? scale.data() : nullptr;
  e.sums.activation = k.activation, e.sums.min = k.activation == Activation::kLeakyRelu ? 0.25f : -0.5f;
  e.sums.max = kInfinity;
  if (k.residual) e.residual = residual.data.data();
  if (k.post)
    e.sums.post_scale = post_scale.data(), e.sums.post_bias = post_bias.data(), e.post_residual = post.data.data();
  const ConvAttributes<> a{k.groups, {1, k.sy, k.sx}, {0, k.py, k.px}, {1, k.dy, k.dx}};
  ASSERT_TRUE(CanUseConvHalf(x.t, w, out.t, a));
  const auto run = [&](const Workers* workers) {
    std::fill(out.data.begin(), out.data.end(), uint16_t{0xffff});
    Scratch counter = Scratch::Counter();
    ConvHalf(x.t, w, out.t, a, e, workers, counter);
    FencedScratch memory(counter.counted());
    ConvHalf(x.t, w, out.t, a, e, workers, *memory);
    EXPECT_TRUE(memory.sufficed());
    return out.data;
  };
  const std::vector<uint16_t> one = run(nullptr);
  EXPECT_EQ(run(ThreeThreads()), one);

  for (int64_t n = 0; n < k.n; ++n)
    for (int64_t o = 0; o < k.o; ++o)
      for (int64_t i = 0; i < oy; ++i)
        for (int64_t j = 0; j < ox; ++j) {
          double sum = 0, size = 0;
          for (int64_t c = 0; c < per; ++c)
            for (int64_t u = 0; u < k.ky; ++u)
              for (int64_t v = 0; v < k.kx; ++v) {
                const int64_t y = i * k.sy - k.py + u * k.dy, z = j * k.sx - k.px + v * k.dx;
                if (y < 0 || y >= k.h || z < 0 || z >= k.w) continue;
                const double term = double{value(x.at(n, o / outs * per + c, y, z))} *
                                    double{value(weights[static_cast<size_t>(((o * per + c) * k.ky + u) * k.kx + v)])};
                sum += term, size += std::abs(term);
              }
          const auto at = static_cast<size_t>(o);
          double y = sum * (k.scale ? double{scale[at]} : 1) + double{bias[at]};
          if (k.residual) y += double{value(residual.at(n, o, i, j))};
          if (k.activation == Activation::kClamp) y = std::max(y, -0.5);
          if (k.activation == Activation::kLeakyRelu) y = y < 0 ? 0.25 * y : y;
          if (k.activation == Activation::kSilu) y = y / (1 + std::exp(-y));
          if (k.activation == Activation::kHardSwish) y = y * std::min(std::max(y + 3, 0.0), 6.0) / 6;
          if (k.post) y = y * double{post_scale[at]} + double{post_bias[at]} + double{value(post.at(n, o, i, j))};
          const double got = value(out.at(n, o, i, j));
          if (std::isinf(y)) {
            ASSERT_EQ(got, y) << "at " << n << ' ' << o << ' ' << i << ' ' << j;
          } else {
            ASSERT_NEAR(got, y, std::abs(y) / (half == DType::kBF16 ? 256 : 2048) + 1e-5 * (1 + size))
                << "at " << n << ' ' << o << ' ' << i << ' ' << j;
          }
        }
  // What lies between pixels is not written.
  for (size_t i = static_cast<size_t>(k.o); k.to == kPartOfLast && i < out.data.size();
       i += static_cast<size_t>(k.o + 5))
    ASSERT_EQ(out.data[i], 0xffff);
}

void Check(const Case& k, unsigned seed) {
  for (const DType half : {DType::kBF16, DType::kF16})
    for (const bool widened : {false, true}) {
      Check(k, seed, half, widened);
      ASSERT_FALSE(testing::Test::HasFailure()) << (half == DType::kF16 ? "f16" : "bf16") << " widened " << widened;
    }
}

TEST(ConvHalf, Pointwise) {
  Check({.c = 16, .o = 32, .h = 7, .w = 7}, 1);
  Check({.n = 2, .c = 34, .o = 50, .h = 9, .w = 5, .from = kPartOfLast, .to = kPartOfLast, .residual = true}, 2);
  Check({.c = 7, .o = 5, .h = 9, .w = 5, .activation = Activation::kSilu}, 3);
  Check({.n = 2, .c = 64, .o = 17, .h = 8, .w = 8, .sy = 2, .sx = 2, .scale = false}, 4);
  Check({.c = 24, .o = 70, .h = 31, .w = 33, .from = kPlanes, .activation = Activation::kClamp, .packed = false}, 5);
}
TEST(ConvHalf, Windows) {
  Check({.c = 16,
         .o = 33,
         .h = 20,
         .w = 31,
         .ky = 3,
         .kx = 3,
         .py = 1,
         .px = 1,
         .activation = Activation::kClamp,
         .residual = true},
        1);
  Check({.n = 2,
         .c = 3,
         .o = 24,
         .h = 29,
         .w = 30,
         .ky = 7,
         .kx = 7,
         .sy = 2,
         .sx = 2,
         .py = 3,
         .px = 3,
         .from = kPlanes},
        2);
  Check({.c = 5, .o = 18, .h = 7, .w = 7, .ky = 3, .kx = 3, .py = 1, .px = 1, .from = kPartOfLast}, 3);
  Check({.c = 40, .o = 34, .h = 7, .w = 6, .ky = 3, .kx = 2, .sy = 2, .py = 1, .to = kPartOfLast, .residual = true}, 4);
  Check({.c = 8, .o = 9, .h = 25, .w = 20, .ky = 3, .kx = 3, .py = 2, .px = 2, .dy = 2, .dx = 2, .packed = false}, 5);
  Check({.c = 8, .o = 9, .h = 15, .w = 20, .ky = 3, .kx = 3, .sy = 2, .sx = 2, .behind = 1}, 6);
  Check({.c = 1, .o = 1, .h = 15, .w = 20, .ky = 3, .kx = 3, .py = 1, .px = 1}, 7);
}
TEST(ConvHalf, Groups) {
  Check({.c = 32, .o = 64, .groups = 4, .h = 14, .w = 15, .ky = 3, .kx = 3, .py = 1, .px = 1, .residual = true}, 1);
  Check({.c = 36, .o = 24, .groups = 12, .h = 14, .w = 15, .ky = 3, .kx = 3, .sy = 2, .py = 1, .px = 1}, 2);
  Check({.c = 96, .o = 80, .groups = 2, .h = 5, .w = 5, .post = true}, 3);
  Check({.c = 12, .o = 24, .groups = 12, .h = 9, .w = 10, .ky = 3, .kx = 3, .py = 1, .px = 1}, 4);
}
TEST(ConvHalf, Depthwise) {
  for (const int64_t size : {1, 3, 4, 5, 7})
    for (const int64_t stride : {1, 2, 3})
      Check({.n = 2,
             .c = 50,
             .o = 50,
             .groups = 50,
             .h = 13,
             .w = 23,
             .ky = size,
             .kx = size,
             .sy = stride,
             .sx = stride,
             .py = size / 2,
             .px = size / 2,
             .activation = Activation::kHardSwish},
            static_cast<unsigned>(size * 3 + stride));
  Check({.c = 64,
         .o = 64,
         .groups = 64,
         .h = 20,
         .w = 40,
         .ky = 3,
         .kx = 3,
         .from = kPartOfLast,
         .to = kPartOfLast,
         .residual = true,
         .post = true},
        1);
  Check({.c = 9,
         .o = 9,
         .groups = 9,
         .h = 12,
         .w = 12,
         .ky = 3,
         .kx = 3,
         .py = 2,
         .px = 2,
         .dy = 2,
         .dx = 2,
         .from = kPlanes,
         .activation = Activation::kLeakyRelu},
        2);
  Check({.c = 33, .o = 33, .groups = 33, .h = 12, .w = 12, .ky = 9, .kx = 3, .py = 4, .px = 1, .packed = false}, 3);
}
TEST(ConvHalf, InfinitiesStay) {
  Check({.c = 3, .o = 8, .h = 9, .w = 9, .ky = 3, .kx = 3, .py = 1, .px = 1, .from = kPlanes, .infinite = true}, 1);
  Check({.c = 5, .o = 8, .h = 9, .w = 9, .ky = 3, .kx = 3, .infinite = true}, 2);
  Check({.c = 40, .o = 40, .groups = 40, .h = 9, .w = 19, .ky = 3, .kx = 3, .py = 1, .px = 1, .infinite = true}, 3);
}
// Several blocks of rows: of many tiles of Winograd's form, of much image, of weights that outweigh it.
TEST(ConvHalf, Blocks) {
  Check({.c = 64, .o = 17, .h = 62, .w = 61, .ky = 3, .kx = 3, .py = 1, .px = 1, .residual = true, .post = true}, 1);
  Check({.c = 3, .o = 40, .h = 90, .w = 90, .ky = 7, .kx = 7, .sy = 2, .sx = 2, .py = 3, .px = 3, .from = kPlanes}, 2);
  Check({.n = 2, .c = 96, .o = 64, .h = 33, .w = 32, .activation = Activation::kClamp, .residual = true}, 3);
  Check({.c = 512, .o = 160, .h = 6, .w = 9, .sy = 2}, 4);
  Check({.c = 128, .o = 96, .h = 9, .w = 9, .ky = 3, .kx = 3, .sx = 2, .py = 1, .px = 1}, 5);
  Check({.c = 130, .o = 130, .groups = 130, .h = 40, .w = 39, .ky = 5, .kx = 5, .py = 2, .px = 2, .from = kPlanes}, 6);
  Check({.c = 64, .o = 64, .groups = 16, .h = 50, .w = 40, .ky = 3, .kx = 3, .sy = 2, .sx = 2, .py = 1, .px = 1}, 7);
}
TEST(ConvHalf, RefusesWhatIsNoImage) {
  Image<uint16_t> x(kLast, DType::kBF16, 1, 4, 5, 5), out(kPlanes, DType::kBF16, 1, 4, 5, 5);
  Tensor w = x.t;
  EXPECT_FALSE(CanUseConvHalf(x.t, w, out.t, {1, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}}));
}

}  // namespace
}  // namespace slipway::kernels
