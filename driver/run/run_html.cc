// The page of `slipway run --profile --html`: where the time goes, and what bounds each step.
#include <algorithm>
#include <map>

#include "base/byte_count.h"
#include "base/text.h"
#include "driver/html/page.h"
#include "driver/run/run.h"

namespace slipway::driver {
namespace {

// "layers.3.mlp" of "layers.3.mlp (model.py:7)"; "" of "model.py:7".
std::string StepModuleOf(const std::string& place) {
  const size_t end = place.find(" (");
  if (end != place.npos) return place.substr(0, end);
  return text::Contains(place, ":") ? "" : place;
}

std::string NameOf(const RunReport::Step& s) {
  return text::StrCat(s.op, s.shapes.empty() ? "" : " ", s.shapes, s.place.empty() ? "" : " in ", s.place);
}

// Operations a second over operations a byte. The roofs are the most that steps of this run reached, not what the
// machine could.
void AddRoofline(const RunReport& r, Page* page) {
  PageScatter plot{
      "Roofline",
      "Each step of products by its operations for each byte of its operands and results, and its operations a second; "
      "the area is its time. A step at the slope is bound by memory, one at the top by arithmetic. Both lines are the "
      "most that a step of this run reached.",
      {"operations a byte", Unit::kNumber, true},
      {"operations a second", Unit::kRate, true},
      {{"steps", {}}},
      {}};
  double most = 0, fastest = 0, bandwidth = 0, low = 0, high = 0;
  for (const RunReport::Step& s : r.all_steps) most = std::max(most, s.seconds);
  for (const RunReport::Step& s : r.all_steps) {
    if (s.seconds <= 0 || s.bytes <= 0) continue;
    bandwidth = std::max(bandwidth, s.bytes / s.seconds);
    if (s.operations <= 0) continue;
    const double x = s.operations / s.bytes;
    plot.series[0].points.push_back({x, s.operations / s.seconds, NameOf(s), s.seconds / most});
    fastest = std::max(fastest, s.operations / s.seconds);
    low = low == 0 ? x : std::min(low, x);
    high = std::max(high, x);
  }
  if (plot.series[0].points.empty()) return;
  const double knee = fastest / bandwidth;
  low = std::min(low, knee) / 2, high = std::max(high, knee) * 2;
  plot.lines.push_back({text::StrCat(text::ByteCount(static_cast<uint64_t>(bandwidth)), "/s"),
                        {{low, low * bandwidth}, {knee, fastest}}});
  plot.lines.push_back({"the fastest step", {{knee, fastest}, {high, fastest}}});
  page->Add(plot);
}

PageTable Rows(std::string title, const std::vector<RunReport::Row>& rows, double total) {
  PageTable t{std::move(title),
              "",
              {{"operator", Unit::kCode},
               {"shapes", Unit::kCode},
               {"steps", Unit::kCount},
               {"time", Unit::kSeconds},
               {"share", Unit::kPercent},
               {"operations", Unit::kOperations},
               {"operations a second", Unit::kRate}},
              {},
              {}};
  for (const RunReport::Row& row : rows) {
    t.rows.push_back(
        {row.op, row.shapes, static_cast<double>(row.steps), row.seconds, total > 0 ? row.seconds / total : 0.0});
    t.rows.back().resize(t.columns.size());
    if (row.operations > 0) t.rows.back()[5] = row.operations, t.rows.back()[6] = row.per_second();
  }
  return t;
}

}  // namespace

absl::Status WriteRunPage(const RunReport& r, const RunOptions& o) {
  if (o.html.empty()) return absl::OkStatus();
  Page page(text::StrCat("slipway run: ", o.model.substr(o.model.rfind('/') + 1)));
  const auto milliseconds = [](double s) { return text::StrCat(s * 1e3, " ms"); };
  const auto [least, most] = std::minmax_element(r.run_seconds.begin(), r.run_seconds.end());
  page.Fact("model", o.model).Fact("inputs", o.inputs);
  page.Fact("run", r.run_seconds.size() > 1 ? text::StrCat(milliseconds(*least), " to ", milliseconds(*most), ", ",
                                                           r.run_seconds.size(), " runs")
                                            : milliseconds(*least));
  if (r.steps > 0) page.Fact("steps", text::StrCat(r.steps));
  if (r.memory)
    page.Fact("memory", text::StrCat(text::ByteCount(r.memory->temporaries), " of temporaries, ",
                                     text::ByteCount(r.memory->working), " for kernels"));
  double total = 0;
  for (const RunReport::Row& row : r.profile) total += row.seconds;
  const bool places =
      std::any_of(r.all_steps.begin(), r.all_steps.end(), [](const auto& s) { return !s.place.empty(); });
  PageTreemap map{"Time by module",
                  places ? "" : "What the steps were made of is not known by module.",
                  {{"time", Unit::kSeconds}, {"operations", Unit::kOperations}, {"steps", Unit::kCount}},
                  {}};
  std::map<std::pair<std::string, std::string>, std::array<double, 3>> sums;
  PageBars bars{"Time by step", "", "steps, in the order of the plan", "time", Unit::kSeconds, false, {}, {}, {}};
  PageTable table{"Steps",
                  "",
                  {{"number", Unit::kCount},
                   {"operator", Unit::kCode},
                   {"place", Unit::kCode},
                   {"shapes", Unit::kCode},
                   {"time", Unit::kSeconds},
                   {"share", Unit::kPercent},
                   {"operations", Unit::kOperations},
                   {"bytes", Unit::kBytes}},
                  {},
                  {}};
  for (size_t i = 0; i < r.all_steps.size(); ++i) {
    const RunReport::Step& s = r.all_steps[i];
    std::array<double, 3>& sum = sums[{StepModuleOf(s.place), s.op}];
    sum[0] += s.seconds, sum[1] += s.operations, sum[2] += 1;
    bars.items.push_back({NameOf(s), s.seconds});
    table.rows.push_back({static_cast<double>(i), s.op, s.place, s.shapes, s.seconds,
                          total > 0 ? s.seconds / total : 0.0, s.operations, s.bytes});
  }
  for (const auto& [key, sum] : sums) map.leaves.push_back({key.first, key.second, true, {sum.begin(), sum.end()}});
  if (!r.all_steps.empty()) page.Add(map).Add(bars);
  AddRoofline(r, &page);
  page.Add(Rows("Operators", r.profile, total));
  if (!r.by_shapes.empty()) page.Add(Rows("Operators by shapes", r.by_shapes, total));
  if (!r.all_steps.empty()) page.Add(table);
  return WritePage(o.html, page.Take());
}

}  // namespace slipway::driver
