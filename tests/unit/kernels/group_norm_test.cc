// group_scales beside sums in f64: groups of every kind, images in planes and with channels last, parts of larger
// images; the bits are the same for any number of threads, and what a plan may say that makes no sense is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "fenced_scratch.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"

namespace slipway::kernels {
namespace {

enum Layout { kPlanes, kLast, kPartOfLast };

Tensor Floats(std::vector<float>& data, std::vector<int64_t> sizes) {
  Tensor t;
  t.rank = static_cast<int>(sizes.size());
  for (int64_t d = t.rank - 1, step = 1; d >= 0; --d)
    t.sizes[d] = sizes[static_cast<size_t>(d)], t.strides[d] = step, step *= t.sizes[d];
  data.resize(static_cast<size_t>(t.numel()));
  t.data = data.data();
  return t;
}

struct Case {
  int64_t n, c, groups, h, w;
  Layout layout = kPlanes;
  int64_t parts = kNormHasWeight | kNormHasBias;
  double mean = 0;
};

const char* RunWith(const Call& call, const Workers* workers) {
  const Kernel& kernel = *FindKernel("group_scales");
  Call c = call;
  c.workers = workers;
  FencedScratch memory(QueryWorkspace(kernel, c));
  c.scratch = &*memory;
  const char* why = kernel.run(c);
  EXPECT_TRUE(memory.sufficed());
  return why;
}

void Check(const Case& k) {
  SCOPED_TRACE(testing::Message() << k.n << ' ' << k.c << ' ' << k.groups << ' ' << k.h << ' ' << k.w << " layout "
                                  << k.layout);
  std::mt19937 random(static_cast<unsigned>(k.c * 7 + k.h + k.groups));
  std::normal_distribution<float> normal(static_cast<float>(k.mean), 1);
  std::vector<float> image, weights, biases, scales, shifts;
  Tensor x = Floats(image, {k.n, k.c, k.h, k.w});
  if (k.layout != kPlanes) {  // in memory that ends with its last element
    const int64_t pitch = k.layout == kPartOfLast ? k.c + 3 : k.c;
    image.resize(static_cast<size_t>(k.n * k.h * k.w * pitch - (pitch - k.c)));
    x.data = image.data(), x.strides[0] = k.h * k.w * pitch, x.strides[1] = 1, x.strides[2] = k.w * pitch,
    x.strides[3] = pitch;
  }
  std::vector<Tensor> in = {x};
  if (k.parts & kNormHasWeight) in.push_back(Floats(weights, {k.c}));
  if (k.parts & kNormHasBias) in.push_back(Floats(biases, {k.c}));
  for (std::vector<float>* v : {&image, &weights, &biases})
    for (float& value : *v) value = normal(random);
  const Tensor out[] = {Floats(scales, {k.n, k.c}), Floats(shifts, {k.n, k.c})};
  const int64_t ints[] = {k.parts, k.groups};
  const double eps = 1e-5;
  const Call call{.in = in, .out = out, .ints = ints, .floats = {&eps, 1}};
  ASSERT_EQ(RunWith(call, nullptr), nullptr);
  const std::vector<float> scale = scales, shift = shifts;
  static const std::unique_ptr<ThreadPool> two = ThreadPool::Make(2), three = ThreadPool::Make(3);
  for (const auto* pool : {&two, &three}) {
    std::fill(scales.begin(), scales.end(), 0.0f), std::fill(shifts.begin(), shifts.end(), 0.0f);
    ASSERT_EQ(RunWith(call, *pool ? &(*pool)->workers() : nullptr), nullptr);
    ASSERT_EQ(scale, scales);
    ASSERT_EQ(shift, shifts);
  }
  const int64_t each = k.c / k.groups;
  const double count = static_cast<double>(each * k.h * k.w);
  for (int64_t n = 0; n < k.n; ++n)
    for (int64_t g = 0; g < k.groups; ++g) {
      const auto sum = [&](auto f) {
        double s = 0;
        for (int64_t c = g * each; c < (g + 1) * each; ++c)
          for (int64_t y = 0; y < k.h; ++y)
            for (int64_t z = 0; z < k.w; ++z)
              s += f(static_cast<double>(image[static_cast<size_t>(n * x.strides[0] + c * x.strides[1] +
                                                                   y * x.strides[2] + z * x.strides[3])]));
        return s;
      };
      const double mean = sum([](double v) { return v; }) / count,
                   variance = sum([&](double v) { return (v - mean) * (v - mean); }) / count;
      for (int64_t c = g * each; c < (g + 1) * each; ++c) {
        const double w = weights.empty() ? 1 : weights[static_cast<size_t>(c)],
                     b = biases.empty() ? 0 : biases[static_cast<size_t>(c)];
        const double by = w / std::sqrt(variance + eps), to = b - mean * by;
        const size_t i = static_cast<size_t>(n * k.c + c);
        ASSERT_NEAR(scale[i], by, 2e-7 * std::fabs(by)) << n << ' ' << c;
        ASSERT_NEAR(shift[i], to, 2e-7 * (std::fabs(b) + (std::fabs(mean) + std::sqrt(variance)) * std::fabs(by)))
            << n << ' ' << c;
      }
    }
}

TEST(GroupNorm, IsThatOfSumsInF64) {
  for (const Layout layout : {kPlanes, kLast, kPartOfLast}) {
    Check({1, 96, 1, 19, 23, layout});
    Check({2, 96, 4, 19, 23, layout});
    Check({3, 96, 32, 7, 7, layout});     // three channels each
    Check({2, 35, 5, 60, 41, layout});    // seven; several blocks
    Check({1, 21, 21, 130, 70, layout});  // instance norm
    Check({2, 1280, 32, 9, 9, layout, 0});
    Check({1, 3, 1, 1, 1, layout, kNormHasBias});
    Check({1, 1, 1, 200, 200, layout, kNormHasWeight});
    Check({5, 24, 6, 1, 1, layout});
    Check({1, 64, 8, 40, 40, layout, 3, 1000});
    Check({1, 40, 2, 1, 999, layout});
  }
}

TEST(GroupNorm, OfVectorsAndOfImagesWithMoreDims) {
  for (const std::vector<int64_t>& more : {std::vector<int64_t>{}, {4}, {2, 3, 4}}) {
    std::vector<float> image, scales, shifts;
    std::vector<int64_t> sizes = {2, 6};
    sizes.insert(sizes.end(), more.begin(), more.end());
    const Tensor x = Floats(image, sizes), out[] = {Floats(scales, {2, 6}), Floats(shifts, {2, 6})};
    std::fill(image.begin(), image.end(), 3.0f);
    const int64_t ints[] = {0, 2};
    const double eps = 0.25;
    ASSERT_EQ(kernels::Run(*FindKernel("group_scales"), {.in = {&x, 1}, .out = out, .ints = ints, .floats = {&eps, 1}}),
              nullptr);
    EXPECT_EQ(scales, std::vector<float>(12, 2));
    EXPECT_EQ(shifts, std::vector<float>(12, -6));
  }
}

TEST(GroupNorm, OfNothingAndOfWhatIsNoNumber) {
  std::vector<float> image, scales, shifts;
  const Tensor empty = Floats(image, {2, 4, 0, 3}), out[] = {Floats(scales, {2, 4}), Floats(shifts, {2, 4})};
  const int64_t ints[] = {0, 2};
  const double eps = 1e-5;
  ASSERT_EQ(
      kernels::Run(*FindKernel("group_scales"), {.in = {&empty, 1}, .out = out, .ints = ints, .floats = {&eps, 1}}),
      nullptr);
  const Tensor none = Floats(image, {0, 4, 5}), no_out[] = {Floats(scales, {0, 4}), Floats(shifts, {0, 4})};
  ASSERT_EQ(
      kernels::Run(*FindKernel("group_scales"), {.in = {&none, 1}, .out = no_out, .ints = ints, .floats = {&eps, 1}}),
      nullptr);
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const Tensor x = Floats(image, {1, 4, 5}), to[] = {Floats(scales, {1, 4}), Floats(shifts, {1, 4})};
    std::fill(image.begin(), image.end(), 1.0f);
    image[7] = odd;
    ASSERT_EQ(kernels::Run(*FindKernel("group_scales"), {.in = {&x, 1}, .out = to, .ints = ints, .floats = {&eps, 1}}),
              nullptr);
    EXPECT_TRUE(std::isnan(scales[0]) && std::isnan(shifts[1]) && std::isfinite(scales[2]) && std::isfinite(shifts[3]));
  }
}

TEST(GroupNorm, RefusesWhatMakesNoSense) {
  std::vector<float> image, weight, scales, shifts;
  const Tensor x = Floats(image, {2, 6, 4, 5}), w = Floats(weight, {5}),
               out[] = {Floats(scales, {2, 6}), Floats(shifts, {2, 6})};
  const auto run = [&](std::vector<Tensor> in, std::vector<int64_t> ints) {
    const double eps = 1e-5;
    return kernels::Run(*FindKernel("group_scales"), {.in = in, .out = out, .ints = ints, .floats = {&eps, 1}});
  };
  EXPECT_EQ(run({x}, {0, 3}), nullptr);
  for (const int64_t groups : {int64_t{0}, int64_t{-2}, int64_t{4}, int64_t{12}, std::numeric_limits<int64_t>::min()})
    EXPECT_NE(run({x}, {0, groups}), nullptr);
  EXPECT_NE(run({x, w}, {kNormHasWeight, 3}), nullptr);
  EXPECT_NE(run({x}, {kNormHasBias, 3}), nullptr);
  Tensor other = x;
  std::swap(other.strides[2], other.strides[3]), std::swap(other.sizes[2], other.sizes[3]);
  EXPECT_NE(run({other}, {0, 3}), nullptr);
  other = x, other.dtype = DType::kI32;
  EXPECT_NE(run({other}, {0, 3}), nullptr);
  other = x, other.sizes[1] = 3;
  EXPECT_NE(run({other}, {0, 3}), nullptr);
}

}  // namespace
}  // namespace slipway::kernels
