// What no data of a page can do: end the element that they stand in, or become markup.
#include "driver/html/page.h"

#include <string>

#include "driver/html/graph_section.h"
#include "driver/inspect/operations.h"
#include "gtest/gtest.h"
#include "ir/text.h"

namespace slipway::driver {
namespace {

size_t CountOf(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Page, DataCannotEndTheirElement) {
  const std::string plain = Page("title").Take();
  const std::string bad = "</script><!--<script>&\x1b[2J\xff\"\\";
  PageTable table{bad, bad, {{"name", Unit::kCode}}, {{bad}, {std::monostate()}, {1.5}}, {}};
  Page page(bad);
  page.Fact("file", bad).Note(bad).Add(table).AddText(bad, bad, bad + "\n" + bad);
  page.Add(PageBars{bad, bad, "x", "y", Unit::kNumber, false, {{bad, 1}}, {bad}, {{bad, 1}}});
  page.Add(PageTreemap{bad, bad, {{"bytes", Unit::kBytes}}, {{bad, bad, false, {1}}}});
  page.Add(PageScatter{bad, bad, {"x"}, {"y"}, {{bad, {{1, 1, bad, 0.5}}}}, {{bad, {{0, 0}, {1, 1}}}}});
  const std::string html = page.Take();
  EXPECT_EQ(CountOf(html, "<script"), CountOf(plain, "<script"));
  EXPECT_EQ(CountOf(html, "</script"), CountOf(plain, "</script"));
  EXPECT_EQ(CountOf(html, "<!--"), 0u);
  EXPECT_EQ(html.find('\x1b'), html.npos);
  EXPECT_EQ(html.find('\xff'), html.npos);
  const size_t begin = html.find("id=\"data\">"), end = html.find("</script>", begin);
  EXPECT_EQ(html.substr(begin + 10, end - begin - 10).find('<'), std::string::npos);
}

TEST(Page, LongNamesAreShortened) { EXPECT_LT(PageText(std::string(1 << 20, 'a')).size(), 600u); }

TEST(Page, PolicyNamesDigestsOfBothParts) {
  const std::string html = Page("t").Take();
  EXPECT_NE(html.find("default-src 'none'"), html.npos);
  EXPECT_EQ(CountOf(html, "'sha256-"), 2u);
  EXPECT_EQ(html.find("unsafe-inline"), html.npos);
}

std::unique_ptr<ir::Program> Parsed(const std::string& body) {
  auto archive = ir::Parse("slipway.ir 1\ngraph main(\n" + body);
  EXPECT_TRUE(archive.ok()) << archive.status();
  return archive.ok() ? std::move(archive->programs[0]) : nullptr;
}

TEST(Operations, OfProductsAndConvolutions) {
  const auto p = Parsed(R"(  %x: f32[2,3,8],
  %w: f32[5,8],
  %i: f32[1,4,9,9],
  %k: f32[6,2,3,3],
) {
  %y: f32[2,3,5] = aten.linear.default(input=%x, weight=%w)
  %c: f32[1,6,7,7] = aten.conv2d.default(input=%i, weight=%k, groups=2)
  %a: f32[2,3,8] = aten.relu.default(self=%x)
  return %y, %c, %a
}
)");
  ASSERT_NE(p, nullptr);
  const OperationCounter counter(*p);
  std::vector<double> counts;
  for (const ir::Node* n : *p->graph) counts.push_back(counter.Of(*n).value_or(-1));
  EXPECT_EQ(counts, (std::vector<double>{2 * 2 * 3 * 5 * 8, 2 * 6 * 7 * 7 * 2 * 3 * 3, 0}));
}

TEST(GraphSection, SaysRepeatedTextsOnce) {
  const auto p = Parsed(R"(  %x: f32[2],
) {
  %longest_name_of_all: f32[2] = aten.relu.default(self=%x)
  %b: f32[2] = aten.relu.default(self=%longest_name_of_all)
  return %b
}
)");
  ASSERT_NE(p, nullptr);
  Page page("t");
  AddGraph("Graph", *p, &page);
  const std::string html = page.Take();
  EXPECT_EQ(CountOf(html, "aten.relu.default"), 1u);
  EXPECT_EQ(CountOf(html, "longest_name_of_all"), 1u);
  EXPECT_NE(html.find("\"outputs\":[2]"), html.npos);
}

}  // namespace
}  // namespace slipway::driver
