// What report.md says, drawn.
#include "driver/minify/minify_html.h"

#include <variant>

#include "base/byte_count.h"
#include "base/text.h"
#include "driver/edge/paths.h"
#include "driver/html/graph_section.h"
#include "driver/html/page.h"
#include "ir/text.h"

namespace slipway::driver {
namespace {

std::string BeforeAfter(uint64_t before, uint64_t after) { return text::StrCat(before, " → ", after); }

uint64_t UserInputCount(const ir::Program& p) {
  uint64_t n = 0;
  for (const ir::InputSpec& s : p.input_specs) n += s.kind == ir::InputSpec::kUser;
  return n;
}

std::string WeightsText(const ir::Program& p) {
  uint64_t bytes = 0;
  for (const auto& [name, t] : p.weights)
    if (std::holds_alternative<io::Bytes>(t.storage->bytes)) bytes += static_cast<uint64_t>(t.nbytes());
  return text::StrCat(p.weights.size(), " of ", text::ByteCount(bytes));
}

}  // namespace

absl::Status CheckMinifyPage(const MinifyOptions& o) {
  return CheckDistinct(
      std::vector<NamedPath>{{"IN", o.input}, {"--inputs", o.inputs}, {"--html", o.html, NamedPath::kReport}});
}

absl::Status WriteMinifyPage(const MinifyOptions& o, const MinifyReport& r, const ir::Program& original,
                             const ir::Program& best) {
  if (o.html.empty()) return absl::OkStatus();
  Page page(text::StrCat("slipway minify: ", o.input.substr(o.input.rfind('/') + 1)));
  page.Fact("the failure", r.failure).Fact("the check", o.check).Fact("the result", o.folder);
  page.Fact("nodes",
            BeforeAfter(static_cast<uint64_t>(r.reached.nodes_before), static_cast<uint64_t>(r.reached.nodes)));
  page.Fact("inputs", BeforeAfter(UserInputCount(original), UserInputCount(best)));
  page.Fact("outputs", BeforeAfter(original.graph->outputs.size(), best.graph->outputs.size()));
  page.Fact("weights", text::StrCat(WeightsText(original), " → ", WeightsText(best)));
  page.Fact("checks", text::StrCat(r.reached.probes, ", ", r.asked, " of them by this run"));
  if (r.stopped) page.Note("a limit of time or probes was reached: more may go");
  for (const std::string& note : r.notes) page.Note(note);
  PageBars bars{"Nodes after each step", "", "steps", "nodes", Unit::kCount, false, {}, {}, {}};
  bars.items.push_back({"the original", static_cast<double>(r.reached.nodes_before)});
  PageTable steps{"What was done",
                  r.steps.empty() ? "Nothing could be taken away." : "",
                  {{"step", Unit::kCount},
                   {"what"},
                   {"nodes before", Unit::kCount},
                   {"after", Unit::kCount},
                   {"checks until then", Unit::kCount}},
                  {},
                  {}};
  for (const MinifyReport::Step& s : r.steps) {
    steps.rows.push_back({static_cast<double>(steps.rows.size() + 1), s.what, static_cast<double>(s.nodes_before),
                          static_cast<double>(s.nodes), static_cast<double>(s.probes)});
    bars.items.push_back({text::StrCat("step ", steps.rows.size(), ", ", s.what), static_cast<double>(s.nodes)});
  }
  PageTable left{"What is left",
                 "",
                 {{"value", Unit::kCode}, {"operator", Unit::kCode}, {"type", Unit::kCode}, {"came from", Unit::kCode}},
                 {},
                 {}};
  for (const ir::Node* n : *best.graph) {
    const ir::Value* v = n->output() ? original.graph->FindValue(n->output()->name()) : nullptr;
    const ir::Node* of = v && v->producer() ? v->producer() : n;
    left.rows.push_back({n->output() ? n->output()->name() : "", std::string(n->op_name()),
                         n->output() ? n->output()->type().ToString() : "",
                         of->source() ? of->source()->Describe() : ""});
  }
  page.Add(bars).Add(steps).Add(left);
  AddGraph("Graph of what is left", best, &page);
  ir::PrintOptions print;
  print.sources = ir::PrintOptions::kShort;
  print.data = false;
  page.AddText("As text", "The nodes; min.ir of the result has the weights, too.", ir::Print(best, print));
  return WritePage(o.html, page.Take());
}

}  // namespace slipway::driver
