// Short loops with a known count are unrolled; other loops become a while_loop node, whose condition and body are built
// as graphs of their own with the outer tensors that they use as captured operands.
#include "passes/decompositions/loop_builder.h"

#include <memory>
#include <utility>
#include <vector>

#include "passes/node_order.h"

namespace slipway::passes {
namespace {

using ir::Type;

constexpr int64_t kLaidOut = 2;  // counts up to this need no loop

}  // namespace

Value* Captures::operator()(Value* outer) {
  if (outer->graph() == &body_) return outer;
  auto [it, fresh] = inner_.try_emplace(outer);
  if (fresh) {
    outer_.push_back(outer);
    it->second = body_.AddInput(outer->name(), outer->type());
  }
  return it->second;
}

void Captures::Settle() {
  Values results;
  for (const Arg& a : body_.outputs) a.ForEachValue([&](Value* v) { results.push_back(v); });
  OrderNodes(body_, nullptr, nullptr, results);

  absl::flat_hash_map<const Value*, Value*> unseen;  // the outer value by its input
  for (const auto& [outer, inner] : inner_) unseen.emplace(inner, outer);
  const absl::flat_hash_map<const Value*, Value*> captured = unseen;
  std::vector<std::pair<Value*, Value*>> used;  // inputs and the outer values
  const auto see = [&](Value* v) {
    if (const auto it = unseen.find(v); it != unseen.end()) {
      used.emplace_back(v, it->second);
      unseen.erase(it);
    }
  };
  for (const ir::Node* n : body_)
    for (const ir::NamedArg& a : n->args()) a.arg.ForEachValue(see);
  for (Value* v : results) see(v);
  outer_.clear();
  for (const auto& [input, outer] : used) {
    inner_[outer] = body_.AddInput(outer->name(), input->type());
    body_.ReplaceAllUses(input, inner_[outer]);
    outer_.push_back(outer);
  }
  for (size_t i = body_.inputs().size(); i-- > 0;)
    if (captured.contains(body_.inputs()[i])) body_.RemoveInput(i);
}

Values WhileLoop(ir::Builder& b, const Values& carried,
                 const std::function<Values(ir::Graph& body, const Values& carried, Captures& in)>& step) {
  if (!b.ok()) return carried;
  ir::Program* program = b.graph().program();
  auto body = std::make_shared<ir::Graph>(program), condition = std::make_shared<ir::Graph>(program);
  std::vector<Type> types;
  Values inputs;
  for (Value* v : carried) {
    types.push_back(v->type());
    types.back().strides_known = false;
    inputs.push_back(body->AddInput(v->name(), types.back()));
    condition->AddInput(v->name(), types.back());
  }
  Captures in(*body);
  const Values next = step(*body, inputs, in);
  for (size_t k = 0; k < carried.size(); ++k) {
    Value* v = k < next.size() ? next[k] : nullptr;
    if (b.ok() && (!v || v->dtype() != carried[k]->dtype() || v->rank() != carried[k]->rank()))
      b.SetStatus(absl::InternalError("a loop's step changes the type of what it carries"));
    body->outputs.emplace_back(v);
  }
  if (!b.ok()) return carried;
  in.Settle();
  for (Value* v : in.outer()) condition->AddInput(v->name(), v->type());
  condition->outputs = {condition->inputs()[0]};
  return b.CallTyped("higher_order.while_loop", {Arg(condition), Arg(body), carried, in.outer()}, {}, std::move(types));
}

Values Scan(Decomposer& d, const Values& state, const Values& over,
            const std::function<Values(Decomposer& d, const Values& state, const Values& at, Captures& in)>& step) {
  if (!d.ok() || !d.b.ok()) return {};
  auto body = std::make_shared<ir::Graph>(d.b.graph().program());
  Decomposer inner(d, *body);
  std::vector<Type> types;
  Values carried, at;
  for (Value* s : state) {
    types.push_back(s->type());
    types.back().strides_known = false;
    carried.push_back(body->AddInput(s->name(), types.back()));
  }
  for (Value* x : over)
    at.push_back(
        body->AddInput(x->name(), Type::Tensor(x->dtype(), ir::Sizes(x->sizes().begin() + 1, x->sizes().end()))));
  Captures in(*body);
  const Values next = step(inner, carried, at, in);
  d.SetStatus(inner.status());
  d.b.SetStatus(inner.b.status());
  if (!d.ok() || !d.b.ok()) return {};
  for (size_t k = 0; k < next.size(); ++k) {
    body->outputs.emplace_back(next[k]);
    if (k < state.size()) continue;
    ir::Sizes stacked = next[k]->sizes();
    stacked.insert(stacked.begin(), over[0]->sizes()[0]);
    types.push_back(Type::Tensor(next[k]->dtype(), stacked));
  }
  in.Settle();
  return d.b.CallTyped("higher_order.scan", {Arg(body), state, over, in.outer()}, {}, std::move(types));
}

Values For(Decomposer& d, IntOrValue count, Values state, const std::function<void(LoopStep&)>& step, bool backwards) {
  if (!d.ok() || !d.b.ok()) return state;
  if (!count.value && count.constant <= kLaidOut) {
    for (int64_t k = 0; k < count.constant; ++k) {
      LoopStep s(d, d.b.ScalarTensor(backwards ? count.constant - 1 - k : k, DType::kInt64), state, nullptr);
      step(s);
      state = std::move(s.state);
    }
    return state;
  }
  Value* n = d.b.ScalarTensor(Arg(count), DType::kInt64);
  Value* first = backwards ? d.Sub(n, 1) : d.b.ScalarTensor(0, DType::kInt64);

  // Carried: whether to go on, the number, the state.
  Values carried = {backwards ? d.Cmp("ge", first, 0) : d.Cmp("gt", n, 0), first};
  carried.insert(carried.end(), state.begin(), state.end());
  Values results = WhileLoop(d.b, carried, [&](ir::Graph& body, const Values& inputs, Captures& in) {
    Decomposer inner(d, body);
    LoopStep s(inner, inputs[1], Values(inputs.begin() + 2, inputs.end()), &in);
    step(s);
    Value* next = inner.Add(s.i, backwards ? -1 : 1);
    Value* more = backwards ? inner.Cmp("ge", next, 0) : inner.Cmp("lt", next, s(n));
    if (s.stop_) more = inner.b.Call("aten.logical_and.default", {more, inner.Unary("logical_not", s.stop_)});
    d.SetStatus(inner.status());
    d.b.SetStatus(inner.b.status());
    Values out = {more, next};
    out.insert(out.end(), s.state.begin(), s.state.end());
    return out;
  });
  if (!d.ok() || !d.b.ok()) return state;
  return Values(results.begin() + 2, results.end());
}

}  // namespace slipway::passes
