// Operators that own graphs: their bodies' steps stand in line, with jumps around them and back.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/higher_order.h"
#include "ir/ops/op_table.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

using ir::Arg;
using ir::Value;
using kernels::Step;

// The node's graphs and operands; what is wrong with them is the context's error.
std::optional<ir::HigherOrder> Decode(PlanContext& c) {
  auto h = ir::DecodeHigherOrder(c.node());
  if (h.ok()) return *std::move(h);
  c.SetStatus(h.status());
  return std::nullopt;
}

// The number an argument is, where it is one.
std::optional<Dim> NumberOf(PlanContext& c, const Arg& a) {
  if (auto i = a.get<int64_t>()) return *i;
  if (auto b = a.get<bool>()) return c.syms().Bool(*b);
  if (auto d = a.get<double>()) return c.syms().Float(*d);
  if (Value* v = a.value(); v && v->type().is_sym()) return v->type().expr;
  return std::nullopt;
}
bool IsReal(const ir::Type& t) { return t.kind == ir::Type::kSymFloat || (t.is_tensor() && ir::IsFloating(t.dtype)); }
// How a number of the signature is kept in memory.
DType StoredAs(const ir::Type& t) {
  if (t.is_tensor()) return t.dtype;
  return t.kind == ir::Type::kSymFloat ? DType::kFloat64 : t.kind == ir::Type::kSymBool ? DType::kBool : DType::kInt64;
}

// An argument or a body's result as a tensor of the plan, in the dtype of `want`.
Operand AsTensor(PlanContext& c, const Arg& a, const ir::Type& want) {
  if (Value* v = a.value(); v && v->type().is_tensor()) return c.Cast(c.of(v), StoredAs(want));
  Operand x = c.Temp(StoredAs(want), {});
  const auto number = NumberOf(c, a);
  if (!number) c.Unsupported("an operand that is neither tensor nor number");
  if (!c.ok()) return x;
  if (IsReal(want))
    c.Emit("fill", {}, {x}, x.dtype, FillAttributes{Real(*number)});
  else
    c.Emit("fill", {}, {x}, x.dtype, FillAttributes{*number});
  return x;
}

// The input `v` of a body is x, whose sizes it may give names.
void BindTensor(PlanContext& c, const Value* v, Operand x) {
  PlanBuilder& b = c.builder();
  const ir::Type& t = v->type();
  if (t.is_sym()) {  // a number that comes as a tensor
    Dim e = t.expr;
    if (e.kind() == ir::SymKind::kToFloat) e = e.operands()[0];
    if (e.kind() == ir::SymKind::kSymbol) {
      b.Symbol(e, t.kind == ir::Type::kSymFloat);
      return b.Publish(e, x);
    }
    if (!b.IsGiven(t.expr)) c.Unsupported(text::StrCat("an operand ", t.ToString()));
    return;
  }
  if (!t.is_tensor() || t.rank() != x.rank()) return c.Fail("a body takes another operand than is given");
  if (t.dtype != x.dtype) x = c.Cast(x, t.dtype);
  for (int d = 0; d < x.rank() && c.ok(); ++d) {
    if (t.sizes[d].kind() == ir::SymKind::kSymbol && !b.IsGiven(t.sizes[d]))
      b.Set(t.sizes[d], x.sizes[d]);
    else
      c.RequireEqual(x.sizes[d], t.sizes[d], "a body takes operands of other sizes");
    x.sizes[d] = t.sizes[d];
  }
  b.values[v] = std::move(x);
}
// The input `v` of a body is the argument.
void Bind(PlanContext& c, const Value* v, const Arg& a) {
  PlanBuilder& b = c.builder();
  if (!c.ok()) return;
  if (Value* outer = a.value(); outer && outer->type().is_tensor()) return BindTensor(c, v, c.of(outer));
  const auto number = NumberOf(c, a);
  if (!number) {
    if (v->users().empty()) return;
    return c.Unsupported("an operand that is neither tensor nor number");
  }
  if (v->type().is_tensor()) return BindTensor(c, v, AsTensor(c, a, v->type()));
  if (!v->type().is_sym()) return;  // a constant
  const Dim e = v->type().expr;
  if (e == *number) return;
  if (e.kind() == ir::SymKind::kSymbol) {
    b.Symbol(e, v->type().kind == ir::Type::kSymFloat);
    return b.Set(e, *number);
  }
  if (!b.IsGiven(e)) return c.Unsupported(text::StrCat("an operand ", v->type().ToString()));
  c.RequireEqual(e, *number, "a body takes another number");
}

// Plans a body whose inputs are bound. What is refused inside is noted; the plan is none then.
void PlanBody(PlanContext& c, const ir::Graph& g) {
  if (!c.ok()) return;
  if (absl::Status s = PlanGraph(g, c.builder()); !s.ok()) c.SetStatus(s);
}

int Control(PlanContext& c, Step::Kind kind, Dim condition = 0, int target = 0) {
  Step s;
  s.kind = kind;
  s.expr = c.builder().Expr(condition);
  s.target = target;
  return c.builder().AddStep(s);
}
int Here(PlanContext& c) { return static_cast<int>(c.builder().out().plan.steps.size()); }
void JumpHere(PlanContext& c, int step) { c.builder().out().plan.steps[step].target = Here(c); }

// The condition an argument is, as an expression.
Dim Truth(PlanContext& c, const Arg& a) {
  Value* v = a.value();
  if (!v || !v->type().is_tensor()) {
    const auto number = NumberOf(c, a);
    if (!number) c.Unsupported("a condition that is no number");
    return number.value_or(0);
  }
  const Dim symbol = c.builder().NewSymbol({0, 1});
  Operand x = c.of(v);
  if (x.dtype != DType::kBool) x = c.Cast(x, DType::kBool);
  c.builder().Publish(symbol, c.Reshape(x, {}));
  return symbol;
}

// Results of the node out of tensors: what is a number there is published.
void ReturnAll(PlanContext& c, std::vector<Operand> xs) {
  for (size_t i = 0; i < xs.size() && c.ok(); ++i)
    if (Value* v = c.node().output(i); v && v->type().is_sym()) {
      if (c.used(i)) c.PublishNumber(i, xs[i]);
      xs[i] = {};
    }
  c.Return(std::move(xs));
}

// The results of one of two branches whose sizes differ.
void CopyEither(PlanContext& c, Dim predicate, const std::vector<bool>& open, const std::vector<Operand> (&made)[2],
                std::vector<Operand>& out) {
  PlanBuilder& b = c.builder();
  // A number of its own: what is made of it is computed here, where the numbers of one branch are known only.
  const Dim taken = b.NewSymbol({0, 1});
  b.Set(taken, predicate.is_integer_valued() ? predicate : c.Choose(predicate, 1, 0));
  const Dim first = ir::Relation(ir::SymKind::kNe, taken, 0);
  absl::flat_hash_set<std::pair<size_t, int>> set;  // dims of results
  for (size_t i = 0; i < out.size() && c.ok(); ++i) {
    if (!open[i]) continue;
    const Value* v = c.node().output(i);
    for (int d = 0; d < v->rank() && c.ok(); ++d)
      if (const Dim s = v->sizes()[d]; s.kind() == ir::SymKind::kSymbol && !b.IsGiven(s))
        b.Set(s, c.Choose(first, made[0][i].sizes[d], made[1][i].sizes[d])), set.insert({i, d});
    out[i] = c.Temp(made[0][i].dtype, c.out_sizes(i));
  }
  int skip = Control(c, Step::kUnless, predicate);
  for (int branch = 0; branch < 2 && c.ok(); ++branch) {
    for (size_t i = 0; i < out.size() && c.ok(); ++i) {
      if (!open[i]) continue;
      Operand x = made[branch][i];
      // Equal: those that were set are the branch's, others are asked for.
      for (int d = 0; d < x.rank(); ++d) {
        if (!set.contains({i, d})) c.RequireEqual(x.sizes[d], out[i].sizes[d], "a branch gives another size");
        x.sizes[d] = out[i].sizes[d];
      }
      if (c.ok()) c.Copy(x, out[i]);
    }
    if (branch == 1) break;
    const int end = Control(c, Step::kJump);
    JumpHere(c, skip);
    skip = end;
  }
  JumpHere(c, skip);
}

void Cond(PlanContext& c) {
  const auto h = Decode(c);
  if (!h) return;
  PlanBuilder& b = c.builder();
  const std::vector<Arg>& operands = h->captured;
  const Dim predicate = Truth(c, h->predicate);
  if (!c.ok()) return;
  const size_t results = c.node().outputs().size();
  std::vector<Operand> made[2] = {std::vector<Operand>(results), std::vector<Operand>(results)}, out(results);
  // Results whose sizes branches do not share: these become known behind both, where their elements are copied.
  std::vector<bool> open(results);
  b.Enter();
  const int to_else = Control(c, Step::kUnless, predicate);
  int to_end = 0;
  for (int branch = 0; branch < 2 && c.ok(); ++branch) {
    const ir::Graph& g = *h->bodies[branch];
    if (branch == 1) JumpHere(c, to_else);
    for (size_t i = 0; i < operands.size(); ++i) Bind(c, g.inputs()[i], operands[i]);
    PlanBody(c, g);
    if (!c.ok()) return;
    for (size_t i = 0; i < results; ++i) {
      const Value* v = c.node().output(i);
      if (!v) continue;
      Operand& x = made[branch][i] = AsTensor(c, g.outputs[i], v->type());
      if (!c.ok()) return;
      if (x.rank() != (v->type().is_tensor() ? v->rank() : 0)) return c.Fail("a branch gives another rank");
      if (branch == 0)
        for (int d = 0; d < x.rank(); ++d)
          if (v->sizes()[d].kind() == ir::SymKind::kSymbol && !b.IsGiven(v->sizes()[d])) open[i] = true;
    }
    for (size_t i = 0; i < results; ++i) {
      const Value* v = c.node().output(i);
      if (!v || open[i]) continue;
      if (branch == 0) out[i] = c.Temp(made[0][i].dtype, v->type().is_tensor() ? c.out_sizes(i) : Dims{});
      if (c.ok()) c.Copy(made[branch][i], out[i]);
    }
    if (branch == 0) to_end = Control(c, Step::kJump);
  }
  if (!c.ok()) return;
  JumpHere(c, to_end);
  if (std::find(open.begin(), open.end(), true) != open.end()) CopyEither(c, predicate, open, made, out);
  b.Leave();
  if (c.ok()) ReturnAll(c, std::move(out));
}

// What a loop carries from step to step: tensors of its own.
std::vector<Operand> Carry(PlanContext& c, const std::vector<Arg>& start, const ir::Graph& g) {
  std::vector<Operand> carried;
  for (size_t i = 0; i < start.size() && c.ok(); ++i) {
    const Operand from = AsTensor(c, start[i], g.inputs()[i]->type());
    carried.push_back(c.Temp(from.dtype, from.sizes));
    if (c.ok()) c.Copy(from, carried.back());
  }
  return carried;
}
// The body's results become what is carried. A result that reads what is carried is copied before anything is written.
void CarryOn(PlanContext& c, const ir::Graph& g, const std::vector<Operand>& carried) {
  std::vector<Operand> next;
  for (size_t i = 0; i < carried.size() && c.ok(); ++i) {
    Operand x = AsTensor(c, g.outputs[i], g.inputs()[i]->type());
    if (!c.ok()) return;
    bool reads = false;
    for (size_t j = 0; j < carried.size(); ++j) reads |= j != i && carried[j].buffer == x.buffer;
    const bool same = x.buffer == carried[i].buffer;
    if (reads || (same && (x.strides != carried[i].strides || !(x.offset == carried[i].offset)))) {
      Operand y = c.Temp(x.dtype, x.sizes);
      c.Copy(x, y);
      x = y;
    }
    next.push_back(std::move(x));
  }
  for (size_t i = 0; i < carried.size() && c.ok(); ++i)
    if (next[i].buffer != carried[i].buffer) c.Copy(next[i], carried[i]);
}

void WhileLoop(PlanContext& c) {
  const auto h = Decode(c);
  if (!h) return;
  const ir::SubGraph &condition = h->bodies[0], &body = h->bodies[1];
  const std::vector<Arg>& captured = h->captured;
  const size_t n = h->carried.size();
  const std::vector<Operand> carried = Carry(c, h->carried, *body);
  if (!c.ok()) return;
  PlanBuilder& b = c.builder();
  b.Enter();
  const int head = Here(c);
  auto bind = [&](const ir::Graph& g) {
    for (size_t i = 0; i < n && c.ok(); ++i) BindTensor(c, g.inputs()[i], carried[i]);
    for (size_t i = 0; i < captured.size(); ++i) Bind(c, g.inputs()[n + i], captured[i]);
    PlanBody(c, g);
  };
  bind(*condition);
  if (!c.ok()) return;
  const Dim truth = Truth(c, condition->outputs[0]);
  const int exit = Control(c, Step::kUnless, truth);
  bind(*body);
  CarryOn(c, *body, carried);
  if (!c.ok()) return;
  Control(c, Step::kJump, 0, head);
  JumpHere(c, exit);
  b.Leave();
  ReturnAll(c, carried);
}

// A loop over i = first … n - 1.
template <typename F>
void ForEach(PlanContext& c, Dim first, Dim n, F body) {
  PlanBuilder& b = c.builder();
  const Dim i = b.NewSymbol({0, int64_t{1} << 48});
  b.Enter();
  b.Set(i, first);
  const int head = Control(c, Step::kUnless, ir::Relation(ir::SymKind::kLt, i, n));
  body(i);
  if (!c.ok()) return;
  b.Set(i, i + 1);
  Control(c, Step::kJump, 0, head);
  JumpHere(c, head);
  b.Leave();
}
// The scanned operands; n gets the size of their first dim.
std::vector<Operand> Scanned(PlanContext& c, const std::vector<Arg>& xs, Dim* n) {
  std::vector<Operand> out;
  if (xs.empty()) c.Unsupported("no scanned tensor");
  for (const Arg& a : xs) {
    if (!c.ok()) return out;
    out.push_back(c.of(a.value()));
    if (out.size() == 1) *n = out[0].sizes[0];
    if (c.ok()) c.RequireEqual(out.back().sizes[0], *n, "scanned tensors of different length");
  }
  return out;
}

// scan, and map, which carries nothing: over the first dimension, results beyond the carried ones stacked.
void Scan(PlanContext& c) {
  const auto h = Decode(c);
  if (!h) return;
  const ir::Graph& g = *h->bodies[0];
  const std::vector<Arg>& captured = h->captured;
  const size_t n = h->carried.size(), m = h->scanned.size();
  Dim length;
  const std::vector<Operand> scanned = Scanned(c, h->scanned, &length);
  if (!c.ok()) return;
  const std::vector<Operand> carried = Carry(c, h->carried, g);
  std::vector<Operand> out(carried);
  for (size_t i = n; i < g.outputs.size() && c.ok(); ++i) out.push_back(c.node().output(i) ? c.Result(i) : Operand{});
  if (!c.ok()) return;
  ForEach(c, 0, length, [&](Dim i) {
    for (size_t k = 0; k < n && c.ok(); ++k) BindTensor(c, g.inputs()[k], carried[k]);
    const Dim at = h->reverse ? length - 1 - i : i;
    for (size_t k = 0; k < m && c.ok(); ++k) BindTensor(c, g.inputs()[n + k], Select(scanned[k], 0, at));
    for (size_t k = 0; k < captured.size(); ++k) Bind(c, g.inputs()[n + m + k], captured[k]);
    PlanBody(c, g);
    for (size_t k = n; k < out.size() && c.ok(); ++k)
      if (out[k]) c.Copy(AsTensor(c, g.outputs[k], c.node().output(k)->type()), Select(out[k], 0, at));
    CarryOn(c, g, carried);
  });
  ReturnAll(c, std::move(out));
}
// associative_scan: combine(left…, right…) gives the next left. The first element stands as it is; the others are
// folded in order, which any grouping of an associative function equals.
void AssociativeScan(PlanContext& c) {
  const auto h = Decode(c);
  if (!h) return;
  const ir::SubGraph& g = h->bodies[0];
  const std::vector<Arg>&xs = h->scanned, &captured = h->captured;
  const size_t n = xs.size();
  Dim length;
  const std::vector<Operand> scanned = Scanned(c, xs, &length);
  if (!c.ok()) return;
  c.RequireLessEqual(1, length, "a scan of nothing");
  std::vector<Operand> out;
  for (size_t k = 0; k < n && c.ok(); ++k) {
    out.push_back(c.Result(k));
    if (out.back().dtype != scanned[k].dtype) return c.Fail("the body gives another dtype");
    if (c.ok()) c.Copy(Select(scanned[k], 0, 0), Select(out[k], 0, 0));
  }
  if (!c.ok()) return;
  ForEach(c, 1, length, [&](Dim i) {
    for (size_t k = 0; k < n && c.ok(); ++k) {
      BindTensor(c, g->inputs()[k], Select(out[k], 0, i - 1));
      BindTensor(c, g->inputs()[n + k], Select(scanned[k], 0, i));
    }
    for (size_t k = 0; k < captured.size(); ++k) Bind(c, g->inputs()[2 * n + k], captured[k]);
    PlanBody(c, *g);
    for (size_t k = 0; k < n && c.ok(); ++k)
      c.Copy(AsTensor(c, g->outputs[k], c.node().output(k)->type()), Select(out[k], 0, i));
  });
  c.Return(std::move(out));
}

void InvokeSubgraph(PlanContext& c) {
  const auto h = Decode(c);
  if (!h) return;
  const ir::SubGraph& g = h->bodies[0];
  const std::vector<Arg>& operands = h->captured;
  for (size_t i = 0; i < operands.size(); ++i) Bind(c, g->inputs()[i], operands[i]);
  PlanBody(c, *g);
  std::vector<Operand> out;
  for (size_t i = 0; i < g->outputs.size() && c.ok(); ++i) {
    const Value* v = c.node().output(i);
    out.push_back(v ? AsTensor(c, g->outputs[i], v->type()) : Operand{});
  }
  if (c.ok()) ReturnAll(c, std::move(out));
}

constexpr PlanFamily kControlFamilies[] = {
    {Cond, "", "/higher_order.cond"},
    {WhileLoop, "", "/higher_order.while_loop"},
    {Scan, "", "/higher_order.scan /higher_order.map_impl /higher_order.map"},
    {AssociativeScan, "", "/higher_order.associative_scan"},
    {InvokeSubgraph, "", "/higher_order.invoke_subgraph"},
};

}  // namespace

absl::Span<const PlanFamily> ControlPlans() { return kControlFamilies; }

}  // namespace slipway::planner
