// The instruction sets' functions of f32 beside those of the C library in f64, in units in the last place.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/isa/isa.h"
#include "kernels/isa/names.h"

namespace slipway::kernels {
namespace {

std::vector<const Isa*> Present() {
  std::vector<const Isa*> all;
  for (const char* name : {"v2", "avx2", "avx512", "neon"})
    if (const Isa* isa = FindIsa(name))
      all.push_back(isa);
    else
      std::printf("not run: %s\n", name);
  return all;
}

double Ulps(float got, double want) {
  const float near = static_cast<float>(want);
  if (got == near || (std::isnan(got) && std::isnan(want))) return 0;
  const double ulp = std::max(std::ldexp(1.0, std::ilogb(near == 0 ? 1e-45f : near) - 23), std::ldexp(1.0, -149));
  return std::fabs(got - want) / ulp;
}

TEST(Isa, FunctionsAreWithinAFewUlps) {
  struct Row {
    RowOp op;
    double (*exact)(double);
    double ulps;
    float low, high;
  };
  const Row rows[] = {
      {RowOp::kExp, [](double x) { return std::exp(x); }, 3, -104, 89},
      {RowOp::kTanh, [](double x) { return std::tanh(x); }, 6, -12, 12},
      {RowOp::kErf, [](double x) { return std::erf(x); }, 4, -5, 5},
      {RowOp::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 4, -80, 80},
      {RowOp::kSilu, [](double x) { return x / (1 + std::exp(-x)); }, 4, -80, 80},
      {RowOp::kSqrt, [](double x) { return std::sqrt(x); }, 0.51, 0, 1e9f},
      {RowOp::kRsqrt, [](double x) { return 1 / std::sqrt(x); }, 2, 1e-3f, 1e9f},
      {RowOp::kHardSwish, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }, 3, -2, 5},
      {RowOp::kLog, [](double x) { return std::log(x); }, 2, 1e-3f, 1e9f},
      {RowOp::kLog1p, [](double x) { return std::log1p(x); }, 3, -0.999f, 1e6f},
      {RowOp::kExpm1, [](double x) { return std::expm1(x); }, 3, -30, 88},
      {RowOp::kSin, [](double x) { return std::sin(x); }, 2, -3, 3},
      {RowOp::kCos, [](double x) { return std::cos(x); }, 2, -1.5f, 1.5f},
      {RowOp::kMish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, 6, -60, 60},
  };
  for (const Isa* isa : Present())
    for (const Row& r : rows) {
      std::vector<float> x, y;
      for (int i = 0; i <= 20003; ++i) x.push_back(r.low + (r.high - r.low) * (static_cast<float>(i) / 20003));
      for (float small = 1e-30f; small < 1; small *= 1.7f) x.push_back(small);
      y.resize(x.size());
      isa->elementwise.unary[static_cast<int>(r.op)](x.data(), y.data(), static_cast<int64_t>(x.size()));
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(Ulps(y[i], r.exact(x[i])), r.ulps)
            << isa->name << " op " << static_cast<int>(r.op) << " of " << x[i] << ": " << y[i];
    }
}

TEST(Isa, GeluIsNearTheExactOne) {
  for (const Isa* isa : Present())
    for (int i = -8000; i <= 8000; ++i) {
      const float x = static_cast<float>(i) / 1000;
      float y, z;
      isa->elementwise.unary[static_cast<int>(RowOp::kGelu)](&x, &y, 1);
      isa->elementwise.unary[static_cast<int>(RowOp::kGeluTanh)](&x, &z, 1);
      const double t = x;
      ASSERT_NEAR(y, t * 0.5 * std::erfc(-t * std::sqrt(0.5)), 1e-6) << isa->name << " " << x;
      ASSERT_NEAR(z, t * 0.5 * (1 + std::tanh(0.7978845608028654 * (t + 0.044715 * t * t * t))), 1e-6)
          << isa->name << " " << x;
    }
  for (const Isa* isa : Present())
    for (float x : {-6.0f, -100.0f, -1e4f, -1e30f})
      for (RowOp op : {RowOp::kGelu, RowOp::kGeluTanh}) {
        float y;
        isa->elementwise.unary[static_cast<int>(op)](&x, &y, 1);
        EXPECT_EQ(y, 0) << isa->name << " " << x;
      }
}

TEST(Isa, InfinitiesAndNan) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const Isa* isa : Present()) {
    auto of = [&](RowOp op, float x) {
      float y;
      isa->elementwise.unary[static_cast<int>(op)](&x, &y, 1);
      return y;
    };
    EXPECT_EQ(of(RowOp::kExp, inf), inf);
    EXPECT_EQ(of(RowOp::kExp, 1000), inf);
    EXPECT_EQ(of(RowOp::kExp, -inf), 0);
    EXPECT_EQ(of(RowOp::kTanh, inf), 1);
    EXPECT_EQ(of(RowOp::kTanh, -inf), -1);
    EXPECT_EQ(of(RowOp::kErf, -inf), -1);
    EXPECT_EQ(of(RowOp::kSigmoid, -inf), 0);
    EXPECT_EQ(of(RowOp::kSigmoid, inf), 1);
    EXPECT_EQ(of(RowOp::kRelu, -0.5f), 0);
    EXPECT_EQ(of(RowOp::kLog, 0), -inf);
    EXPECT_EQ(of(RowOp::kLog, inf), inf);
    EXPECT_TRUE(std::isnan(of(RowOp::kLog, -1)));
    EXPECT_NEAR(of(RowOp::kLog, 1e-42f), std::log(1e-42f), 1e-4);
    EXPECT_EQ(of(RowOp::kLog1p, inf), inf);
    EXPECT_EQ(of(RowOp::kLog1p, -1), -inf);
    EXPECT_EQ(of(RowOp::kExpm1, inf), inf);
    EXPECT_EQ(of(RowOp::kExpm1, -inf), -1);
    EXPECT_EQ(of(RowOp::kHardSwish, inf), inf);
    EXPECT_EQ(of(RowOp::kMish, inf), inf);
    EXPECT_TRUE(std::isnan(of(RowOp::kSin, inf)));
    EXPECT_TRUE(std::isnan(of(RowOp::kSilu, -inf)));
    EXPECT_EQ(of(RowOp::kSilu, -200), 0);
    for (float x : {1e3f, 1e5f, 7e8f, -5e8f}) {
      EXPECT_NEAR(of(RowOp::kSin, x), std::sin(static_cast<double>(x)), 2e-7) << isa->name << " " << x;
      EXPECT_NEAR(of(RowOp::kCos, x), std::cos(static_cast<double>(x)), 2e-7) << isa->name << " " << x;
    }
    for (RowOp op : {RowOp::kLog, RowOp::kLog1p, RowOp::kExpm1, RowOp::kSin, RowOp::kCos, RowOp::kMish,
                     RowOp::kHardSwish, RowOp::kHardSigmoid, RowOp::kExp, RowOp::kTanh, RowOp::kErf, RowOp::kSigmoid,
                     RowOp::kSilu, RowOp::kGelu, RowOp::kRelu})
      EXPECT_TRUE(std::isnan(of(op, nan))) << isa->name << " " << static_cast<int>(op);
    EXPECT_TRUE(std::signbit(of(RowOp::kTanh, -0.0f)));
  }
}

TEST(Isa, RowsOfAllLengths) {
  for (const Isa* isa : Present())
    for (int64_t n = 1; n < 70; ++n) {
      std::vector<float> x(n), y(n), weight(n), bias(n);
      for (int64_t i = 0; i < n; ++i)
        x[i] = std::sin(static_cast<float>(i * i)) * 5, weight[i] = static_cast<float>(i % 3),
        bias[i] = static_cast<float>(i % 5) - 2;
      double most = x[0], sum = 0, mean = 0, variance = 0;
      for (float v : x) most = std::max<double>(most, v), mean += v / static_cast<double>(n);
      for (float v : x) sum += std::exp(v - most), variance += (v - mean) * (v - mean) / static_cast<double>(n);
      isa->reduction.softmax(x.data(), y.data(), n);
      for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], std::exp(x[i] - most) / sum, 1e-6) << isa->name << " " << n;
      isa->reduction.log_softmax(x.data(), y.data(), n);
      for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], x[i] - most - std::log(sum), 1e-5) << isa->name << " " << n;
      isa->reduction.layer_norm(x.data(), weight.data(), bias.data(), 1e-5f, y.data(), n);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_NEAR(y[i], (x[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i], 1e-4)
            << isa->name << " " << n;
      for (int one : {0, 1, 2}) {
        isa->elementwise.binary[static_cast<int>(PairOp::kDiv)](x.data(), bias.data(), y.data(), n, one);
        for (int64_t i = 0; i < n; ++i) {
          const float want = x[one == 1 ? 0 : i] / bias[one == 2 ? 0 : i];
          ASSERT_TRUE(y[i] == want || (std::isnan(want) && std::isnan(y[i])));
        }
      }
    }
}

TEST(Isa, MatricesAreTransposed) {
  for (const Isa* isa : Present())
    for (int64_t rows : {1, 3, 4, 15, 16, 17, 40, 64, 65, 130})
      for (int64_t columns : {1, 2, 4, 7, 8, 15, 16, 20, 33}) {
        const int64_t from_stride = rows + 3, to_stride = columns + 2;
        std::vector<uint32_t> from(static_cast<size_t>(columns * from_stride)),
            to(static_cast<size_t>(rows * to_stride), 7);
        // any bits, those of NaN too
        for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint32_t>(i * 2654435761u);
        isa->elementwise.transpose(from.data(), from_stride, to.data(), to_stride, rows, columns);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < to_stride; ++j)
            ASSERT_EQ(to[static_cast<size_t>(i * to_stride + j)],
                      j < columns ? from[static_cast<size_t>(j * from_stride + i)] : 7)
                << isa->name << " " << rows << " x " << columns << " at " << i << "," << j;
      }
}

TEST(Isa, BytesAreWidened) {
  std::vector<int8_t> bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<int8_t>(i * 37));
  for (const char* name : {"v2", "avx2", "avx512", "neon"}) {
    const Isa* isa = FindIsa(name);
    for (int64_t n = 1; isa != nullptr && n < 100; ++n) {
      std::vector<float> to(static_cast<size_t>(n) + 1, 7);
      isa->elementwise.convert_to_f32(bytes.data() + 1, DType::kI8, to.data(), n);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(to[static_cast<size_t>(i)], static_cast<float>(bytes[static_cast<size_t>(i) + 1])) << name;
      ASSERT_EQ(to.back(), 7);
    }
  }
}

// The sets between two whole ones may be missing; a whole one ends the choice, and a build may begin with a later one.
TEST(Isa, TheLastPresentIsChosen) {
  const auto choose = [](std::vector<IsaPresence> sets, const char* cap = nullptr) {
    const int i = ChooseIsa(sets.data(), static_cast<int>(sets.size()), cap);
    return std::string(i < 0 ? "none" : sets[static_cast<size_t>(i)].name);
  };
  EXPECT_EQ(choose({{"v2", true, true}, {"avx2", true, true}, {"avxvnni", false, false}, {"avx512", true, true}}),
            "avx512");
  EXPECT_EQ(choose({{"v2", true, true}, {"avx2", true, true}, {"avxvnni", false, true}, {"avx512", true, false}}),
            "avxvnni");
  EXPECT_EQ(choose({{"v2", true, true}, {"avx2", true, false}, {"avxvnni", false, true}}), "v2");
  EXPECT_EQ(choose({{"v2", true, true}, {"avx2", true, true}, {"avx512", true, true}}, "avx2"), "avx2");
  EXPECT_EQ(choose({{"avx2", true, true}}), "avx2");
  EXPECT_EQ(choose({{"avx2", true, false}}), "none");
  EXPECT_EQ(choose({{"avx512", true, false}, {"avx512vnni", false, true}}), "none");
}

// What this build has and what it says of itself agree.
TEST(Isa, ABuildHasASetOfThisProcessor) {
  ASSERT_EQ(IsaError(), nullptr);
  bool found = false;
  for (int i = 0; const char* name = IsaName(i); ++i) found = found || std::string(name) == BestIsaName();
  EXPECT_TRUE(found) << BestIsaName();
}

}  // namespace
}  // namespace slipway::kernels
