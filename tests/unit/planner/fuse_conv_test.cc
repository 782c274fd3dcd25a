// Convolutions that took over other steps give the numbers of the steps. Which steps they take is in
// tests/golden/fuse_conv.sw.
#include "planner/fuse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "ir/text.h"
#include "kernels/executor/execute.h"
#include "planner/evaluator.h"
#include "planner/planner.h"

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
  auto out = PlanEvaluator().Evaluate(std::move(p), {Tensor({1, 2, 3, 4}, kX), Tensor({2, 2, 3, 3}, kW),
                                                     Tensor({2}, kB), Tensor({2}, kM), Tensor({2}, kV)});
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
  %n: f32[1,2,3,4] = aten.batch_norm.default(input=%c, weight=%b, bias=%m, running_mean=%m, running_var=%v, )"
                                     R"(training=false, momentum=0.1, eps=1e-05, cudnn_enabled=false)
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

// A residual block of an image with channels last: the sum lies where what is added lay, which nothing reads
// afterwards. One that is read again stays, as does one of an unknown size.
TEST(FuseConvs, WritesOverWhatItAdds) {
  const auto overwrites = [](std::string_view again, std::string_view height) {
    auto archive = ir::Parse(text::StrCat(
        "slipway.ir 1\nform functional\n", height == "H" ? "dims { H = 8..100 positive }\n" : "",
        R"(graph main(%x: f32[1,3,)", height, R"(,16], %w: f32[32,3,1,1], %d: f32[32,1,3,3], %p: f32[32,32,1,1]) {
  %i: f32[1,32,)",
        height, R"(,16] = aten.conv2d.default(input=%x, weight=%w)
  %a: f32[1,32,)",
        height, R"(,16] = aten.conv2d.default(input=%i, weight=%d, padding=[1, 1], groups=32)
  %b: f32[1,32,)",
        height, R"(,16] = aten.conv2d.default(input=%a, weight=%p)
  %s: f32[1,32,)",
        height, R"(,16] = aten.add.Tensor(self=%b, other=%i)
  %r: f32[1,32] = aten.mean.dim(self=%s, dim=[2, 3])
  %q: f32[1,32] = aten.mean.dim(self=%)",
        again, R"(, dim=[2, 3])
  return %r, %q
})"));
    EXPECT_TRUE(archive.ok()) << archive.status();
    if (!archive.ok()) return false;
    auto planned = MakePlan(*archive->programs[0]);
    EXPECT_TRUE(planned.ok()) << planned.status();
    if (!planned.ok()) return false;
    std::string why;
    const auto e = kernels::Executable::Make(planned->plan, &why);
    EXPECT_TRUE(e) << why;
    if (!e) return false;
    int additions = 0;
    bool over = false;
    for (const kernels::Step& step : e->plan().steps) {
      if (!step.kernel || step.kernel->name != "conv" || step.inputs != 3) continue;
      const auto memory = [&](int view) {
        return e->memory_of(e->plan().views[static_cast<size_t>(step.first_view + view)].buffer);
      };
      ++additions, over = memory(2) == memory(3);
    }
    EXPECT_EQ(additions, 1);
    return over;
  };
  EXPECT_TRUE(overwrites("a", "16"));
  EXPECT_FALSE(overwrites("i", "16"));
  EXPECT_FALSE(overwrites("a", "H"));
}

}  // namespace
}  // namespace slipway::planner
