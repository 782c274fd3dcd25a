// The page of `quantize --html`.
#include <algorithm>
#include <functional>
#include <map>

#include "base/byte_count.h"
#include "base/text.h"
#include "driver/html/page.h"
#include "driver/quantize/budget.h"
#include "driver/quantize/report.h"

namespace slipway::driver {
namespace {

// Forms of weights by size and error, and how the whole came to be what it is.
void AddChoice(const QuantizeReport& r, Page* page) {
  const QuantizeChoice& c = r.choice;
  if (c.forms.empty()) return;
  PageScatter whole{
      "Error against size, step by step",
      c.of_outputs ? "What was tried: layers stay in float until the outputs on calibration data are near enough."
                   : "Each step gives one weight the smaller form that saves the most bytes for the error it "
                     "adds.",
      {"bytes of the whole", Unit::kBytes, false},
      {c.of_outputs ? "relative error of the outputs" : "relative error of the whole", Unit::kNumber, false},
      {{"steps", {}}},
      {}};
  std::vector<std::array<double, 2>> path;
  for (const QuantizeChoice::Step& s : c.steps) {
    const double bytes = static_cast<double>(s.bytes);
    whole.series[0].points.push_back({bytes, s.relative_error, s.what});
    path.push_back({bytes, s.relative_error});
  }
  std::sort(path.begin(), path.end(), std::greater<>());  // bisection goes back and forth
  const double last = path.back()[0], first = path.front()[0];
  whole.lines.push_back({"", path});
  if (c.error_budget > 0)
    whole.lines.push_back(
        {text::StrCat("--error-budget ", Percent(c.error_budget)), {{last, c.error_budget}, {first, c.error_budget}}});
  if (c.size_budget > 0) {
    const double size = static_cast<double>(c.size_budget);
    whole.lines.push_back({"--size-budget", {{size, 0}, {size, path.back()[1]}}});
  }
  page->Add(whole);

  PageScatter forms{"Error against size of each candidate",
                    c.of_outputs ? "What each weight could become: its bytes in parts of those that it has, and the "
                                   "relative error of the outputs where it is the only one."
                                 : "What each weight could become: its bytes in parts of those that it has, and its "
                                   "relative error.",
                    {"bytes after / before", Unit::kPercent, false},
                    {"relative error", Unit::kNumber, true},
                    {{"chosen", {}}, {"not chosen", {}}},
                    {}};
  PageTable table{"Candidates",
                  "",
                  {{"weight", Unit::kCode},
                   {"becomes", Unit::kCode},
                   {"bytes", Unit::kBytes},
                   {"relative error", Unit::kNumber},
                   {"chosen"}},
                  {},
                  {}};
  std::map<std::string_view, uint64_t> before;
  for (const QuantizeChoice::Form& f : c.forms)
    if (f.config.empty()) before[f.weight] = f.bytes;
  for (const QuantizeChoice::Form& f : c.forms) {
    table.rows.push_back({f.weight, f.config.empty() ? "(as it is)" : f.config, static_cast<double>(f.bytes),
                          f.relative_error, std::string(f.chosen ? "yes" : "")});
    const uint64_t all = before[f.weight];
    if (f.config.empty() || all == 0) continue;
    forms.series[!f.chosen].points.push_back({static_cast<double>(f.bytes) / static_cast<double>(all), f.relative_error,
                                              text::StrCat(f.weight, " as ", f.config)});
  }
  page->Add(forms).Add(table);
}

}  // namespace

std::string ToHtml(const QuantizeReport& r) {
  Page page(text::StrCat("slipway quantize: ", r.quantized(), " of ", r.rows.size(), " weights"));
  page.Fact("before", text::ByteCount(r.bytes_before())).Fact("after", text::ByteCount(r.bytes_after()));
  page.Fact("relative error", text::StrCat(r.relative_error()));
  if (r.choice.of_outputs) page.Fact("relative error of the outputs", text::StrCat(r.choice.output_error));
  if (r.other_tensors > 0)
    page.Fact("others", text::StrCat(r.other_tensors, " tensors of ", text::ByteCount(r.other_bytes), " as they are"));
  if (const auto left = r.left(); !left.empty())
    page.Note(text::StrCat(left.size(), " weights of linear layers stay in float"));
  PageBars errors{"Relative error by weight",
                  "||w - q|| / ||w|| of each weight that was quantized, in the order of their names.",
                  "weights",
                  "relative error",
                  Unit::kNumber,
                  false,
                  {},
                  {},
                  {}};
  PageBars sizes{"Bytes by weight", "", "weights", "bytes", Unit::kBytes, false, {}, {"before", "after"}, {}};
  PageTreemap map{"Bytes by module", "", {{"bytes before", Unit::kBytes}, {"bytes after", Unit::kBytes}}, {}};
  PageTable table{"Weights",
                  "",
                  {{"weight", Unit::kCode},
                   {"type"},
                   {"shape", Unit::kCode},
                   {"becomes", Unit::kCode},
                   {"before", Unit::kBytes},
                   {"after", Unit::kBytes},
                   {"relative error", Unit::kNumber},
                   {"max error", Unit::kNumber}},
                  {},
                  {}};
  std::map<std::string, int> configs;
  for (const QuantizedRow& row : r.rows) {
    const bool left = row.config.empty();
    const double before = static_cast<double>(row.bytes_before), after = static_cast<double>(row.bytes_after);
    ++configs[left ? "(as it is)" : row.config];
    table.rows.push_back({row.name, row.dtype, text::StrCat("[", text::Join(row.sizes, ", "), "]"),
                          left ? text::StrCat("stays: ", row.why) : row.config, before,
                          left ? PageTable::Cell() : after,
                          row.measured ? PageTable::Cell(row.relative_error) : PageTable::Cell(),
                          row.measured ? PageTable::Cell(row.max_error) : PageTable::Cell()});
    if (row.measured) errors.items.push_back({text::StrCat(row.name, ", ", row.config), row.relative_error});
    sizes.items.push_back({row.name + " before", before, 0});
    sizes.items.push_back({row.name + " after", after, 1});
    const size_t dot = row.name.rfind('.');
    map.leaves.push_back({dot == row.name.npos ? "" : row.name.substr(0, dot),
                          dot == row.name.npos ? row.name : row.name.substr(dot + 1),
                          false,
                          {before, after}});
  }
  for (const auto& [config, count] : configs) page.Fact(config, text::StrCat(count, " weights"));
  if (r.choice.error_budget > 0 && !r.choice.of_outputs)
    errors.lines.push_back({"--error-budget", r.choice.error_budget});
  if (!errors.items.empty()) page.Add(errors);
  AddChoice(r, &page);
  page.Add(sizes).Add(map).Add(table);
  if (!r.config_json.empty())
    page.AddText("Configuration", "It makes the same again: --config FILE.json.", r.config_json);
  return page.Take();
}

}  // namespace slipway::driver
