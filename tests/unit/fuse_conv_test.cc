// Convolutions that took over other steps give the numbers of the steps. Which steps they take is in tests/golden/fuse_conv.sw.
#include "planner/fuse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "ir/text.h"
#include "planner/evaluator.h"

namespace slipway::planner {
namespace {

std::unique_ptr<ir::Program> Parse(std::string_view body) {
  auto archive = ir::Parse(text::StrCat(R"(slipway.ir 1
form functional
graph main(%x: f32[1,2,3,4], %w: f32[2,2,3,3], %b: f32[2], %m: f32[2], %v: f32[2]) {
  %c: f32[1,2,3,4] = aten.conv2d.default(input=%x, weight=%w, bias=%b, padding=[1, 1])
)",
                                        body, "}"));
  EXPECT_TRUE(archive.ok()) << archive.status();
  return archive.ok() ? std::move(archive->programs[0]) : nullptr;
}

std::vector<float> Values(size_t n, float from) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = std::sin(from + static_cast<float>(i));
  return v;
}
ir::TensorRef Tensor(std::vector<int64_t> sizes, const std::vector<float>& data) {
  return ir::OwnedTensor(ir::DType::kFloat32, std::move(sizes),
                         std::string(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float)));
}
const std::vector<float> kX = Values(24, 0), kW = Values(36, 1), kB = {0.5f, -0.25f}, kM = {0.1f, -0.2f},
                         kV = {2, 0.5f};

// The first result of x, w, b, m, v.
std::vector<float> Results(std::unique_ptr<ir::Program> p) {
  auto out = PlanEvaluator().Evaluate(
      std::move(p), {Tensor({1, 2, 3, 4}, kX), Tensor({2, 2, 3, 3}, kW), Tensor({2}, kB), Tensor({2}, kM), Tensor({2}, kV)});
  EXPECT_TRUE(out.ok()) << out.status();
  if (!out.ok()) return {};
  const std::string bytes = *ir::ReadDense((*out)[0]);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
double Sum(size_t i) {
  double sum = kB[i / 12];
  const int y = static_cast<int>(i) / 4 % 3, x = static_cast<int>(i) % 4;
  for (int c = 0; c < 2; ++c)
    for (int t = 0; t < 9; ++t) {
      const int iy = y - 1 + t / 3, ix = x - 1 + t % 3;
      if (iy >= 0 && iy < 3 && ix >= 0 && ix < 4)
        sum += static_cast<double>(kW[(i / 12 * 2 + c) * 9 + t]) * kX[c * 12 + iy * 4 + ix];
    }
  return sum;
}

TEST(FuseConvs, NormAdditionAndFunction) {
  constexpr std::string_view kBody = R"(
  %n: f32[1,2,3,4] = aten.batch_norm.default(input=%c, weight=%b, bias=%m, running_mean=%m, running_var=%v, training=false, momentum=0.1, eps=1e-05, cudnn_enabled=false)
  %a: f32[1,2,3,4] = aten.add.Tensor(self=%x, other=%n)
  %r: f32[1,2,3,4] = aten.relu.default(self=%a)
  return %r
)";
  const std::vector<float> got = Results(Parse(kBody));
  ASSERT_EQ(got.size(), 24u);
  for (size_t i = 0; i < 24; ++i) {
    const size_t o = i / 12;
    const double n = (Sum(i) - kM[o]) / std::sqrt(kV[o] + 1e-5) * kB[o] + kM[o];
    EXPECT_NEAR(got[i], std::max(0.0, n + kX[i]), 1e-5) << i;
  }
}

TEST(FuseConvs, ClampsByNumbersJoin) {
  constexpr std::string_view kBody = R"(
  %r: f32[1,2,3,4] = aten.relu6.default(self=%c)
  %s: f32[1,2,3,4] = aten.clamp.default(self=%r, min=0.25, max=1.0)
  return %s
)";
  const std::vector<float> got = Results(Parse(kBody));
  ASSERT_EQ(got.size(), 24u);
  for (size_t i = 0; i < 24; ++i) EXPECT_NEAR(got[i], std::min(std::max(Sum(i), 0.25), 1.0), 1e-5) << i;
}

}  // namespace
}  // namespace slipway::planner
