// The report's tables, and what the report does not hold: the graphs, which are read again, the reasons of dims and the
// values of weights.
#include "driver/inspect/inspect_html.h"

#include <algorithm>
#include <map>

#include "base/byte_count.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/format.h"
#include "driver/edge/paths.h"
#include "driver/html/graph_section.h"
#include "driver/html/page.h"
#include "driver/inspect/inspect_text.h"
#include "driver/inspect/operations.h"
#include "dynamic_shapes/ledger.h"
#include "ir/clone.h"
#include "kernels/parallel.h"
#include "onnx_model/onnx_graph.h"
#include "passes/pass.h"
#include "quantizer/quantize.h"

namespace slipway::driver {
namespace {

using Cell = PageTable::Cell;
using WeightTensors = std::map<std::string, ir::ShardedTensor>;  // weights of which the values are there

// What is read again of the file.
struct OpenedFile {
  std::vector<std::unique_ptr<ir::Program>> programs;  // parallel to the report's, or none
  bool onnx = false;
};

absl::StatusOr<OpenedFile> OpenFile(const FileReport& r, WeightTensors* tensors) {
  OpenedFile out;
  ASSIGN_OR_RETURN(const Source source, OpenSource(r.file));
  ASSIGN_OR_RETURN(const Format* const format, FormatOf(source));
  if (format->onnx_graph) {
    ASSIGN_OR_RETURN(auto program, OpenOnnxGraph(source));
    out.programs.push_back(std::move(program));
    out.onnx = true;
  } else if (format->programs) {
    ASSIGN_OR_RETURN(ir::Archive archive, OpenArchive(source));
    out.programs = std::move(archive.programs);
  } else if (format->tensors) {
    ASSIGN_OR_RETURN(ir::TensorSet set, format->tensors(source, ""));
    for (auto& [name, t] : set.tensors) tensors->emplace(name, std::move(t));
    for (auto& [name, t] : set.sharded) tensors->emplace(name, std::move(t));
  }
  return out;
}

std::string ShapeText(const TensorRow& r) {
  return r.is_tensor ? text::StrCat("[", text::Join(r.shape, ", "), "]") : r.value;
}

PageTable Interface(std::string title, const ProgramReport& p) {
  PageTable t{std::move(title), "", {{"name", Unit::kCode}, {"is"}, {"type"}, {"shape", Unit::kCode}}, {}, {}};
  for (const auto* rows : {&p.inputs, &p.outputs, &p.updates})
    for (const TensorRow& r : *rows) t.rows.push_back({r.name, r.kind, r.dtype, ShapeText(r)});
  return t;
}

absl::StatusOr<PageTable> Weights(std::string title, const std::vector<TensorRow>& rows, const WeightTensors& tensors,
                                  bool histograms) {
  PageTable t{std::move(title),
              histograms ? "A click on a weight draws how its values are spread." : "",
              {{"name", Unit::kCode}, {"type"}, {"shape", Unit::kCode}, {"bytes", Unit::kBytes}, {"is"}},
              {},
              {}};
  for (const TensorRow& r : rows)
    t.rows.push_back({r.name, r.dtype, ShapeText(r), static_cast<double>(r.stored ? r.bytes : r.lacking),
                      r.stored ? (r.form.empty() ? r.kind : r.form) : text::StrCat(r.kind, ", without values")});
  if (!histograms) return t;
  t.histograms.resize(rows.size());
  RETURN_IF_ERROR(quantizer::InParallel(kernels::DefaultThreads(), rows.size(), [&](size_t i) -> absl::Status {
    const auto it = tensors.find(rows[i].name);
    if (it == tensors.end()) return absl::OkStatus();
    ASSIGN_OR_RETURN(t.histograms[i], weights::HistogramOf(it->second));
    return absl::OkStatus();
  }));
  return t;
}

// "layers.3.mlp" and "weight" of a parameter's name.
void AddWeightLeaf(const TensorRow& r, PageTreemap* map) {
  const size_t dot = r.name.rfind('.');
  map->leaves.push_back({dot == r.name.npos ? "" : r.name.substr(0, dot),
                         dot == r.name.npos ? r.name : r.name.substr(dot + 1),
                         false,
                         {static_cast<double>(r.stored ? r.bytes : r.lacking), 0, 0}});
}

struct Counted {
  int64_t nodes = 0, unknown = 0;
  double operations = 0;
};

// Nodes by module and operator.
void Count(const ir::Graph& g, const OperationCounter& counter,
           std::map<std::pair<std::string, std::string>, Counted>* counts) {
  for (const ir::Node* n : g) {
    Counted& c = (*counts)[{ModuleOf(*n), std::string(n->op_name())}];
    ++c.nodes;
    const std::optional<double> operations = counter.Of(*n);
    c.operations += operations.value_or(0);
    c.unknown += !operations;
    for (const ir::NamedArg& a : n->args())
      if (const auto* sub = a.arg.get<ir::SubGraph>(); sub && *sub) Count(**sub, counter, counts);
  }
}

std::string RangeText(ir::SymRange r) { return text::StrCat(Bound(r.min), "..", Bound(r.max)); }

// Every dim of the inputs with the node that decided it; without a ledger, the symbols.
absl::StatusOr<PageTable> Dims(std::string title, const ProgramReport& report, const ir::Program* program) {
  if (!program) {
    PageTable t{std::move(title), "", {{"name", Unit::kCode}, {"range"}, {"at export", Unit::kCount}}, {}, {}};
    for (const ir::SymbolInfo& s : report.dims)
      t.rows.push_back({s.name, RangeText(s.range), s.hint ? Cell(static_cast<double>(*s.hint)) : Cell()});
    return t;
  }
  // The ledger's copy is rewritten.
  const std::unique_ptr<ir::Program> copy = ir::Clone(*program);
  ConversionContext context;
  RETURN_IF_ERROR(passes::RunPasses(passes::kPlainNodes, *copy, context));
  const dynamic_shapes::Ledger ledger = dynamic_shapes::LedgerOf(*copy);
  PageTable t{
      std::move(title),
      "What each dim of an input may be, and what decided that.",
      {{"dim", Unit::kCode}, {"size", Unit::kCode}, {"range"}, {"at export", Unit::kCount}, {"cause"}, {"help"}},
      {},
      {}};
  for (const dynamic_shapes::DimFact& f : ledger.dims)
    t.rows.push_back({text::StrCat(f.input, ".", f.axis), f.size.ToString(),
                      f.kind == dynamic_shapes::DimFact::kStatic ? std::string("static") : RangeText(f.range),
                      f.example >= 0 ? Cell(static_cast<double>(f.example)) : Cell(), f.cause,
                      f.kind == dynamic_shapes::DimFact::kStatic ? f.help : ""});
  for (const auto& [condition, node] : ledger.conditions)
    t.rows.push_back({std::string("must hold"), condition, std::string(), Cell(), node, std::string()});
  return t;
}

absl::Status AddProgram(const ProgramReport& r, const ir::Program* p, bool onnx, const std::string& of,
                        const WeightTensors& tensors, bool histograms, Page* page) {
  PageTreemap map{
      "Modules" + of, "", {{"bytes", Unit::kBytes}, {"operations", Unit::kOperations}, {"nodes", Unit::kCount}}, {}};
  for (const TensorRow& w : r.weights) AddWeightLeaf(w, &map);
  std::map<std::pair<std::string, std::string>, Counted> counts;
  std::map<std::string, Counted> by_operator;
  if (p) {
    Count(*p->graph, OperationCounter(*p), &counts);
  } else {
    for (const auto& [op, n] : r.ops) counts[{"", op}].nodes = n;
  }
  int64_t unknown = 0;
  for (const auto& [key, c] : counts) {
    map.leaves.push_back({key.first, key.second, true, {0, c.operations, static_cast<double>(c.nodes)}});
    Counted& sum = by_operator[key.second];
    sum.nodes += c.nodes, sum.operations += c.operations, sum.unknown += c.unknown;
    unknown += c.unknown;
  }
  map.text =
      "Operations are the multiplications and additions of products of matrices and convolutions, at the sizes of the "
      "export.";
  if (unknown > 0) text::StrAppend(&map.text, " Of ", Plural(unknown, "node"), " the sizes are not known.");
  page->Add(map);
  page->Add(Interface("Inputs and outputs" + of, r));
  if (!r.dims.empty() || (p && !onnx)) {
    auto dims = Dims("Dims" + of, r, onnx ? nullptr : p);
    if (dims.ok())
      page->Add(*dims);
    else
      page->Note(text::StrCat("the causes of dims are not known: ", text::FromAbsl(dims.status().message())));
  }
  PageTable guards{"Guards" + of, "What the program checks of its inputs.", {{"guard", Unit::kCode}}, {}, {}};
  for (const std::string& g : r.guards) guards.rows.push_back({g});
  if (!guards.rows.empty()) page->Add(guards);
  PageTable ops{"Operators" + of,
                "",
                {{"operator", Unit::kCode}, {"nodes", Unit::kCount}, {"operations", Unit::kOperations}},
                {},
                {}};
  for (const auto& [op, c] : by_operator)
    ops.rows.push_back({op, static_cast<double>(c.nodes), p && c.unknown < c.nodes ? Cell(c.operations) : Cell()});
  std::stable_sort(ops.rows.begin(), ops.rows.end(),
                   [](const auto& a, const auto& b) { return std::get<double>(a[1]) > std::get<double>(b[1]); });
  page->Add(ops);
  ASSIGN_OR_RETURN(const PageTable weights, Weights("Weights" + of, r.weights, tensors, histograms));
  if (!weights.rows.empty()) page->Add(weights);
  if (p) AddGraph("Graph" + of, *p, page);
  return absl::OkStatus();
}

absl::StatusOr<std::string> InspectPage(const FileReport& r, bool histograms) {
  WeightTensors tensors;
  ASSIGN_OR_RETURN(const OpenedFile opened, OpenFile(r, &tensors));
  Page page(text::StrCat("slipway inspect: ", r.file.substr(r.file.rfind('/') + 1)));
  std::string_view title = r.format;
  for (const Format& f : Formats())
    if (f.name == r.format) title = f.title;
  page.Fact("file", r.file).Fact("format", title).Fact("size", text::ByteCount(r.bytes));
  if (!r.target.empty()) page.Fact("for", r.target);
  if (r.runtime_bytes > 0) page.Fact("of it kernels", text::ByteCount(r.runtime_bytes));
  if (!r.producer.empty()) page.Fact("made by", r.producer);
  if (!r.quantization.empty()) page.Fact("quantized", r.quantization);
  if (r.onnx) {
    std::vector<std::string> opsets;
    for (const auto& [domain, version] : r.onnx->opsets)
      opsets.push_back(text::StrCat(domain.empty() ? "ai.onnx" : domain, " ", version));
    page.Fact("opsets", text::Join(opsets, ", "));
  }
  for (size_t i = 0; i < r.programs.size(); ++i) {
    const ProgramReport& program = r.programs[i];
    const std::string of = r.programs.size() > 1 ? text::StrCat(" of ", program.name) : "";
    page.Fact(text::StrCat("program", of.empty() ? "" : text::StrCat(" ", i + 1)),
              text::StrCat(program.name, ": ", Plural(program.nodes, "node"), " of ",
                           Plural(program.ops.size(), "operator"), ", ", program.form));
    const ir::Program* p = i < opened.programs.size() ? opened.programs[i].get() : nullptr;
    WeightTensors of_program;
    if (p)
      for (const auto& [name, t] : p->weights) of_program.emplace(name, t);
    RETURN_IF_ERROR(AddProgram(program, p, opened.onnx, of, of_program, histograms, &page));
  }
  if (!r.tensors.empty()) {
    PageTreemap map{"Modules", "", {{"bytes", Unit::kBytes}}, {}};
    for (const TensorRow& t : r.tensors) {
      AddWeightLeaf(t, &map);
      map.leaves.back().values.resize(1);
    }
    page.Add(map);
    ASSIGN_OR_RETURN(const PageTable weights, Weights("Weights", r.tensors, tensors, histograms));
    page.Add(weights);
  }
  PageTable metadata{"Metadata", "", {{"key", Unit::kCode}, {"value"}}, {}, {}};
  for (const auto& [key, value] : r.metadata) metadata.rows.push_back({key, value});
  for (const auto& [name, bytes] : r.extra_files)
    metadata.rows.push_back({name, text::StrCat("a file of ", text::ByteCount(bytes))});
  if (!metadata.rows.empty()) page.Add(metadata);
  return page.Take();
}

}  // namespace

absl::Status WriteInspectPage(const FileReport& report, const std::string& html, bool histograms) {
  RETURN_IF_ERROR(CheckDistinct(std::vector<NamedPath>{{"FILE", report.file}, {"--html", html, NamedPath::kReport}}));
  ASSIGN_OR_RETURN(std::string page, InspectPage(report, histograms));
  return WritePage(html, std::move(page));
}

}  // namespace slipway::driver
