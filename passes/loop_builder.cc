// See loop_builder.h.
#include "passes/loop_builder.h"

#include <memory>
#include <utility>

namespace slipway::passes {
namespace {

using ir::Type;

constexpr int64_t kLaidOut = 2;  // counts up to this need no loop

}  // namespace

Value* LoopStep::operator()(Value* outer) {
  if (!body_ || outer->graph() == body_) return outer;
  auto [it, fresh] = inner_.try_emplace(outer);
  if (fresh) {
    captured_.push_back(outer);
    it->second = body_->AddInput(outer->name(), outer->type());
  }
  return it->second;
}

Values For(Decomposer& d, IntOrValue count, Values state, const std::function<void(LoopStep&)>& step, bool backwards) {
  if (!d.ok() || !d.b.ok()) return state;
  if (!count.value && count.constant <= kLaidOut) {
    for (int64_t k = 0; k < count.constant; ++k) {
      LoopStep s(d, d.b.ScalarTensor(backwards ? count.constant - 1 - k : k, DType::kInt64), state);
      step(s);
      state = std::move(s.state);
    }
    return state;
  }
  ir::Graph& outer = d.b.graph();
  auto body = std::make_shared<ir::Graph>(outer.program()), condition = std::make_shared<ir::Graph>(outer.program());
  Value* n = d.b.ScalarTensor(Arg(count), DType::kInt64);
  Value* first = backwards ? d.Sub(n, 1) : d.b.ScalarTensor(0, DType::kInt64);

  // Carried: whether to go on, the number, the state.
  Values carried = {backwards ? d.Cmp("ge", first, 0) : d.Cmp("gt", n, 0), first};
  carried.insert(carried.end(), state.begin(), state.end());
  Decomposer inner(d, *body);
  Values inputs;
  std::vector<Type> types;
  for (Value* v : carried) {
    types.push_back(v->type());
    inputs.push_back(body->AddInput(v->name(), v->type()));
  }
  LoopStep s(inner, inputs[1], Values(inputs.begin() + 2, inputs.end()));
  s.body_ = body.get();
  step(s);
  Value* next = inner.Add(s.i, backwards ? -1 : 1);
  Value* more = backwards ? inner.Cmp("ge", next, 0) : inner.Cmp("lt", next, s(n));
  if (s.stop_) more = inner.b.Call("aten.logical_and.default", {more, inner.Unary("logical_not", s.stop_)});
  body->outputs = {more, next};
  for (size_t k = 0; k < state.size(); ++k) {
    Value* v = k < s.state.size() ? s.state[k] : nullptr;
    if (!v || v->dtype() != state[k]->dtype() || v->rank() != state[k]->rank())
      d.b.SetStatus(absl::InternalError("a loop's step changes the type of what it carries"));
    body->outputs.emplace_back(v);
  }
  d.SetStatus(inner.status());
  d.b.SetStatus(inner.b.status());
  if (!d.ok() || !d.b.ok()) return state;

  for (Value* v : carried) condition->AddInput(v->name(), v->type());
  for (Value* v : s.captured_) condition->AddInput(v->name(), v->type());
  condition->outputs = {condition->inputs()[0]};
  Values results =
      d.b.CallTyped("higher_order.while_loop", {Arg(condition), Arg(body), carried, s.captured_}, {}, types);
  if (!d.b.ok()) return state;
  return Values(results.begin() + 2, results.end());
}

}  // namespace slipway::passes
