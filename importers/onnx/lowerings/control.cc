// If, Loop and Scan: cond, while_loop and scan with graphs of their own. A branch that is always taken is written in
// place of the node.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "importers/onnx/graph_lowering.h"
#include "importers/onnx/lowering.h"
#include "importers/onnx/lowerings/sequences.h"
#include "importers/onnx/lowerings/trip_count.h"
#include "ir/ops/op_traits.h"
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
  Operand TakeOperand(const Operand& outer) { return lowering_.TakeOperand(outer); }
  // Of the nodes these values' only, and of the inputs behind the first two those that are taken, and these.
  void Keep(const absl::flat_hash_set<const Value*>& values, const Values& inputs);
  ir::Builder& end() { return end_; }
  SubGraph graph() { return graph_; }

 private:
  Call& c_;
  SubGraph graph_;
  GraphLowering lowering_;
  ir::Builder end_;
};

void Body::Keep(const absl::flat_hash_set<const Value*>& values, const Values& inputs) {
  Values unread;
  std::vector<ir::Node*> nodes;
  for (ir::Node* n : *graph_) nodes.push_back(n);
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it)
    if (std::none_of((*it)->outputs().begin(), (*it)->outputs().end(), [&](Value* v) { return values.contains(v); }))
      graph_->Erase(*it);
  const size_t end = graph_->inputs().size() - taken().size();
  for (size_t i = end; i-- > 2;)
    if (std::find(inputs.begin(), inputs.end(), graph_->inputs()[i]) == inputs.end()) graph_->RemoveInput(i);
}

// Whether the sizes of a result are those of every turn: no number that the body reads is among them.
bool SizesStay(const ir::Graph& body, const Value* v) {
  absl::flat_hash_set<ir::Sym> known;
  for (const Value* in : body.inputs()) {
    for (const ir::Sym& size : in->type().sizes)
      for (const ir::Sym& s : size.Symbols()) known.insert(s);
    if (in->type().is_sym())
      for (const ir::Sym& s : in->type().expr.Symbols()) known.insert(s);
  }
  for (const ir::Sym& size : v->sizes())
    for (const ir::Sym& s : size.Symbols())
      if (!known.contains(s)) return false;
  return true;
}

// ---- If

// A size that is one of two: a number that the run sets.
ir::Sym SizeOfEither(Call& c, const ir::Sym& a, const ir::Sym& b) {
  ir::SymTable& syms = *c.graph().program().syms;
  size_t k = syms.symbols().size();
  while (syms.FindSymbol(text::StrCat("u", k, "_"))) ++k;
  const std::string name = text::StrCat("u", k, "_");
  const ir::Sym size = syms.Symbol(name, /*positive=*/false);
  const ir::SymRange x = RangeOf(a), y = RangeOf(b);
  const absl::Status set = syms.SetRange(name, {std::max<int64_t>(std::min(x.min, y.min), 0), std::max(x.max, y.max)});
  if (!set.ok()) c.Fail(set);
  return size;
}

// The type of a result that comes from one of two: a size that they do not share is a number of its own.
std::optional<Type> Either(Call& c, const Type& a, const Type& b) {
  if (!a.is_tensor() || !b.is_tensor() || a.dtype != b.dtype || a.rank() != b.rank()) {
    c.Refuse("whose branches give tensors of other ranks");
    return std::nullopt;
  }
  ir::Sizes sizes = a.sizes;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!ProvablyEqual(a.sizes[d], b.sizes[d])) sizes[d] = SizeOfEither(c, a.sizes[d], b.sizes[d]);
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
    c.Refuse(text::StrCat("whose values change their sizes from turn to turn: ", Plain(a).ToString(), " becomes ",
                          Plain(b).ToString()));
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
      if (!SizesStay(*body.graph(), v)) {
        c.Refuse("with results whose sizes differ from turn to turn");
        return {};
      }
      body.Output(v);
      stacked.push_back(v);
    }
  }
  Values out = c.b.CallTyped("higher_order.scan", {Arg(body.graph()), Arg(carried), Arg(over), Arg(body.taken())}, {},
                             ScanTypes(carried, stacked, over[0]->sizes()[0]));
  return c.ok() ? out : Values();
}

// A loop that carries sequences: its turns are written one behind the other, as many as are counted or until what is
// known says stop. False, and nothing given, where their number is not known or too many.
bool Unrolled(Call& c, ir::Graph& model, bool begins) {
  constexpr int64_t kMostTurns = 1024;
  int64_t count = std::numeric_limits<int64_t>::max();
  if (c.has(0)) {
    const auto e = c.elements(0);
    if (!e || e->values.size() != 1 || e->values[0].value) return false;
    count = e->values[0].constant;
  }
  Sequence carried;
  for (size_t i = 2; i < c.input_count(); ++i) {
    carried.push_back(c.operand(i));
    if (carried.back().rows) return false;
  }
  if (!c.ok() || c.output_count() < carried.size()) return c.Wrong("fewer results than values"), true;
  std::vector<Values> stacked(c.output_count() - carried.size());
  for (int64_t turn = 0; begins && turn < count; ++turn) {
    if (turn == kMostTurns) return false;
    GraphLowering body(c.graph(), c.b, model, onnx_model::CapturedBy(c.node()), c.b.graph());
    std::vector<Operand> inputs = {{nullptr, Elements{{IntOrValue(turn)}, DType::kInt64, true}},
                                   {nullptr, Elements{{IntOrValue(1)}, DType::kBool, true}}};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const auto out = body.RunNested(std::move(inputs));
    if (!out.ok()) return c.Fail(out.status()), true;
    if (c.graph().refused()) return true;
    if (out->size() != c.output_count() + 1) return c.Wrong("a body of another number of results"), true;
    const std::optional<bool> more = TruthOf(body, (*out)[0]);
    if (!more) return false;
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = (*out)[i + 1];
    for (size_t i = 0; i < stacked.size(); ++i) stacked[i].push_back(c.TensorOf((*out)[carried.size() + 1 + i]));
    begins = *more;
  }
  for (const Values& all : stacked)
    if (all.empty()) return c.Refuse("without a turn"), true;
  for (size_t i = 0; i < carried.size(); ++i) c.Give(i, carried[i]);
  for (size_t i = 0; i < stacked.size(); ++i)
    c.Give(carried.size() + i, c.b.Call("aten.stack.default", {Arg(stacked[i])}));
  return true;
}

// What a loop carries from turn to turn, as far as it changes: what stays is read from outside, and sequences that grow
// are stacked as results of turns are.
struct Carried {
  std::vector<size_t> values, sequences;  // inputs of the loop
};
std::optional<Carried> CarriedBy(Call& c, const ir::Graph& model) {
  Carried out;
  for (size_t i = 2; i < c.input_count(); ++i) {
    if (Stays(model, i)) continue;
    if (c.has(i) && IsSequence(c.operand(i))) {
      if (c.operand(i).appended) c.Refuse("with a sequence that the loop around it carries");
      out.sequences.push_back(i);
    } else {
      c.in(i);
      out.values.push_back(i);
    }
  }
  return c.ok() ? std::optional<Carried>(std::move(out)) : std::nullopt;
}

// A loop's body and the values that it carries: outside, and as its inputs.
struct Turn {
  Turn(Call& c, const ir::Graph& model, const Carried& carried, bool scans) : body(c, const_cast<ir::Graph&>(model)) {
    for (const size_t i : carried.values) outside.push_back(c.in(i));
    const auto add_inside = [&] {
      for (Value* v : outside) inside.push_back(body.Input(v->name(), v->type()));
    };
    // A scan takes what it carries first, then what it scans; and no condition, which is true in each turn.
    if (scans) add_inside();
    number = body.Input("turn", Type::Tensor(DType::kInt64, {}));
    if (!scans) going = body.Input("going", Type::Tensor(DType::kBool, {}));
    if (!scans) add_inside();
    std::vector<Operand> own = {{number, std::nullopt}, {nullptr, Elements{{IntOrValue(1)}, DType::kBool, true}}};
    for (size_t i = 2; i < c.input_count(); ++i) own.push_back(c.has(i) ? body.TakeOperand(c.operand(i)) : Operand());
    for (size_t k = 0; k < inside.size(); ++k) own[carried.values[k]] = {inside[k], std::nullopt};
    for (const size_t i : carried.sequences)
      own[i] = {.appended = std::make_shared<const Appended>(Appended{&c.node(), i, {}})};
    results = body.Run(std::move(own));
    if (!c.ok() || c.graph().refused()) return;
    if (results.size() != c.output_count() + 1) c.Wrong("a body of another number of results");
  }

  Body body;
  Values outside, inside;
  Value *number = nullptr, *going = nullptr;
  std::vector<Operand> results;
};

// The while_loop of a turn whose results `next` become what is carried: the number of turns, whether the loop would go
// on, and the values that it carries.
Values WhileNode(Call& c, Turn& t, Values next, const Values& outside, const Values& inside) {
  Value* limit = c.has(0) ? Scalar(c, c.in(0)) : nullptr;
  Value* start = c.has(1) ? Scalar(c, c.in(1)) : c.Constant(1, DType::kBool);
  if (start->dtype() != DType::kBool) start = c.b.Cast(start, DType::kBool);
  ir::Builder& end = t.body.end();
  t.body.Output(end.Call("aten.add.Scalar", {t.number, 1}));
  Value* again = t.body.IsTrue(t.results[0]) ? end.Full({}, Arg(true), DType::kBool) : t.body.Result(t.results[0]);
  if (!c.ok()) return {};
  t.body.Output(again->rank() == 0 ? again : end.Call("aten.reshape.default", {again, Arg(Ints{})}));
  for (size_t k = 0; k < next.size(); ++k)
    if (!Carries(c, t.body, inside[k], next[k])) return {};
  if (!end.ok()) return c.Fail(end.status()), Values();

  auto condition = std::make_shared<ir::Graph>(&c.graph().program());
  Values all = {c.Constant(0, DType::kInt64), start};
  all.insert(all.end(), outside.begin(), outside.end());
  Value *i = condition->AddInput("turn", Type::Tensor(DType::kInt64, {})),
        *go = condition->AddInput("going", Type::Tensor(DType::kBool, {}));
  for (Value* v : outside) condition->AddInput(v->name(), Plain(v->type()));
  if (limit) t.body.Take(limit);
  Value* most = nullptr;
  for (Value* v : t.body.taken()) {
    Value* in = condition->AddInput(v->name(), v->type());
    if (v == limit) most = in;
  }
  ir::Builder b(*condition, nullptr, c.node().source());
  if (most)
    go = b.Call("aten.logical_and.default", {go, b.Call("aten.lt.Tensor", {i, most})});
  else
    go = b.Call("aten.clone.default", {go});
  if (!b.ok()) return c.Fail(b.status()), Values();
  condition->outputs = {Arg(go)};
  condition->single_tensor_return = true;  // torch asks for a tensor
  std::vector<Type> types;
  for (const Value* v : all) types.push_back(Plain(v->type()));
  const Values out = c.b.CallTyped("higher_order.while_loop",
                                   {Arg(condition), Arg(t.body.graph()), Arg(all), Arg(t.body.taken())}, {}, types);
  return c.ok() ? out : Values();
}

bool DrawsNumbers(const ir::Node& n) {
  if (ir::IsRandom(n)) return true;
  for (const ir::NamedArg& a : n.args())
    if (const auto* g = a.arg.get<SubGraph>(); g && *g)
      for (const ir::Node* inner : **g)
        if (DrawsNumbers(*inner)) return true;
  return false;
}

// The values that a result depends on.
void Reach(const Value* v, absl::flat_hash_set<const Value*>& seen) {
  Values open = {const_cast<Value*>(v)};
  while (!open.empty()) {
    const Value* x = open.back();
    open.pop_back();
    if (!x || !seen.insert(x).second || !x->producer()) continue;
    for (const ir::NamedArg& a : x->producer()->args()) a.arg.ForEachValue([&](Value* y) { open.push_back(y); });
  }
}

// The number of turns of a loop whose end is data: a loop of its own, of what the condition depends on only.
std::optional<IntOrValue> Counted(Call& c, const ir::Graph& model, const Carried& carried) {
  Turn t(c, model, carried, /*scans=*/false);
  if (!c.ok() || c.graph().refused()) return std::nullopt;
  const Value* more = t.results[0].tensor;
  if (!more) more = t.body.IsTrue(t.results[0]) ? nullptr : t.body.Result(t.results[0]);
  absl::flat_hash_set<const Value*> seen;
  Values next, outside, inside;
  Reach(more, seen);
  std::vector<bool> kept(t.inside.size());
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t k = 0; k < t.inside.size(); ++k) {
      if (kept[k] || !seen.contains(t.inside[k])) continue;
      kept[k] = grows = true;
      Value* v = t.body.Result(t.results[carried.values[k] - 1]);
      if (!c.ok()) return std::nullopt;
      Reach(v, seen);
      next.push_back(v), outside.push_back(t.outside[k]), inside.push_back(t.inside[k]);
    }
  }
  for (const Value* v : seen)
    if (v->producer() && DrawsNumbers(*v->producer())) {
      c.Refuse("with results of each turn and an end that is drawn at random");
      return std::nullopt;
    }
  t.body.Keep(seen, inside);
  const Values out = WhileNode(c, t, std::move(next), outside, inside);
  return out.empty() ? std::nullopt : std::optional(IntOrValue(c.b.Call("aten.item.default", {out[0]})));
}

// A loop whose results are stacked, of so many turns: a scan over their numbers. What the scan takes comes in another
// order than what the loop's body does.
void Stacked(Call& c, Turn& t, const Carried& carried, IntOrValue count) {
  std::vector<Operand> results;
  for (const size_t i : carried.values) results.push_back(t.results[i - 1]);
  const size_t n = c.input_count() - 2;
  for (const size_t i : carried.sequences) {
    const auto& a = t.results[i - 1].appended;
    if (!a || a->loop != &c.node() || a->input != i) return c.Refuse("with a sequence that does more than grow");
    for (const Operand& o : a->members) results.push_back(o);
  }
  for (size_t i = n + 1; i < t.results.size(); ++i) results.push_back(t.results[i]);
  Value* turns = c.b.Call("aten.arange.default", {Arg(count)}, {{"dtype", Arg(DType::kInt64)}});
  const Values out = ScanNode(c, t.body, t.outside, {turns}, results);
  if (out.empty()) return;
  size_t at = 0;
  for (const size_t i : carried.values) c.Give(i - 2, out[at++]);
  for (const size_t i : carried.sequences) {
    const size_t each = t.results[i - 1].appended->members.size();
    const Values parts(out.begin() + static_cast<std::ptrdiff_t>(at),
                       out.begin() + static_cast<std::ptrdiff_t>(at + each));
    at += each;
    const Operand before = c.operand(i);
    if (each == 0) {
      c.Give(i - 2, before);
      continue;
    }
    // Members of one turn stand side by side.
    Value* rows = each == 1 ? parts[0] : c.b.Call("aten.stack.default", {Arg(parts), 1});
    if (each > 1) rows = c.b.Call("aten.flatten.using_ints", {rows, 0, 1});
    Values all;
    if (before.rows) all.push_back(before.rows);
    if (before.sequence)
      for (const Operand& o : *before.sequence) all.push_back(c.b.Call("aten.unsqueeze.default", {c.TensorOf(o), 0}));
    all.push_back(rows);
    if (Value* joined = JoinedRows(c, all)) c.Give(i - 2, Operand{.rows = joined});
  }
  for (size_t i = n; at < out.size(); ++i) c.Give(i, out[at++]);
}

// A body's inputs are the number of the turn, whether to go on, and what is carried; its results whether to go on, what
// is carried, and what is stacked over turns.
void Loop(Call& c) {
  const SubGraph model = c.graph_of("body");
  if (!c.ok()) return;
  const std::optional<bool> begins = c.has(1) ? Truth(c, 1) : std::optional<bool>(true);
  const size_t n = c.input_count() < 2 ? 0 : c.input_count() - 2;
  if (c.output_count() < n) return c.Wrong("fewer results than values");
  if (model->outputs.size() != c.output_count() + 1) return c.Wrong("a body of another number of results");
  bool sequences = false;
  for (size_t i = 2; i < c.input_count(); ++i) sequences |= c.has(i) && IsSequence(c.operand(i));
  if (sequences && begins && Unrolled(c, *model, *begins)) return;
  const auto carried = CarriedBy(c, *model);
  if (!carried) return;
  const bool stacks = c.output_count() > n || !carried->sequences.empty();
  Turn t(c, *model, *carried, stacks);
  if (!c.ok() || c.graph().refused()) return;
  for (size_t i = 2; i < c.input_count(); ++i)
    if (Stays(*model, i)) c.Give(i - 2, c.operand(i));
  if (!stacks) {
    Values next;
    for (const size_t i : carried->values) next.push_back(t.body.Result(t.results[i - 1]));
    if (!c.ok()) return;
    const Values out = WhileNode(c, t, std::move(next), t.outside, t.inside);
    for (size_t k = 2; k < out.size(); ++k) c.Give(carried->values[k - 2] - 2, out[k]);
    return;
  }
  std::optional<IntOrValue> count;
  const bool counted = c.has(0) && c.number(0) != static_cast<double>(std::numeric_limits<int64_t>::max());
  if (t.body.IsTrue(t.results[0]) && begins == true) {
    if (!counted) return c.Refuse("without an end");
    const SymInts given = c.ints(0, "a count");
    if (!c.ok() || given.size() != 1) return c.Wrong("a count of other than one number");
    count = given[0];
  } else {
    count = TripCount(c, *model, begins);
    if (count && counted) {
      const SymInts most = c.ints(0, "a count");
      if (!c.ok() || most.size() != 1) return c.Wrong("a count of other than one number");
      count = count->value || most[0].value ? c.b.Call("torch.sym_min", {Arg(*count), Arg(most[0])})
                                            : IntOrValue(std::min(count->constant, most[0].constant));
    }
  }
  if (!count) count = Counted(c, *model, *carried);
  if (count && c.ok()) Stacked(c, t, *carried, *count);
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

constexpr Row kControlRows[] = {
    {"If", If},
    {"Loop", Loop},
    {"Scan", Scan},
};

}  // namespace

absl::Span<const Row> ControlRows() { return kControlRows; }

}  // namespace slipway::importers::onnx_in
