// Statistics of layers' inputs beside sums taken the plain way, histograms beside sorted numbers, and GPTQ beside the
// method written out in doubles. tests/interop/calibration_test.py compares with torchao.
#include "quantizer/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/isa/isa.h"

namespace slipway::quantizer {
namespace {

std::vector<float> Normal(int64_t n, uint32_t seed, float by = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, by);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(random);
  return out;
}

Config Named(std::string_view name) { return ParseShortName(name).value(); }

std::unique_ptr<LayerStatistics> Collected(const Config& c, int64_t k, const std::vector<float>& x,
                                           const LayerStatistics::Options& o = {}, int64_t at_once = 1000,
                                           const kernels::Workers* workers = nullptr) {
  auto s = LayerStatistics::Make(c, k, o).value();
  const int64_t rows = static_cast<int64_t>(x.size()) / k;
  for (int64_t r = 0; r < rows; r += at_once)
    EXPECT_TRUE(s->Add(x.data() + r * k, std::min(at_once, rows - r), workers).ok());
  EXPECT_TRUE(s->Settle(workers).ok());
  return s;
}

ir::ShardedTensor Tensor(int64_t n, int64_t k, const std::vector<float>& w) {
  return ir::OwnedTensor(ir::DType::kFloat32, {n, k},
                         std::string(reinterpret_cast<const char*>(w.data()), w.size() * sizeof(float)));
}

// The parts of a weight, codes a byte each.
absl::StatusOr<std::vector<std::string>> Parts(const ir::ShardedTensor& w, const Config& c, const LayerStatistics& s,
                                               int threads) {
  auto scheme = Scheme::Make(c, w.dtype, w.sizes[0], w.sizes[1], {}).value();
  std::vector<std::string> parts(scheme->parts().size());
  auto done =
      QuantizeCalibrated(w, *scheme, s, threads, true, [&](size_t i, uint64_t at, absl::Span<const uint8_t> bytes) {
        parts[i].resize(std::max(parts[i].size(), static_cast<size_t>(at) + bytes.size()));
        std::memcpy(parts[i].data() + at, bytes.data(), bytes.size());
        return absl::OkStatus();
      });
  if (!done.ok()) return done.status();
  return parts;
}

TEST(Calibrate, HessianIsTheSumOfProducts) {
  for (int64_t k : {1, 7, 300, 513}) {
    const int64_t rows = 700;
    const std::vector<float> x = Normal(rows * k, 1);
    const auto pool = kernels::ThreadPool::Make(3);
    const auto one = Collected(Named("gptq(int8-weight-only)"), k, x, {}, 37);
    const auto many = Collected(Named("gptq(int8-weight-only)"), k, x, {}, 700, &pool->workers());
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = i; j < k; ++j) {
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r)
          sum += static_cast<double>(x[static_cast<size_t>(r * k + i)]) * x[static_cast<size_t>(r * k + j)];
        const auto at = static_cast<size_t>(i * k + j);
        ASSERT_NEAR(one->hessian()[at], sum, 2e-3) << k << " " << i << " " << j;
        ASSERT_EQ(one->hessian()[at], many->hessian()[at]);
      }
  }
}

TEST(Calibrate, SampleIsBoundedAndSpread) {
  const int64_t k = 3, rows = 20000;
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(r * k + i)] = static_cast<float>(r);
  const auto s = Collected(Named("awq(int8-weight-only)"), k, x, {.sample_rows = 100, .seed = 5}, 999);
  ASSERT_EQ(s->sample_rows(), 100);
  double mean = 0;
  for (int64_t r = 0; r < 100; ++r) {
    EXPECT_EQ(s->sample()[static_cast<size_t>(3 * r)], s->sample()[static_cast<size_t>(3 * r + 2)]);  // whole rows
    mean += s->sample()[static_cast<size_t>(3 * r)] / 100;
  }
  EXPECT_NEAR(mean, 10000, 2000);
  EXPECT_NEAR(s->mean_magnitude()[0], 9999.5, 0.01);
  EXPECT_EQ(s->sample(), Collected(Named("awq(int8-weight-only)"), k, x, {.sample_rows = 100, .seed = 5}, 1)->sample());
}

TEST(Calibrate, HistogramFindsPercentiles) {
  std::vector<float> x = Normal(100000, 3);
  for (float& v : x) v += 0.5f;
  Histogram h;
  for (size_t at = 0; at < x.size(); at += 1000) h.Add(x.data() + at, 1000);
  std::sort(x.begin(), x.end());
  const double bin = 2 * 8.0 / 2048;
  EXPECT_NEAR(h.High(0.001), x[99899], bin);
  EXPECT_NEAR(h.Low(0.001), x[100], bin);
  EXPECT_GE(h.High(0), x.back());
  EXPECT_LE(h.Low(0), x.front());
  for (float& v : x) v = std::fabs(v);
  std::sort(x.begin(), x.end());
  EXPECT_NEAR(h.Magnitude(0.01), x[98999], bin);
  Histogram zeros;
  const std::vector<float> none(10);
  zeros.Add(none.data(), 10);
  EXPECT_NEAR(zeros.Magnitude(0.5), 0, 1e-8);
}

// GPTQ of int8 rows in doubles, by the inverse of H.
std::vector<int> PlainGptq(std::vector<double> w, int64_t n, int64_t k, const std::vector<float>& x) {
  const auto rows = static_cast<int64_t>(x.size()) / k;
  const auto at = [k](int64_t i, int64_t j) { return static_cast<size_t>(i * k + j); };
  std::vector<double> h(static_cast<size_t>(k * k)), scale;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < k; ++j)
        h[at(i, j)] += static_cast<double>(x[static_cast<size_t>(r * k + i)]) * x[static_cast<size_t>(r * k + j)];
  double mean = 0;
  for (int64_t i = 0; i < k; ++i) mean += h[at(i, i)] / static_cast<double>(k);
  for (int64_t i = 0; i < k; ++i) h[at(i, i)] += 0.01 * mean;
  // Gauss-Jordan.
  std::vector<double> inverse(static_cast<size_t>(k * k));
  for (int64_t i = 0; i < k; ++i) inverse[at(i, i)] = 1;
  for (int64_t p = 0; p < k; ++p) {
    const double pivot = h[at(p, p)];
    for (int64_t j = 0; j < k; ++j) h[at(p, j)] /= pivot, inverse[at(p, j)] /= pivot;
    for (int64_t i = 0; i < k; ++i) {
      if (i == p) continue;
      const double by = h[at(i, p)];
      for (int64_t j = 0; j < k; ++j) h[at(i, j)] -= by * h[at(p, j)], inverse[at(i, j)] -= by * inverse[at(p, j)];
    }
  }
  for (int64_t r = 0; r < n; ++r) {
    double most = 0;
    for (int64_t j = 0; j < k; ++j) most = std::max(most, std::fabs(w[at(r, j)]));
    scale.push_back(static_cast<double>(static_cast<float>(most) / 127.5f));
  }
  // Each step removes a feature from the inverse (OBQ), instead of a factorization before.
  std::vector<int> codes(w.size());
  for (int64_t j = 0; j < k; ++j) {
    for (int64_t r = 0; r < n; ++r) {
      const double s = scale[static_cast<size_t>(r)];
      const int q = static_cast<int>(std::clamp(std::rint(w[at(r, j)] / s), -128.0, 127.0));
      codes[at(r, j)] = q;
      const double e = (w[at(r, j)] - q * s) / inverse[at(j, j)];
      for (int64_t i = j + 1; i < k; ++i) w[at(r, i)] -= e * inverse[at(j, i)];
    }
    for (int64_t a = j + 1; a < k; ++a)
      for (int64_t b = j + 1; b < k; ++b)
        inverse[at(a, b)] -= inverse[at(a, j)] * inverse[at(j, b)] / inverse[at(j, j)];
  }
  return codes;
}

TEST(Calibrate, GptqIsTheMethodWrittenOut) {
  const int64_t n = 5, k = 300, rows = 900;
  std::vector<float> x = Normal(rows * k, 7);
  for (size_t i = static_cast<size_t>(k); i < x.size(); ++i) x[i] += 0.5f * x[i - static_cast<size_t>(k)];
  for (size_t i = 1; i < x.size(); ++i) x[i] += 0.3f * x[i - 1];
  const std::vector<float> w = Normal(n * k, 8, 0.1f);
  for (const char* name : {"gptq(int8-weight-only)", "gptq(int8-weight-only):block=64"}) {
    const Config c = Named(name);
    const auto parts = Parts(Tensor(n, k, w), c, *Collected(c, k, x), 1).value();
    const std::vector<int> wanted = PlainGptq({w.begin(), w.end()}, n, k, x);
    int different = 0;
    for (size_t i = 0; i < wanted.size(); ++i) different += static_cast<int8_t>(parts[0][i]) != wanted[i];
    EXPECT_LE(different, 15) << name;  // of 1500
  }
}

TEST(Calibrate, ThreadsChangeNothing) {
  const int64_t n = 300, k = 256;
  const std::vector<float> x = Normal(2000 * k, 1), w = Normal(n * k, 2, 0.1f);
  for (const char* name : {"gptq(int4-weight-only:group=32)", "awq(int4-weight-only:group=32)",
                           "smoothquant(int8-dynamic)", "awq(int8-static)"}) {
    const Config c = Named(name);
    const auto s = Collected(c, k, x);
    EXPECT_EQ(Parts(Tensor(n, k, w), c, *s, 1).value(), Parts(Tensor(n, k, w), c, *s, 3).value()) << name;
  }
}

TEST(Calibrate, Refusals) {
  const int64_t k = 32;
  const std::vector<float> x = Normal(10 * k, 1), w = Normal(4 * k, 2);
  EXPECT_EQ(LayerStatistics::Make(Named("int8-weight-only"), k, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LayerStatistics::Make(Named("int8-static"), k, {.percentile = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  for (const char* name :
       {"gptq(int8-weight-only)", "awq(int8-weight-only)", "smoothquant(int8-dynamic)", "int8-static"}) {
    const Config c = Named(name);
    auto s = LayerStatistics::Make(c, k, {}).value();
    // not settled
    EXPECT_EQ(Parts(Tensor(4, k, w), c, *s, 1).status().code(), absl::StatusCode::kInvalidArgument) << name;
    // nothing came
    EXPECT_EQ(s->Settle().code(), absl::StatusCode::kInvalidArgument) << name;
    std::vector<float> bad = x;
    bad[40] = std::nanf("");
    EXPECT_EQ(s->Add(bad.data(), 10).code(), absl::StatusCode::kInvalidArgument) << name;
    // another k
    EXPECT_EQ(Parts(Tensor(8, k / 2, w), c, *Collected(c, k, x), 1).status().code(), absl::StatusCode::kInvalidArgument)
        << name;
    std::vector<float> infinite = w;
    infinite[70] = INFINITY;
    EXPECT_EQ(Parts(Tensor(4, k, infinite), c, *Collected(c, k, x), 1).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
    // Weights and features of zeros.
    std::vector<float> sparse = x;
    for (size_t i = 0; i < sparse.size(); i += 2) sparse[i] = 0;
    EXPECT_TRUE(Parts(Tensor(4, k, std::vector<float>(w.size())), c, *Collected(c, k, sparse), 1).ok()) << name;
  }
}

TEST(Calibrate, NeedsOfMemoryAreStated) {
  EXPECT_GE(LayerStatistics::Bytes(Named("gptq(int8-weight-only)"), 4096, {}), uint64_t{4} * 4096 * 4096);
  EXPECT_LT(LayerStatistics::Bytes(Named("awq(int8-weight-only)"), 4096, {}), uint64_t{8} << 20);
  EXPECT_FALSE(LayerStatistics::Needed(Named("int8-dynamic")));
  EXPECT_TRUE(LayerStatistics::Needed(Named("int8-static")));
}

}  // namespace
}  // namespace slipway::quantizer
