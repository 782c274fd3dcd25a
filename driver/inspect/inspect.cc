// What a file holds as a record, and the record as a table or as JSON.
#include "driver/inspect/inspect.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/byte_count.h"
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "driver/convert/missing_weights.h"
#include "driver/convert/output_names.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/format.h"
#include "dynamic_shapes/rewrite.h"
#include "exporters/native/c_header.h"
#include "importers/native/native_file.h"
#include "importers/onnx/onnx.h"
#include "io/inputs.h"
#include "io/mapped_file.h"
#include "kernels/executor/execute.h"
#include "kernels/executor/plan_products.h"
#include "kernels/isa/bf16.h"
#include "kernels/isa/dot.h"
#include "onnx_model/onnx_graph.h"
#include "planner/planner.h"
#include "planner/rules.h"

namespace slipway::driver {
namespace {

constexpr size_t kShownWeights = 20;

std::string Plural(uint64_t n, std::string_view what) { return text::StrCat(n, " ", what, n == 1 ? "" : "s"); }

std::string ConstantText(const ir::Arg& a) {
  if (a.is_none()) return "None";
  if (auto x = a.get<int64_t>()) return text::StrCat(*x);
  if (auto x = a.get<double>()) return text::StrCat(*x);
  if (auto x = a.get<bool>()) return *x ? "true" : "false";
  if (auto x = a.get<std::string>()) return *x;
  return "…";
}

TensorRow Row(std::string name, std::string kind, const ir::Type& t) {
  TensorRow row;
  row.name = std::move(name);
  row.kind = std::move(kind);
  row.is_tensor = t.is_tensor();
  if (t.is_tensor()) {
    row.dtype = ir::Name(t.dtype);
    for (ir::Sym s : t.sizes) row.shape.push_back(s.ToString());
  } else if (t.is_sym()) {
    row.dtype = t.kind == ir::Type::kSymInt ? "i64" : t.kind == ir::Type::kSymFloat ? "f64" : "bool";
    row.value = t.expr.ToString();
  } else if (t.kind == ir::Type::kObject) {
    row.value = t.class_name;
  }
  return row;
}

TensorRow WeightRow(std::string name, std::string kind, const ir::TensorRef& t) {
  TensorRow row;
  row.name = std::move(name);
  row.kind = std::move(kind);
  row.dtype = ir::Name(t.dtype);
  for (int64_t s : t.sizes) row.shape.push_back(text::StrCat(s));
  row.bytes = static_cast<uint64_t>(t.nbytes());
  return row;
}

void Count(const ir::Graph& g, ProgramReport& r, std::set<const ir::Graph*>& seen) {
  for (const ir::Node* n : g) {
    ++r.nodes;
    ++r.ops[std::string(n->op_name())];
    for (const ir::NamedArg& a : n->args()) {
      auto sub = a.arg.get<ir::SubGraph>();
      if (!sub || !*sub || !seen.insert(sub->get()).second) continue;
      ++r.subgraphs;
      Count(**sub, r, seen);
    }
  }
}

}  // namespace

ProgramReport ReportOf(const ir::Program& p) {
  ProgramReport r;
  r.name = p.name;
  r.form = p.form == ir::Form::kFunctional ? "functional" : "as exported";
  r.torch_version = p.torch_version;
  r.dialect = p.verifier_dialect;
  r.schema_major = p.schema_major;
  r.schema_minor = p.schema_minor;
  r.guards = p.guards;
  r.dims = p.syms->symbols();
  std::set<const ir::Graph*> seen;
  Count(*p.graph, r, seen);

  static constexpr const char* kInputs[] = {"input",      "parameter", "buffer",  "tensor_constant",
                                            "custom_obj", "token",     "constant"};
  static constexpr const char* kOutputs[] = {"output",
                                             "loss",
                                             "buffer_mutation",
                                             "parameter_mutation",
                                             "gradient_to_parameter",
                                             "gradient_to_user_input",
                                             "user_input_mutation",
                                             "token"};
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::InputSpec& s = p.input_specs[i];
    const ir::Value& v = *p.graph->inputs()[i];
    if (!s.is_weight()) {
      TensorRow row = Row(v.name(), kInputs[s.kind], v.type());
      if (s.kind == ir::InputSpec::kConstant) row.value = ConstantText(s.constant);
      r.inputs.push_back(std::move(row));
      continue;
    }
    auto it = p.weights.find(s.target);
    if (it != p.weights.end()) {
      r.weights.push_back(WeightRow(s.target, kInputs[s.kind], it->second));
    } else {
      r.weights.push_back(Row(s.target, kInputs[s.kind], v.type()));
      r.weights.back().stored = false;
    }
  }
  for (size_t i = 0; i < p.output_specs.size(); ++i) {
    const ir::OutputSpec& s = p.output_specs[i];
    const ir::Arg& a = p.graph->outputs[i];
    const bool update =
        s.kind != ir::OutputSpec::kUser && s.kind != ir::OutputSpec::kLoss && s.kind != ir::OutputSpec::kToken;
    TensorRow row;
    if (const ir::Value* v = a.value()) {
      row = Row(update ? s.target : v->name(), kOutputs[s.kind], v->type());
    } else {
      row.name = text::StrCat("output_", i);
      row.kind = kOutputs[s.kind];
      row.is_tensor = false;
      row.value = ConstantText(a);
    }
    (update ? r.updates : r.outputs).push_back(std::move(row));
  }
  return r;
}

namespace {

std::string TypeText(const TensorRow& r) {
  if (r.is_tensor) return text::StrCat(r.dtype, "[", text::Join(r.shape, ","), "]");
  if (!r.dtype.empty()) return text::StrCat(r.dtype, "(", r.value, ")");
  return r.value.empty() ? r.kind : r.value;
}

// Control characters of names must not reach a terminal, and one long name must not fill it.
std::string Shown(std::string_view name) { return text::Printable(text::Shortened(name, 400)); }

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
      cells.push_back({Shown(r.name), Shown(TypeText(r))});
      if (r.kind != "input" && r.kind != "output") cells.back().push_back(r.kind);
    }
    Rows(cells);
  }
  void Weights(const std::vector<TensorRow>& rows, bool all) {
    if (rows.empty()) return;
    uint64_t bytes = 0, missing = 0;
    std::map<std::string, std::pair<uint64_t, uint64_t>> by_dtype;
    for (const TensorRow& r : rows) {
      bytes += r.bytes;
      missing += !r.stored;
      auto& [count, size] = by_dtype[r.dtype];
      ++count;
      size += r.bytes;
    }
    std::vector<std::string> totals;
    for (const auto& [dtype, total] : by_dtype)
      totals.push_back(text::StrCat(total.first, " ", dtype, " of ", text::ByteCount(total.second)));
    Line(text::StrCat("  weights: ", Plural(rows.size(), "tensor"), ", ", text::ByteCount(bytes), " (",
                      text::Join(totals, ", "), ")", missing ? text::StrCat(", ", missing, " without values") : ""));
    std::vector<std::vector<std::string>> cells;
    for (const TensorRow& r : rows) {
      if (!all && cells.size() == kShownWeights) break;
      cells.push_back({Shown(r.name), TypeText(r), r.stored ? text::ByteCount(r.bytes) : "no values",
                       r.kind == "parameter" ? "" : r.kind});
    }
    Rows(cells);
    if (cells.size() < rows.size())
      Line(text::StrCat("    … ", rows.size() - cells.size(), " more (--weights lists all)"));
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
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
    cells.push_back({Shown(p.place.empty() ? p.op : p.place), p.kernel, Shown(sizes),
                     p.right.empty() ? text::StrCat(p.left, " -> ", p.result)
                                     : text::StrCat(p.left, " x ", p.right, " -> ", p.result),
                     weight, LoopsText(p)});
  }
  return cells;
}

std::string Bound(int64_t v) {
  if (v == std::numeric_limits<int64_t>::min()) return "-inf";
  if (v == std::numeric_limits<int64_t>::max()) return "inf";
  return text::StrCat(v);
}

// ---- JSON

void PutRows(json::Writer& j, std::string_view key, const std::vector<TensorRow>& rows, bool weights) {
  j.Key(key);
  j.BeginArray();
  for (const TensorRow& r : rows) {
    j.BeginObject();
    j.Key("name").String(r.name);
    j.Key("kind").String(r.kind);
    if (!r.dtype.empty()) j.Key("dtype").String(r.dtype);
    if (r.is_tensor) {
      j.Key("shape");
      j.BeginArray();
      for (const std::string& s : r.shape) {
        int64_t n;
        if (text::ParseNumber(s, &n))
          j.Raw(s);
        else
          j.String(s);
      }
      j.EndArray();
    } else {
      j.Key("value").String(r.value);
    }
    if (weights) {
      j.Key("bytes").Int(r.bytes);
      j.Key("stored");
      j.Raw(r.stored ? "true" : "false");
    }
    j.EndObject();
  }
  j.EndArray();
}

void PutKernels(json::Writer& j, const KernelsReport& r) {
  j.BeginObject()
      .Key("isa")
      .String(r.isa)
      .Key("integers")
      .String(r.integers)
      .Key("bf16")
      .String(r.bf16)
      .Key("cap")
      .String(r.cap);
  j.Key("products").BeginArray();
  // Numbers as numbers.
  auto size = [&](std::string_view key, const std::string& s) {
    int64_t n;
    j.Key(key);
    if (text::ParseNumber(s, &n))
      j.Int(n);
    else
      j.String(s);
  };
  for (const ProductRow& p : r.products) {
    j.BeginObject().Key("op").String(p.op).Key("place").String(p.place).Key("kernel").String(p.kernel);
    size("batch", p.batch), size("m", p.m), size("k", p.k);
    if (!p.n.empty()) size("n", p.n);
    j.Key("left").String(p.left);
    if (!p.right.empty()) j.Key("right").String(p.right);
    j.Key("result")
        .String(p.result)
        .Key("groups")
        .Int(p.groups)
        .Key("packing")
        .String(p.packing)
        .Key("weight_bytes")
        .Int(p.bytes);
    j.Key("loops").BeginArray();
    for (const ProductRow::Rows& l : p.loops) {
      j.BeginObject().Key("from").Int(l.from).Key("to");
      if (l.to == 0)
        j.Raw("null");
      else
        j.Int(l.to);
      j.Key("isa").String(l.isa).Key("way").String(l.way).EndObject();
    }
    j.EndArray().EndObject();
  }
  j.EndArray().EndObject();
}

void PutProgram(json::Writer& j, const ProgramReport& p) {
  j.BeginObject();
  j.Key("name").String(p.name);
  j.Key("form").String(p.form);
  j.Key("schema").String(text::StrCat(p.schema_major, ".", p.schema_minor));
  j.Key("torch").String(p.torch_version);
  j.Key("dialect").String(p.dialect);
  j.Key("nodes").Int(p.nodes);
  j.Key("subgraphs").Int(p.subgraphs);
  PutRows(j, "inputs", p.inputs, false);
  PutRows(j, "outputs", p.outputs, false);
  PutRows(j, "updates", p.updates, false);
  j.Key("dims");
  j.BeginArray();
  for (const ir::SymbolInfo& s : p.dims) {
    j.BeginObject();
    j.Key("name").String(s.name);
    auto bound = [&](std::string_view key, int64_t v, int64_t unlimited) {
      j.Key(key);
      j.Raw(v == unlimited ? "null" : text::StrCat(v));
    };
    bound("min", s.range.min, std::numeric_limits<int64_t>::min());
    bound("max", s.range.max, std::numeric_limits<int64_t>::max());
    if (s.hint) {
      j.Key("hint");
      j.Raw(text::StrCat(*s.hint));
    }
    j.EndObject();
  }
  j.EndArray();
  j.Key("guards");
  j.BeginArray();
  for (const std::string& g : p.guards) j.String(g);
  j.EndArray();
  j.Key("ops");
  j.BeginObject();
  for (const auto& [name, count] : p.ops) j.Key(name).Int(count);
  j.EndObject();
  PutRows(j, "weights", p.weights, true);
  uint64_t bytes = 0;
  for (const TensorRow& r : p.weights) bytes += r.bytes;
  j.Key("weight_bytes").Int(bytes);
  j.EndObject();
}

}  // namespace

void Describe(const ir::Archive& archive, FileReport* report) {
  report->producer = archive.producer;
  for (const auto& [name, content] : archive.extra_files) report->extra_files[name] = content.size();
  for (const auto& p : archive.programs) report->programs.push_back(ReportOf(*p));
}

void Describe(const ir::TensorSet& set, FileReport* report) {
  report->metadata = set.metadata;
  std::map<std::string_view, TensorRow> rows;
  for (const auto& [name, t] : set.tensors) rows.emplace(name, WeightRow(name, "tensor", t));
  for (const auto& [name, t] : set.sharded) {
    ir::TensorRef whole;
    whole.dtype = t.dtype;
    whole.sizes = t.sizes;
    rows.emplace(name, WeightRow(name, "tensor", whole));
  }
  for (auto& [name, row] : rows) report->tensors.push_back(std::move(row));
}

// A native library: its interface, its weights, and the operators that its steps were made of.
void Describe(const kernels::NativeModel& m, FileReport* report) {
  report->metadata.insert(m.metadata.begin(), m.metadata.end());
  for (const kernels::EmbeddedPlugin& p : m.plugins) report->extra_files[p.name] = p.bytes.size();
  ProgramReport r;
  const exporters::NativeInterface face = exporters::InterfaceOf(m);
  r.name = face.name;
  r.form = "native plan";
  const auto rows = [](const std::vector<exporters::NativeInterface::Value>& values, const char* kind) {
    std::vector<TensorRow> out;
    for (const exporters::NativeInterface::Value& v : values)
      out.push_back({v.name, kind, std::string(ir::Name(planner::FromNative(v.dtype))), v.dims, true, "", 0, true});
    return out;
  };
  r.inputs = rows(face.inputs, "input");
  r.outputs = rows(face.outputs, "output");
  r.updates = rows(face.states, "state");
  for (const exporters::NativeInterface::Dim& d : face.dims) {
    ir::SymbolInfo s;
    s.name = d.name;
    s.range = {d.min, d.max};
    r.dims.push_back(std::move(s));
  }
  for (const kernels::Step& s : m.plan.steps) {
    ++r.nodes;
    ++r.ops[m.origins[s.origin].op];
  }
  for (const kernels::Constant& c : m.constants) {
    if (c.name.empty()) continue;
    TensorRow row{c.name, "constant", std::string(ir::Name(planner::FromNative(c.dtype))), {},
                  true,   "",         static_cast<uint64_t>(kernels::ByteSize(c.dtype)),   true};
    for (int64_t s : c.sizes) {
      row.shape.push_back(text::StrCat(s));
      row.bytes *= static_cast<uint64_t>(s);
    }
    r.weights.push_back(std::move(row));
  }
  report->programs.push_back(std::move(r));
}

// An ONNX model: its graph, and what it states beside it.
absl::Status Describe(const importers::OnnxModel& model, FileReport* report) {
  auto frame = onnx_model::FrameOf(*model.program);
  if (!frame.ok()) return frame.status();
  report->producer = frame->producer_name();
  if (!frame->producer_version().empty()) text::StrAppend(&report->producer, " ", frame->producer_version());
  for (const auto& m : frame->metadata_props()) report->metadata[m.key()] = m.value();
  OnnxReport& onnx = report->onnx.emplace();
  onnx.ir_version = frame->ir_version();
  for (const auto& o : frame->opset_import()) onnx.opsets[o.domain()] = o.version();
  for (const auto& f : frame->functions()) onnx.functions.push_back(text::StrCat(f.domain(), "::", f.name()));
  onnx.external_data = model.external;
  ProgramReport r = ReportOf(*model.program);
  r.form = "ONNX graph";
  // Inference has names for all that it does not know; those of the interface are what the model says.
  std::set<std::string_view> dims;
  const auto note = [&](const ir::Value* v) {
    for (ir::Sym s : v->type().sizes)
      for (ir::Sym x : s.Symbols()) dims.insert(x.name());
  };
  for (const ir::Value* v : model.program->graph->inputs()) note(v);
  for (const ir::Arg& a : model.program->graph->outputs)
    if (a.value()) note(a.value());
  std::erase_if(r.dims, [&](const ir::SymbolInfo& s) { return !dims.contains(s.name); });
  for (TensorRow& w : r.weights)
    w.kind = w.kind == "buffer" ? "input_default" : w.kind == "tensor_constant" ? "nested" : "parameter";
  report->programs.push_back(std::move(r));
  return absl::OkStatus();
}

namespace {

absl::StatusOr<KernelsReport> KernelsOf(const Source& source) {
  if (!source.file || !importers::LooksNative(source.file))
    return absl::UnimplementedError(
        text::StrCat(source.path, ": --kernels is for native libraries: convert the program to one first"));
  auto native = importers::ReadNative(source.file);
  if (!native.ok()) return native.status();
  const kernels::NativeModel& model = native->model;
  std::string why;
  const auto checked = kernels::Executable::Make(model.plan, &why);
  if (!checked) return absl::InvalidArgumentError(text::StrCat(source.path, ": the plan is malformed: ", why));
  KernelsReport r;
  r.isa = kernels::BestIsa().name, r.integers = kernels::BestDot().name;
  if (const kernels::Bf16Isa* bf16 = kernels::BestBf16()) r.bf16 = bf16->name;
  if (const char* cap = kernels::IsaCap()) r.cap = cap;
  static constexpr const char* kPackings[] = {"", "panels", "quads", "nibbles", "unsigned nibbles", "filters"};
  const auto name = [](kernels::DType t) { return std::string(ir::Name(planner::FromNative(t))); };
  for (kernels::PlanProduct& p : kernels::ProductsOf(checked->plan())) {
    const kernels::Step& step = checked->plan().steps[static_cast<size_t>(p.step)];
    const kernels::Origin& origin = model.origins[static_cast<size_t>(step.origin)];
    ProductRow row{origin.op,
                   origin.place,
                   std::string(step.kernel->name),
                   p.batch,
                   p.m,
                   p.k,
                   p.n,
                   name(p.left),
                   p.has_right ? name(p.right) : "",
                   name(p.result),
                   kPackings[static_cast<int>(p.packing)],
                   p.groups,
                   static_cast<uint64_t>(p.bytes),
                   {}};
    for (const kernels::PlanProduct::Rows& l : p.loops) row.loops.push_back({l.from, l.to, l.loop.isa, l.loop.way});
    r.products.push_back(std::move(row));
  }
  return r;
}

}  // namespace

absl::StatusOr<FileReport> Inspect(const std::string& path, bool verify, bool kernels) {
  auto source = OpenSource(path);
  if (!source.ok()) return source.status();
  FileReport r;
  if (verify) {
    auto verified = source->file ? VerifyPayloads(source->file) : Verified{};
    if (!verified.ok()) return verified.status();
    r.verified = *verified;
  }
  auto format = FormatOf(*source);
  if (!format.ok()) return format.status();
  r.file = path;
  r.bytes = source->file ? source->file->size() : 0;
  r.format = (*format)->name;
  if (kernels) {
    auto report = KernelsOf(*source);
    if (!report.ok()) return report.status();
    r.kernels = *std::move(report);
  }
  if ((*format)->describe) {
    if (absl::Status s = (*format)->describe(*source, &r); !s.ok()) return s;
  } else if ((*format)->tensors) {
    auto set = (*format)->tensors(*source, "");
    if (!set.ok()) return set.status();
    Describe(*set, &r);
  } else {
    auto archive = OpenArchive(*source);
    if (!archive.ok()) return archive.status();
    Describe(*archive, &r);
    for (const auto& p : archive->programs)
      if (absl::Status s = verify ? passes::InferShapes(*p, &r.verified->corrected) : absl::OkStatus(); !s.ok())
        return s;
  }
  if (absl::Status s = io::InputsUnchanged(); !s.ok()) return s;
  return r;
}

std::string ToTable(const FileReport& r, bool ops, bool all_weights) {
  Table t;
  std::string_view format = r.format;
  for (const Format& f : Formats())
    if (f.name == r.format) format = f.title;
  t.Line(text::StrCat(Shown(r.file), ": ", format, ", ", text::ByteCount(r.bytes), r.producer.empty() ? "" : ", ",
                      Shown(r.producer)));
  for (const ProgramReport& p : r.programs) {
    t.Line("");
    t.Line(text::StrCat("program ", Shown(p.name), ": ", Plural(p.nodes, "node"), " of ",
                        Plural(p.ops.size(), "operator"),
                        p.subgraphs ? text::StrCat(", ", Plural(p.subgraphs, "subgraph")) : "", ", ", p.form));
    t.Section("inputs", p.inputs);
    t.Section("outputs", p.outputs);
    t.Section("updates", p.updates);
    if (!p.dims.empty()) {
      t.Line("  dims");
      std::vector<std::vector<std::string>> cells;
      for (const ir::SymbolInfo& s : p.dims)
        cells.push_back({Shown(s.name), text::StrCat(Bound(s.range.min), "..", Bound(s.range.max)),
                         s.hint ? text::StrCat(*s.hint, " at export") : ""});
      t.Rows(cells);
    }
    if (!p.guards.empty()) {
      t.Line("  guards");
      for (const std::string& g : p.guards) t.Line(text::StrCat("    ", Shown(g)));
    }
    t.Weights(p.weights, all_weights);
    if (ops) {
      t.Line("  operators");
      std::vector<std::pair<std::string, int>> order(p.ops.begin(), p.ops.end());
      std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
      std::vector<std::vector<std::string>> cells;
      for (const auto& [name, count] : order) cells.push_back({text::StrCat(count), Shown(name)});
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
  t.Weights(r.tensors, all_weights);
  auto section = [&](std::string_view title, const auto& map, auto shown) {
    if (map.empty()) return;
    t.Line(title);
    std::vector<std::vector<std::string>> cells;
    for (const auto& [key, value] : map) cells.push_back({Shown(key), shown(value)});
    t.Rows(cells);
  };
  if (r.onnx) {
    std::vector<std::string> opsets;
    for (const auto& [domain, version] : r.onnx->opsets)
      opsets.push_back(text::StrCat(domain.empty() ? "ai.onnx" : Shown(domain), " ", version));
    t.Line(text::StrCat("  opsets: ", text::Join(opsets, ", "), "; IR version ", r.onnx->ir_version));
    if (!r.onnx->functions.empty()) t.Line("  functions");
    for (const std::string& f : r.onnx->functions) t.Line(text::StrCat("    ", Shown(f)));
    section("  external data", r.onnx->external_data, [](uint64_t n) { return text::ByteCount(n); });
  }
  section("  metadata", r.metadata, [](const std::string& v) { return Shown(v); });
  section("  extra files", r.extra_files, [](uint64_t n) { return text::ByteCount(n); });
  if (r.verified)
    t.Line(r.verified->members == 0 ? "  verified: nothing, the format has no checksums"
                                    : text::StrCat("  verified: ", Plural(r.verified->members, "member"), ", ",
                                                   text::ByteCount(r.verified->bytes)));
  if (r.verified)
    for (const std::string& c : r.verified->corrected) t.Line(text::StrCat("  note: ", Shown(c)));
  return t.Take();
}

std::string ToJson(const FileReport& r) {
  json::Writer j;
  j.BeginObject();
  j.Key("version").Int(1);
  j.Key("file").String(r.file);
  j.Key("format").String(r.format);
  j.Key("bytes").Int(r.bytes);
  j.Key("producer").String(r.producer);
  j.Key("programs");
  j.BeginArray();
  for (const ProgramReport& p : r.programs) PutProgram(j, p);
  j.EndArray();
  PutRows(j, "tensors", r.tensors, true);
  j.Key("metadata");
  j.BeginObject();
  for (const auto& [key, value] : r.metadata) j.Key(key).String(value);
  j.EndObject();
  j.Key("extra_files");
  j.BeginObject();
  for (const auto& [key, size] : r.extra_files) j.Key(key).Int(size);
  j.EndObject();
  if (r.verified) {
    j.Key("verified")
        .BeginObject()
        .Key("members")
        .Int(r.verified->members)
        .Key("bytes")
        .Int(r.verified->bytes)
        .Key("corrected")
        .BeginArray();
    for (const std::string& c : r.verified->corrected) j.String(c);
    j.EndArray().EndObject();
  }
  if (r.kernels) {
    j.Key("kernels");
    PutKernels(j, *r.kernels);
  }
  if (r.onnx) {
    j.Key("onnx").BeginObject().Key("ir_version").Int(r.onnx->ir_version).Key("opsets").BeginObject();
    for (const auto& [domain, version] : r.onnx->opsets) j.Key(domain).Int(version);
    j.EndObject().Key("functions").BeginArray();
    for (const std::string& f : r.onnx->functions) j.String(f);
    j.EndArray().Key("external_data").BeginObject();
    for (const auto& [file, bytes] : r.onnx->external_data) j.Key(file).Int(bytes);
    j.EndObject().EndObject();
  }
  j.EndObject();
  return j.Take() + "\n";
}

absl::StatusOr<std::string> InspectIr(const std::string& path, ir::PrintOptions::Sources sources) {
  ir::PrintOptions options;
  options.sources = sources;
  options.base = FolderOf(path);
  auto source = OpenSource(path);
  if (!source.ok()) return source.status();
  if (source->file) {
    auto onnx_graph = OpenOnnxGraph(*source);
    if (!onnx_graph.ok()) return onnx_graph.status();
    options.data = false;
    if (*onnx_graph) return ir::Print(**onnx_graph, options);
    options.data = true;
  }
  auto archive = source->file ? OpenArchive(*source) : OpenArchive(path);
  if (!archive.ok()) return archive.status();
  return ir::Print(*archive, options);
}

absl::StatusOr<std::string> InspectHeader(const std::string& path) {
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const Source source{path, *file};
  auto format = FormatOf(source);
  if (!format.ok()) return format.status();
  std::string stem = path.substr(path.rfind('/') + 1);
  stem = stem.substr(0, stem.find('.', 1));
  // A package may hold the program as well as the library.
  if ((*format)->name == "native" || importers::LooksNative(*file)) {
    auto native = importers::ReadNative(*file);
    if (!native.ok()) return native.status();
    return exporters::CHeader(exporters::InterfaceOf(native->model), stem);
  }
  auto archive = OpenArchive(source);
  if (!archive.ok()) return archive.status();
  if (archive->programs.size() != 1)
    return absl::UnimplementedError(text::StrCat("an archive of ", archive->programs.size(), " programs"));
  ir::Program& p = *archive->programs[0];
  // As a conversion to a library does it.
  if (absl::Status s = dynamic_shapes::CanonicalizeDimNames(p); !s.ok()) return s;
  const std::vector<std::string> names = OutputNames(p);
  ConversionContext context;
  if (absl::Status s = passes::RunPasses(passes::kPreparation, p, context); !s.ok()) return s;
  NameOutputs(p, names);
  auto planned = planner::LegalizeAndPlan(p);
  if (!planned.ok()) return OrMissingWeights(WeightsWithoutValues(p), planned.status(), kJoinWeights);
  return exporters::CHeader(exporters::InterfaceOf(p.name, *planned), stem);
}

}  // namespace slipway::driver
