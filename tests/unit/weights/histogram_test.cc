// What a histogram counts: every finite value once, in steps that are powers of two.
#include "weights/histogram.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace slipway::weights {
namespace {

template <typename T>
Histogram Of(ir::DType dtype, const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  auto h = HistogramOf(ir::OwnedTensor(dtype, {static_cast<int64_t>(values.size())}, bytes));
  EXPECT_TRUE(h.ok() && h->has_value()) << h.status();
  return h.ok() && *h ? **h : Histogram();
}

// Each count is what lies between the edges of its step.
void ExpectCounts(const Histogram& h, const std::vector<double>& finite) {
  EXPECT_LE(h.counts.size(), 65u);
  EXPECT_EQ(std::accumulate(h.counts.begin(), h.counts.end(), int64_t{0}), static_cast<int64_t>(finite.size()));
  for (size_t i = 0; i < h.counts.size(); ++i) {
    const double from = h.from + h.width * static_cast<double>(i), to = from + h.width;
    EXPECT_EQ(h.counts[i], std::count_if(finite.begin(), finite.end(), [&](double v) { return v >= from && v < to; }))
        << "of step " << i << ", " << from << " to " << to;
  }
}

TEST(Histogram, CountsEachValue) {
  std::vector<double> values;
  for (int i = 0; i < 5000; ++i) values.push_back(std::sin(i * 1.7) * std::exp(i % 13));
  const Histogram h = Of(ir::DType::kFloat64, values);
  ExpectCounts(h, values);
  EXPECT_GE(h.counts.size(), 32u);
  EXPECT_EQ(h.elements, 5000);
}

TEST(Histogram, ValuesThatAreNone) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Histogram h = Of<float>(ir::DType::kFloat32, {nan, inf, -inf, 0, -0.0f, 2, nan});
  EXPECT_EQ(h.nan, 2);
  EXPECT_EQ(h.infinite, 2);
  EXPECT_EQ(h.zeros, 2);
  EXPECT_EQ(h.min, 0);
  EXPECT_EQ(h.max, 2);
  ExpectCounts(h, {0, 0, 2});
  EXPECT_TRUE(Of<float>(ir::DType::kFloat32, {nan, inf}).counts.empty());
}

TEST(Histogram, Extremes) {
  const double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
  const std::vector<double> far = {least, -least, 1, most / 4, -most / 4, 0};
  ExpectCounts(Of(ir::DType::kFloat64, far), far);
  // Edges beyond the greatest number are infinite; the counts are there all the same.
  const Histogram greatest = Of<double>(ir::DType::kFloat64, {most, -most, 0.0});
  EXPECT_EQ(std::accumulate(greatest.counts.begin(), greatest.counts.end(), int64_t{0}), 3);
  EXPECT_EQ(greatest.counts.front(), 1);
  EXPECT_EQ(greatest.counts.back(), 1);
  ExpectCounts(Of<double>(ir::DType::kFloat64, {0, 0, 0}), {0, 0, 0});
  EXPECT_EQ(Of<double>(ir::DType::kFloat64, {0, 0, 0}).counts.size(), 1u);
  EXPECT_EQ(Of<double>(ir::DType::kFloat64, {}).counts.size(), 0u);
}

TEST(Histogram, TypesWithoutNumbers) {
  const auto complex = HistogramOf(ir::OwnedTensor(ir::DType::kComplex64, {1}, std::string(8, '\0')));
  ASSERT_TRUE(complex.ok());
  EXPECT_FALSE(complex->has_value());
  ir::TensorRef bad = ir::OwnedTensor(ir::DType::kFloat32, {2}, std::string(8, '\0'));
  bad.sizes = {3};
  EXPECT_FALSE(HistogramOf(bad).ok());
}

}  // namespace
}  // namespace slipway::weights
