// Differences of tensors (weights/compare.h): tolerance, units in the last place, NaN, every kind of type.
#include "weights/compare.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/floats.h"
#include "gtest/gtest.h"

namespace slipway::weights {
namespace {

using ir::DType;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

template <typename T>
ir::TensorRef Tensor(DType dtype, std::vector<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return ir::OwnedTensor(dtype, {static_cast<int64_t>(values.size())}, std::move(bytes));
}
ir::TensorRef F32(std::vector<float> v) { return Tensor(DType::kFloat32, std::move(v)); }

Difference Of(const ir::TensorRef& a, const ir::TensorRef& b, Tolerance t = {}) {
  auto d = Compare(a, b, t);
  EXPECT_TRUE(d.ok()) << d.status();
  return *d;
}

TEST(Compare, CountsAndMeasures) {
  const Difference d = Of(F32({1, 2, 0, 4}), F32({1, 2.5, 0.25, 3}));
  EXPECT_EQ(d.elements, 4);
  EXPECT_EQ(d.unequal, 3);
  EXPECT_EQ(d.first, 1);
  EXPECT_EQ(d.first_a, 2);
  EXPECT_EQ(d.first_b, 2.5);
  EXPECT_EQ(d.max_abs, 1);
  EXPECT_EQ(d.max_rel, kInf);  // beside 0
}

TEST(Compare, ToleranceIsOfA) {
  // 1/8 + 1/8 of a.
  const Tolerance t{.rtol = 0.125, .atol = 0.125};
  EXPECT_EQ(Of(F32({8, 0, -8}), F32({9, 0.125, -6.875}), t).unequal, 0);
  EXPECT_EQ(Of(F32({8, 0, -8}), F32({9.25, 0.25, -6.75}), t).unequal, 3);
  EXPECT_EQ(Of(F32({8}), F32({9.25}), t).max_abs, 1.25);  // of equal ones as well
}

TEST(Compare, UnitsInTheLastPlace) {
  const float next = std::nextafterf(1, 2);
  EXPECT_EQ(Of(F32({1}), F32({next})).max_ulp, 1u);
  EXPECT_EQ(Of(F32({0}), F32({-std::numeric_limits<float>::denorm_min()})).max_ulp, 1u);  // 0 and -0 are one
  EXPECT_EQ(
      Of(F32({std::numeric_limits<float>::denorm_min()}), F32({-std::numeric_limits<float>::denorm_min()})).max_ulp,
      2u);
  EXPECT_EQ(Of(F32({std::numeric_limits<float>::max()}), F32({std::numeric_limits<float>::infinity()})).max_ulp, 1u);
  EXPECT_EQ(Of(Tensor<double>(DType::kFloat64, {1}), Tensor<double>(DType::kFloat64, {-1})).max_ulp,
            2 * std::bit_cast<uint64_t>(1.0));
  EXPECT_EQ(Of(Tensor<uint16_t>(DType::kFloat16, {0x3c00}), Tensor<uint16_t>(DType::kFloat16, {0x3c03})).max_ulp, 3u);
  EXPECT_EQ(Of(Tensor<uint16_t>(DType::kBFloat16, {0x3f80}), Tensor<uint16_t>(DType::kBFloat16, {0x3f7f})).max_ulp, 1u);
  EXPECT_FALSE(Of(Tensor<int32_t>(DType::kInt32, {1}), Tensor<int32_t>(DType::kInt32, {2})).has_ulp);
}

TEST(Compare, PatternsOfNan) {
  const float nan = std::bit_cast<float>(0x7fc00000), other = std::bit_cast<float>(0xffc12345),
              inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Of(F32({nan, 1}), F32({other, 1})).unequal, 0);
  const Difference d = Of(F32({nan, 1, 2}), F32({1, nan, 2}), {.atol = 100});
  EXPECT_EQ(d.unequal, 2);
  EXPECT_EQ(d.one_nan, 2);
  EXPECT_EQ(d.max_abs, 0);
  EXPECT_EQ(Of(F32({0.0f}), F32({-0.0f})).unequal, 0);
  EXPECT_EQ(Of(F32({inf, -inf}), F32({inf, -inf})).unequal, 0);
  // What is near an infinity is not equal to it, whatever the tolerance.
  EXPECT_EQ(Of(F32({inf}), F32({3e38f}), {.rtol = 1, .atol = 1e30}).unequal, 1);
  EXPECT_EQ(Of(F32({3e38f}), F32({inf}), {.rtol = 1, .atol = 1e30}).unequal, 1);
  EXPECT_EQ(Of(F32({inf}), F32({-inf}), {.rtol = 1}).unequal, 1);
}

TEST(Compare, IntegersAndBool) {
  EXPECT_EQ(Of(Tensor<int64_t>(DType::kInt64, {INT64_MIN, 5}), Tensor<int64_t>(DType::kInt64, {INT64_MAX, 5})).max_abs,
            std::ldexp(1.0, 64));
  EXPECT_EQ(
      Of(Tensor<uint64_t>(DType::kUInt64, {UINT64_MAX}), Tensor<uint64_t>(DType::kUInt64, {UINT64_MAX - 1})).max_abs,
      1);
  EXPECT_EQ(Of(Tensor<int8_t>(DType::kInt8, {10, 20}), Tensor<int8_t>(DType::kInt8, {11, 22}), {.atol = 1}).unequal, 1);
  EXPECT_EQ(Of(Tensor<uint8_t>(DType::kBool, {0, 1}), Tensor<uint8_t>(DType::kBool, {1, 1})).unequal, 1);
}

TEST(Compare, ComplexAndPackedTypes) {
  const Difference c = Of(Tensor<float>(DType::kComplex64, {}), Tensor<float>(DType::kComplex64, {}));
  EXPECT_EQ(c.elements, 0);
  Comparison complex(DType::kComplex64, {});
  const float a[] = {3, 0, 1, 1}, b[] = {0, 4, 1, 1};
  complex.Add(reinterpret_cast<const uint8_t*>(a), reinterpret_cast<const uint8_t*>(b), 2);
  EXPECT_EQ(complex.result().unequal, 1);
  EXPECT_EQ(complex.result().max_abs, 5);
  Comparison four(DType::kInt4, {});
  const uint8_t x[] = {0x21, 0x03}, y[] = {0x31, 0x05};
  four.Add(x, y, 3);
  EXPECT_EQ(four.result().unequal, 2);
  EXPECT_EQ(four.result().first, 1);
}

TEST(Compare, GoesOnInRuns) {
  Comparison c(DType::kFloat32, {});
  const float a[] = {1, 2}, b[] = {1, 3};
  c.Add(reinterpret_cast<const uint8_t*>(a), reinterpret_cast<const uint8_t*>(a), 2);
  c.Add(reinterpret_cast<const uint8_t*>(a), reinterpret_cast<const uint8_t*>(b), 2);
  EXPECT_EQ(c.result().elements, 4);
  EXPECT_EQ(c.result().first, 3);
}

TEST(Compare, AsDoubles) {
  EXPECT_EQ(*ToDoubles(Tensor<uint16_t>(DType::kBFloat16, {0x3f80, 0xc000})), (std::vector<double>{1, -2}));
  EXPECT_EQ(*ToDoubles(Tensor<int8_t>(DType::kInt8, {-3})), (std::vector<double>{-3}));
  EXPECT_EQ(*ToDoubles(Tensor<uint8_t>(DType::kFloat8E5M2, {0x3c})), (std::vector<double>{1}));
  EXPECT_FALSE(ToDoubles(Tensor<float>(DType::kComplex64, {})).ok());
  EXPECT_EQ(RootMeanSquare({3.0, kNan, kInf, -3.0}), 3);
  EXPECT_EQ(RootMeanSquare({}), 0);
}

}  // namespace
}  // namespace slipway::weights
