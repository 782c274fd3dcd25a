// The text form's printer. One pass over the archive collects what is shared (storages, sources, subgraphs) and numbers
// it in the order of appearance; a second writes.
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "base/text.h"
#include "base/utf8.h"
#include "ir/ops/op_table.h"
#include "ir/text.h"
#include "ir/text/internal.h"

namespace slipway::ir {
namespace {

using namespace text_form;  // NOLINT: what this file and the parser share

using text::AppendQuoted;
using text::Quoted;

std::string NumberText(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[64];
  std::string out(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string Bounds(std::optional<int64_t> min, std::optional<int64_t> max) {
  auto bound = [](std::optional<int64_t> b) -> std::string {
    if (!b) return "?";
    if (*b == std::numeric_limits<int64_t>::min()) return "-inf";
    if (*b == std::numeric_limits<int64_t>::max()) return "inf";
    return text::StrCat(*b);
  };
  return text::StrCat(bound(min), "..", bound(max));
}

class Printer {
 public:
  Printer(const PrintOptions& options) : options_(options) {
    base_ = options.base;
    if (!base_.empty() && base_.back() != '/') base_ += '/';
  }

  std::string Run(absl::Span<const Program* const> programs, const Archive* archive) {
    if (options_.data) CollectStorages(programs);
    out_ = text::StrCat(kHeader, "\n");
    if (archive) {
      if (!archive->producer.empty()) Line("producer ", Quoted(archive->producer));
      for (const auto& [name, content] : archive->extra_files)
        Line("extra_file ", Quoted(name), " = ", Quoted(content));
    }
    if (!named_.empty()) {
      out_ += "storages {\n";
      for (size_t i = 0; i < named_.size(); ++i) Line("  s", i, " = ", Place(*named_[i]), ":", named_[i]->size);
      out_ += "}\n";
    }
    for (const Program* p : programs) PrintProgram(*p);
    return std::move(out_);
  }

 private:
  const PrintOptions& options_;
  std::string base_;
  std::string out_;
  std::vector<const Storage*> named_;
  absl::flat_hash_map<const Storage*, size_t> storage_ids_;
  absl::flat_hash_map<Sym, std::string> exprs_;
  text::Map<size_t> source_ids_;  // by printed text
  absl::flat_hash_map<const Source*, size_t> source_of_;
  absl::flat_hash_map<const Graph*, std::string> graph_names_;

  template <typename... T>
  void Put(const T&... parts) {
    text::StrAppend(&out_, parts...);
  }
  template <typename... T>
  void Line(const T&... parts) {
    text::StrAppend(&out_, parts..., "\n");
  }
  void PutName(char sigil, std::string_view name) {
    out_ += sigil;
    if (IsPlainName(name))
      out_ += name;
    else
      AppendQuoted(name, &out_);
  }
  void PutWord(std::string_view word) {
    if (IsPlainWord(word))
      out_ += word;
    else
      AppendQuoted(word, &out_);
  }
  const std::string& Expr(Sym s) {
    auto [it, added] = exprs_.try_emplace(s);
    if (added) it->second = s.ToString();
    return it->second;
  }

  // ---- storages

  static bool FillsItsStorage(const TensorRef& t) {
    return t.offset == 0 && t.strides == ContiguousStrides(t.sizes) &&
           t.storage->size == static_cast<uint64_t>(t.nbytes());
  }

  // A storage gets a line of its own unless one weight alone fills it.
  void CollectStorages(absl::Span<const Program* const> programs) {
    std::vector<const Storage*> order;
    absl::flat_hash_map<const Storage*, int> uses;
    absl::flat_hash_set<const Storage*> partial;
    for (const Program* p : programs) {
      for (const auto& [name, t] : p->weights) {
        if (uses[t.storage.get()]++ == 0) order.push_back(t.storage.get());
        if (!FillsItsStorage(t)) partial.insert(t.storage.get());
      }
      for (const auto& [name, object] : SortedObjects(*p)) {
        if (uses[object.first.get()]++ == 0) order.push_back(object.first.get());
        partial.insert(object.first.get());
      }
    }
    for (const Storage* s : order) {
      if (uses[s] == 1 && !partial.contains(s)) continue;
      storage_ids_[s] = named_.size();
      named_.push_back(s);
    }
  }

  static std::map<std::string, std::pair<std::shared_ptr<const Storage>, std::string>> SortedObjects(const Program& p) {
    return {p.objects.begin(), p.objects.end()};
  }

  std::string Place(const Storage& s) {
    if (const io::Bytes* b = std::get_if<io::Bytes>(&s.bytes)) {
      if (const io::FileRange* r = b->file_range()) {
        std::string_view path = r->file ? std::string_view(r->file->path()) : std::string_view();
        if (!base_.empty() && text::ConsumePrefix(&path, base_))
          while (text::ConsumePrefix(&path, "/")) {
          }
        return text::StrCat(Quoted(path), "+", r->offset);
      }
    }
    if (auto splat = std::get_if<Splat>(&s.bytes)) return text::StrCat("splat(", NumberText(splat->value), ")");
    if (auto random = std::get_if<Random>(&s.bytes)) return text::StrCat("random(seed=", random->seed, ")");
    absl::Span<const uint8_t> bytes = MappedBytes(s);
    if (bytes.size() > options_.inline_limit) return text::StrCat("elided(", bytes.size(), ")");
    return text::StrCat("base64(\"", absl::Base64Escape({reinterpret_cast<const char*>(bytes.data()), bytes.size()}),
                        "\")");
  }

  // ---- programs

  void PrintProgram(const Program& p) {
    exprs_.clear();
    source_ids_.clear();
    source_of_.clear();
    graph_names_.clear();
    Line("program ", Quoted(p.name));
    Line("form ", kForms[static_cast<int>(p.form)]);
    Line("schema ", p.schema_major, " ", p.schema_minor);
    if (!p.torch_version.empty()) Line("torch ", Quoted(p.torch_version));
    if (!p.verifier_dialect.empty()) Line("dialect ", Quoted(p.verifier_dialect));
    if (!p.in_spec.empty()) Line("in_spec ", Quoted(p.in_spec));
    if (!p.out_spec.empty()) Line("out_spec ", Quoted(p.out_spec));
    for (const std::string& name : p.forward_arg_names) Line("forward_arg ", Quoted(name));
    if (!p.module_call_graph_json.empty()) Line("module_calls ", Quoted(p.module_call_graph_json));
    if (!p.namedtuple_fields_json.empty()) Line("namedtuples ", Quoted(p.namedtuple_fields_json));
    for (const std::string& guard : p.guards) Line("guard ", Quoted(guard));
    for (const auto& [key, r] : p.range_constraints) Line("range ", Quoted(key), " = ", Bounds(r.min, r.max));
    PrintDims(p);
    if (options_.data) PrintData(p);
    std::vector<const Graph*> graphs = NameGraphs(*p.graph);
    if (options_.sources == PrintOptions::kFull) PrintSources(graphs);
    for (const Graph* g : graphs) PrintGraph(*g, g == p.graph.get() ? &p : nullptr);
  }

  void PrintDims(const Program& p) {
    std::vector<SymbolInfo> symbols = p.syms->symbols();
    if (symbols.empty()) return;
    out_ += "dims {\n";
    for (const SymbolInfo& s : symbols) {
      out_ += "  ";
      PutWord(s.name);
      Put(" = ", Bounds(s.range.min, s.range.max), s.positive ? " positive" : "");
      if (s.hint) Put(" hint ", *s.hint);
      out_ += '\n';
    }
    out_ += "}\n";
  }

  void PrintData(const Program& p) {
    if (!p.weights.empty()) PrintWeights(p);
    for (const auto& [name, object] : SortedObjects(p)) {
      out_ += "object ";
      PutName('$', name);
      Line(" = s", storage_ids_[object.first.get()], " ", Quoted(object.second));
    }
  }

  void PrintWeights(const Program& p) {
    out_ += "weights {\n";
    for (const auto& [name, t] : p.weights) {
      out_ += "  ";
      PutName('$', name);
      Put(": ", Name(t.dtype), "[", text::Join(t.sizes, ","), "]");
      if (t.strides != ContiguousStrides(t.sizes)) Put("{strides=[", text::Join(t.strides, ","), "]}");
      auto it = storage_ids_.find(t.storage.get());
      if (it == storage_ids_.end())
        Line(" @ ", Place(*t.storage));
      else
        Line(" @ s", it->second, "+", t.offset);
    }
    out_ += "}\n";
  }

  // ---- graphs

  template <typename F>
  static void ForEachSubgraph(const Graph& g, F f) {
    for (const Node* n : g)
      for (const NamedArg& a : n->args())
        if (auto sub = a.arg.get<SubGraph>(); sub && *sub) f(**sub, *n);
  }

  // The graphs of a program, each before those that it mentions, so that a text mentions only graphs to come.
  std::vector<const Graph*> NameGraphs(const Graph& root) {
    std::vector<const Graph*> order;
    absl::flat_hash_set<const Graph*> seen;
    absl::flat_hash_map<const Graph*, std::string_view> owner;
    struct Frame {
      const Graph* graph;
      std::vector<const Graph*> subgraphs;
    };
    auto frame = [&](const Graph& g) {
      Frame f{&g, {}};
      ForEachSubgraph(g, [&](const Graph& sub, const Node& n) {
        f.subgraphs.push_back(&sub);
        owner.try_emplace(&sub, n.op().base);
      });
      return f;  // taken from the back, so that the reversed post-order follows the text
    };
    std::vector<Frame> stack;
    stack.push_back(frame(root));
    seen.insert(&root);
    while (!stack.empty()) {
      if (stack.back().subgraphs.empty()) {
        order.push_back(stack.back().graph);
        stack.pop_back();
        continue;
      }
      const Graph* sub = stack.back().subgraphs.back();
      stack.back().subgraphs.pop_back();
      if (seen.insert(sub).second) stack.push_back(frame(*sub));
    }
    std::reverse(order.begin(), order.end());
    graph_names_[&root] = "main";
    for (size_t i = 1; i < order.size(); ++i) {
      std::string_view base = owner[order[i]];
      graph_names_[order[i]] = text::StrCat(IsPlainWord(base) ? base : "graph", ".", i - 1);
    }
    return order;
  }

  void PrintSources(const std::vector<const Graph*>& graphs) {
    bool any = false;
    for (const Graph* g : graphs) {
      for (const Node* n : *g) {
        const Source* s = n->source().get();
        if (!s || source_of_.contains(s)) continue;
        std::string line;
        auto field = [&](std::string_view key, std::string_view value) {
          text::StrAppend(&line, line.empty() ? "" : ", ", key, "=");
          AppendQuoted(value, &line);
        };
        if (!s->stack_trace.empty()) field("stack", s->stack_trace);
        if (!s->nn_module_stack.empty()) field("modules", s->nn_module_stack);
        if (!s->torch_fn.empty()) field("fn", s->torch_fn);
        for (const auto& [key, value] : s->other) field(Quoted(key), value);
        auto [it, added] = source_ids_.try_emplace(line, source_ids_.size());
        source_of_[s] = it->second;
        if (!added) continue;
        if (!any) out_ += "sources {\n";
        any = true;
        Line("  #", it->second, " {", line, "}");
      }
    }
    if (any) out_ += "}\n";
  }

  void PrintGraph(const Graph& g, const Program* root) {
    Put("graph ", graph_names_[&g], "(");
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      out_ += root ? "\n  " : i ? ", " : "";
      PutDefinition(*g.inputs()[i]);
      if (root && i < root->input_specs.size()) PutInputSpec(root->input_specs[i]);
      if (root) out_ += ',';
    }
    Line(root && !g.inputs().empty() ? "\n)" : ")", g.single_tensor_return ? " single" : "", " {");
    for (const Node* n : g) PrintNode(*n);
    out_ += "  return";
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      out_ += i ? ", " : " ";
      PutArg(g.outputs[i]);
      if (!root || i >= root->output_specs.size()) continue;
      const OutputSpec& s = root->output_specs[i];
      if (s.kind == OutputSpec::kUser && s.target.empty()) continue;
      Put(" as ", kOutputKinds[s.kind]);
      if (s.target.empty()) continue;
      out_ += ' ';
      PutName('$', s.target);
    }
    out_ += "\n}\n";
  }

  void PutInputSpec(const InputSpec& s) {
    const bool constant = s.kind == InputSpec::kConstant || !s.constant.is_none();
    if (s.kind == InputSpec::kUser && s.target.empty() && s.persistent && !constant) return;
    Put(" = ", kInputKinds[s.kind]);
    if (!s.target.empty()) {
      out_ += ' ';
      PutName('$', s.target);
    }
    if (!s.persistent) out_ += " non_persistent";
    if (constant) {
      out_ += " (";
      PutArg(s.constant);
      out_ += ')';
    }
  }

  void PrintNode(const Node& n) {
    out_ += "  ";
    if (!n.outputs().empty() || !n.groups().empty()) {
      PutOutputs(n);
      out_ += " = ";
    }
    PutWord(n.op_name());
    out_ += '(';
    for (size_t i = 0; i < n.args().size(); ++i) {
      const NamedArg& a = n.args()[i];
      if (i) out_ += ", ";
      if (!a.name.empty()) PutWord(a.name);
      if (a.kind != 0) Put(":", a.kind == 1 ? "pos" : a.kind == 2 ? "kw" : text::StrCat(static_cast<int>(a.kind)));
      if (!a.name.empty() || a.kind != 0) out_ += '=';
      PutArg(a.arg);
    }
    out_ += ')';
    if (n.hop_single_return) out_ += *n.hop_single_return ? " -> single" : " -> tuple";
    PutSource(n);
    out_ += '\n';
  }

  // Lists of results in brackets; a grouping without any list is said in a word.
  void PutOutputs(const Node& n) {
    auto put = [&](size_t i) {
      if (Value* v = n.output(i))
        PutDefinition(*v);
      else
        out_ += '_';
    };
    size_t at = 0;
    bool list = false;
    for (size_t k = 0; k < n.groups().size(); ++k) {
      if (k) out_ += ", ";
      const int count = n.groups()[k];
      if (count < 0) {
        put(at++);
        continue;
      }
      list = true;
      out_ += '[';
      for (int i = 0; i < count; ++i) {
        if (i) out_ += ", ";
        put(at++);
      }
      out_ += ']';
    }
    if (n.groups().empty())
      for (; at < n.outputs().size(); ++at) {
        if (at) out_ += ", ";
        put(at);
      }
    else if (!list)
      out_ += " grouped";
  }

  void PutSource(const Node& n) {
    if (!n.source() || options_.sources == PrintOptions::kNone) return;
    std::string place = n.source()->Describe();
    // A remark ends with its line.
    for (char& c : place)
      if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) c = ' ';
    const bool full = options_.sources == PrintOptions::kFull;
    if (!full && place.empty()) return;
    out_ += "  ;";
    if (full) Put(" #", source_of_[n.source().get()]);
    if (!place.empty()) Put(" ", place);
  }

  void PutDefinition(const Value& v) {
    PutName('%', v.name());
    out_ += ": ";
    PutType(v.type());
  }

  void PutSizes(const Sizes& sizes) {
    out_ += '[';
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (i) out_ += ',';
      out_ += Expr(sizes[i]);
    }
    out_ += ']';
  }

  void PutType(const Type& t) {
    switch (t.kind) {
      case Type::kNone: out_ += "none"; return;
      case Type::kToken: out_ += "token"; return;
      case Type::kConstant: out_ += "constant"; return;
      case Type::kObject: Put("object(", Quoted(t.class_name), ")"); return;
      case Type::kSymInt: Put("i64(", Expr(t.expr), ")"); return;
      case Type::kSymFloat: Put("f64(", Expr(t.expr), ")"); return;
      case Type::kSymBool: Put("bool(", Expr(t.expr), ")"); return;
      case Type::kTensor: break;
    }
    out_ += Name(t.dtype);
    PutSizes(t.sizes);
    if (!t.strides_known) out_ += '~';
    const bool strides = t.strides_known ? t.strides != DenseStrides(t.sizes) : !t.strides.empty();
    const char* separator = "{";
    auto field = [&](std::string_view what) {
      Put(separator, what);
      separator = ", ";
    };
    if (strides) {
      field("strides=");
      PutSizes(t.strides);
    }
    if (!t.storage_offset.is(0)) field(text::StrCat("offset=", Expr(t.storage_offset)));
    if (t.device) field(text::StrCat("device=", DeviceText(*t.device)));
    if (t.layout != Layout::kStrided) field(text::StrCat("layout=", kLayouts[static_cast<int>(t.layout)]));
    if (t.requires_grad) field("grad");
    if (*separator == ',') out_ += '}';
  }

  static std::string DeviceText(const Device& d) {
    return d.index ? text::StrCat("device(", Quoted(d.type), ", ", *d.index, ")")
                   : text::StrCat("device(", Quoted(d.type), ")");
  }

  // ---- arguments. A list whose own reading is another kind is marked with its kind.

  template <typename List, typename F>
  void PutList(const List& list, F element) {
    out_ += '[';
    bool first = true;
    for (const auto& x : list) {
      if (!first) out_ += ", ";
      first = false;
      element(x);
    }
    out_ += ']';
  }
  template <typename List>
  static bool AllEmpty(const List& lists) {
    for (const auto& list : lists)
      if (!list.empty()) return false;
    return true;
  }
  void PutValue(const Value* v) {
    if (v)
      PutName('%', v->name());
    else
      out_ += "None";
  }

  void PutArg(const Arg& a) {
    auto value = [&](const Value* v) { PutValue(v); };
    auto integer = [&](int64_t i) { Put(i); };
    auto number = [&](double d) { out_ += NumberText(d); };
    auto values = [&](const Values& vs) { PutList(vs, value); };
    auto mark = [&](bool needed, std::string_view kind) {
      if (needed) out_ += kind;
    };
    if (a.is_none()) {
      out_ += "None";
    } else if (auto v = a.get<Value*>()) {
      PutValue(*v);
    } else if (auto vs = a.get<Values>()) {
      mark(vs->empty() || ReadsAsSymInts(*vs), "values");
      values(*vs);
    } else if (auto i = a.get<int64_t>()) {
      Put(*i);
    } else if (auto d = a.get<double>()) {
      number(*d);
    } else if (auto b = a.get<bool>()) {
      out_ += *b ? "true" : "false";
    } else if (auto s = a.get<std::string>()) {
      AppendQuoted(*s, &out_);
    } else if (auto c = a.get<std::complex<double>>()) {
      Put("complex(", NumberText(c->real()), ", ", NumberText(c->imag()), ")");
    } else if (auto is = a.get<Ints>()) {
      PutList(*is, integer);
    } else if (auto ss = a.get<SymInts>()) {
      Values vs;
      for (const IntOrValue& x : *ss)
        if (x.value) vs.push_back(x.value);
      mark(vs.empty() || (vs.size() == ss->size() && !ReadsAsSymInts(vs)), "symints");
      PutList(*ss, [&](const IntOrValue& x) { x.value ? PutValue(x.value) : Put(x.constant); });
    } else if (auto ds = a.get<std::vector<double>>()) {
      mark(ds->empty(), "floats");
      PutList(*ds, number);
    } else if (auto bs = a.get<std::vector<bool>>()) {
      mark(bs->empty(), "bools");
      PutList(*bs, [&](bool b) { out_ += b ? "true" : "false"; });
    } else if (auto ts = a.get<std::vector<std::string>>()) {
      mark(ts->empty(), "strings");
      PutList(*ts, [&](const std::string& s) { AppendQuoted(s, &out_); });
    } else if (auto t = a.get<DType>()) {
      out_ += Name(*t);
    } else if (auto m = a.get<MemoryFormat>()) {
      out_ += kMemoryFormats[static_cast<int>(*m)];
    } else if (auto l = a.get<Layout>()) {
      out_ += kLayouts[static_cast<int>(*l)];
    } else if (auto dev = a.get<Device>()) {
      out_ += DeviceText(*dev);
    } else if (auto g = a.get<SubGraph>()) {
      Put("@", *g ? graph_names_[g->get()] : "missing");
    } else if (auto op = a.get<OperatorName>()) {
      Put("op(", Quoted(op->name), ")");
    } else if (auto nested = a.get<std::vector<Values>>()) {
      mark(AllEmpty(*nested), "value_lists");
      PutList(*nested, values);
    } else if (auto lists = a.get<std::vector<Ints>>()) {
      mark(AllEmpty(*lists), "int_lists");
      PutList(*lists, [&](const Ints& x) { PutList(x, integer); });
    } else if (auto reals = a.get<std::vector<std::vector<double>>>()) {
      mark(AllEmpty(*reals), "float_lists");
      PutList(*reals, [&](const std::vector<double>& x) { PutList(x, number); });
    }
  }
};

}  // namespace

std::string Print(const Archive& a, const PrintOptions& options) {
  std::vector<const Program*> programs;
  for (const auto& p : a.programs) programs.push_back(p.get());
  return Printer(options).Run(programs, &a);
}

std::string Print(const Program& p, const PrintOptions& options) {
  const Program* one = &p;
  return Printer(options).Run({&one, 1}, nullptr);
}

}  // namespace slipway::ir
