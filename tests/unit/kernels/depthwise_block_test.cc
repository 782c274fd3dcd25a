// Blocks of a depthwise convolution and pointwise ones give the bits of the convolutions one by one, for any number of
// threads: sizes of which rings of rows begin anew at any place, windows that reach out of the image, filters packed
// and plain. Those of bf16 and f16 by way of f32 give its bits, rounded; those that multiply bf16, the bits of its
// convolutions one by one.
#include "kernels/conv/depthwise_block.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "fenced_scratch.h"
#include "gtest/gtest.h"
#include "kernels/conv/conv_half.h"
#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/filters.h"
#include "kernels/convert.h"

namespace slipway::kernels {
namespace {

using Floats = std::vector<float>;

// An image of channels last whose places lie `pitch` floats apart.
struct Image {
  Image(int64_t n, int64_t c, int64_t h, int64_t w, int64_t pitch = 0) {
    if (pitch == 0) pitch = c;
    t = {.rank = 5, .sizes = {n, c, 1, h, w}, .strides = {h * w * pitch, 1, h * w * pitch, w * pitch, pitch}};
    data.resize(static_cast<size_t>(n * h * w * pitch - (pitch - c)), 99);
    t.data = data.data();
  }
  Floats data;
  Tensor t;
};
struct Filters {
  Filters(int64_t outs, int64_t per, int64_t ky, int64_t kx, int64_t groups, bool packed, std::mt19937& random)
      : shape{groups, per, outs, ky, kx} {
    std::uniform_real_distribution<float> range(-1, 1);
    data.resize(static_cast<size_t>(outs * per * ky * kx));
    for (float& x : data) x = range(random);
    t = {.rank = 5, .sizes = {outs, per, 1, ky, kx}, .strides = {per * ky * kx, ky * kx, ky * kx, kx, 1}};
    if (packed) {
      Floats panels(static_cast<size_t>(shape.elements()));
      PackFilters(data.data(), shape, 0, shape.panels(), panels.data());
      data = panels, t.packed = Packing::kConvFilters;
    }
    t.data = data.data();
  }
  FilterShape shape;
  Floats data;
  Tensor t;
};
Floats Vector(int64_t n, std::mt19937& random) {
  std::uniform_real_distribution<float> range(-1, 1);
  Floats v(static_cast<size_t>(n));
  for (float& x : v) x = range(random);
  return v;
}
const Workers* Threads(int n) {
  static std::vector<std::unique_ptr<ThreadPool>> pools;
  pools.push_back(ThreadPool::Make(n));
  return pools.back() ? &pools.back()->workers() : nullptr;
}

struct Case {
  bool before = true, after = true, packed = true;
  int64_t n = 1, in = 8, c = 16, out = 8, h = 9, w = 9, ky = 3, kx = 3, sy = 1, sx = 1, py = 1, px = 1, dy = 1, dx = 1;
  int64_t below = 0;  // rows of results that reach out of the image by more than its padding
};

void Check(const Case& k, unsigned seed) {
  std::mt19937 random(seed);
  const int64_t in = k.before ? k.in : k.c, outs = k.after ? k.out : k.c;
  const int64_t to_y = (k.h + 2 * k.py - k.dy * (k.ky - 1) - 1) / k.sy + 1 + k.below,
                to_x = (k.w + 2 * k.px - k.dx * (k.kx - 1) - 1) / k.sx + 1;
  Image x(k.n, in, k.h, k.w, in + seed % 3), wide(k.n, k.c, k.h, k.w), narrow(k.n, k.c, to_y, to_x),
      expected(k.n, outs, to_y, to_x, outs + seed % 2);
  Image out = expected, add = expected;
  out.t.data = out.data.data(), add.t.data = add.data.data();
  x.data = Vector(static_cast<int64_t>(x.data.size()), random), x.t.data = x.data.data();
  add.data = Vector(static_cast<int64_t>(add.data.size()), random), add.t.data = add.data.data();
  const Filters first(k.c, in, 1, 1, 1, k.packed, random), taps(k.c, 1, k.ky, k.kx, k.c, k.packed, random),
      second(outs, k.c, 1, 1, 1, k.packed, random);
  const Floats scales = Vector(std::max(k.c, outs), random), shifts = Vector(std::max(k.c, outs), random);
  const Epilogue clamp{
      .scale = scales.data(), .bias = shifts.data(), .activation = Activation::kClamp, .min = 0, .max = 6};
  const Epilogue silu{.scale = scales.data(), .bias = shifts.data(), .activation = Activation::kSilu};
  Epilogue last{.bias = shifts.data(),
                .residual = add.data.data(),
                .activation = Activation::kHardSwish,
                .post_scale = scales.data(),
                .post_bias = shifts.data()};
  if (seed % 4 == 0) last.post_residual = add.data.data();

  DepthwiseBlock block;
  block.shape = {k.c, {1, k.sy, k.sx}, {0, k.py, k.px}, {1, k.dy, k.dx}};
  if (k.before) block.before = {first.t, clamp};
  block.depthwise = {taps.t, k.after ? silu : last};
  if (k.after) block.after = {second.t, last};

  Scratch scratch;
  const ConvShape pointwise{1, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}};
  if (k.before) {
    ASSERT_TRUE(ConvNhwc(x.t, first.t, wide.t, pointwise, clamp, nullptr, scratch));
  }
  ASSERT_TRUE(ConvNhwc(k.before ? wide.t : x.t, taps.t, k.after ? narrow.t : expected.t, block.shape,
                       block.depthwise.epilogue, nullptr, scratch));
  if (k.after) {
    ASSERT_TRUE(ConvNhwc(narrow.t, second.t, expected.t, pointwise, last, nullptr, scratch));
  }
  ASSERT_TRUE(CanUseDepthwiseBlock(x.t, block, out.t));
  for (int threads : {1, 2, 3, 16}) {
    std::fill(out.data.begin(), out.data.end(), 99.0f);
    const Workers* const workers = threads == 1 ? nullptr : Threads(threads);
    Scratch counter = Scratch::Counter();
    RunDepthwiseBlock(x.t, block, out.t, workers, counter);
    FencedScratch memory(counter.counted());
    RunDepthwiseBlock(x.t, block, out.t, workers, *memory);
    ASSERT_TRUE(memory.sufficed());
    ASSERT_EQ(out.data, expected.data) << threads << " threads";
  }
}

// A tensor of floats in a narrower type, and back: the same numbers, rounded.
struct Halves {
  Halves(const Tensor& from, size_t elements, DType dtype) : data(elements) {
    StoreRow<float>(from.as<float>(), static_cast<int64_t>(elements), data.data(), dtype, 1);
    t = from;
    t.dtype = dtype, t.data = data.data();
    LoadRow<float>(data.data(), dtype, 1, static_cast<int64_t>(elements), DType::kF32, from.as<float>());
  }
  std::vector<uint16_t> data;
  Tensor t;
};

void CheckHalves(const Case& k, unsigned seed, DType half) {
  std::mt19937 random(seed);
  const int64_t in = k.before ? k.in : k.c, outs = k.after ? k.out : k.c;
  const int64_t to_y = (k.h + 2 * k.py - k.dy * (k.ky - 1) - 1) / k.sy + 1 + k.below,
                to_x = (k.w + 2 * k.px - k.dx * (k.kx - 1) - 1) / k.sx + 1;
  Image x(k.n, in, k.h, k.w, in + seed % 3), expected(k.n, outs, to_y, to_x, outs + seed % 2), wide(k.n, k.c, k.h, k.w),
      narrow(k.n, k.c, to_y, to_x);
  Image add = expected;
  x.data = Vector(static_cast<int64_t>(x.data.size()), random), x.t.data = x.data.data();
  add.data = Vector(static_cast<int64_t>(add.data.size()), random), add.t.data = add.data.data();
  expected.t.data = expected.data.data();
  const Halves image(x.t, x.data.size(), half), added(add.t, add.data.size(), half),
      wide_half(wide.t, wide.data.size(), half), narrow_half(narrow.t, narrow.data.size(), half);
  Halves out(expected.t, expected.data.size(), half);
  const bool pairs = half == DType::kBF16;
  Filters first(k.c, in, 1, 1, 1, false, random), taps(k.c, 1, k.ky, k.kx, k.c, false, random),
      second(outs, k.c, 1, 1, 1, false, random);
  std::vector<Halves> plain;
  std::vector<std::vector<uint16_t>> panels;
  std::vector<Tensor> weights;  // as the block of halves has them
  for (Filters* f : {&first, &taps, &second}) {
    plain.emplace_back(f->t, f->data.size(), half);
    weights.push_back(plain.back().t);
    if (!k.packed) continue;
    FilterShape shape = f->shape;
    shape.pairs = pairs;
    panels.emplace_back(static_cast<size_t>(shape.elements()));
    PackFilters(plain.back().data.data(), shape, 0, shape.panels(), panels.back().data());
    weights.back().data = panels.back().data(), weights.back().packed = Packing::kConvFilters;
  }
  const Floats scales = Vector(std::max(k.c, outs), random), shifts = Vector(std::max(k.c, outs), random);
  const Epilogue clamp{
      .scale = scales.data(), .bias = shifts.data(), .activation = Activation::kClamp, .min = 0, .max = 6};
  Epilogue last{.bias = shifts.data(), .activation = Activation::kHardSwish};

  DepthwiseBlock block;
  block.shape = {k.c, {1, k.sy, k.sx}, {0, k.py, k.px}, {1, k.dy, k.dx}};
  if (k.before) block.before = {first.t, clamp};
  block.depthwise = {taps.t, k.after ? clamp : last};
  if (k.after) {
    last.residual = add.data.data();
    block.after = {second.t, last};
  }
  Scratch scratch;
  RunDepthwiseBlock(x.t, block, expected.t, nullptr, scratch);
  const Halves rounded(expected.t, expected.data.size(), half);

  last.residual = nullptr;
  if (k.before) block.before->w = weights[0];
  block.depthwise.w = weights[1];
  if (k.after) block.after = {weights[2], last}, block.residual = added.data.data();
  const auto run = [&](int threads) {
    std::fill(out.data.begin(), out.data.end(), uint16_t{0xffff});
    const Workers* const workers = threads == 1 ? nullptr : Threads(threads);
    ASSERT_TRUE(CanUseDepthwiseBlock(image.t, block, out.t));
    Scratch counter = Scratch::Counter();
    RunDepthwiseBlock(image.t, block, out.t, workers, counter);
    FencedScratch memory(counter.counted());
    RunDepthwiseBlock(image.t, block, out.t, workers, *memory);
    ASSERT_TRUE(memory.sufficed());
  };
  const auto same = [&](const std::vector<uint16_t>& wanted, int threads) {
    for (int64_t n = 0; n < k.n; ++n)
      for (int64_t y = 0; y < to_y; ++y)
        for (int64_t i = 0; i < to_x; ++i)
          for (int64_t c = 0; c < outs; ++c) {
            const auto at = static_cast<size_t>(n * out.t.strides[0] + y * out.t.strides[3] + i * out.t.strides[4] + c);
            ASSERT_EQ(out.data[at], wanted[at]) << threads << " threads, at " << n << ' ' << y << ' ' << i << ' ' << c;
          }
  };
  const auto one_by_one = [&] {
    const ConvAttributes<> pointwise{1, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
        depthwise{k.c, {1, k.sy, k.sx}, {0, k.py, k.px}, {1, k.dy, k.dx}};
    if (k.before) ConvHalf(image.t, weights[0], wide_half.t, pointwise, {clamp}, nullptr, scratch);
    ConvHalf(k.before ? wide_half.t : image.t, weights[1], k.after ? narrow_half.t : out.t, depthwise,
             {block.depthwise.epilogue}, nullptr, scratch);
    if (k.after) ConvHalf(narrow_half.t, weights[2], out.t, pointwise, {last, added.data.data()}, nullptr, scratch);
    return out.data;
  };
  const bool multiplies =
      pairs && BestBf16Conv() != nullptr && (!k.before || in % 2 == 0) && (!k.after || k.c % 2 == 0);
  const std::vector<uint16_t> wanted = multiplies ? one_by_one() : rounded.data;
  for (int threads : {1, 2, 3, 16}) {
    run(threads);
    same(wanted, threads);
    if (testing::Test::HasFatalFailure()) return;
  }
  // By way of f32 on any processor.
  if (k.before) block.before->w = first.t;
  block.depthwise.w = taps.t;
  if (k.after) block.after->w = second.t;
  std::vector<Floats> wide_panels;
  for (const auto& [layer, filters] : {std::pair{block.before ? &*block.before : nullptr, &first},
                                       {&block.depthwise, &taps},
                                       {block.after ? &*block.after : nullptr, &second}}) {
    if (layer == nullptr) continue;
    wide_panels.emplace_back(static_cast<size_t>(filters->shape.elements()));
    PackFilters(filters->data.data(), filters->shape, 0, filters->shape.panels(), wide_panels.back().data());
    layer->w.data = wide_panels.back().data(), layer->w.packed = Packing::kConvFilters;
  }
  run(2);
  same(rounded.data, 2);
}

TEST(DepthwiseBlock, OfHalves) {
  std::mt19937 random(4);
  auto of = [&](int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); };
  for (unsigned i = 0; i < 60; ++i) {
    Case k;
    const int64_t which = of(0, 2);
    k.before = which != 0, k.after = which != 1, k.packed = of(0, 3) != 0;
    k.n = of(1, 2), k.in = of(1, 20) * (of(0, 3) != 0 ? 2 : 1), k.c = of(1, 50) * (of(0, 3) != 0 ? 2 : 1);
    k.out = of(1, 40);
    const int64_t kernels[] = {1, 2, 3, 3, 4, 5, 7};
    k.ky = kernels[of(0, 6)], k.kx = kernels[of(0, 6)];
    k.sy = of(1, 3), k.sx = of(1, 2), k.dy = of(0, 3) == 0 ? 2 : 1, k.dx = of(0, 3) == 0 ? 2 : 1;
    k.py = of(0, k.dy * (k.ky - 1)), k.px = of(0, k.kx / 2);
    k.h = k.dy * (k.ky - 1) + of(1, of(0, 1) == 0 ? 12 : 90), k.w = k.dx * (k.kx - 1) + k.sx * of(4, 60);
    k.h = std::max({k.h, k.sy, k.dy});
    CheckHalves(k, i, i % 2 == 0 ? DType::kBF16 : DType::kF16);
    ASSERT_FALSE(HasFailure()) << "case " << i << ": before " << k.before << " after " << k.after << " packed "
                               << k.packed << " n " << k.n << " channels " << k.in << ',' << k.c << ',' << k.out
                               << " image " << k.h << 'x' << k.w << " kernel " << k.ky << 'x' << k.kx << " stride "
                               << k.sy << ',' << k.sx << " pad " << k.py << ',' << k.px << " dilation " << k.dy << ','
                               << k.dx;
  }
}

TEST(DepthwiseBlock, GivesTheBitsOfItsConvolutions) {
  std::mt19937 random(3);
  auto of = [&](int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); };
  for (unsigned i = 0; i < 120; ++i) {
    Case k;
    const int64_t which = of(0, 2);
    k.before = which != 0, k.after = which != 1, k.packed = of(0, 3) != 0;
    k.n = of(1, 2), k.in = of(1, 40), k.c = of(1, 100), k.out = of(1, 40);
    const int64_t kernels[] = {1, 2, 3, 3, 4, 5, 7};
    k.ky = kernels[of(0, 6)], k.kx = kernels[of(0, 6)];
    k.sy = of(1, 3), k.sx = of(1, 2), k.dy = of(0, 3) == 0 ? 2 : 1, k.dx = of(0, 3) == 0 ? 2 : 1;
    k.py = of(0, k.dy * (k.ky - 1)), k.px = of(0, k.kx / 2);
    // Some are so large that several steps and groups of rows follow each other.
    k.h = k.dy * (k.ky - 1) + of(1, of(0, 1) == 0 ? 12 : 90), k.w = k.dx * (k.kx - 1) + k.sx * of(4, 60);
    // As padding at one side only has it.
    if (k.py == 0 && ((k.h - k.dy * (k.ky - 1) - 1) / k.sy + 1) * k.sy < k.h) k.below = of(0, 1);
    Check(k, i);
    ASSERT_FALSE(HasFatalFailure()) << "case " << i << ": before " << k.before << " after " << k.after << " n " << k.n
                                    << " channels " << k.in << ',' << k.c << ',' << k.out << " image " << k.h << 'x'
                                    << k.w << " kernel " << k.ky << 'x' << k.kx << " stride " << k.sy << ',' << k.sx
                                    << " pad " << k.py << ',' << k.px << " dilation " << k.dy << ',' << k.dx
                                    << " below " << k.below;
  }
}

TEST(DepthwiseBlock, RefusesWhatItsLoopsDoNotTake) {
  std::mt19937 random(5);
  const Filters first(16, 8, 1, 1, 1, true, random), taps(16, 1, 3, 3, 16, true, random),
      second(4, 16, 1, 1, 1, true, random), wide(16, 8, 3, 3, 1, true, random);
  const Image x(1, 8, 12, 12), out(1, 4, 12, 12);
  const auto takes = [&](auto change, const Tensor& image, const Tensor& result) {
    DepthwiseBlock block{.before = DepthwiseBlock::Layer{first.t, {}},
                         .after = DepthwiseBlock::Layer{second.t, {}},
                         .depthwise = {taps.t, {}},
                         .shape = {16, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}}};
    change(block);
    return CanUseDepthwiseBlock(image, block, result);
  };
  const auto as_it_is = [](DepthwiseBlock&) {};
  EXPECT_TRUE(takes(as_it_is, x.t, out.t));
  Tensor planes = x.t;
  planes.strides[1] = 144, planes.strides[3] = 12, planes.strides[4] = 1;
  EXPECT_FALSE(takes(as_it_is, planes, out.t));
  Tensor halves = x.t, result = out.t;
  halves.dtype = DType::kF16;
  EXPECT_FALSE(takes(as_it_is, halves, out.t));
  result.dtype = DType::kF16;
  EXPECT_TRUE(takes(as_it_is, halves, result));  // with filters of f32, packed
  const Image whole(1, 16, 12, 12);
  result = whole.t, result.dtype = DType::kF16;
  const auto ends_depthwise = [](DepthwiseBlock& b) { b.after.reset(); };
  EXPECT_TRUE(takes(ends_depthwise, halves, result));
  const uint16_t some = 0;
  EXPECT_FALSE(takes([&](DepthwiseBlock& b) { ends_depthwise(b), b.residual = &some; }, halves, result));
  EXPECT_FALSE(takes(as_it_is, Image(1, 9, 12, 12).t, out.t));
  EXPECT_FALSE(takes(as_it_is, x.t, Image(2, 4, 12, 12).t));
  EXPECT_FALSE(takes(as_it_is, x.t, Image(1, 4, 20, 12).t));  // rows of nothing but border
  EXPECT_FALSE(takes([&](DepthwiseBlock& b) { b.before->w = wide.t; }, x.t, out.t));
  EXPECT_FALSE(takes([](DepthwiseBlock& b) { b.shape.groups = 8; }, x.t, out.t));
  EXPECT_FALSE(takes([](DepthwiseBlock& b) { b.shape.pad[1] = 3; }, x.t, Image(1, 4, 16, 12).t));
  EXPECT_FALSE(takes([](DepthwiseBlock& b) { b.shape.stride[1] = int64_t{1} << 39; }, x.t, Image(1, 4, 1, 12).t));
  EXPECT_FALSE(takes([](DepthwiseBlock& b) { b.shape.dilation[1] = int64_t{1} << 39; }, x.t, out.t));
  EXPECT_FALSE(takes([](DepthwiseBlock& b) { b.before.reset(), b.after.reset(); }, x.t, out.t));
  EXPECT_FALSE(takes([&](DepthwiseBlock& b) { b.depthwise.epilogue.residual = out.data.data(); }, x.t, out.t));
  EXPECT_FALSE(takes(as_it_is, Image(1, 8, 48, 3).t, Image(1, 4, 48, 3).t));  // rows of few places
}

}  // namespace
}  // namespace slipway::kernels
