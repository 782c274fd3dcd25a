// How the sizes of views follow from what is viewed, and the text of --dynamic.
#include "dynamic_shapes/view_rule.h"

#include "dynamic_shapes/spec.h"
#include "gtest/gtest.h"

namespace slipway::dynamic_shapes {
namespace {

using ir::Sym;

class ViewRule : public testing::Test {
 protected:
  ir::SymTable table;
  Sym b = table.Symbol("b"), s = table.Symbol("s");
  int64_t b_value = 3, s_value = 7;

  std::optional<int64_t> Value(Sym e) const {
    return ir::Evaluate(e, [&](std::string_view n) { return std::optional<int64_t>(n == "b" ? b_value : s_value); });
  }
  std::optional<ViewSizes> Explain(const std::vector<Sym>& from, const std::vector<int64_t>& to,
                                   std::vector<Sym> order = {}) const {
    return SolveView(from, to, [this](Sym e) { return Value(e); }, [&](Sym) { return order; });
  }
  static std::string Text(const std::optional<ViewSizes>& v) {
    if (!v) return "none";
    std::string out;
    for (const ViewSize& size : v->sizes)
      out += (out.empty() ? "" : ",") + (size.open ? std::string("?") : size.expr.ToString());
    return out;
  }
};

TEST_F(ViewRule, SplitsAndMerges) {
  EXPECT_EQ(Text(Explain({b, s, 32}, {3, 7, 4, 8})), "b,s,4,8");
  EXPECT_EQ(Text(Explain({b, s, 32}, {3, -1, 4, 8})), "b,s,4,8");
  EXPECT_EQ(Text(Explain({b, s, 4, 8}, {21, 32})), "b*s,32");
  EXPECT_EQ(Text(Explain({b * s, 32}, {3, 7, 32})), "b,s,32");
  EXPECT_EQ(Text(Explain({b, 1, s}, {3, 7})), "b,s");
  EXPECT_EQ(Text(Explain({b, s}, {3, 1, 7, 1})), "b,1,s,1");
  EXPECT_EQ(Text(Explain({4, 8}, {32})), "32");
}
TEST_F(ViewRule, DimensionsLieWhereTheyWere) {
  EXPECT_EQ(Text(Explain({s, b, 16}, {7, 12, 4})), "s,4*b,4");          // heads beside the batch
  EXPECT_EQ(Text(Explain({s, 4 * b, 4}, {21, 16}, {b, 4})), "b*s,16");  // and back, the order known
  EXPECT_EQ(Text(Explain({4 * b, s, s}, {3, 4, 7, 7})), "b,4,s,s");
}
TEST_F(ViewRule, WhatIsOpenStaysOpen) {
  s_value = 8;
  auto two_ways = Explain({b, s}, {3, 2, 4});  // (s // 4, 4) or (2, s // 2)
  EXPECT_EQ(Text(two_ways), "b,?,?");
  ASSERT_EQ(two_ways->open.size(), 1u);
  EXPECT_EQ(two_ways->open[0].product, s);
  EXPECT_EQ(two_ways->open[0].first, 1);
  EXPECT_EQ(Text(Explain({b, s}, {3, -1, 4})), "b,s//4,4");  // -1 tells
  b_value = 4, s_value = 4;
  EXPECT_EQ(Text(Explain({b * s}, {4, 4})), "?,?");  // which is which?
  b_value = 2;
  EXPECT_EQ(Text(Explain({2 * b * s}, {2, 8})), "?,?");  // (b, 2 * s) is likelier than (2, b * s), and a guess
}
TEST_F(ViewRule, RegroupedElementsHaveNoRule) {
  b_value = 4, s_value = 6;
  EXPECT_EQ(Text(Explain({b, s}, {3, 8})).find('b'), std::string::npos);
  EXPECT_EQ(Text(Explain({b, s}, {5, 5})), "none");
}

TEST(Spec, Parses) {
  auto spec = ParseSpec("auto, ids:[batch,seq=1..512,_, 3], seq=4, a.0=b.1, h=..9");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->all);
  ASSERT_EQ(spec->inputs.size(), 1u);
  const auto& dims = spec->inputs[0].dims;
  ASSERT_EQ(dims.size(), 4u);
  EXPECT_EQ(dims[0].name, "batch");
  EXPECT_EQ(dims[1].range, (ir::SymRange{1, 512}));
  EXPECT_EQ(dims[2].kind, DimSpec::kKeep);
  EXPECT_EQ(dims[3].kind, DimSpec::kPin);
  EXPECT_EQ(dims[3].number, 3);
  ASSERT_EQ(spec->symbols.size(), 2u);
  EXPECT_EQ(spec->symbols[0].number, 4);
  EXPECT_EQ(spec->symbols[1].range->max, 9);
  ASSERT_EQ(spec->relations.size(), 1u);
  EXPECT_EQ(spec->relations[0].b, "b");
  EXPECT_EQ(spec->relations[0].b_axis, 1);
}
TEST(Spec, QuotesWhatHasNoMeaning) {
  for (const char* text :
       {"ids", "ids:[a", "ids:[a b]", "ids:[1x]", "=3", "x=", "ids:[B=9..2]", "ids:[-4]", ":[B]", "x=1..2..3"}) {
    auto spec = ParseSpec(text);
    EXPECT_FALSE(spec.ok()) << text;
  }
  EXPECT_NE(ParseSpec("ids:[a b]").status().ToString().find("'a b'"), std::string::npos);
}

}  // namespace
}  // namespace slipway::dynamic_shapes
