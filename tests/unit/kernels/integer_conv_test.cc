// Convolutions of bytes beside sums in i64: sizes that fill no block, layouts of all operands, groups of every kind,
// strides, dilations and borders, what follows the sums; packed weights and plain ones; the bits are the same for any
// number of threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "conv_image.h"
#include "gtest/gtest.h"
#include "kernels/attributes.h"
#include "kernels/gemm/packing.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"

namespace slipway::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  int64_t n = 1, c = 1, o = 1, groups = 1, h = 1, w = 1, ky = 1, kx = 1, sy = 1, sx = 1, py = 0, px = 0, dy = 1, dx = 1;
  Layout from = kLast, to = kLast;
  Activation activation = Activation::kNone;
  bool bytes = true, packed = true, bias = true;
  enum Added { kNothing, kBytes, kFloats } added = kNothing;
  int64_t zero = 3, low = 0, high = 255;
};

double Function(Activation a, double x, double min, double max) {
  switch (a) {
    case Activation::kNone: return x;
    case Activation::kClamp: return std::min(std::max(x, min), max);
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kHardSwish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kHardSigmoid: return std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kLeakyRelu: return x < 0 ? min * x : x;
  }
  return 0;
}

Tensor Vector(void* data, DType dtype, int64_t n) {
  Tensor t;
  t.data = data, t.dtype = dtype, t.rank = 1, t.sizes[0] = n, t.strides[0] = 1;
  return t;
}

void Check(const Case& k, unsigned seed) {
  std::mt19937 random(seed);
  const auto up = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
  const int64_t per = k.c / k.groups, outs = k.o / k.groups;
  const bool depthwise = k.groups > 1 && per == 1 && outs == 1;
  const int64_t oy = (k.h + 2 * k.py - k.dy * (k.ky - 1) - 1) / k.sy + 1,
                ox = (k.w + 2 * k.px - k.dx * (k.kx - 1) - 1) / k.sx + 1;
  ASSERT_GT(oy, 0);
  ASSERT_GT(ox, 0);
  Image<uint8_t> x(k.from, DType::kU8, k.n, k.c, k.h, k.w), out_bytes(k.to, DType::kU8, k.n, k.o, oy, ox),
      added_bytes(k.to, DType::kU8, k.n, k.o, oy, ox);
  Image<float> out_floats(k.to, DType::kF32, k.n, k.o, oy, ox), added_floats(kPlanes, DType::kF32, k.n, k.o, oy, ox);
  const auto fill = [&](std::vector<uint8_t>& v) {
    for (uint8_t& b : v) b = static_cast<uint8_t>(random());
  };
  fill(x.data), fill(added_bytes.data);
  std::uniform_real_distribution<float> range(-1, 1);
  for (float& f : added_floats.data) f = range(random);
  std::vector<int8_t> w(static_cast<size_t>(k.o * per * k.ky * k.kx));
  for (int8_t& b : w) b = static_cast<int8_t>(random());
  const auto weight = [&](int64_t o, int64_t c, int64_t y, int64_t z) {
    return w[static_cast<size_t>(((o * per + c) * k.ky + y) * k.kx + z)];
  };
  std::vector<float> scale(static_cast<size_t>(k.o)), bias(scale);
  for (float& s : scale) s = (1.5f + range(random)) * 2e-5f / std::sqrt(static_cast<float>(per * k.ky * k.kx) / 9);
  for (float& b : bias) b = range(random);

  IntegerConvAttributes a{};
  a.groups = k.groups, a.input_zero = 117, a.added_zero = 44, a.zero_point = k.zero, a.low = k.low, a.high = k.high;
  const int64_t sizes[4][2] = {{k.ky, k.kx}, {k.sy, k.sx}, {k.py, k.px}, {k.dy, k.dx}};
  std::copy_n(sizes[0], 2, a.kernel), std::copy_n(sizes[1], 2, a.stride);
  std::copy_n(sizes[2], 2, a.padding), std::copy_n(sizes[3], 2, a.dilation);
  a.activation = k.activation, a.min = k.activation == Activation::kLeakyRelu ? -0.25 : -0.5, a.max = kInfinity;
  a.added_scale = k.added == Case::kFloats ? 1 : 0.013, a.multiplier = k.bytes ? 1 / 0.017 : 0;
  if (k.added == Case::kFloats) a.added_zero = 0;
  if (k.bias) a.parts |= kIntegerConvBias;
  if (k.added != Case::kNothing) a.parts |= kIntegerConvAdded;

  // The weights as the kernel takes them.
  const int64_t columns = k.groups == 1 || depthwise ? k.o : k.groups * up(outs, kPanel);
  const int64_t depth = depthwise ? k.kx * up(k.ky, 4) : k.ky * k.kx * up(per, 4);
  std::vector<uint8_t> matrix(static_cast<size_t>(depth * columns));
  std::vector<int32_t> offset(static_cast<size_t>(k.o));
  for (int64_t o = 0; o < k.o; ++o)
    for (int64_t c = 0; c < per; ++c)
      for (int64_t y = 0; y < k.ky; ++y)
        for (int64_t z = 0; z < k.kx; ++z) {
          const int64_t column = columns == k.o ? o : o / outs * up(outs, kPanel) + o % outs;
          const int64_t row = depthwise ? z * up(k.ky, 4) + y : (y * k.kx + z) * up(per, 4) + c;
          matrix[static_cast<size_t>(column * depth + row)] = static_cast<uint8_t>(weight(o, c, y, z));
          offset[static_cast<size_t>(o)] -= 117 * weight(o, c, y, z);
        }
  Tensor weights;
  weights.rank = 2, weights.dtype = DType::kU8, weights.data = matrix.data();
  weights.sizes[0] = depth, weights.sizes[1] = columns, weights.strides[0] = 1, weights.strides[1] = depth;
  std::vector<uint8_t> panels;
  if (k.packed) {
    panels.resize(static_cast<size_t>(PanelBytes(depth, columns, DType::kU8, Packing::kNr16K4)));
    PackPanels({matrix.data(), DType::kU8, 1, depth}, depth, columns, 0, (columns - 1) / kPanel + 1, panels.data(),
               Packing::kNr16K4);
    weights.data = panels.data(), weights.packed = Packing::kNr16K4;
  }
  std::vector<Tensor> in = {x.t, weights, Vector(offset.data(), DType::kI32, k.o),
                            Vector(scale.data(), DType::kF32, k.o)};
  if (k.bias) in.push_back(Vector(bias.data(), DType::kF32, k.o));
  if (k.added == Case::kBytes) in.push_back(added_bytes.t);
  if (k.added == Case::kFloats) in.push_back(added_floats.t);
  const Tensor out = k.bytes ? out_bytes.t : out_floats.t;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  struct {
    std::vector<int64_t>& ints;
    std::vector<double>& floats;
    void operator()(int64_t v) { ints.push_back(v); }
    void operator()(double v) { floats.push_back(v); }
  } add{ints, floats};
  ForEachNumber(a, add);
  Call call;
  call.in = in, call.out = std::span(&out, 1), call.ints = ints, call.floats = floats;
  const Kernel& kernel = *FindKernel("integer_conv");
  ASSERT_EQ(Run(kernel, call), nullptr);

  for (int64_t n = 0; n < k.n; ++n)
    for (int64_t o = 0; o < k.o; ++o)
      for (int64_t y = 0; y < oy; ++y)
        for (int64_t z = 0; z < ox; ++z) {
          int64_t sum = 0;
          for (int64_t c = 0; c < per; ++c)
            for (int64_t i = 0; i < k.ky; ++i)
              for (int64_t j = 0; j < k.kx; ++j) {
                const int64_t at_y = y * k.sy - k.py + i * k.dy, at_x = z * k.sx - k.px + j * k.dx;
                if (at_y < 0 || at_y >= k.h || at_x < 0 || at_x >= k.w) continue;
                sum += (int64_t{x.at(n, o / outs * per + c, at_y, at_x)} - 117) * weight(o, c, i, j);
              }
          double v = static_cast<double>(sum) * double{scale[static_cast<size_t>(o)]};
          if (k.bias) v += double{bias[static_cast<size_t>(o)]};
          if (k.added == Case::kBytes) v += (added_bytes.at(n, o, y, z) - 44) * 0.013;
          if (k.added == Case::kFloats) v += double{added_floats.at(n, o, y, z)};
          v = Function(k.activation, v, a.min, a.max);
          if (!k.bytes) {
            ASSERT_NEAR(double{out_floats.at(n, o, y, z)}, v, 2e-5 * (1 + std::abs(v))) << o << ' ' << y << ' ' << z;
            continue;
          }
          const double exact = v / 0.017, integer = std::nearbyint(exact) + static_cast<double>(k.zero);
          const double wanted = std::clamp(integer, static_cast<double>(k.low), static_cast<double>(k.high));
          // Where floats may round the other way, both are right.
          const double slack = std::abs(exact - std::floor(exact) - 0.5) < 1e-3 ? 1 : 0;
          ASSERT_NEAR(out_bytes.at(n, o, y, z), wanted, slack) << o << ' ' << y << ' ' << z << ' ' << exact;
        }

  const std::vector<uint8_t> bytes = out_bytes.data;
  const std::vector<float> numbers = out_floats.data;
  std::fill(out_bytes.data.begin(), out_bytes.data.end(), uint8_t{0});
  std::fill(out_floats.data.begin(), out_floats.data.end(), 0.0f);
  call.workers = ThreeThreads();
  ASSERT_EQ(Run(kernel, call), nullptr);
  EXPECT_EQ(out_bytes.data, bytes);
  EXPECT_EQ(out_floats.data, numbers);
}

TEST(IntegerConv, Pointwise) {
  unsigned seed = 0;
  for (int64_t c : {4, 36, 130})
    for (int64_t o : {1, 7, 16, 33, 64, 100})
      for (int64_t pixels : {1, 5, 14, 43}) {
        SCOPED_TRACE(testing::Message() << c << " to " << o << ", " << pixels);
        Check({.n = 2, .c = c, .o = o, .h = 1, .w = pixels}, ++seed);
        ++seed;
        Check({.c = c, .o = o, .h = 3, .w = pixels, .sy = 2, .sx = 2, .bytes = seed % 2 == 0}, seed);
      }
}

TEST(IntegerConv, Direct) {
  unsigned seed = 100;
  for (int64_t c : {1, 3, 8, 20})
    for (int64_t o : {5, 40})
      for (int64_t size : {5, 17, 29})
        for (int64_t stride : {1, 2}) {
          SCOPED_TRACE(testing::Message() << c << " to " << o << ", " << size << " by " << stride);
          Check({.n = 2,
                 .c = c,
                 .o = o,
                 .h = size,
                 .w = size + 3,
                 .ky = 3,
                 .kx = 3,
                 .sy = stride,
                 .sx = stride,
                 .py = 1,
                 .px = 1},
                ++seed);
          Check({.c = c,
                 .o = o,
                 .h = size,
                 .w = size,
                 .ky = 5,
                 .kx = 2,
                 .sy = stride,
                 .sx = stride,
                 .py = 2,
                 .dx = 3,
                 .packed = false},
                ++seed);
          Check({.c = c,
                 .o = o,
                 .h = size + 4,
                 .w = size + 4,
                 .ky = 7,
                 .kx = 7,
                 .sy = stride,
                 .sx = stride,
                 .py = 3,
                 .px = 3,
                 .from = kPlanes},
                ++seed);
        }
}

TEST(IntegerConv, Groups) {
  unsigned seed = 300;
  for (int64_t per : {1, 3, 4, 24})
    for (int64_t outs : {2, 4, 24})
      for (bool from_part : {false, true}) {
        SCOPED_TRACE(testing::Message() << per << " to " << outs);
        Check({.c = 3 * per,
               .o = 3 * outs,
               .groups = 3,
               .h = 9,
               .w = 15,
               .ky = 3,
               .kx = 3,
               .py = 1,
               .px = 1,
               .from = from_part ? kPartOfLast : kLast},
              ++seed);
        Check({.c = 3 * per,
               .o = 3 * outs,
               .groups = 3,
               .h = 6,
               .w = 13,
               .from = from_part ? kPartOfLast : kLast,
               .to = kPartOfLast},
              ++seed);
      }
}

TEST(IntegerConv, Depthwise) {
  unsigned seed = 400;
  for (int64_t c : {2, 16, 24, 64, 100, 144})
    for (int64_t kernel : {2, 3, 5, 7})
      for (int64_t stride : {1, 2, 3})
        for (int64_t size : {7, 16}) {
          SCOPED_TRACE(testing::Message() << c << ", kernel " << kernel << " by " << stride << ", " << size);
          const Activation f = seed % 3 == 0 ? Activation::kHardSwish : Activation::kNone;
          ++seed;
          Check({.n = 2,
                 .c = c,
                 .o = c,
                 .groups = c,
                 .h = size,
                 .w = size + 4,
                 .ky = kernel,
                 .kx = kernel,
                 .sy = stride,
                 .sx = stride,
                 .py = kernel / 2,
                 .px = kernel / 2,
                 .activation = f,
                 .bytes = seed % 5 != 0},
                seed);
          ++seed;
          Check({.c = c,
                 .o = c,
                 .groups = c,
                 .h = size + 6,
                 .w = size + 8,
                 .ky = kernel,
                 .kx = kernel,
                 .sy = stride,
                 .sx = stride,
                 .py = 1,
                 .px = 0,
                 .dy = 2,
                 .dx = 2,
                 .from = kPartOfLast,
                 .to = kPartOfLast,
                 .added = seed % 2 == 0 ? Case::kBytes : Case::kNothing},
                seed);
        }
}

TEST(IntegerConv, WhatFollowsTheSums) {
  unsigned seed = 900;
  for (Activation f : {Activation::kNone, Activation::kClamp, Activation::kSilu, Activation::kHardSwish,
                       Activation::kHardSigmoid, Activation::kLeakyRelu})
    for (Case::Added added : {Case::kNothing, Case::kBytes, Case::kFloats})
      for (bool bytes : {false, true})
        for (Layout to : {kLast, kPlanes, kPartOfLast}) {
          SCOPED_TRACE(testing::Message() << static_cast<int>(f) << ' ' << added << ' ' << bytes << ' ' << to);
          Check({.n = 2,
                 .c = 12,
                 .o = 37,
                 .h = 7,
                 .w = 9,
                 .to = to,
                 .activation = f,
                 .bytes = bytes,
                 .bias = seed % 2 == 0,
                 .added = added,
                 .zero = seed % 2 == 0 ? 3 : 131,
                 .low = seed % 3 == 0 ? 10 : 0,
                 .high = seed % 3 == 0 ? 127 : 255},
                seed + 1);
          Check({.c = 12,
                 .o = 70,
                 .h = 7,
                 .w = 9,
                 .ky = 3,
                 .kx = 3,
                 .py = 1,
                 .px = 1,
                 .to = to,
                 .activation = f,
                 .bytes = bytes,
                 .added = added},
                seed + 2);
          seed += 2;
        }
}

TEST(IntegerConv, Malformed) {
  const Kernel& kernel = *FindKernel("integer_conv");
  Image<uint8_t> x(kLast, DType::kU8, 1, 4, 5, 5), out(kLast, DType::kU8, 1, 16, 5, 5);
  std::vector<uint8_t> w(64);
  std::vector<int32_t> offset(16);
  std::vector<float> scale(16, 1.0f);
  Tensor weights;
  weights.rank = 2, weights.dtype = DType::kU8, weights.data = w.data();
  weights.sizes[0] = 4, weights.sizes[1] = 16, weights.strides[0] = 1, weights.strides[1] = 4;
  const auto run = [&](auto change) {
    std::vector<Tensor> in = {x.t, weights, Vector(offset.data(), DType::kI32, 16),
                              Vector(scale.data(), DType::kF32, 16)};
    IntegerConvAttributes a{};
    a.groups = 1, a.multiplier = 1, a.high = 255;
    for (int d : {0, 1}) a.kernel[d] = a.stride[d] = a.dilation[d] = 1;
    Tensor to = out.t;
    change(in, a, to);
    std::vector<int64_t> ints;
    std::vector<double> floats;
    struct {
      std::vector<int64_t>& ints;
      std::vector<double>& floats;
      void operator()(int64_t v) { ints.push_back(v); }
      void operator()(double v) { floats.push_back(v); }
    } add{ints, floats};
    ForEachNumber(a, add);
    Call call;
    call.in = in, call.out = std::span(&to, 1), call.ints = ints, call.floats = floats;
    return kernels::Run(kernel, call);
  };
  using In = std::vector<Tensor>;
  using A = IntegerConvAttributes;
  EXPECT_EQ(run([](In&, A&, Tensor&) {}), nullptr);
  EXPECT_NE(run([](In&, A& a, Tensor&) { a.kernel[0] = 2; }), nullptr);
  EXPECT_NE(run([](In&, A& a, Tensor&) { a.padding[1] = 2; }), nullptr);
  EXPECT_NE(run([](In&, A& a, Tensor&) { a.stride[0] = 2; }), nullptr) << "reads behind the image";
  EXPECT_NE(run([](In&, A& a, Tensor&) { a.groups = 3; }), nullptr);
  EXPECT_NE(run([](In&, A& a, Tensor&) { a.groups = 4; }), nullptr);
  EXPECT_NE(run([](In&, A& a, Tensor&) { a.low = -1; }), nullptr);
  EXPECT_NE(run([](In&, A& a, Tensor&) { a.zero_point = 256; }), nullptr);
  EXPECT_NE(run([](In&, A& a, Tensor&) { a.multiplier = kInfinity; }), nullptr);
  EXPECT_NE(run([](In&, A& a, Tensor&) { a.parts = kIntegerConvBias; }), nullptr);
  EXPECT_NE(run([](In&, A& a, Tensor&) { a.parts = 4; }), nullptr);
  EXPECT_NE(run([](In& in, A&, Tensor&) { in[1].sizes[0] = 8; }), nullptr);
  EXPECT_NE(run([](In& in, A&, Tensor&) { in[2].sizes[0] = 15; }), nullptr);
  EXPECT_NE(run([](In& in, A&, Tensor&) { in[3].dtype = DType::kI32; }), nullptr);
  EXPECT_NE(run([](In& in, A&, Tensor&) { in[1].packed = Packing::kNr16Int4; }), nullptr);
  EXPECT_NE(run([](In&, A&, Tensor& to) { to.dtype = DType::kF32; }), nullptr);
  EXPECT_NE(run([](In&, A&, Tensor& to) { to.sizes[4] = 6; }), nullptr);
}

}  // namespace
}  // namespace slipway::kernels
