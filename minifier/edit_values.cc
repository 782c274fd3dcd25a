// Edits of what values are: symbols pinned, weights replaced, sizes made smaller, floats widened, strides and arguments
// dropped.
#include <cctype>
#include <set>

#include "ir/clone.h"
#include "ir/ops/higher_order.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "ir/specialize.h"
#include "minifier/edit.h"
#include "minifier/edit_internal.h"
#include "onnx_model/onnx_graph.h"
#include "passes/pass.h"

namespace slipway::minifier {

using ir::Arg;
using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Program;
using ir::Type;
using ir::Value;

void ForEachType(Program& p, const std::function<void(Type&)>& f) {
  ForEachGraph(*p.graph, [&](Graph& g) {
    for (Value* v : g.inputs()) f(v->mutable_type());
    for (Node* n : g)
      for (Value* v : n->outputs())
        if (v) f(v->mutable_type());
  });
}

void DropUnusedRanges(Program& p) {
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

namespace {

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

// Types of all results from those of the inputs. Nested graphs are not entered: programs that have some keep their
// sizes.
absl::Status InferAgain(Program& p) {
  if (onnx_model::IsOnnx(p)) return onnx_model::InferTypes(p, /*afresh=*/true);
  for (Node* n : *p.graph) {
    for (const ir::NamedArg& a : n->args())
      if (a.arg.is<ir::SubGraph>()) return InvalidEdit("sizes inside of nested graphs");
    auto types = ir::InferTypes(*n, ir::FreshSymbols::kNone);
    if (!types.ok()) return types.status();
    if (types->empty() && n->outputs().size() == 1 && !n->output()) continue;
    if (types->size() != n->outputs().size()) return InvalidEdit("another number of results");
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
            return InvalidEdit("a size that is not known");
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
    DropUnused(p);
    return InferAgain(p);
  };
}

Edit DropArgument(GraphPath path, int place, std::string name) {
  return [path = std::move(path), place, name = std::move(name)](Program& p) -> absl::Status {
    Graph* g = FindGraph(p, path);
    if (!g) return InvalidEdit("no such graph");
    const std::vector<Node*> nodes = NodesOf(*g);
    if (static_cast<size_t>(place) >= nodes.size()) return InvalidEdit("no such node");
    Node* n = nodes[static_cast<size_t>(place)];
    for (const ir::NamedArg& a : n->args()) {
      if (a.name != name || !MayDrop(*n, a)) continue;
      n->RemoveArg(name);
      DropUnused(p);
      return path.empty() ? InferAgain(p) : absl::OkStatus();
    }
    return InvalidEdit("no such argument");
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
    DropUnused(p);
    return absl::OkStatus();
  };
}

Edit ReplaceWeights(std::vector<std::string> names, bool random) {
  return [names = std::move(names), random](Program& p) -> absl::Status {
    for (const std::string& name : names) {
      auto it = p.weights.find(name);
      if (it == p.weights.end()) return InvalidEdit("no such weight");
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
      if (!sizes) return InvalidEdit("a weight without sizes");
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
    if (onnx_model::IsOnnx(p)) return InvalidEdit("types in attributes that are not understood");
    const auto other = [](DType t) { return ir::IsLowPrecision(t) || t == DType::kFloat64; };
    bool any = false;
    ForEachType(p, [&](Type& t) { any |= t.is_tensor() && other(t.dtype); });
    if (!any) return InvalidEdit("no other floats");
    for (size_t i = 0; i < p.input_specs.size(); ++i) {
      Type& t = p.graph->inputs()[i]->mutable_type();
      if (!t.is_tensor() || !other(t.dtype)) continue;
      t.dtype = DType::kFloat32;
      auto weight = p.weights.find(p.input_specs[i].target);
      if (!p.input_specs[i].is_weight() || weight == p.weights.end()) continue;
      if (std::holds_alternative<io::Bytes>(weight->second.storage->bytes))
        return InvalidEdit("a weight of another type");
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
