// If, Loop and Scan: cond, while_loop and scan with graphs of their own. A branch that is always taken is written in
// place of the node.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "base/text.h"
#include "importers/onnx/graph_lowering.h"
#include "importers/onnx/lowering.h"
#include "ir/tensor.h"
#include "onnx_model/onnx_graph.h"

namespace slipway::importers::onnx_in {
namespace {

using ir::SubGraph;
using ir::Type;

// The truth of an input, where it is constant.
std::optional<bool> Truth(Call& c, size_t i) {
  if (const auto e = c.elements(i); e && e->values.size() == 1 && !e->values[0].value)
    return e->values[0].constant != 0;
  const auto number = c.number(i);
  return number ? std::optional<bool>(*number != 0) : std::nullopt;
}
// The same of a result of a nested graph.
std::optional<bool> TruthOf(const GraphLowering& graph, const Operand& o) {
  if (o.elements && o.elements->values.size() == 1 && !o.elements->values[0].value)
    return o.elements->values[0].constant != 0;
  const ir::TensorRef* t = o.tensor ? graph.Stored(o.tensor) : nullptr;
  if (!t || t->dtype != DType::kBool || t->numel() != 1) return std::nullopt;
  const auto bytes = ir::ReadDense(*t);
  return bytes.ok() && bytes->size() == 1 ? std::optional<bool>((*bytes)[0] != 0) : std::nullopt;
}
Value* Scalar(Call& c, Value* v) { return v->rank() == 0 ? v : c.b.Call("aten.reshape.default", {v, Arg(Ints{})}); }
Type Plain(Type t) {
  t.strides_known = false;
  return t;
}

// A nested graph and what it is written with.
class Body {
 public:
  Body(Call& c, ir::Graph& model)
      : c_(c), graph_(std::make_shared<ir::Graph>(&c.graph().program())),
        lowering_(c.graph(), c.b, model, onnx_model::CapturedBy(c.node()), *graph_),
        end_(*graph_, nullptr, c.node().source()) {}

  Value* Input(std::string_view name, Type t) { return graph_->AddInput(std::string(name), Plain(std::move(t))); }
  std::vector<Operand> Run(std::vector<Operand> inputs) {
    auto out = lowering_.RunNested(std::move(inputs));
    if (!out.ok()) c_.Fail(out.status());
    return out.ok() ? *std::move(out) : std::vector<Operand>();
  }
  // A result as a tensor that nothing else is.
  Value* Result(const Operand& o) {
    Value* v = o.tensor ? o.tensor : o.elements ? lowering_.Tensor(*o.elements, end_) : nullptr;
    if (!v) {
      c_.Refuse("with a result that is no tensor");
      return nullptr;
    }
    if (!v->producer() || graph_->IsOutput(v)) v = end_.Call("aten.clone.default", {v});
    if (!end_.ok()) c_.Fail(end_.status());
    return v;
  }
  bool IsTrue(const Operand& o) const { return TruthOf(lowering_, o) == true; }
  void Output(Value* v) { graph_->outputs.emplace_back(v); }

  // Inputs for what another graph of the node takes, too; both take the same then.
  void TakeAs(const Body& other) {
    for (Value* v : other.taken()) lowering_.Take(v);
  }
  const Values& taken() const { return lowering_.taken(); }
  Value* Take(Value* outer) { return lowering_.Take(outer); }
  ir::Builder& end() { return end_; }
  SubGraph graph() { return graph_; }

 private:
  Call& c_;
  SubGraph graph_;
  GraphLowering lowering_;
  ir::Builder end_;
};

// ---- If

// The type of a result that comes from one of two: a size that they do not share is a number of its own.
std::optional<Type> Either(Call& c, const Type& a, const Type& b) {
  if (!a.is_tensor() || !b.is_tensor() || a.dtype != b.dtype || a.rank() != b.rank()) {
    c.Refuse("whose branches give tensors of other ranks");
    return std::nullopt;
  }
  ir::Sizes sizes = a.sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (ProvablyEqual(a.sizes[d], b.sizes[d])) continue;
    if (ProvablyDifferent(a.sizes[d], b.sizes[d])) {
      c.Refuse("whose branches give tensors of other sizes");
      return std::nullopt;
    }
    c.Refuse("whose branches give tensors of sizes that are not known to be equal");
    return std::nullopt;
  }
  return Plain(Type::Tensor(a.dtype, sizes));
}

// A branch in place of the node.
void TakeBranch(Call& c, ir::Graph& branch) {
  GraphLowering taken(c.graph(), c.b, branch, onnx_model::CapturedBy(c.node()), c.b.graph());
  auto out = taken.RunNested({});
  if (!out.ok()) return c.Fail(out.status());
  for (size_t i = 0; i < out->size(); ++i) c.Give(i, std::move((*out)[i]));
}

// torch.squeeze(x, d) of a dynamic dim as scripting exporters write it: Squeeze where the size is 1, else x as it is,
// of a rank that nothing behind it is made for. Where the size is not 1, what the Squeeze becomes is an error of the
// run.
bool IsSqueeze(const ir::Graph& then_branch, const ir::Graph& else_branch) {
  const auto only = [](const ir::Graph& g, std::string_view type) {
    bool found = false;
    for (const ir::Node* n : g) {
      const onnx_model::Operator op = onnx_model::OperatorOf(n->op_name());
      if (op.type == type)
        found = true;
      else if (op.type != "Constant")
        return false;
    }
    return found;
  };
  return only(then_branch, "Squeeze") && only(else_branch, "Identity");
}

void If(Call& c) {
  const SubGraph branches[] = {c.graph_of("then_branch"), c.graph_of("else_branch")};
  if (!c.ok()) return;
  if (const auto truth = Truth(c, 0)) return TakeBranch(c, *branches[*truth ? 0 : 1]);
  if (IsSqueeze(*branches[0], *branches[1])) return TakeBranch(c, *branches[0]);
  Value* predicate = Scalar(c, c.in(0));
  Body first(c, *branches[0]), second(c, *branches[1]);
  const std::vector<Operand> a = first.Run({});
  second.TakeAs(first);  // both take the same in the same order
  const std::vector<Operand> b = second.Run({});
  if (!c.ok() || c.graph().refused()) return;
  if (a.size() != b.size()) return c.Wrong("branches of other numbers of results");
  std::vector<Type> types;
  for (size_t i = 0; i < a.size(); ++i) {
    Value *x = first.Result(a[i]), *y = second.Result(b[i]);
    if (!c.ok()) return;
    const auto type = Either(c, x->type(), y->type());
    if (!type) return;
    first.Output(x), second.Output(y);
    types.push_back(*type);
  }
  first.TakeAs(second);
  const Values out = c.b.CallTyped("higher_order.cond",
                                   {predicate, Arg(first.graph()), Arg(second.graph()), Arg(first.taken())}, {}, types);
  if (c.ok())
    for (size_t i = 0; i < types.size(); ++i) c.Give(i, out[i]);
}

// ---- Loop and Scan

// Checks what a turn hands to the next one, and makes it the body's output.
bool Carries(Call& c, Body& body, Value* from, Value* to) {
  if (!c.ok()) return false;
  const Type &a = from->type(), &b = to->type();
  bool same = a.is_tensor() && b.is_tensor() && a.dtype == b.dtype && a.rank() == b.rank();
  for (int d = 0; same && d < a.rank(); ++d)
    same = ProvablyEqual(a.sizes[static_cast<size_t>(d)], b.sizes[static_cast<size_t>(d)]);
  if (!same) {
    c.Refuse("whose values change their sizes from turn to turn");
    return false;
  }
  body.Output(to);
  return true;
}

// What a scan gives: `last` values and what is stacked, `length` of them.
std::vector<Type> ScanTypes(const Values& carried, const Values& stacked, const ir::Sym& length) {
  std::vector<Type> types;
  for (const Value* v : carried) types.push_back(Plain(v->type()));
  for (const Value* v : stacked) {
    ir::Sizes sizes = v->sizes();
    sizes.insert(sizes.begin(), length);
    types.push_back(Type::Tensor(v->dtype(), std::move(sizes)));
  }
  return types;
}

// The scan node over `over` along their first dim whose body has these results: first what is carried, then what is
// stacked. Nothing where something is refused.
Values ScanNode(Call& c, Body& body, const Values& carried, const Values& over, absl::Span<const Operand> results) {
  Values stacked;
  for (size_t i = 0; i < results.size(); ++i) {
    Value* v = body.Result(results[i]);
    if (!c.ok()) return {};
    if (i < carried.size()) {
      if (!Carries(c, body, carried[i], v)) return {};
    } else {
      body.Output(v);
      stacked.push_back(v);
    }
  }
  Values out = c.b.CallTyped("higher_order.scan", {Arg(body.graph()), Arg(carried), Arg(over), Arg(body.taken())}, {},
                             ScanTypes(carried, stacked, over[0]->sizes()[0]));
  return c.ok() ? out : Values();
}

// A loop of a known number of turns whose results are stacked: a scan over the numbers of turns. What the scan takes
// comes in another order than what the loop's body does, and nothing of it is a condition.
void Stacked(Call& c, Body& body, const Values& carried, const std::vector<Operand>& results, IntOrValue count) {
  Value* turns = c.b.Call("aten.arange.default", {Arg(count)}, {{"dtype", Arg(DType::kInt64)}});
  const Values out = ScanNode(c, body, carried, {turns}, absl::MakeSpan(results).subspan(1));
  for (size_t i = 0; i < out.size(); ++i) c.Give(i, out[i]);
}

// A loop that carries sequences: its turns are written one behind the other, as many as are counted or until what is
// known says stop.
void Unrolled(Call& c, ir::Graph& model, bool begins) {
  constexpr int64_t kMostTurns = 1024;
  const Ints count = c.has(0) ? c.constants(0, "sequences and a count") : Ints{std::numeric_limits<int64_t>::max()};
  if (!c.ok()) return;
  if (count.size() != 1) return c.Wrong("a count of other than one number");
  Sequence carried;
  for (size_t i = 2; i < c.input_count(); ++i) carried.push_back(c.operand(i));
  if (!c.ok() || c.output_count() < carried.size()) return c.Wrong("fewer results than values");
  std::vector<Values> stacked(c.output_count() - carried.size());
  for (int64_t turn = 0; begins && turn < count[0]; ++turn) {
    if (turn == kMostTurns) return c.Refuse("with sequences and so many turns");
    GraphLowering body(c.graph(), c.b, model, onnx_model::CapturedBy(c.node()), c.b.graph());
    std::vector<Operand> inputs = {{nullptr, Elements{{IntOrValue(turn)}, DType::kInt64, true}},
                                   {nullptr, Elements{{IntOrValue(1)}, DType::kBool, true}}};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const auto out = body.RunNested(std::move(inputs));
    if (!out.ok()) return c.Fail(out.status());
    if (c.graph().refused()) return;
    if (out->size() != c.output_count() + 1) return c.Wrong("a body of another number of results");
    const std::optional<bool> more = TruthOf(body, (*out)[0]);
    if (!more) return c.Refuse("with sequences and an end that is data");
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = (*out)[i + 1];
    for (size_t i = 0; i < stacked.size(); ++i) stacked[i].push_back(c.TensorOf((*out)[carried.size() + 1 + i]));
    begins = *more;
  }
  for (size_t i = 0; i < carried.size(); ++i) c.Give(i, carried[i]);
  for (size_t i = 0; i < stacked.size(); ++i) {
    if (stacked[i].empty()) return c.Refuse("without a turn");
    c.Give(carried.size() + i, c.b.Call("aten.stack.default", {Arg(stacked[i])}));
  }
}

// A body's inputs are the number of the turn, whether to go on, and what is carried; its results whether to go on, what
// is carried, and what is stacked over turns.
void Loop(Call& c) {
  const SubGraph model = c.graph_of("body");
  if (!c.ok()) return;
  const bool counted = c.has(0);
  const std::optional<bool> begins = c.has(1) ? Truth(c, 1) : std::optional<bool>(true);
  for (size_t i = 2; i < c.input_count(); ++i) {
    if (!c.has(i) || !c.operand(i).sequence) continue;
    if (!begins) return c.Refuse("with sequences and an end that is data");
    return Unrolled(c, *model, *begins);
  }
  Values carried;
  for (size_t i = 2; i < c.input_count(); ++i) carried.push_back(c.in(i));
  if (!c.ok()) return;
  const size_t n = carried.size();
  if (c.output_count() < n) return c.Wrong("fewer results than values");
  Value* start = c.has(1) ? Scalar(c, c.in(1)) : c.Constant(1, DType::kBool);
  if (start->dtype() != DType::kBool) start = c.b.Cast(start, DType::kBool);

  const bool stacks = c.output_count() > n;
  Body body(c, *model);
  Values inside;
  const auto add_carried = [&] {
    for (Value* v : carried) inside.push_back(body.Input(v->name(), v->type()));
  };
  // A scan's body takes what is carried first, and no condition: that stays true.
  if (stacks) add_carried();
  Value* turn = body.Input("turn", Type::Tensor(DType::kInt64, {}));
  Value* going = stacks ? nullptr : body.Input("going", Type::Tensor(DType::kBool, {}));
  if (!stacks) add_carried();
  std::vector<Operand> own = {{turn, std::nullopt}, {going, std::nullopt}};
  if (stacks) own[1].elements = Elements{{IntOrValue(1)}, DType::kBool, true};
  for (Value* v : inside) own.push_back({v, std::nullopt});
  const std::vector<Operand> results = body.Run(std::move(own));
  if (!c.ok() || c.graph().refused()) return;
  if (results.size() != c.output_count() + 1) return c.Wrong("a body of another number of results");
  const Operand& more = results[0];
  const bool always = (more.tensor && more.tensor == going) || body.IsTrue(more);
  if (stacks) {
    if (!always || begins != true || !counted) return c.Refuse("with results of each turn and an end that is data");
    const SymInts count = c.ints(0, "a count");
    if (!c.ok() || count.size() != 1) return c.Wrong("a count of other than one number");
    return Stacked(c, body, carried, results, count[0]);
  }
  Value* limit = counted ? Scalar(c, c.in(0)) : nullptr;
  Values next;
  next.push_back(body.end().Call("aten.add.Scalar", {turn, 1}));
  body.Output(next[0]);
  Value* again = always ? body.end().Full({}, Arg(true), DType::kBool) : body.Result(more);
  if (!c.ok()) return;
  if (again->rank() != 0) again = body.end().Call("aten.reshape.default", {again, Arg(Ints{})});
  body.Output(again);
  for (size_t i = 0; i < n; ++i) {
    Value* v = body.Result(results[i + 1]);
    if (!Carries(c, body, carried[i], v)) return;
  }
  if (!body.end().ok()) return c.Fail(body.end().status());

  auto condition = std::make_shared<ir::Graph>(&c.graph().program());
  Values outside = {c.Constant(0, DType::kInt64), start};
  outside.insert(outside.end(), carried.begin(), carried.end());
  Value *i = condition->AddInput("turn", Type::Tensor(DType::kInt64, {})),
        *go = condition->AddInput("going", Type::Tensor(DType::kBool, {}));
  for (Value* v : carried) condition->AddInput(v->name(), Plain(v->type()));
  if (limit) body.Take(limit);
  Value* most = nullptr;
  for (Value* v : body.taken()) {
    Value* in = condition->AddInput(v->name(), v->type());
    if (v == limit) most = in;
  }
  ir::Builder b(*condition, nullptr, c.node().source());
  if (most)
    go = b.Call("aten.logical_and.default", {go, b.Call("aten.lt.Tensor", {i, most})});
  else
    go = b.Call("aten.clone.default", {go});
  if (!b.ok()) return c.Fail(b.status());
  condition->outputs = {Arg(go)};
  std::vector<Type> types;
  for (const Value* v : outside) types.push_back(Plain(v->type()));
  const Values out = c.b.CallTyped("higher_order.while_loop",
                                   {Arg(condition), Arg(body.graph()), Arg(outside), Arg(body.taken())}, {}, types);
  if (c.ok())
    for (size_t k = 0; k < n; ++k) c.Give(k, out[k + 2]);
}

void Scan(Call& c) {
  if (c.opset < 9) return c.Refuse("before opset 9");
  const SubGraph model = c.graph_of("body");
  const int64_t scans = c.integer("num_scan_inputs", 0);
  if (!c.ok()) return;
  if (scans < 1 || scans > static_cast<int64_t>(c.input_count())) return c.Wrong("a num_scan_inputs of other inputs");
  const size_t n = c.input_count() - static_cast<size_t>(scans), m = static_cast<size_t>(scans);
  if (c.output_count() < n) return c.Wrong("fewer results than values");
  const size_t k = c.output_count() - n;
  const auto list = [&](std::string_view name, size_t count) {
    Ints v = c.integers(name).value_or(Ints(count, 0));
    if (v.size() != count) c.Wrong(text::StrCat(name, " of another length"));
    v.resize(count);
    return v;
  };
  const Ints axes = list("scan_input_axes", m), back = list("scan_input_directions", m),
             out_axes = list("scan_output_axes", k), out_back = list("scan_output_directions", k);
  Values carried, over;
  for (size_t i = 0; i < n; ++i) carried.push_back(c.in(i));
  for (size_t i = 0; i < m && c.ok(); ++i) {
    Value* x = c.in(n + i);
    const int64_t axis = c.axis(axes[i], x->rank());
    if (!c.ok()) return;
    if (axis != 0) x = c.b.Call("aten.movedim.int", {x, axis, 0});
    if (back[i] != 0) x = c.b.Call("aten.flip.default", {x, Arg(Ints{0})});
    over.push_back(x);
  }
  if (!c.ok()) return;
  Body body(c, *model);
  std::vector<Operand> own;
  for (Value* v : carried) own.push_back({body.Input(v->name(), v->type()), std::nullopt});
  for (Value* v : over)
    own.push_back({body.Input(v->name(), Type::Tensor(v->dtype(), ir::Sizes(v->sizes().begin() + 1, v->sizes().end()))),
                   std::nullopt});
  const std::vector<Operand> results = body.Run(std::move(own));
  if (!c.ok() || c.graph().refused()) return;
  if (results.size() != n + k) return c.Wrong("a body of another number of results");
  const Values out = ScanNode(c, body, carried, over, results);
  if (!c.ok()) return;
  for (size_t i = 0; i < n + k; ++i) {
    Value* v = out[i];
    if (i >= n) {
      if (out_back[i - n] != 0) v = c.b.Call("aten.flip.default", {v, Arg(Ints{0})});
      const int64_t axis = c.axis(out_axes[i - n], v->rank());
      if (axis != 0 && c.ok()) v = c.b.Call("aten.movedim.int", {v, 0, axis});
    }
    c.Give(i, v);
  }
}

constexpr Row kRows[] = {
    {"If", If},
    {"Loop", Loop},
    {"Scan", Scan},
};

}  // namespace

absl::Span<const Row> ControlRows() { return kRows; }

}  // namespace slipway::importers::onnx_in
