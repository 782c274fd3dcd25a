// Inputs that are made for comparisons (driver/verify/inputs.h): within ranges, relations and tables, the same for the
// same seed.
#include "driver/verify/inputs.h"

#include <cmath>
#include <cstring>
#include <set>

#include "gtest/gtest.h"
#include "ir/text.h"
#include "weights/compare.h"

namespace slipway::driver {
namespace {

std::unique_ptr<ir::Program> Parse(std::string_view text) {
  auto a = ir::Parse(text);
  EXPECT_TRUE(a.ok()) << a.status();
  return std::move(a->programs[0]);
}

constexpr char kRelated[] = R"(slipway.ir 1
dims { B = 2..9 positive  S = 1..64 positive  T = 1..64 positive }
guard "L['y'].size()[1] == L['x'].size()[1] + 3"
guard "Mod(S, 4) == 0"
graph main(%x: f32[B,S], %y: f32[B,T], %z: f32[2*B,3]) {
  %r: f32[B,S] = aten.relu.default(self=%x)
  return %r, %y, %z
}
)";

TEST(InputGenerator, KeepsRangesAndRelations) {
  const auto p = Parse(kRelated);
  std::set<int64_t> batches;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    InputGenerator g(*p, {.seed = seed});
    for (int i = 0; i < 6; ++i) {
      auto sizes = g.Sizes(i, /*sweep=*/true);
      ASSERT_TRUE(sizes.ok()) << sizes.status();
      const int64_t b = (*sizes)["B"], s = (*sizes)["S"], t = (*sizes)["T"];
      EXPECT_TRUE(b >= 2 && b <= 9 && s >= 1 && s <= 64 && t <= 64) << b << " " << s << " " << t;
      EXPECT_EQ(t, s + 3);
      EXPECT_EQ(s % 4, 0);
      batches.insert(b);
      auto values = g.Values(*sizes, i);
      ASSERT_TRUE(values.ok()) << values.status();
      EXPECT_EQ((*values)[2].sizes, (std::vector<int64_t>{2 * b, 3}));
    }
  }
  // The ends are among them.
  EXPECT_TRUE(batches.contains(2) && batches.contains(9));
}

TEST(InputGenerator, SaysWhatCannotBe) {
  const auto p = Parse(R"(slipway.ir 1
dims { B = 6..9 positive }
guard "Mod(B, 5) == 0"
graph main(%x: f32[B]) {
  return %x
}
)");
  EXPECT_FALSE(InputGenerator(*p, {}).Sizes(0, false).ok());
}

TEST(InputGenerator, RefusesWhatIsTooLarge) {
  const auto p = Parse(R"(slipway.ir 1
graph main(%x: f32[1000000000000]) {
  return %x
}
)");
  EXPECT_TRUE(absl::IsResourceExhausted(InputGenerator(*p, {}).Sizes(0, false).status()));
}

// Recursion over the nodes would end the process.
TEST(InputGenerator, TakesLongPrograms) {
  std::string text =
      "slipway.ir 1\nweights { $w: f32[7] @ splat(1.0) }\ngraph main(%w: f32[7] = parameter $w, %v0: i64[4]) {\n";
  for (int i = 0; i < 100000; ++i)
    text += "  %v" + std::to_string(i + 1) + ": i64[4] = aten.clone.default(self=%v" + std::to_string(i) + ")\n";
  text += "  %e: f32[4] = aten.take.default(self=%w, index=%v100000)\n  return %e\n}\n";
  const auto p = Parse(text);
  InputGenerator g(*p, {.seed = 3, .adversarial = true});
  const Tensors values = *g.Values(*g.Sizes(0, false), 0);
  const std::vector<double> v = *weights::ToDoubles(values[0]);
  EXPECT_LE(*std::max_element(v.begin(), v.end()), 6);
}

TEST(InputGenerator, SameSeedSameInputs) {
  const auto p = Parse(kRelated);
  const auto make = [&](uint64_t seed) {
    InputGenerator g(*p, {.seed = seed});
    return *ir::ReadDense((*g.Values(*g.Sizes(0, false), 0))[0]);
  };
  EXPECT_EQ(make(1), make(1));
  EXPECT_NE(make(1), make(2));
}

// Integers that index something lie within it, through views and casts, and others are small.
TEST(InputGenerator, KeepsIndicesInTables) {
  const auto p = Parse(R"(slipway.ir 1
dims { B = 2..64 positive  V = 5..5 positive }
weights { $w: f32[7,4] @ random(seed=1) }
graph main(%w: f32[7,4] = parameter $w, %i: i32[B,50], %x: f32[B,9], %j: i64[B,3], %m: i64[B]) {
  %u: i32[B,50,1] = aten.unsqueeze.default(self=%i, dim=2)
  %l: i64[B,50,1] = aten._to_copy.default(self=%u, dtype=i64)
  %e: f32[B,50,1,4] = aten.embedding.default(weight=%w, indices=%l)
  %g: f32[B,3] = aten.gather.default(self=%x, dim=1, index=%j)
  %n: i64[B] = aten.add.Tensor(self=%m, other=4)
  %s: f32[B,9] = aten.index.Tensor(self=%x, indices=[%n])
  return %e, %g, %s
}
)");
  for (const bool adversarial : {false, true}) {
    InputGenerator g(*p, {.adversarial = adversarial});
    const auto sizes = *g.Sizes(1, /*sweep=*/true);
    const Tensors values = *g.Values(sizes, 0);
    const auto range = [&](size_t i) {
      const std::vector<double> v = *weights::ToDoubles(values[i]);
      return std::pair(*std::min_element(v.begin(), v.end()), *std::max_element(v.begin(), v.end()));
    };
    EXPECT_EQ(range(0), std::pair(0.0, 6.0));
    EXPECT_EQ(range(2), std::pair(0.0, 8.0));
    EXPECT_LT(range(3).second, 60);
    EXPECT_GE(range(3).first, 0);
  }
}

TEST(InputGenerator, EdgeValues) {
  const auto p = Parse(R"(slipway.ir 1
graph main(%x: f32[1000], %h: f16[1000], %b: bf16[1000], %i: i8[1000], %t: bool[1000]) {
  return %x, %h, %b, %i, %t
}
)");
  InputGenerator g(*p, {.adversarial = true});
  const Tensors values = *g.Values(*g.Sizes(0, false), 0);
  for (size_t i = 0; i < 3; ++i) {
    bool nan = false, inf = false, zero = false, denormal = false;
    const std::vector<double> floats = *weights::ToDoubles(values[i]);
    for (double v : floats) {
      nan |= std::isnan(v), inf |= std::isinf(v), zero |= v == 0;
      denormal |= v != 0 && std::fabs(v) < (i == 1 ? 0x1p-14 : 0x1p-126);
    }
    EXPECT_TRUE(nan && inf && zero && denormal) << i;
  }
  const std::vector<double> integers = *weights::ToDoubles(values[3]);
  EXPECT_EQ(*std::min_element(integers.begin(), integers.end()), -128);
  EXPECT_EQ(*std::max_element(integers.begin(), integers.end()), 127);
  const std::vector<double> bools = *weights::ToDoubles(values[4]);
  for (double v : bools) EXPECT_TRUE(v == 0 || v == 1);
}

TEST(SampleInputs, AbsentOnesSaySo) { EXPECT_FALSE(SampleInputs(*Parse(kRelated)).ok()); }

}  // namespace
}  // namespace slipway::driver
