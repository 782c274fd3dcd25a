// Reports of inspect as tables for people.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/byte_count.h"
#include "base/name_pattern.h"
#include "base/text.h"
#include "base/utf8.h"
#include "driver/edge/format.h"
#include "driver/inspect/inspect.h"
#include "driver/inspect/inspect_text.h"

namespace slipway::driver {

namespace {

std::string TypeText(const TensorRow& r) {
  if (r.is_tensor) return text::StrCat(r.dtype, "[", text::Join(r.shape, ","), "]");
  if (!r.dtype.empty()) return text::StrCat(r.dtype, "(", r.value, ")");
  return r.value.empty() ? r.kind : r.value;
}

// Control characters of names must not reach a terminal, and one long name must not fill it.
std::string ShownInText(std::string_view name) { return text::Printable(text::Shortened(name, 400)); }

class Table {
 public:
  void Line(std::string_view s) { text::StrAppend(&out_, s, "\n"); }
  // Columns are as wide as their widest cell.
  void Rows(const std::vector<std::vector<std::string>>& rows) {
    std::vector<size_t> width;
    for (const auto& row : rows)
      for (size_t c = 0; c < row.size(); ++c) {
        if (c >= width.size()) width.push_back(0);
        width[c] = std::max(width[c], row[c].size());
      }
    for (const auto& row : rows) {
      std::string line = "    ";
      for (size_t c = 0; c < row.size(); ++c) {
        line += row[c];
        if (c + 1 < row.size()) line.append(width[c] - row[c].size() + 2, ' ');
      }
      while (!line.empty() && line.back() == ' ') line.pop_back();
      Line(line);
    }
  }
  void Section(std::string_view title, const std::vector<TensorRow>& rows) {
    if (rows.empty()) return;
    Line(text::StrCat("  ", title));
    std::vector<std::vector<std::string>> cells;
    for (const TensorRow& r : rows) {
      cells.push_back({ShownInText(r.name), ShownInText(TypeText(r))});
      if (r.kind != "input" && r.kind != "output") cells.back().push_back(r.kind);
    }
    Rows(cells);
  }
  void Weights(const std::vector<TensorRow>& rows, bool all) {
    std::vector<const TensorRow*> stored, lacking;
    for (const TensorRow& r : rows) (r.stored ? stored : lacking).push_back(&r);
    Stored(stored, all);
    Lacking(lacking, all);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;

  void Stored(const std::vector<const TensorRow*>& rows, bool all) {
    if (rows.empty()) return;
    uint64_t bytes = 0;
    std::map<std::string, std::pair<uint64_t, uint64_t>> by_dtype;
    for (const TensorRow* r : rows) {
      bytes += r->bytes;
      auto& [count, size] = by_dtype[r->form.empty() ? r->dtype : "quantized"];
      ++count;
      size += r->bytes;
    }
    std::vector<std::string> totals;
    for (const auto& [dtype, total] : by_dtype)
      totals.push_back(text::StrCat(total.first, " ", dtype, " of ", text::ByteCount(total.second)));
    Line(text::StrCat("  weights: ", Plural(rows.size(), "tensor"), ", ", text::ByteCount(bytes), " (",
                      text::Join(totals, ", "), ")"));
    std::vector<std::vector<std::string>> cells;
    for (const TensorRow* r : rows) {
      if (!all && cells.size() == kShownWeights) break;
      cells.push_back({ShownInText(r->name), TypeText(*r), text::ByteCount(r->bytes),
                       !r->form.empty()         ? ShownInText(r->form)
                       : r->kind == "parameter" ? ""
                                                : r->kind});
    }
    Rows(cells);
    if (cells.size() < rows.size())
      Line(text::StrCat("    … ", rows.size() - cells.size(), " more (--weights lists all)"));
  }

  // Weights that the file has no values of, layers of a stack in one line.
  void Lacking(const std::vector<const TensorRow*>& rows, bool all) {
    if (rows.empty()) return;
    struct Group {
      const TensorRow* first;
      std::string pattern;
      uint64_t count = 0, bytes = 0;
    };
    std::vector<Group> groups;
    std::map<std::tuple<std::string, std::string, std::string>, size_t> places;
    uint64_t bytes = 0;
    const auto add = [](uint64_t* sum, uint64_t n) {
      if (__builtin_add_overflow(*sum, n, sum)) *sum = std::numeric_limits<uint64_t>::max();
    };
    for (const TensorRow* r : rows) {
      std::string pattern = all ? r->name : text::NamePattern(r->name);
      const auto [at, fresh] = places.try_emplace({pattern, TypeText(*r), r->kind}, groups.size());
      if (fresh) groups.push_back({r, std::move(pattern)});
      Group& g = groups[at->second];
      ++g.count;
      add(&g.bytes, r->lacking);
      add(&bytes, r->lacking);
    }
    Line(text::StrCat("  without values: ", Plural(rows.size(), "tensor"), " of ", text::ByteCount(bytes),
                      " (convert --weights gives them)"));
    std::vector<std::vector<std::string>> cells;
    uint64_t shown = 0;
    for (const Group& g : groups) {
      if (!all && cells.size() == kShownWeights) break;
      shown += g.count;
      cells.push_back(
          {g.count == 1 ? ShownInText(g.first->name) : text::StrCat(ShownInText(g.pattern), "  (", g.count, ")"),
           TypeText(*g.first), text::ByteCount(g.bytes), g.first->kind == "parameter" ? "" : g.first->kind});
    }
    Rows(cells);
    if (shown < rows.size()) Line(text::StrCat("    … ", rows.size() - shown, " more (--weights lists all)"));
  }
};

// "avx512: widened in registers", or with the numbers of rows before each; "or" where other sizes decide.
std::string LoopsText(const ProductRow& p) {
  const bool by_rows = p.loops.size() > 1 && p.loops[1].from > p.loops[0].from;
  std::vector<std::string> parts;
  for (const ProductRow::Rows& l : p.loops) {
    std::string rows;
    if (by_rows) {
      rows = text::StrCat(l.from);
      if (l.to == 0) rows += '+';
      if (l.to > l.from) text::StrAppend(&rows, "-", l.to);
      rows += l.to == 1 ? " row: " : " rows: ";
    }
    parts.push_back(text::StrCat(rows, l.isa, ": ", l.way));
  }
  return text::Join(parts, by_rows ? "; " : " or ");
}

std::vector<std::vector<std::string>> ProductCells(const KernelsReport& r) {
  std::vector<std::vector<std::string>> cells;
  for (const ProductRow& p : r.products) {
    std::string sizes = p.batch == "1" ? "" : text::StrCat(p.batch, " of ");
    text::StrAppend(&sizes, p.m, " x ", p.k, p.n.empty() ? "" : text::StrCat(" x ", p.n));
    std::string weight = p.bytes == 0 ? "" : text::ByteCount(p.bytes);
    if (!p.packing.empty()) text::StrAppend(&weight, " in ", p.packing);
    if (p.groups > 1) text::StrAppend(&weight, ", ", p.groups, " groups");
    cells.push_back({ShownInText(p.place.empty() ? p.op : p.place), p.kernel, ShownInText(sizes),
                     p.right.empty() ? text::StrCat(p.left, " -> ", p.result)
                                     : text::StrCat(p.left, " x ", p.right, " -> ", p.result),
                     weight, LoopsText(p)});
  }
  return cells;
}

}  // namespace

std::string ToTable(const FileReport& r, bool ops, bool all_weights) {
  Table t;
  std::string_view format = r.format;
  for (const Format& f : Formats())
    if (f.name == r.format) format = f.title;
  t.Line(text::StrCat(
      ShownInText(r.file), ": ", format, r.target.empty() ? "" : " for ", r.target, ", ", text::ByteCount(r.bytes),
      r.runtime_bytes > 0 ? text::StrCat(" (", text::ByteCount(r.runtime_bytes), " of them kernels)") : "",
      r.producer.empty() ? "" : ", ", ShownInText(r.producer)));
  for (const ProgramReport& p : r.programs) {
    t.Line("");
    t.Line(text::StrCat("program ", ShownInText(p.name), ": ", Plural(p.nodes, "node"), " of ",
                        Plural(p.ops.size(), "operator"),
                        p.subgraphs ? text::StrCat(", ", Plural(p.subgraphs, "subgraph")) : "", ", ", p.form));
    t.Section("inputs", p.inputs);
    t.Section("outputs", p.outputs);
    t.Section("updates", p.updates);
    if (!p.dims.empty()) {
      t.Line("  dims");
      std::vector<std::vector<std::string>> cells;
      for (const ir::SymbolInfo& s : p.dims)
        cells.push_back({ShownInText(s.name), text::StrCat(Bound(s.range.min), "..", Bound(s.range.max)),
                         s.hint ? text::StrCat(*s.hint, " at export") : ""});
      t.Rows(cells);
    }
    if (!p.guards.empty()) {
      t.Line("  guards");
      for (const std::string& g : p.guards) t.Line(text::StrCat("    ", ShownInText(g)));
    }
    t.Weights(p.weights, all_weights);
    if (ops) {
      t.Line("  operators");
      std::vector<std::pair<std::string, int>> order(p.ops.begin(), p.ops.end());
      std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
      std::vector<std::vector<std::string>> cells;
      for (const auto& [name, count] : order) cells.push_back({text::StrCat(count), ShownInText(name)});
      t.Rows(cells);
    }
  }
  if (r.kernels) {
    const KernelsReport& k = *r.kernels;
    t.Line(text::StrCat("  products on this machine: ", k.isa, ", integers ", k.integers,
                        k.bf16.empty() ? "" : ", bf16 ", k.bf16,
                        k.cap.empty() ? "" : text::StrCat(" (capped by SLIPWAY_ISA=", k.cap, ")")));
    t.Rows(ProductCells(k));
  }
  if (!r.quantization.empty()) t.Line(text::StrCat("  quantized: ", ShownInText(r.quantization)));
  t.Weights(r.tensors, all_weights);
  auto section = [&](std::string_view title, const auto& map, auto shown) {
    if (map.empty()) return;
    t.Line(title);
    std::vector<std::vector<std::string>> cells;
    for (const auto& [key, value] : map) cells.push_back({ShownInText(key), shown(value)});
    t.Rows(cells);
  };
  if (r.onnx) {
    std::vector<std::string> opsets;
    for (const auto& [domain, version] : r.onnx->opsets)
      opsets.push_back(text::StrCat(domain.empty() ? "ai.onnx" : ShownInText(domain), " ", version));
    t.Line(text::StrCat("  opsets: ", text::Join(opsets, ", "), "; IR version ", r.onnx->ir_version));
    if (!r.onnx->functions.empty()) t.Line("  functions");
    for (const std::string& f : r.onnx->functions) t.Line(text::StrCat("    ", ShownInText(f)));
    section("  external data", r.onnx->external_data, [](uint64_t n) { return text::ByteCount(n); });
  }
  section("  metadata", r.metadata, [](const std::string& v) { return ShownInText(v); });
  section("  extra files", r.extra_files, [](uint64_t n) { return text::ByteCount(n); });
  if (r.verified)
    t.Line(r.verified->members == 0 ? "  verified: nothing, the format has no checksums"
                                    : text::StrCat("  verified: ", Plural(r.verified->members, "member"), ", ",
                                                   text::ByteCount(r.verified->bytes)));
  if (r.verified)
    for (const std::string& c : r.verified->corrected) t.Line(text::StrCat("  note: ", ShownInText(c)));
  return t.Take();
}

}  // namespace slipway::driver
