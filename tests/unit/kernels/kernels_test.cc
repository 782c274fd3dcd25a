// Kernels on views: what strides, conversions and torch's own rules for numbers make of them. Numbers at large are
// compared with torch by tests/interop/planner_test.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/convert.h"
#include "kernels/nearest_index.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"

namespace slipway::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
constexpr DType kTypeOf = std::is_same_v<T, bool>       ? DType::kBool
                          : std::is_same_v<T, uint8_t>  ? DType::kU8
                          : std::is_same_v<T, int8_t>   ? DType::kI8
                          : std::is_same_v<T, int32_t>  ? DType::kI32
                          : std::is_same_v<T, int64_t>  ? DType::kI64
                          : std::is_same_v<T, uint16_t> ? DType::kU16
                          : std::is_same_v<T, uint32_t> ? DType::kU32
                          : std::is_same_v<T, uint64_t> ? DType::kU64
                          : std::is_same_v<T, float>    ? DType::kF32
                          : std::is_same_v<T, double>   ? DType::kF64
                          : std::is_same_v<T, F16>      ? DType::kF16
                          : std::is_same_v<T, E8M0>     ? DType::kF8E8M0
                                                        : DType::kBF16;

// A tensor with its memory.
template <typename T>
struct Owned {
  std::vector<T> data;
  std::vector<int64_t> sizes;
  Owned(std::vector<int64_t> s, std::vector<T> d) : data(std::move(d)), sizes(std::move(s)) {}
  Tensor view() {
    Tensor t;
    t.data = data.data();
    t.dtype = kTypeOf<T>;
    t.rank = static_cast<int>(sizes.size());
    int64_t step = 1;
    for (int d = t.rank - 1; d >= 0; --d) t.sizes[d] = sizes[d], t.strides[d] = step, step *= sizes[d];
    return t;
  }
};

const char* Call1(std::string_view name, std::vector<Tensor> in, std::vector<Tensor> out, DType compute,
                  std::vector<int64_t> ints = {}, std::vector<double> floats = {}) {
  const Kernel* k = FindKernel(name);
  EXPECT_NE(k, nullptr) << name;
  return k ? Run(*k, {in, out, compute, ints, floats}) : "no kernel";
}

TEST(Kernels, NamesAreDistinct) {
  std::vector<std::string_view> names;
  for (auto table : {UnaryKernels(), BinaryKernels(), MoveKernels(), IndexKernels(), ReduceKernels(), MatmulKernels(),
                     NormalizeKernels()})
    for (const Kernel& k : table) names.push_back(k.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_EQ(FindKernel("no such kernel"), nullptr);
}

TEST(Kernels, CopyTransposesReversesAndConverts) {
  Owned<float> x({2, 3}, {0, 1.9f, -1.9f, 300, -0.5f, 5});
  Owned<uint8_t> y({3, 2}, std::vector<uint8_t>(6));
  Tensor t = x.view();
  std::swap(t.sizes[0], t.sizes[1]);
  std::swap(t.strides[0], t.strides[1]);
  EXPECT_EQ(Call1("copy", {t}, {y.view()}, DType::kU8), nullptr);
  EXPECT_EQ(y.data, (std::vector<uint8_t>{0, 44, 1, 0, 255, 5}));  // torch: truncate, then wrap
  Owned<float> z({2, 3}, std::vector<float>(6));
  Tensor r = x.view();
  r.data = static_cast<float*>(r.data) + 5;
  r.strides[0] = -3;
  r.strides[1] = -1;
  EXPECT_EQ(Call1("copy", {r}, {z.view()}, DType::kF32), nullptr);
  EXPECT_EQ(z.data, (std::vector<float>{5, -0.5f, 300, -1.9f, 1.9f, 0}));
}

TEST(Kernels, LongRowsGoThroughBlocks) {
  const int64_t n = 1300;
  Owned<float> x({n}, std::vector<float>(n)), y({n}, std::vector<float>(n));
  for (int64_t i = 0; i < n; ++i) x.data[i] = static_cast<float>(i);
  EXPECT_EQ(Call1("square", {x.view()}, {y.view()}, DType::kF32), nullptr);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y.data[i], static_cast<float>(i) * static_cast<float>(i));
}

TEST(Kernels, HalfPrecisionRoundsOnce) {
  Owned<F16> x({1}, {F16(0.1f)});
  Owned<double> factor({1}, {0.1});
  Owned<F16> y({1}, {F16(0)});
  EXPECT_EQ(Call1("mul", {x.view(), factor.view()}, {y.view()}, DType::kF32), nullptr);
  EXPECT_EQ(static_cast<float>(y.data[0]), static_cast<float>(F16(static_cast<float>(F16(0.1f)) * 0.1f)));
  Owned<float> z({3},
                 {1.00390625f, 1.01171875f, static_cast<float>(kNan)});  // halves between bf16 neighbours go to even
  Owned<BF16> b({3}, std::vector<BF16>(3));
  EXPECT_EQ(Call1("copy", {z.view()}, {b.view()}, DType::kBF16), nullptr);
  EXPECT_EQ(static_cast<float>(b.data[0]), 1.0f);
  EXPECT_EQ(static_cast<float>(b.data[1]), 1.015625f);
  EXPECT_TRUE(std::isnan(static_cast<float>(b.data[2])));
}

TEST(Kernels, IntegersWrapAndDivideAsTorchDoes) {
  Owned<int8_t> x({4}, {100, -7, 7, -128}), y({4}, {100, 2, -2, -1}), z({4}, std::vector<int8_t>(4));
  auto binary = [&](const char* name) {
    EXPECT_EQ(Call1(name, {x.view(), y.view()}, {z.view()}, DType::kI8), nullptr);
    return z.data;
  };
  EXPECT_EQ(binary("add"), (std::vector<int8_t>{-56, -5, 5, 127}));
  EXPECT_EQ(binary("div_floor"), (std::vector<int8_t>{1, -4, -4, -128}));
  EXPECT_EQ(binary("div_trunc"), (std::vector<int8_t>{1, -3, -3, -128}));
  EXPECT_EQ(binary("remainder"), (std::vector<int8_t>{0, 1, -1, 0}));
  EXPECT_EQ(binary("fmod"), (std::vector<int8_t>{0, -1, 1, 0}));
  y.data = {1, 2, 0, 1};
  EXPECT_STREQ(Call1("div_floor", {x.view(), y.view()}, {z.view()}, DType::kI8), "division by zero");
  EXPECT_STREQ(Call1("sin", {x.view()}, {z.view()}, DType::kI8), "the operator is for floating-point numbers");
}

template <typename T>
void ChecksUnsigned() {
  constexpr T kMost = std::numeric_limits<T>::max(), kHalf = kMost / 2 + 1;
  Owned<T> x({4}, {kMost, 7, kHalf, 1}), y({4}, {2, kMost, kHalf, 3}), z({4}, std::vector<T>(4));
  const auto of = [&](const char* name, std::vector<int64_t> ints = {}) {
    EXPECT_EQ(Call1(name, {x.view(), y.view()}, {z.view()}, kTypeOf<T>, std::move(ints)), nullptr) << name;
    return z.data;
  };
  EXPECT_EQ(of("add"), (std::vector<T>{1, 6, 0, 4}));
  EXPECT_EQ(of("sub"), (std::vector<T>{kMost - 2, 8, 0, static_cast<T>(-2)}));
  EXPECT_EQ(of("mul"), (std::vector<T>{static_cast<T>(-2), static_cast<T>(-7), 0, 3}));
  EXPECT_EQ(of("div_floor"), (std::vector<T>{kMost / 2, 0, 1, 0}));
  EXPECT_EQ(of("div_trunc"), (std::vector<T>{kMost / 2, 0, 1, 0}));
  EXPECT_EQ(of("remainder"), (std::vector<T>{1, 7, 0, 1}));
  EXPECT_EQ(of("fmod"), (std::vector<T>{1, 7, 0, 1}));
  // Odd numbers to the power of -1: their inverses modulo 2^bits. The greatest is its own.
  const std::vector<T> powers = of("pow");
  EXPECT_EQ(powers[0], T{1});
  EXPECT_EQ(static_cast<T>(uint64_t{powers[1]} * 7), T{1});
  EXPECT_EQ(powers[2], T{0});
  constexpr int64_t kBits = 8 * sizeof(T);
  y.data = {1, kBits, kBits - 1, 0};
  EXPECT_EQ(of("shift_right", {kBits}), (std::vector<T>{kMost / 2, 0, 1, 1}));
  EXPECT_EQ(of("shift_left", {kBits}), (std::vector<T>{kMost - 1, 0, 0, 1}));
  y.data[0] = 0;
  EXPECT_STREQ(Call1("div_floor", {x.view(), y.view()}, {z.view()}, kTypeOf<T>), "division by zero");
  // Conversions take the whole range.
  Owned<float> f({4}, std::vector<float>(4));
  EXPECT_EQ(Call1("copy", {x.view()}, {f.view()}, DType::kF32), nullptr);
  EXPECT_EQ(f.data, (std::vector<float>{static_cast<float>(kMost), 7, static_cast<float>(kHalf), 1}));
  f.data = {static_cast<float>(kHalf), 7.9f, 0, 1};
  EXPECT_EQ(Call1("copy", {f.view()}, {z.view()}, kTypeOf<T>), nullptr);
  EXPECT_EQ(z.data, (std::vector<T>{kHalf, 7, 0, 1}));
}
TEST(Kernels, UnsignedIntegersAreNeverNegative) {
  ChecksUnsigned<uint16_t>();
  ChecksUnsigned<uint32_t>();
  ChecksUnsigned<uint64_t>();
}

TEST(Kernels, PowersOfTwoAreTheNearest) {
  for (int code = 0; code < 255; ++code) {
    E8M0 x;
    x.bits = static_cast<uint8_t>(code);
    ASSERT_EQ(static_cast<float>(x), std::ldexp(1.0f, code - 127));
    ASSERT_EQ(E8M0(static_cast<float>(x)).bits, code);
    if (code == 0) continue;
    const float middle = 1.5f * static_cast<float>(x);
    ASSERT_EQ(E8M0(middle).bits, code + 1);
    ASSERT_EQ(E8M0(std::nextafter(middle, 0.0f)).bits, code);
  }
  EXPECT_EQ(E8M0(0.0f).bits, 0);
  EXPECT_EQ(E8M0(-4.0f).bits, 129);
  EXPECT_EQ(E8M0(std::numeric_limits<float>::infinity()).bits, 255);
  EXPECT_TRUE(std::isnan(static_cast<float>(E8M0(static_cast<float>(kNan)))));
  Owned<double> x({2}, {3, 0.25});
  Owned<E8M0> y({2}, std::vector<E8M0>(2));
  EXPECT_EQ(Call1("copy", {x.view()}, {y.view()}, DType::kU8), nullptr);
  EXPECT_EQ(y.data[0].bits, 129);
  EXPECT_EQ(y.data[1].bits, 125);
}

TEST(Kernels, FloatsDivideAndCompareAsTorchDoes) {
  Owned<float> x({4}, {-7, 7, 1, static_cast<float>(kNan)}), y({4}, {2, -2, 0, 1}), z({4}, std::vector<float>(4));
  auto binary = [&](const char* name) {
    EXPECT_EQ(Call1(name, {x.view(), y.view()}, {z.view()}, DType::kF32), nullptr);
    return z.data;
  };
  std::vector<float> floor = binary("div_floor");
  EXPECT_EQ(floor[0], -4);
  EXPECT_EQ(floor[1], -4);
  EXPECT_TRUE(std::isinf(floor[2]));
  EXPECT_EQ(binary("remainder")[0], 1);
  EXPECT_TRUE(std::isnan(binary("maximum")[3]));
  EXPECT_EQ(binary("fmax")[3], 1);
  std::swap(x.data, y.data);
  EXPECT_TRUE(std::isnan(binary("minimum")[3]));
  EXPECT_EQ(binary("fmin")[3], 1);
}

TEST(Kernels, ReductionsOverStridedDims) {
  Owned<int32_t> x({2, 3}, {1, 2, 3, 4, 5, 6});
  Owned<int64_t> y({3}, std::vector<int64_t>(3));
  Tensor t = x.view();
  std::swap(t.sizes[0], t.sizes[1]);
  std::swap(t.strides[0], t.strides[1]);
  auto reduce = [&](const char* name) {
    EXPECT_EQ(Call1(name, {t}, {y.view()}, DType::kI64, {1}), nullptr);
    return y.data;
  };
  EXPECT_EQ(reduce("sum"), (std::vector<int64_t>{5, 7, 9}));
  EXPECT_EQ(reduce("prod"), (std::vector<int64_t>{4, 10, 18}));
  EXPECT_EQ(reduce("amax"), (std::vector<int64_t>{4, 5, 6}));
  EXPECT_EQ(reduce("argmin"), (std::vector<int64_t>{0, 0, 0}));
  Owned<float> f({3}, {2, static_cast<float>(kNan), 9}), m({}, {0});
  EXPECT_EQ(Call1("amax", {f.view()}, {m.view()}, DType::kF32, {1}), nullptr);
  EXPECT_TRUE(std::isnan(m.data[0]));
  Owned<int64_t> at({}, {0});
  EXPECT_EQ(Call1("argmax", {f.view()}, {at.view()}, DType::kF32, {1}), nullptr);
  EXPECT_EQ(at.data[0], 1);
  EXPECT_EQ(Call1("sum", {Tensor{.rank = 1, .sizes = {0}, .strides = {1}}}, {m.view()}, DType::kF32, {1}), nullptr);
  EXPECT_EQ(m.data[0], 0);
}

// Many rows are summed up in parts; the bits do not depend on the threads.
TEST(Kernels, SumsOfRows) {
  const std::unique_ptr<ThreadPool> pool = ThreadPool::Make(3);
  const int64_t batch = 2, rows = 61, n = 331;
  Owned<float> x({batch, rows, n}, std::vector<float>(batch * rows * n)), y({batch, n}, std::vector<float>(batch * n));
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<float>(i * 2654435761u % 1000) / 7 - 60;
  Tensor t = x.view();
  std::swap(t.sizes[1], t.sizes[2]);
  std::swap(t.strides[1], t.strides[2]);
  for (const char* name : {"sum", "mean"}) {
    const std::vector<Tensor> in = {t}, out = {y.view()};
    const std::vector<int64_t> ints = {1};
    std::vector<float> alone;
    for (const Workers* workers : {static_cast<const Workers*>(nullptr), pool ? &pool->workers() : nullptr}) {
      EXPECT_EQ(kernels::Run(*FindKernel(name), {in, out, DType::kF32, ints, {}, workers}), nullptr);
      if (workers == nullptr) alone = y.data;
    }
    EXPECT_EQ(y.data, alone);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r) sum += static_cast<double>(x.data[(b * rows + r) * n + j]);
        ASSERT_FLOAT_EQ(y.data[b * n + j], static_cast<float>(name[0] == 's' ? sum : sum / rows))
            << name << ' ' << b << ' ' << j;
      }
  }
}

// Copies of the nearest elements, as torch chooses them, for images of planes and with channels last, lying in a larger
// one or not.
template <typename T>
void CheckNearest(std::vector<int64_t> in, std::vector<int64_t> to, bool exact, std::vector<double> factors,
                  bool from_last, bool to_last) {
  const auto count = [](const std::vector<int64_t>& sizes) {
    return sizes[0] * sizes[1] * sizes[2] * sizes[3] * sizes[4];
  };
  Owned<T> x(in, std::vector<T>(static_cast<size_t>(count(in)))),
      y(to, std::vector<T>(static_cast<size_t>(2 * count(to)), T(1)));
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = T(static_cast<int>(i * 7 % 251));
  Tensor from = x.view(), out = y.view();
  const auto last = [](Tensor& t, int64_t pixel) {
    t.strides[1] = 1, t.strides[4] = pixel;
    for (int d = 3; d >= 2; --d) t.strides[d] = t.strides[d + 1] * t.sizes[d + 1];
    t.strides[0] = t.strides[2] * t.sizes[2];
  };
  if (from_last) last(from, from.sizes[1]);
  if (to_last) last(out, 2 * out.sizes[1]);
  ASSERT_EQ(Call1("resample_nearest", {from}, {out}, out.dtype, {exact, 3}, factors), nullptr);
  const auto at = [](const Tensor& t, const int64_t* i) {
    int64_t offset = 0;
    for (int d = 0; d < 5; ++d) offset += i[d] * t.strides[d];
    return static_cast<const T*>(t.data)[offset];
  };
  for (int64_t i = 0; i < count(to); ++i) {
    int64_t place[5], source[5];
    for (int64_t d = 4, rest = i; d >= 0; --d) place[d] = rest % to[d], rest /= to[d];
    for (int d = 0; d < 5; ++d) source[d] = place[d];
    for (int d = 2; d < 5; ++d) {
      const double factor = factors[static_cast<size_t>(d) - 2],
                   by = factor > 0 ? 1 / factor : static_cast<double>(in[d]) / static_cast<double>(to[d]);
      source[d] = std::min(in[d] - 1, static_cast<int64_t>((static_cast<double>(place[d]) + (exact ? 0.5 : 0)) * by));
    }
    ASSERT_EQ(at(out, place), at(from, source)) << i;
  }
}
TEST(Kernels, ResamplesByCopies) {
  for (bool from_last : {false, true})
    for (bool to_last : {false, true})
      for (bool exact : {false, true}) {
        CheckNearest<float>({2, 21, 1, 5, 37}, {2, 21, 1, 10, 74}, exact, {0, 2, 2}, from_last, to_last);
        CheckNearest<float>({1, 3, 2, 3, 5}, {1, 3, 4, 12, 20}, exact, {0, 0, 0}, from_last, to_last);
        CheckNearest<float>({1, 150, 1, 4, 9}, {1, 150, 1, 6, 5}, exact, {0, 0, 0}, from_last, to_last);
        CheckNearest<double>({1, 4, 1, 3, 9}, {1, 4, 1, 6, 18}, exact, {0, 2, 2}, from_last, to_last);
        CheckNearest<uint8_t>({1, 21, 1, 3, 9}, {1, 21, 1, 6, 18}, exact, {0, 2, 2}, from_last, to_last);
        ASSERT_FALSE(HasFatalFailure());
      }
  Owned<float> x({1, 2, 1, 0, 3}, {}), y({1, 2, 1, 2, 3}, std::vector<float>(12)),
      z({1, 3, 1, 2, 3}, std::vector<float>(18));
  EXPECT_NE(Call1("resample_nearest", {x.view()}, {y.view()}, DType::kF32, {0, 3}, {0, 0, 0}), nullptr);
  EXPECT_NE(Call1("resample_nearest", {y.view()}, {z.view()}, DType::kF32, {0, 3}, {0, 0, 0}), nullptr);
  EXPECT_EQ(Call1("resample_nearest", {y.view()}, {y.view()}, DType::kF32, {0, 2}, {0, 0, 0}), nullptr);
  EXPECT_NE(Call1("resample_nearest", {y.view()}, {y.view()}, DType::kF32, {0, 0}, {0, 0, 0}), nullptr);
  EXPECT_NE(Call1("resample_nearest", {y.view()}, {y.view()}, DType::kF32, {0, 4}, {0, 0, 0}), nullptr);
}

// Where rounding decides: what torch 2.13 reads.
TEST(NearestIndex, RoundsAsTorchDoes) {
  const auto reads = [](NearestRule r, int64_t in, int64_t out) {
    std::vector<int64_t> at;
    for (int64_t i = 0; i < out; ++i) at.push_back(NearestIndex(r, in, out, i));
    return at;
  };
  std::vector<int64_t> by_seven, half(47, 0);
  for (int64_t i = 0; i < 74; ++i) by_seven.push_back(7 * i);
  EXPECT_EQ(reads({}, 518, 74), by_seven);
  std::fill(half.begin() + 23, half.end(), 1);  // the middle of pixel 23 is where the two halves meet
  EXPECT_EQ(reads({.exact = true}, 2, 47), half);
  half[23] = 0;
  EXPECT_EQ(reads({.exact = true, .small = true}, 2, 47), half);
  EXPECT_EQ(reads({.factor = 1.3}, 3, 3), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(reads({.small = true, .factor = 1.3}, 3, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(reads({.factor = 2.4}, 2, 4), (std::vector<int64_t>{0, 0, 0, 1}));
  EXPECT_EQ(reads({.small = true, .factor = 2.4}, 2, 4), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_TRUE(IsSmallImage(2, 64, 64));
  EXPECT_FALSE(IsSmallImage(2, 64, 65) || IsSmallImage(1, 1, 5) || IsSmallImage(3, 2, 2) ||
               IsSmallImage(2, 1, INT64_MAX));
}

TEST(Kernels, IndicesAreChecked) {
  Owned<float> x({3, 2}, {0, 1, 2, 3, 4, 5}), y({2, 2}, std::vector<float>(4));
  Owned<int64_t> i({2}, {-1, 0});
  EXPECT_EQ(Call1("index", {x.view(), i.view()}, {y.view()}, DType::kF32, {true}), nullptr);
  EXPECT_EQ(y.data, (std::vector<float>{4, 5, 0, 1}));
  EXPECT_STREQ(Call1("index", {x.view(), i.view()}, {y.view()}, DType::kF32, {false}), "index out of range");
  for (int64_t wrong :
       {int64_t{3}, int64_t{-4}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    i.data[1] = wrong;
    EXPECT_STREQ(Call1("index", {x.view(), i.view()}, {y.view()}, DType::kF32, {true}), "index out of range");
  }
}

TEST(Kernels, SortIsStableAndPutsNanLast) {
  Owned<float> x({5}, {2, static_cast<float>(kNan), 1, 2, 0}), y({5}, std::vector<float>(5));
  Owned<int64_t> at({5}, std::vector<int64_t>(5));
  EXPECT_EQ(Call1("sort", {x.view()}, {y.view(), at.view()}, DType::kF32, {0}), nullptr);
  EXPECT_EQ(at.data, (std::vector<int64_t>{4, 2, 0, 3, 1}));
  EXPECT_EQ(Call1("sort", {x.view()}, {y.view(), at.view()}, DType::kF32, {1}), nullptr);
  EXPECT_EQ(at.data, (std::vector<int64_t>{1, 0, 3, 2, 4}));
}

}  // namespace
}  // namespace slipway::kernels
