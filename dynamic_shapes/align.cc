// Exports of one model at different sizes have the same nodes, unless the model branches on a size.
#include "dynamic_shapes/align.h"

#include <set>

#include "base/status_macros.h"
#include "base/text.h"
#include "dynamic_shapes/unknowns.h"
#include "ir/ops/op_table.h"

namespace slipway::dynamic_shapes {
namespace {

using ir::Node;
using ir::Value;

absl::Status Differ(const Node& n, std::string_view what) {
  const std::string at = n.source() ? n.source()->Describe() : "";
  return absl::InvalidArgumentError(
      text::StrCat(n.op_name(), at.empty() ? "" : text::StrCat(" in ", at), ": ", what, " in the other program"));
}

std::string NumberText(const ir::Arg& a) {
  if (auto i = a.get<int64_t>()) return std::to_string(*i);
  if (auto d = a.get<double>()) return text::StrCat(*d);
  return "";
}

class Aligner {
 public:
  explicit Aligner(Alignment& out) : out_(out) {}

  absl::Status Graphs(ir::Graph& a, const ir::Graph& b) {
    if (a.inputs().size() != b.inputs().size())
      return absl::InvalidArgumentError("the programs have different numbers of inputs");
    for (size_t i = 0; i < a.inputs().size(); ++i)
      if (!Pair(a.inputs()[i], b.inputs()[i]))
        return absl::InvalidArgumentError(text::StrCat("input '", a.inputs()[i]->name(), "' is ",
                                                       a.inputs()[i]->type().ToString(), " and ",
                                                       b.inputs()[i]->type().ToString()));
    const Node* m = b.first();
    for (Node* n : a) {
      if (!m) return Differ(*n, "has no counterpart");
      RETURN_IF_ERROR(Nodes(*n, *m));
      m = m->next();
    }
    if (m) return Differ(*m, "is one more node");
    if (a.outputs.size() != b.outputs.size())
      return absl::InvalidArgumentError("the programs have different numbers of outputs");
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      const std::string here = NumberText(a.outputs[i]), there = NumberText(b.outputs[i]);
      if (!here.empty() && !there.empty() && here != there)
        return absl::UnimplementedError(
            text::StrCat("output ", i, " is the number ", here, " here and ", there,
                         " there: numbers among the results are not solved; tensors of the size (torch.full) are"));
      if (!SameValues(a.outputs[i], b.outputs[i]) || a.outputs[i].v.index() != b.outputs[i].v.index() ||
          (!a.outputs[i].value() && !(a.outputs[i].v == b.outputs[i].v)))
        return absl::InvalidArgumentError(text::StrCat("output ", i, " is another value in the other program"));
    }
    return absl::OkStatus();
  }

 private:
  Alignment& out_;

  bool Pair(const Value* x, const Value* y) {
    if (x->type().kind != y->type().kind) return false;
    if (x->type().is_tensor() && (x->dtype() != y->dtype() || x->rank() != y->rank())) return false;
    out_.values[x] = y;
    return true;
  }
  bool SameValues(const ir::Arg& a, const ir::Arg& b) const {
    std::vector<const Value*> x, y;
    a.ForEachValue([&](Value* v) { x.push_back(v); });
    b.ForEachValue([&](Value* v) { y.push_back(v); });
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (auto it = out_.values.find(x[i]); it == out_.values.end() || it->second != y[i]) return false;
    return true;
  }
  absl::Status Nodes(Node& n, const Node& m) {
    if (&n.op() != &m.op() && n.op_name() != m.op_name()) return Differ(n, text::StrCat("is ", m.op_name()));
    if (n.args().size() != m.args().size() || n.outputs().size() != m.outputs().size())
      return Differ(n, "has other arguments");
    std::set<std::string> sizes;
    for (const SizeArg& a : SizeArgsOf(n)) sizes.insert(a.arg);
    for (size_t i = 0; i < n.args().size(); ++i) {
      const ir::NamedArg &x = n.args()[i], &y = m.args()[i];
      if (x.name != y.name || x.arg.v.index() != y.arg.v.index())
        return Differ(n, text::StrCat("argument '", x.name, "' is of another kind"));
      if (auto sub = x.arg.get<ir::SubGraph>()) {
        RETURN_IF_ERROR(Graphs(**sub, **y.arg.get<ir::SubGraph>()));
        continue;
      }
      if (!SameValues(x.arg, y.arg)) return Differ(n, text::StrCat("argument '", x.name, "' is another value"));
      bool has_value = false;
      x.arg.ForEachValue([&](Value*) { has_value = true; });
      if (has_value) continue;
      if (sizes.contains(x.name)) {
        if (auto ints = x.arg.get<ir::Ints>(); ints && ints->size() != y.arg.get<ir::Ints>()->size())
          return Differ(n, text::StrCat("argument '", x.name, "' has another number of elements"));
        continue;
      }
      if (x.arg.v == y.arg.v) continue;
      if (const std::string here = NumberText(x.arg), there = NumberText(y.arg); !here.empty() && !there.empty())
        return absl::UnimplementedError(text::StrCat(
            PlaceOf(n), ": argument '", x.name, "' is ", here, " here and ", there,
            " there: what is no whole number is not solved; computed with tensors of the size (torch.full) it is"));
      return Differ(n, text::StrCat("argument '", x.name, "' has another value"));
    }
    for (size_t i = 0; i < n.outputs().size(); ++i) {
      if (!n.outputs()[i] != !m.outputs()[i]) return Differ(n, "has other results");
      if (n.outputs()[i] && !Pair(n.outputs()[i], m.outputs()[i])) return Differ(n, "has a result of another type");
    }
    out_.nodes[&n] = &m;
    return absl::OkStatus();
  }
};

}  // namespace

int64_t Alignment::NumberAt(const SizeArg& a) const {
  auto it = nodes.find(a.node);
  if (it == nodes.end()) return a.value;
  const ir::Arg& there = it->second->Get(a.arg);
  if (a.element < 0) return there.get<int64_t>() ? *there.get<int64_t>() : a.value;
  if (auto ints = there.get<ir::Ints>(); ints && static_cast<size_t>(a.element) < ints->size())
    return (*ints)[a.element];
  if (auto some = there.get<ir::SymInts>();
      some && static_cast<size_t>(a.element) < some->size() && !(*some)[a.element].value)
    return (*some)[a.element].constant;
  return a.value;
}

absl::StatusOr<Alignment> Align(ir::Program& p, const ir::Program& other) {
  Alignment out;
  RETURN_IF_ERROR(Aligner(out).Graphs(*p.graph, *other.graph));
  for (const auto& [name, t] : p.weights) {
    auto it = other.weights.find(name);
    if (it == other.weights.end() || it->second.dtype != t.dtype || it->second.sizes != t.sizes)
      return absl::InvalidArgumentError(text::StrCat("'", name, "' is of another type or size in the other program"));
  }
  return out;
}

}  // namespace slipway::dynamic_shapes
