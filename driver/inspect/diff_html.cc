// The page of `slipway diff --html`: which tensors differ, by how much, and what differs in the graphs.
#include <algorithm>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/paths.h"
#include "driver/html/page.h"
#include "driver/inspect/diff.h"
#include "driver/inspect/inspect_text.h"

namespace slipway::driver {
namespace {

using weights::DiffRow;

constexpr const char* kKinds[] = {"only in A", "only in B", "another type", "other values"};

}  // namespace

absl::Status WriteDiffPage(const FilesDiff& diff, const weights::DiffOptions& o, const std::string& html) {
  if (html.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckDistinct(std::vector<NamedPath>{{"A", o.a}, {"B", o.b}, {"--html", html, NamedPath::kReport}}));
  Page page(diff.equal() ? "slipway diff: they are equal" : "slipway diff: they differ");
  const weights::DiffReport& r = diff.tensors;
  page.Fact("A", o.a).Fact("B", o.b);
  page.Fact("in both", Plural(r.compared, "tensor"));
  page.Fact("of them equal", text::StrCat(r.equal));
  if (o.tolerance > 0) page.Fact("tolerance", text::StrCat(o.tolerance));
  int64_t only_a = 0, only_b = 0;
  PageBars bars{"Largest difference by tensor",
                "Of tensors with other values, in the order of their names.",
                "tensors",
                "largest difference",
                Unit::kNumber,
                true,
                {},
                {},
                {}};
  PageBars shares{"Elements that differ",
                  "In parts of all elements of a tensor.",
                  "tensors",
                  "share",
                  Unit::kPercent,
                  false,
                  {},
                  {},
                  {}};
  PageTreemap map{"Where elements differ", "", {{"elements that differ", Unit::kCount}}, {}};
  PageTable table{"Tensors that differ",
                  "",
                  {{"name", Unit::kCode},
                   {"how"},
                   {"A", Unit::kCode},
                   {"B", Unit::kCode},
                   {"unequal", Unit::kCount},
                   {"of", Unit::kCount},
                   {"largest difference", Unit::kNumber},
                   {"NaN in one", Unit::kCount}},
                  {},
                  {}};
  for (const DiffRow& row : r.rows) {
    only_a += row.kind == DiffRow::kOnlyInA;
    only_b += row.kind == DiffRow::kOnlyInB;
    std::vector<PageTable::Cell> cells = {row.name, std::string(kKinds[row.kind]), row.a, row.b};
    cells.resize(table.columns.size());
    if (row.compared_as != ir::DType::kUnknown) {
      cells[4] = static_cast<double>(row.unequal), cells[5] = static_cast<double>(row.elements);
      cells[6] = row.max_abs, cells[7] = static_cast<double>(row.one_nan);
      bars.items.push_back({row.name, row.max_abs});
      if (row.elements > 0)
        shares.items.push_back({row.name, static_cast<double>(row.unequal) / static_cast<double>(row.elements)});
      const size_t dot = row.name.rfind('.');
      map.leaves.push_back({dot == row.name.npos ? "" : row.name.substr(0, dot),
                            dot == row.name.npos ? row.name : row.name.substr(dot + 1),
                            false,
                            {static_cast<double>(row.unequal)}});
    }
    table.rows.push_back(std::move(cells));
  }
  page.Fact("only in A", text::StrCat(only_a)).Fact("only in B", text::StrCat(only_b));
  if (diff.graph) {
    PageTable graph{"Graphs",
                    diff.graph->empty() ? "The graphs are equal." : "",
                    {{"what"}, {"name", Unit::kCode}, {"A", Unit::kCode}, {"B", Unit::kCode}},
                    {},
                    {}};
    for (const GraphDifference& d : *diff.graph) graph.rows.push_back({d.what, d.name, d.a, d.b});
    page.Add(graph);
  }
  if (!bars.items.empty()) page.Add(bars).Add(shares).Add(map);
  page.Add(table);
  return WritePage(html, page.Take());
}

}  // namespace slipway::driver
