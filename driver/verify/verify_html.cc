// The page of `slipway verify --html`: what came of each set of inputs, and how errors grow from node to node.
#include <algorithm>
#include <map>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/paths.h"
#include "driver/html/page.h"
#include "driver/verify/verify.h"

namespace slipway::driver {
namespace {

using Cell = PageTable::Cell;

Cell NumberCell(const std::optional<double>& v) { return v ? Cell(*v) : Cell(); }

PageTable Outputs(const VerifySet& s, std::string title) {
  PageTable t{std::move(title),
              "",
              {{"output", Unit::kCode},
               {"answer"},
               {"A", Unit::kCode},
               {"B", Unit::kCode},
               {"max abs", Unit::kNumber},
               {"max rel", Unit::kNumber},
               {"ulp", Unit::kCount},
               {"unequal", Unit::kCount},
               {"of", Unit::kCount},
               {"A from f64", Unit::kNumber},
               {"B from f64", Unit::kNumber}},
              {},
              {}};
  std::vector<std::string> inputs;
  for (const auto& [name, value] : s.sizes) inputs.push_back(text::StrCat(name, " = ", value));
  inputs.insert(inputs.end(), s.inputs.begin(), s.inputs.end());
  t.text = text::StrCat("Inputs: ", s.source, inputs.empty() ? "" : ": ", text::Join(inputs, ", "),
                        s.reason.empty() ? "" : text::StrCat(". ", s.reason));
  for (const VerifyOutput& o : s.outputs) {
    std::vector<Cell> row = {o.name, std::string(o.agree ? "agrees" : "differs"), o.a_type, o.b_type};
    row.resize(t.columns.size() - 2);
    if (const auto& d = o.difference) {
      row[4] = d->max_abs, row[5] = d->max_rel;
      if (d->has_ulp) row[6] = static_cast<double>(d->max_ulp);
      row[7] = static_cast<double>(d->unequal), row[8] = static_cast<double>(d->elements);
    }
    row.push_back(NumberCell(o.a_error)), row.push_back(NumberCell(o.b_error));
    t.rows.push_back(std::move(row));
  }
  return t;
}

// The largest difference in parts of the root mean square of A's value: what one node's numbers can be held against
// another's with.
std::optional<double> ErrorOf(const VerifyLayers::Node& n) {
  if (!n.difference) return std::nullopt;
  return n.rms > 0 ? n.difference->max_abs / n.rms : n.difference->max_abs;
}

// "layers.3.mlp" of "layers.3.mlp (model.py:7)".
std::string ModuleOf(const std::string& place) {
  const size_t end = place.find(" (");
  if (end != place.npos) return place.substr(0, end);
  return text::Contains(place, ":") ? "" : place;
}

void AddLayers(const VerifyLayers& l, Page* page) {
  PageBars bars{"Error by layer",
                text::StrCat("The largest difference of each node's value in parts of the root mean square of A's, in "
                             "the order of the program. Compared are ",
                             l.how, "."),
                "nodes, in the order of the program",
                "error",
                Unit::kNumber,
                true,
                {},
                {"within the tolerance", "beyond it"},
                {}};
  PageTable table{"Layers",
                  "",
                  {{"value", Unit::kCode},
                   {"operator", Unit::kCode},
                   {"place", Unit::kCode},
                   {"type", Unit::kCode},
                   {"answer"},
                   {"error", Unit::kNumber},
                   {"max abs", Unit::kNumber},
                   {"root mean square", Unit::kNumber},
                   {"unequal", Unit::kCount},
                   {"of", Unit::kCount}},
                  {},
                  {}};
  struct Module {
    double error = 0;
    bool differs = false;
    size_t first = 0;
  };
  std::map<std::string, Module> modules;
  for (const VerifyLayers::Node& n : l.all) {
    const std::optional<double> error = ErrorOf(n);
    const std::string name =
        text::StrCat(n.value, " = ", n.op, n.place.empty() ? "" : " in ", n.place.empty() ? "" : n.place);
    if (error) {
      bars.items.push_back({name, *error, n.differs});
      Module& m = modules.try_emplace(ModuleOf(n.place), Module{0, false, bars.items.size()}).first->second;
      m.error = std::max(m.error, *error);
      m.differs = m.differs || n.differs;
    }
    std::vector<Cell> row = {n.value, n.op, n.place, n.a_type, std::string(n.differs ? "differs" : "agrees")};
    row.resize(table.columns.size());
    if (const auto& d = n.difference) {
      row[5] = *error, row[6] = d->max_abs;
      if (n.rms > 0) row[7] = n.rms;
      row[8] = static_cast<double>(d->unequal), row[9] = static_cast<double>(d->elements);
    }
    table.rows.push_back(std::move(row));
  }
  if (l.all.empty()) return;
  page->Add(bars);
  if (modules.size() > 1) {
    PageBars by_module = bars;
    by_module.title = "Error by module";
    by_module.text = "The largest of a module's nodes, in the order in which the modules begin.";
    by_module.x = "modules";
    by_module.items.clear();
    std::vector<std::pair<std::string, Module>> order(modules.begin(), modules.end());
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
    for (const auto& [name, m] : order)
      by_module.items.push_back({name.empty() ? "(no module)" : name, m.error, m.differs});
    page->Add(by_module);
  }
  page->Add(table);
}

}  // namespace

absl::Status WriteVerifyPage(const VerifyReport& r, const VerifyOptions& o, const std::string& html) {
  if (html.empty()) return absl::OkStatus();
  std::vector<NamedPath> paths = {{"A", o.a}, {"B", o.b}, {"--html", html, NamedPath::kReport}};
  for (const std::string& path : o.inputs) paths.push_back({"--inputs", path});
  for (const std::string& path : o.plugins) paths.push_back({"--plugin", path});
  RETURN_IF_ERROR(CheckDistinct(paths));
  Page page(r.agree ? "slipway verify: they agree" : "slipway verify: they differ");
  page.Fact("A", o.a).Fact("B", NameOfB(o));
  if (r.layers && r.layers->first) {
    const VerifyLayers::Node& n = *r.layers->first;
    page.Fact("first to differ", text::StrCat(n.value, " = ", n.op, n.place.empty() ? "" : " at ", n.place));
  }
  if (!r.reference_note.empty()) page.Note(r.reference_note);
  for (const std::string& note : r.notes) page.Note(note);
  if (r.layers && !r.layers->note.empty()) page.Note(text::StrCat("layers: ", r.layers->note));
  if (r.layers && r.layers->unmatched > 0)
    page.Note(text::StrCat(r.layers->unmatched, " values of A have no counterpart in B"));
  for (size_t i = 0; i < r.sets.size(); ++i)
    page.Add(Outputs(r.sets[i], r.sets.size() > 1 ? text::StrCat("Outputs of set ", i + 1) : "Outputs"));
  if (r.layers) AddLayers(*r.layers, &page);
  return WritePage(html, page.Take());
}

}  // namespace slipway::driver
