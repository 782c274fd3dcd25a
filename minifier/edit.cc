// Edits work in place on a copy that the caller made. What is common to those that change the signature is Tidy().
#include "minifier/edit.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "ir/clone.h"
#include "ir/ops/higher_order.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "ir/specialize.h"
#include "onnx_model/onnx_graph.h"
#include "passes/pass.h"

namespace slipway::minifier {
namespace {

using ir::Arg;
using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Program;
using ir::Type;
using ir::Value;

absl::Status Misfit(std::string_view what) { return absl::InvalidArgumentError(text::ToAbsl(what)); }

// An ONNX model's values are all data, whatever is known of their types.
bool IsData(const Value* v) {
  return v && (v->type().is_tensor() || v->type().is_sym() || onnx_model::IsOnnx(*v->graph()->program()));
}

bool SameType(const Type& a, const Type& b) {
  if (a.kind != b.kind) return false;
  if (a.is_sym()) return a.expr == b.expr;
  return a.is_tensor() && a.dtype == b.dtype && a.sizes == b.sizes;
}

// Whether `by` may take the place of `v`. Of what an ONNX model's custom operators make nothing is known; whether it
// goes is asked.
bool MayStandFor(const Value* by, const Value* v) {
  if (SameType(by->type(), v->type())) return true;
  const auto unknown = [](const Type& t) { return t.kind == Type::kObject && t.class_name.empty(); };
  const bool alike = by->type().kind == Type::kObject && v->type().kind == Type::kObject &&
                     by->type().class_name == v->type().class_name;
  return (alike || unknown(by->type()) || unknown(v->type())) && onnx_model::IsOnnx(*v->graph()->program());
}

// The values among a node's arguments, in order, repetitions left out.
ir::Values OperandsOf(const Node& n) {
  ir::Values out;
  for (const ir::NamedArg& a : n.args())
    a.arg.ForEachValue([&](Value* v) {
      if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
    });
  return out;
}

void ForEachGraph(Graph& g, const std::function<void(Graph&)>& f) {
  f(g);
  for (Node* n : g)
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>(); sub && *sub) ForEachGraph(**sub, f);
}

void ForEachType(Program& p, const std::function<void(Type&)>& f) {
  ForEachGraph(*p.graph, [&](Graph& g) {
    for (Value* v : g.inputs()) f(v->mutable_type());
    for (Node* n : g)
      for (Value* v : n->outputs())
        if (v) f(v->mutable_type());
  });
}

// What the file said of the signature is of another one now.
void ForgetSignature(Program& p) {
  p.in_spec.clear();
  p.out_spec.clear();
  p.forward_arg_names.clear();
  p.module_call_graph_json.clear();
  p.namedtuple_fields_json.clear();
  p.guards.clear();
  p.sample_inputs = nullptr;
  p.graph->single_tensor_return = false;
}

// Ranges of expressions whose symbols are gone say nothing.
void DropIdleRanges(Program& p) {
  if (p.range_constraints.empty()) return;
  text::Set used;
  ForEachType(p, [&](Type& t) {
    const auto note = [&](ir::Sym s) {
      if (!s.is_constant())
        for (ir::Sym x : s.Symbols()) used.insert(std::string(x.name()));
    };
    for (ir::Sym s : t.sizes) note(s);
    note(t.expr);
  });
  std::erase_if(p.range_constraints, [&](const auto& range) {
    const std::string_view key = range.first;
    for (size_t i = 0, end; i < key.size(); i = end) {
      const auto is_word = [&](size_t k) {
        return k < key.size() && (std::isalnum(static_cast<unsigned char>(key[k])) || key[k] == '_');
      };
      for (end = i; is_word(end);) ++end;
      const std::string_view word = key.substr(i, end - i);
      if (end == i)
        ++end;
      else if (p.syms->FindSymbol(word) && !used.contains(word))
        return true;
    }
    return false;
  });
}

// Inputs and weights that nothing uses go.
void Tidy(Program& p) {
  Graph& g = *p.graph;
  std::set<std::string_view> written;
  for (const ir::OutputSpec& s : p.output_specs)
    if (s.kind == ir::OutputSpec::kUserInputMutation) written.insert(s.target);
  for (size_t i = g.inputs().size(); i-- > 0;) {
    const Value* v = g.inputs()[i];
    if (!v->users().empty() || g.IsOutput(v) || written.contains(v->name())) continue;
    g.RemoveInput(i);
    p.input_specs.erase(p.input_specs.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::set<std::string_view> used;
  for (const ir::InputSpec& s : p.input_specs) used.insert(s.target);
  // A weight that is a subclass has its parts under names that begin with its own.
  const auto needed = [&](const std::string& name) {
    if (used.contains(name)) return true;
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      if (used.contains(std::string_view(name).substr(0, dot))) return true;
    return false;
  };
  std::erase_if(p.weights, [&](const auto& w) { return !needed(w.first); });
  if (!onnx_model::IsOnnx(p)) absl::erase_if(p.objects, [&](const auto& o) { return !needed(o.first); });
  ForgetSignature(p);
  DropIdleRanges(p);
}

// The input that stands for `v`, made on first use.
Value* StandInFor(Program& p, const Value* v, const StandIns& names) {
  const std::string name = names.NameFor(v->name());
  if (Value* there = p.graph->FindValue(name)) return there;
  Type type = v->type();
  type.requires_grad = false;
  p.input_specs.emplace_back();
  return p.graph->AddInput(name, std::move(type));
}

// Results that nothing takes become outputs, so that every node counts; the first ones only unless `all`.
void AddOutputs(Program& p, const Node& n, bool all) {
  Graph& g = *p.graph;
  const auto taken = [&](const Value* v) { return !IsData(v) || !v->users().empty() || g.IsOutput(v); };
  if (!all &&
      std::any_of(n.outputs().begin(), n.outputs().end(), [&](const Value* v) { return IsData(v) && taken(v); }))
    return;
  for (Value* v : n.outputs()) {
    if (taken(v)) continue;
    g.outputs.emplace_back(v);
    p.output_specs.emplace_back();
  }
}

absl::Status KeepIn(Program& p, const Places& keep, Joint joint, const StandIns& names) {
  Graph& g = *p.graph;
  const std::vector<Node*> nodes = NodesOf(g);
  absl::flat_hash_set<const Node*> kept;
  for (int i : keep) {
    if (i < 0 || static_cast<size_t>(i) >= nodes.size()) return Misfit("no such node");
    kept.insert(nodes[static_cast<size_t>(i)]);
  }
  const auto resolve = [&](Value* v) {
    while (v->producer() && !kept.contains(v->producer())) {
      Value* same = nullptr;
      if (joint == Joint::kBypass)
        for (Value* operand : OperandsOf(*v->producer()))
          if (!same && MayStandFor(operand, v)) same = operand;
      if (!same) return StandInFor(p, v, names);
      v = same;
    }
    return v;
  };
  for (Node* n : nodes) {
    if (!kept.contains(n)) continue;
    for (Value* v : OperandsOf(*n)) {
      if (!v->producer()) continue;
      Value* by = joint == Joint::kApart ? StandInFor(p, v, names) : resolve(v);
      if (by != v) n->ReplaceUses(v, by);
    }
  }
  std::vector<Arg> outputs = std::move(g.outputs);
  std::vector<ir::OutputSpec> specs = std::move(p.output_specs);
  g.outputs.clear();
  p.output_specs.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value* v = outputs[i].value();
    if (!v || !v->producer()) continue;
    const bool stays = kept.contains(v->producer());
    if (!stays && joint != Joint::kBypass) continue;
    if (!stays) {  // what it was made of, unless that is an input, which says nothing
      while (v->producer() && !kept.contains(v->producer())) {
        Value* same = nullptr;
        for (Value* operand : OperandsOf(*v->producer()))
          if (!same && MayStandFor(operand, v)) same = operand;
        if (!same) break;
        v = same;
      }
      if (!v->producer() || !kept.contains(v->producer()) || g.IsOutput(v)) continue;
    }
    g.outputs.emplace_back(v);
    p.output_specs.push_back(stays ? specs[i] : ir::OutputSpec());
  }
  for (size_t i = nodes.size(); i-- > 0;)
    if (!kept.contains(nodes[i])) g.Erase(nodes[i]);
  for (Node* n : g) AddOutputs(p, *n, joint == Joint::kApart);
  Tidy(p);
  return absl::OkStatus();
}

// A symbolic number becomes a constant wherever it is used.
void ReplaceByNumber(Graph& g, Value* v, int64_t number) {
  const Type::Kind kind = v->type().kind;
  const auto constant = [&]() -> Arg {
    if (kind == Type::kSymBool) return number != 0;
    return number;
  };
  while (!v->users().empty()) {
    Node* n = v->users().back();
    for (size_t i = 0; i < n->args().size(); ++i) {
      const Arg& a = n->args()[i].arg;
      bool uses = false;
      a.ForEachValue([&](Value* x) { uses |= x == v; });
      if (!uses) continue;
      if (a.value()) {
        n->SetArgAt(i, constant());
      } else if (auto list = a.get<ir::SymInts>()) {
        ir::SymInts changed = *list;
        for (ir::IntOrValue& x : changed)
          if (x.value == v) x = number;
        n->SetArgAt(i, Arg(std::move(changed)));
      } else if (auto values = a.get<ir::Values>()) {
        // Values and numbers together are symbolic integers, as long as all are numbers.
        ir::SymInts changed;
        for (Value* x : *values) {
          if (x == v)
            changed.emplace_back(number);
          else if (x && x->type().kind == Type::kSymInt)
            changed.emplace_back(x);
          else
            return;
        }
        n->SetArgAt(i, Arg(std::move(changed)));
      } else {
        return;
      }
    }
  }
  for (Arg& a : g.outputs)
    if (a.value() == v) a = constant();
}

bool IsSize(const ir::ArgDef& d) { return d.type == "SymInt"; }

// Types of all results from those of the inputs. Nested graphs are not entered: programs that have some keep their
// sizes.
absl::Status InferAgain(Program& p) {
  if (onnx_model::IsOnnx(p)) return onnx_model::InferTypes(p, /*afresh=*/true);
  for (Node* n : *p.graph) {
    for (const ir::NamedArg& a : n->args())
      if (a.arg.is<ir::SubGraph>()) return Misfit("sizes inside of nested graphs");
    auto types = ir::InferTypes(*n, ir::FreshSymbols::kNone);
    if (!types.ok()) return types.status();
    if (types->empty() && n->outputs().size() == 1 && !n->output()) continue;
    if (types->size() != n->outputs().size()) return Misfit("another number of results");
    for (size_t i = 0; i < types->size(); ++i) {
      Value* v = n->output(i);
      if (!v) continue;
      Type& type = (*types)[i];
      const Type& declared = v->type();
      if (type.kind == declared.kind && type.is_tensor() && type.rank() == declared.rank()) {
        // What is declared stands unless it is wrong: it has the names of sizes that depend on data.
        for (int d = 0; d < type.rank(); ++d) {
          ir::Sym& size = type.sizes[static_cast<size_t>(d)];
          const ir::Sym was = declared.sizes[static_cast<size_t>(d)];
          if (!ir::ProvablyDifferent(size, was))
            size = was;
          else if (!size.is_constant() && was.is_constant())
            return Misfit("a size that is not known");
        }
      } else if (type.kind == declared.kind && type.is_sym() && !declared.expr.is_constant()) {
        type = declared;
      }
      if (!SameType(type, declared)) v->mutable_type() = std::move(type);
    }
  }
  return absl::OkStatus();
}

// The first sizes of each dimension, of the same values.
ir::TensorRef Corner(const ir::TensorRef& t, std::vector<int64_t> sizes) {
  ir::TensorRef part = t;
  if (!std::holds_alternative<io::Bytes>(t.storage->bytes)) {
    part.strides = ir::ContiguousStrides(sizes);
    part.sizes = std::move(sizes);
    part.offset = 0;
    ir::Storage s = *t.storage;
    s.size = static_cast<uint64_t>(part.nbytes());
    part.storage = std::make_shared<const ir::Storage>(std::move(s));
    return part;
  }
  part.sizes = std::move(sizes);
  return part;
}

}  // namespace

StandIns::StandIns(const Program& original) {
  const auto add = [&](const Value* v) {
    if (!v) return;
    ordinals_.emplace(v->name(), static_cast<int>(values_.size()));
    values_.push_back(v->name());
  };
  for (const Value* v : original.graph->inputs()) add(v);
  for (const Node* n : *original.graph)
    for (const Value* v : n->outputs()) add(v);
  const auto clashes = [&](const std::string& name) { return name.starts_with(prefix_); };
  while (std::any_of(values_.begin(), values_.end(), clashes)) prefix_.insert(0, "in_");
}

std::string StandIns::NameFor(std::string_view value) const {
  auto it = ordinals_.find(value);
  return it == ordinals_.end() ? text::StrCat(prefix_, value) : text::StrCat(prefix_, it->second);
}

std::string StandIns::ValueOf(std::string_view input) const {
  size_t ordinal = 0;
  if (ordinals_.contains(input)) return std::string(input);
  if (!text::ConsumePrefix(&input, prefix_) || !text::ParseNumber(input, &ordinal) || ordinal >= values_.size())
    return "";
  return values_[ordinal];
}

bool StandIns::Respell(Program& p) const {
  bool any = false;
  for (Value* v : p.graph->inputs()) {
    if (!v->name().starts_with(prefix_)) continue;
    p.graph->Rename(v, text::StrCat(prefix_, "0", std::string_view(v->name()).substr(prefix_.size())));
    any = true;
  }
  return any;
}

std::vector<Node*> NodesOf(const Graph& g) {
  std::vector<Node*> nodes;
  for (Node* n : g) nodes.push_back(n);
  return nodes;
}

Graph* FindGraph(Program& p, const GraphPath& path) {
  Graph* g = p.graph.get();
  for (auto [place, argument] : path) {
    const std::vector<Node*> nodes = NodesOf(*g);
    if (static_cast<size_t>(place) >= nodes.size() ||
        static_cast<size_t>(argument) >= nodes[static_cast<size_t>(place)]->args().size())
      return nullptr;
    auto sub = nodes[static_cast<size_t>(place)]->At(static_cast<size_t>(argument)).get<ir::SubGraph>();
    if (!sub || !*sub) return nullptr;
    g = sub->get();
  }
  return g;
}

std::vector<GraphPath> NestedGraphs(const Program& p) {
  std::vector<GraphPath> out;
  const std::function<void(const Graph&, const GraphPath&)> walk = [&](const Graph& g, const GraphPath& path) {
    int place = 0;
    for (const Node* n : g) {
      for (size_t i = 0; i < n->args().size(); ++i) {
        auto sub = n->At(i).get<ir::SubGraph>();
        if (!sub || !*sub) continue;
        GraphPath inner = path;
        inner.emplace_back(place, static_cast<int>(i));
        out.push_back(inner);
        walk(**sub, inner);
      }
      ++place;
    }
  };
  walk(*p.graph, {});
  std::stable_sort(out.begin(), out.end(), [](const GraphPath& a, const GraphPath& b) { return a.size() < b.size(); });
  return out;
}

Edit KeepNodes(Places keep, Joint joint, const StandIns* names) {
  return [keep = std::move(keep), joint, names](Program& p) { return KeepIn(p, keep, joint, *names); };
}

Edit BypassNode(int place, int operand, const StandIns* names) {
  return [=](Program& p) -> absl::Status {
    const std::vector<Node*> nodes = NodesOf(*p.graph);
    if (static_cast<size_t>(place) >= nodes.size()) return Misfit("no such node");
    Node* n = nodes[static_cast<size_t>(place)];
    const ir::Values operands = OperandsOf(*n);
    if (static_cast<size_t>(operand) >= operands.size()) return Misfit("no such operand");
    Value* by = operands[static_cast<size_t>(operand)];
    Places keep;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (i != static_cast<size_t>(place)) keep.push_back(static_cast<int>(i));
    for (Value* v : n->outputs()) {
      if (!v) continue;
      if (MayStandFor(by, v)) p.graph->ReplaceAllUses(v, by);
    }
    return KeepIn(p, keep, Joint::kCut, *names);
  };
}

Edit RemoveNested(GraphPath path, Places remove) {
  return [path = std::move(path), remove = std::move(remove)](Program& p) -> absl::Status {
    Graph* g = FindGraph(p, path);
    if (!g) return Misfit("no such graph");
    const std::vector<Node*> nodes = NodesOf(*g);
    // Graphs of ONNX models do not give back values of those around them.
    size_t own_inputs = g->inputs().size();
    if (onnx_model::IsOnnx(p)) {
      const Graph& outer = *FindGraph(p, GraphPath(path.begin(), path.end() - 1));
      if (const ir::Values* captured = onnx_model::CapturedBy(*NodesOf(outer)[static_cast<size_t>(path.back().first)]))
        own_inputs -= std::min(own_inputs, captured->size());
    }
    for (auto place = remove.rbegin(); place != remove.rend(); ++place) {
      if (static_cast<size_t>(*place) >= nodes.size()) return Misfit("no such node");
      Node* n = nodes[static_cast<size_t>(*place)];
      for (Value* v : n->outputs()) {
        if (!v || (v->users().empty() && !g->IsOutput(v))) continue;
        Value* same = nullptr;
        const auto try_value = [&](Value* x) {
          const bool outer = !x->producer() && static_cast<size_t>(x->index()) >= own_inputs;
          if (!same && MayStandFor(x, v) && !(outer && g->IsOutput(v))) same = x;
        };
        for (Value* operand : OperandsOf(*n)) try_value(operand);
        for (Value* input : g->inputs()) try_value(input);
        if (!same) return Misfit("nothing of the type");
        g->ReplaceAllUses(v, same);
      }
      g->Erase(n);
    }
    // What only they used goes, too.
    for (Node *n = g->last(), *previous; n; n = previous) {
      previous = n->prev();
      bool used = n->outputs().empty() || n->op().mutates();
      for (Value* v : n->outputs()) used |= !v || !v->users().empty() || g->IsOutput(v);
      if (!used) g->Erase(n);
    }
    return absl::OkStatus();
  };
}

namespace {

// What input `i` of a nested graph stands for: a value of the outermost graph from which it is handed on as captured.
const Value* Outermost(Program& p, GraphPath path, size_t i) {
  const Value* v = FindGraph(p, path)->inputs()[i];
  while (!path.empty() && !v->producer()) {
    const auto [place, argument] = path.back();
    const size_t from_end = v->graph()->inputs().size() - static_cast<size_t>(v->index());
    path.pop_back();
    const ir::Values* captured = onnx_model::CapturedBy(*NodesOf(*FindGraph(p, path))[static_cast<size_t>(place)]);
    if (!captured || captured->size() < from_end || !(*captured)[captured->size() - from_end]) break;
    v = (*captured)[captured->size() - from_end];
  }
  return v;
}

}  // namespace

Edit Hoist(GraphPath path) {
  return [path = std::move(path)](Program& p) -> absl::Status {
    GraphPath outer(path.begin(), path.end() - 1);
    Graph* owner = FindGraph(p, outer);
    Graph* body = FindGraph(p, path);
    if (!owner || !body) return Misfit("no such graph");
    const Node* n = NodesOf(*owner)[static_cast<size_t>(path.back().first)];
    std::vector<ir::InputSpec> specs(body->inputs().size());
    if (onnx_model::IsOnnx(p)) {
      for (size_t i = 0; i < specs.size(); ++i)
        if (const Value* v = Outermost(p, path, i); v->graph() == p.graph.get() && !v->producer())
          specs[i] = p.input_specs[static_cast<size_t>(v->index())];
    } else if (auto decoded = ir::DecodeHigherOrder(*n);
               decoded.ok() && outer.empty() && decoded->kind != ir::HigherOrder::kScan) {
      std::vector<Arg> operands = decoded->carried;
      operands.insert(operands.end(), decoded->captured.begin(), decoded->captured.end());
      for (size_t i = 0; i < std::min(operands.size(), specs.size()); ++i) {
        const Value* v = operands[i].value();
        if (v && !v->producer() && v->graph() == p.graph.get() &&
            p.input_specs[static_cast<size_t>(v->index())].is_weight())
          specs[i] = p.input_specs[static_cast<size_t>(v->index())];
      }
    }
    auto root = std::make_unique<Graph>(&p);
    ir::GraphCopier(&p).CopyContents(*body, *root);
    p.graph = std::move(root);
    p.input_specs = std::move(specs);
    std::erase_if(p.graph->outputs, [](const Arg& a) { return !a.value(); });
    p.output_specs.assign(p.graph->outputs.size(), {});
    Tidy(p);
    return absl::OkStatus();
  };
}

Edit KeepOutputs(Places keep) {
  return [keep = std::move(keep)](Program& p) -> absl::Status {
    Graph& g = *p.graph;
    std::vector<Arg> outputs;
    for (int i : keep) {
      if (static_cast<size_t>(i) >= g.outputs.size()) return Misfit("no such output");
      outputs.push_back(g.outputs[static_cast<size_t>(i)]);
    }
    const size_t before = g.outputs.size();
    g.outputs = std::move(outputs);
    p.output_specs.assign(g.outputs.size(), {});
    for (Node* n : g) AddOutputs(p, *n, false);
    if (g.outputs.size() >= before) return Misfit("the output is all that its node is for");
    Tidy(p);
    return absl::OkStatus();
  };
}

Edit MergeInputs() {
  return [](Program& p) {
    Graph& g = *p.graph;
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      if (p.input_specs[i].kind != ir::InputSpec::kUser) continue;
      for (size_t k = i + 1; k < g.inputs().size(); ++k)
        if (p.input_specs[k].kind == ir::InputSpec::kUser && SameType(g.inputs()[i]->type(), g.inputs()[k]->type()))
          g.ReplaceAllUses(g.inputs()[k], g.inputs()[i]);
    }
    Tidy(p);
    return absl::OkStatus();
  };
}

Edit StripMetadata() {
  return [](Program& p) -> absl::Status {
    ForEachGraph(*p.graph, [](Graph& g) {
      for (Node* n : g) n->set_source(nullptr);
    });
    if (onnx_model::IsOnnx(p)) onnx_model::StripMetadata(p);
    absl::flat_hash_set<ir::Sym> used;
    const auto note = [&](ir::Sym s) {
      if (!s.is_constant())
        for (ir::Sym x : s.Symbols()) used.insert(x);
    };
    ForEachType(p, [&](Type& t) {
      t.device = nullptr;
      t.requires_grad = false;
      for (ir::Sym s : t.sizes) note(s);
      for (ir::Sym s : t.strides) note(s);
      note(t.storage_offset);
      note(t.expr);
    });
    DropIdleRanges(p);  // while their symbols are known
    auto table = std::make_unique<ir::SymTable>();
    absl::flat_hash_map<ir::Sym, ir::Sym> renewed;
    for (const ir::SymbolInfo& s : p.syms->symbols()) {
      const auto old = p.syms->FindSymbol(s.name);
      if (!old || !used.contains(*old)) continue;
      RETURN_IF_ERROR(table->DeclareRange(s.name, s.range));
      if (s.positive) RETURN_IF_ERROR(table->SetPositive(s.name));
      if (s.hint) table->SetHint(s.name, *s.hint);
      renewed.emplace(*old, table->Symbol(s.name, s.positive));
    }
    ir::SubstituteSymbols(p, [&](ir::Sym s) -> std::optional<ir::Sym> {
      auto it = renewed.find(s);
      return it == renewed.end() ? std::nullopt : std::optional<ir::Sym>(it->second);
    });
    p.syms = std::move(table);
    Tidy(p);
    return absl::OkStatus();
  };
}

Edit DropRanges() {
  return [](Program& p) {
    p.range_constraints.clear();
    return absl::OkStatus();
  };
}

Edit DropStrides() {
  return [](Program& p) {
    if (onnx_model::IsOnnx(p)) return absl::OkStatus();  // which has none
    ForEachType(p, [](Type& t) {
      t.strides_known = false;
      t.strides.clear();
      t.storage_offset = 0;
    });
    return absl::OkStatus();
  };
}

namespace {

bool MayDrop(const Node& n, const ir::NamedArg& a) {
  if (const Program& p = *n.graph()->program(); onnx_model::IsOnnx(p)) return onnx_model::MayDrop(p, n, a);
  const int i = n.op().ArgIndex(a.name);
  if (n.op().variadic || i < 0 || !n.op().args[static_cast<size_t>(i)].has_default) return false;
  if (a.arg.is<ir::SubGraph>() || a.arg.is<DType>()) return false;
  return true;
}

}  // namespace

Edit DropArguments() {
  return [](Program& p) {
    ForEachGraph(*p.graph, [](Graph& g) {
      for (Node* n : g) {
        std::vector<std::string> names;
        for (const ir::NamedArg& a : n->args())
          if (MayDrop(*n, a)) names.push_back(a.name);
        for (const std::string& name : names) n->RemoveArg(name);
      }
    });
    Tidy(p);
    return InferAgain(p);
  };
}

Edit DropArgument(GraphPath path, int place, std::string name) {
  return [path = std::move(path), place, name = std::move(name)](Program& p) -> absl::Status {
    Graph* g = FindGraph(p, path);
    if (!g) return Misfit("no such graph");
    const std::vector<Node*> nodes = NodesOf(*g);
    if (static_cast<size_t>(place) >= nodes.size()) return Misfit("no such node");
    Node* n = nodes[static_cast<size_t>(place)];
    for (const ir::NamedArg& a : n->args()) {
      if (a.name != name || !MayDrop(*n, a)) continue;
      n->RemoveArg(name);
      Tidy(p);
      return path.empty() ? InferAgain(p) : absl::OkStatus();
    }
    return Misfit("no such argument");
  };
}

Edit PinSymbols(text::Map<int64_t> values) {
  return [values = std::move(values)](Program& p) -> absl::Status {
    ir::SubstituteSymbols(p, [&](ir::Sym s) -> std::optional<ir::Sym> {
      auto it = values.find(s.name());
      return it == values.end() ? std::nullopt : std::optional<ir::Sym>(it->second);
    });
    ForEachGraph(*p.graph, [](Graph& g) {
      const auto settle = [&](Value* v) {
        if (!v || v->type().kind != Type::kSymInt) return;
        if (auto number = v->type().expr.constant()) ReplaceByNumber(g, v, *number);
      };
      if (&g == g.program()->graph.get())
        for (Value* v : g.inputs()) settle(v);
      for (Node* n : g)
        for (Value* v : n->outputs()) settle(v);
    });
    Graph& g = *p.graph;
    for (size_t i = g.outputs.size(); i-- > 0;) {
      if (g.outputs[i].value()) continue;
      g.outputs.erase(g.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      p.output_specs.erase(p.output_specs.begin() + static_cast<std::ptrdiff_t>(i));
    }
    // Nodes that gave such numbers only.
    for (Node *n = g.last(), *previous; n; n = previous) {
      previous = n->prev();
      bool needed = n->outputs().empty();
      for (Value* v : n->outputs()) needed |= !v || !v->type().is_sym() || !v->users().empty() || g.IsOutput(v);
      if (!needed) g.Erase(n);
    }
    for (Node* n : g) AddOutputs(p, *n, false);
    Tidy(p);
    return absl::OkStatus();
  };
}

Edit ReplaceWeights(std::vector<std::string> names, bool random) {
  return [names = std::move(names), random](Program& p) -> absl::Status {
    for (const std::string& name : names) {
      auto it = p.weights.find(name);
      if (it == p.weights.end()) return Misfit("no such weight");
      ir::TensorRef& t = it->second;
      ir::Storage s;
      if (random)
        s.bytes = ir::Random{7};
      else
        s.bytes = ir::Splat{ir::IsFloating(t.dtype) || ir::IsComplex(t.dtype) ? 0.5 : 0.0};
      t.strides = ir::ContiguousStrides(t.sizes);
      t.offset = 0;
      s.size = static_cast<uint64_t>(t.nbytes());
      t.storage = std::make_shared<const ir::Storage>(std::move(s));
    }
    return absl::OkStatus();
  };
}

std::vector<int64_t> SizesOf(const Program& p) {
  std::set<int64_t, std::greater<>> sizes;
  for (const Value* v : p.graph->inputs())
    for (ir::Sym s : v->type().sizes)
      if (auto n = s.constant(); n && *n > 2) sizes.insert(*n);
  return {sizes.begin(), sizes.end()};
}

Edit ReplaceSize(int64_t size, int64_t to, bool multiples) {
  return [=](Program& p) -> absl::Status {
    const auto replaced = [&](int64_t n) {
      return n == size ? to : multiples && n > 0 && n % size == 0 ? n / size * to : n;
    };
    for (size_t i = 0; i < p.input_specs.size(); ++i) {
      Type& t = p.graph->inputs()[i]->mutable_type();
      if (!t.is_tensor()) continue;
      bool changed = false;
      for (ir::Sym& s : t.sizes) {
        const auto n = s.constant();
        if (!n || replaced(*n) == *n) continue;
        s = replaced(*n);
        changed = true;
      }
      if (!changed) continue;
      t.strides_known = false;
      t.strides.clear();
      t.storage_offset = 0;
      auto weight = p.weights.find(p.input_specs[i].target);
      if (!p.input_specs[i].is_weight() || weight == p.weights.end()) continue;
      const auto sizes = t.StaticSizes();
      if (!sizes) return Misfit("a weight without sizes");
      if (weight->second.sizes != *sizes) weight->second = Corner(weight->second, *sizes);
    }
    for (Node* n : *p.graph)
      for (size_t i = 0; i < n->args().size(); ++i) {
        const int at = n->op().ArgIndex(n->args()[i].name);
        if (at < 0 || !IsSize(n->op().args[static_cast<size_t>(at)])) continue;
        const Arg& a = n->args()[i].arg;
        if (auto number = a.get<int64_t>()) {
          if (replaced(*number) != *number) n->SetArgAt(i, replaced(*number));
        } else if (auto ints = a.get<ir::Ints>()) {
          ir::Ints changed = *ints;
          for (int64_t& x : changed) x = replaced(x);
          n->SetArgAt(i, Arg(std::move(changed)));
        } else if (auto syms = a.get<ir::SymInts>()) {
          ir::SymInts changed = *syms;
          for (ir::IntOrValue& x : changed)
            if (!x.value) x.constant = replaced(x.constant);
          n->SetArgAt(i, Arg(std::move(changed)));
        }
      }
    return InferAgain(p);
  };
}

Edit WidenFloats() {
  return [](Program& p) -> absl::Status {
    if (onnx_model::IsOnnx(p)) return Misfit("types in attributes that are not understood");
    const auto other = [](DType t) { return ir::IsLowPrecision(t) || t == DType::kFloat64; };
    bool any = false;
    ForEachType(p, [&](Type& t) { any |= t.is_tensor() && other(t.dtype); });
    if (!any) return Misfit("no other floats");
    for (size_t i = 0; i < p.input_specs.size(); ++i) {
      Type& t = p.graph->inputs()[i]->mutable_type();
      if (!t.is_tensor() || !other(t.dtype)) continue;
      t.dtype = DType::kFloat32;
      auto weight = p.weights.find(p.input_specs[i].target);
      if (!p.input_specs[i].is_weight() || weight == p.weights.end()) continue;
      if (std::holds_alternative<io::Bytes>(weight->second.storage->bytes)) return Misfit("a weight of another type");
      ir::Storage s = *weight->second.storage;
      weight->second.dtype = DType::kFloat32;
      s.size = static_cast<uint64_t>(weight->second.nbytes());
      weight->second.storage = std::make_shared<const ir::Storage>(std::move(s));
    }
    for (Node* n : *p.graph)
      for (size_t i = 0; i < n->args().size(); ++i)
        if (auto t = n->args()[i].arg.get<DType>(); t && other(*t)) n->SetArgAt(i, Arg(DType::kFloat32));
    return InferAgain(p);
  };
}

}  // namespace slipway::minifier
