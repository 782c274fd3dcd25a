// Control flow: operators that own graphs become If, Loop and Scan. ONNX bodies see the values around them, so what a
// torch body receives as an operand is simply bound to the outer value; only what changes from iteration to iteration
// is an input of the body.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "exporters/onnx/functions.h"
#include "exporters/onnx/lowerings/util.h"
#include "exporters/onnx/types.h"
#include "ir/ops/higher_order.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::Arg;
using ir::SubGraph;
using ir::Type;
using ir::Value;

// Name, element type and sizes. Symbols are left open: within a body they may change from iteration to iteration.
void Describe(onnx::ValueInfoProto* info, const V& v, const ir::Sizes& sizes) {
  info->set_name(v.name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(OnnxType(v.dtype));
  auto* shape = tensor->mutable_shape();
  for (const ir::Sym& s : sizes) {
    auto* dim = shape->add_dim();
    if (auto c = s.constant()) dim->set_dim_value(*c);
  }
}

// The ONNX value of an operand that stands for the input `want` of a body.
V Operand(LoweringContext& c, const Arg& a, const Type& want) {
  if (Value* v = a.value()) return c.e.Cast(c.raw(v), ElementType(want));
  if (auto i = a.get<int64_t>()) return c.e.Integer(*i, ElementType(want));
  if (auto d = a.get<double>()) return c.e.Number(*d, ElementType(want));
  if (auto b = a.get<bool>()) return c.e.BoolConst(*b);
  if (want.kind != Type::kConstant && want.kind != Type::kNone)
    c.Unsupported("an operand that is neither tensor nor number");
  return {};
}

// One ONNX body being written.
class Body {
 public:
  Body(LoweringContext& c, std::string_view name)
      : c_(c), emitter_(&proto_, c.e.shared()), lowering_(emitter_, &c.graph()) {
    proto_.set_name(std::string(name));
    emitter_.SetScope("", std::string(name));
  }

  Emitter& e() { return emitter_; }

  // A formal input of the body's graph.
  V Input(std::string_view name, DType dtype, const ir::Sizes& sizes) {
    V v{emitter_.UniqueName(name), dtype, static_cast<int>(sizes.size())};
    Describe(proto_.add_input(), v, sizes);
    return v;
  }
  void Bind(const Value* v, const V& x) {
    if (x) lowering_.Bind(v, x);
  }
  // Lowers `g`, whose inputs are bound, and gives its results.
  std::vector<V> Run(const ir::Graph& g) {
    lowering_.Run(g, c_.graph().problems());
    std::vector<V> out;
    for (const Arg& a : g.outputs) {
      Value* v = a.value();
      if (v)
        out.push_back(lowering_.Get(v));
      else if (auto i = a.get<int64_t>())
        out.push_back(emitter_.I64Scalar(*i));
      else if (auto b = a.get<bool>())
        out.push_back(emitter_.BoolConst(*b));
      else if (auto d = a.get<double>())
        out.push_back(emitter_.Number(*d, DType::kFloat64));
      else
        out.push_back({});
    }
    return out;
  }
  // Makes `v` an output of the body. ONNX wants each to be computed in the body and named once.
  void Output(V v, DType dtype, const ir::Sizes& sizes) {
    v = emitter_.Cast(v, dtype);
    if (produced_.empty())
      for (const auto& n : proto_.node()) produced_.insert(n.output().begin(), n.output().end());
    if (!produced_.contains(v.name) || !given_.insert(v.name).second) v = emitter_.Op("Identity", {v});
    given_.insert(v.name);
    Describe(proto_.add_output(), v, sizes);
  }
  onnx::GraphProto Take() { return std::move(proto_); }

 private:
  LoweringContext& c_;
  onnx::GraphProto proto_;
  Emitter emitter_;
  GraphLowering lowering_;
  absl::flat_hash_set<std::string> produced_, given_;
};

// The node's graphs and operands; what is wrong with them is the context's error.
std::optional<ir::HigherOrder> Decode(LoweringContext& c) {
  auto h = ir::DecodeHigherOrder(c.node());
  if (h.ok()) return *std::move(h);
  c.SetStatus(h.status());
  return std::nullopt;
}

std::vector<DType> OutTypes(LoweringContext& c) {
  std::vector<DType> out;
  for (Value* v : c.node().outputs())
    if (v) out.push_back(ElementType(v->type()));
  return out;
}
// Results in node order, leaving out what is None.
std::vector<V> Spread(LoweringContext& c, std::vector<V> results) {
  std::vector<V> out;
  size_t k = 0;
  for (Value* v : c.node().outputs()) out.push_back(v ? results[k++] : V{});
  return out;
}

V Truth(Emitter& e, V v) {
  v = e.Cast(v, DType::kBool);
  return v.rank == 0 ? v : e.Reshape(v, Ints{});
}

void Cond(LoweringContext& c) {
  const auto h = Decode(c);
  if (!h) return;
  const std::vector<Arg>& operands = h->captured;
  V predicate = Operand(c, h->predicate, Type::SymBool(0));
  Attrs attrs;
  for (int b = 0; b < 2; ++b) {
    const ir::Graph& g = *h->bodies[b];
    Body body(c, b == 0 ? "then" : "else");
    for (size_t i = 0; i < operands.size(); ++i)
      body.Bind(g.inputs()[i], Operand(c, operands[i], g.inputs()[i]->type()));
    std::vector<V> results = body.Run(g);
    for (size_t i = 0; i < results.size(); ++i) {
      Value* v = c.node().output(i);
      if (!v) continue;
      if (!results[i]) return c.Fail("a branch gives None where a value is declared");
      Value* inner = g.outputs[i].value();
      body.Output(results[i], ElementType(v->type()), inner ? inner->sizes() : ir::Sizes{});
    }
    attrs.emplace_back(b == 0 ? "then_branch" : "else_branch", body.Take());
  }
  c.Return(Spread(c, c.e.Control("If", {Truth(c.e, predicate)}, std::move(attrs), OutTypes(c))));
}

void WhileLoop(LoweringContext& c) {
  const auto h = Decode(c);
  if (!h) return;
  const ir::SubGraph &condition = h->bodies[0], &step = h->bodies[1];
  const std::vector<Arg>&carried = h->carried, &captured = h->captured;
  const size_t n = carried.size();

  std::vector<V> start;
  for (size_t i = 0; i < n; ++i) start.push_back(Operand(c, carried[i], step->inputs()[i]->type()));
  auto bind_captured = [&](GraphLowering& to, const ir::Graph& g) {
    for (size_t i = 0; i < captured.size(); ++i)
      if (V x = Operand(c, captured[i], g.inputs()[n + i]->type())) to.Bind(g.inputs()[n + i], x);
  };
  // Whether to begin at all.
  GraphLowering first(c.e, &c.graph());
  for (size_t i = 0; i < n; ++i) first.Bind(condition->inputs()[i], start[i]);
  bind_captured(first, *condition);
  first.Run(*condition, c.graph().problems());
  Value* truth = condition->outputs[0].value();
  if (!truth) return c.Unsupported("a condition that is constant");
  V begin = Truth(c.e, first.Get(truth));

  Body body(c, "loop");
  body.Input("iteration", DType::kInt64, {});
  body.Input("condition_in", DType::kBool, {});
  for (size_t i = 0; i < n; ++i) {
    Value* v = step->inputs()[i];
    body.Bind(v, body.Input(v->name(), ElementType(v->type()), v->sizes()));
  }
  for (size_t i = 0; i < captured.size(); ++i) {
    Value* v = step->inputs()[n + i];
    body.Bind(v, Operand(c, captured[i], v->type()));
    Value* w = condition->inputs()[n + i];
    body.Bind(w, Operand(c, captured[i], w->type()));
  }
  std::vector<V> next = body.Run(*step);
  for (size_t i = 0; i < n; ++i) {
    if (!next[i]) return c.Fail("the body gives None for a carried value");
    next[i] = body.e().Cast(next[i], ElementType(step->inputs()[i]->type()));
    body.Bind(condition->inputs()[i], next[i]);
  }
  V again = body.Run(*condition)[0];
  body.Output(Truth(body.e(), again), DType::kBool, {});
  for (size_t i = 0; i < n; ++i) {
    Value* v = step->inputs()[i];
    body.Output(next[i], ElementType(v->type()), v->sizes());
  }
  std::vector<V> in = {V{}, begin};
  in.insert(in.end(), start.begin(), start.end());
  std::vector<DType> outs;
  for (size_t i = 0; i < n; ++i) outs.push_back(ElementType(step->inputs()[i]->type()));
  std::vector<V> results = c.e.Control("Loop", in, {{"body", body.Take()}}, outs);
  c.Return(std::move(results));
}

// scan, and map, which carries nothing: ONNX's Scan over the first dimension.
void Scan(LoweringContext& c) {
  const auto h = Decode(c);
  if (!h) return;
  const ir::Graph& g = *h->bodies[0];
  const std::vector<Arg>&xs = h->scanned, &captured = h->captured;
  const size_t n = h->carried.size(), m = xs.size();
  if (m == 0) return c.Unsupported("no scanned tensor");
  std::vector<V> states;
  for (size_t i = 0; i < n; ++i) states.push_back(Operand(c, h->carried[i], g.inputs()[i]->type()));
  if (!c.ok()) return;
  Body body(c, "scan");
  for (size_t i = 0; i < n + m; ++i) {
    Value* v = g.inputs()[i];
    if (!v->type().is_tensor()) return c.Unsupported("a scanned or carried value that is no tensor");
    body.Bind(v, body.Input(v->name(), v->dtype(), v->sizes()));
  }
  for (size_t i = 0; i < captured.size(); ++i)
    body.Bind(g.inputs()[n + m + i], Operand(c, captured[i], g.inputs()[n + m + i]->type()));
  std::vector<V> results = body.Run(g);
  for (size_t i = 0; i < results.size(); ++i) {
    if (i >= n && !c.node().output(i)) continue;
    Value* inner = g.outputs[i].value();
    if (!results[i] || !inner) return c.Unsupported("a body whose result is a constant");
    body.Output(results[i], i < n ? g.inputs()[i]->dtype() : c.out_dtype(i), inner->sizes());
  }
  std::vector<V> in = states;
  Ints axes(m, 0);  // a dim that was put first for this is scanned where it was
  for (size_t i = 0; i < m; ++i) {
    V x = c.raw(xs[i].value());
    if (const auto* turned = c.e.TransposeOf(x)) {
      const auto [of, perm] = *turned;
      Ints first = perm;
      std::sort(first.begin() + 1, first.end());
      if (first == perm) x = of, axes[i] = perm[0];
    }
    in.push_back(x);
  }
  std::vector<DType> outs;
  int stacked = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i >= n && !c.node().output(i)) continue;
    outs.push_back(i < n ? g.inputs()[i]->dtype() : c.out_dtype(i));
    stacked += i >= n;
  }
  Attrs attrs = {{"body", body.Take()}, {"num_scan_inputs", static_cast<int64_t>(m)}};
  if (std::any_of(axes.begin(), axes.end(), [](int64_t d) { return d != 0; }))
    attrs.emplace_back("scan_input_axes", axes);
  if (h->reverse) {
    attrs.emplace_back("scan_input_directions", Ints(m, 1));
    attrs.emplace_back("scan_output_directions", Ints(stacked, 1));
  }
  std::vector<V> out = c.e.Control("Scan", in, std::move(attrs), outs), all;
  size_t k = 0;
  for (size_t i = 0; i < results.size(); ++i) all.push_back(i < n || c.node().output(i) ? out[k++] : V{});
  c.Return(std::move(all));
}

// associative_scan: combine(left…, right…) gives the next left. The first element stands as it is; the others are
// folded in order, which any grouping of an associative function equals.
void AssociativeScan(LoweringContext& c) {
  const auto h = Decode(c);
  if (!h) return;
  const ir::SubGraph& g = h->bodies[0];
  const std::vector<Arg>&xs = h->scanned, &captured = h->captured;
  const size_t n = xs.size();
  if (n == 0) return c.Unsupported("no scanned tensor");
  Body body(c, "scan");
  for (size_t i = 0; i < 2 * n; ++i) {
    Value* v = g->inputs()[i];
    if (!v->type().is_tensor()) return c.Unsupported("a scanned value that is no tensor");
    body.Bind(v, body.Input(v->name(), v->dtype(), v->sizes()));
  }
  for (size_t i = 0; i < captured.size(); ++i)
    body.Bind(g->inputs()[2 * n + i], Operand(c, captured[i], g->inputs()[2 * n + i]->type()));
  std::vector<V> results = body.Run(*g);
  std::vector<DType> outs;
  for (int round = 0; round < 2; ++round) {  // carried, then stacked
    for (size_t i = 0; i < n; ++i) {
      Value* v = g->inputs()[i];
      if (!results[i]) return c.Fail("the body gives None for a scanned value");
      body.Output(results[i], v->dtype(), v->sizes());
      outs.push_back(v->dtype());
    }
  }
  std::vector<V> in, heads;
  for (const Arg& a : xs) {
    V x = c.raw(a.value());
    heads.push_back(c.e.Slice(x, {0}, {1}, {0}));
    in.push_back(c.e.Squeeze(heads.back(), {0}));
  }
  for (const Arg& a : xs) {
    V x = c.raw(a.value());
    in.push_back(c.e.Slice(x, {1}, {std::numeric_limits<int64_t>::max()}, {0}));
  }
  std::vector<V> out =
      c.e.Control("Scan", in, {{"body", body.Take()}, {"num_scan_inputs", static_cast<int64_t>(n)}}, outs);
  std::vector<V> all;
  for (size_t i = 0; i < n; ++i) {
    out[n + i].rank = heads[i].rank;
    all.push_back(c.e.Concat({heads[i], out[n + i]}, 0));
  }
  c.Return(std::move(all));
}

// invoke_subgraph: a call of a local function.
void InvokeSubgraph(LoweringContext& c) {
  const auto h = Decode(c);
  if (!h) return;
  const ir::SubGraph& g = h->bodies[0];
  const std::vector<Arg>& operands = h->captured;
  std::vector<V> in;
  for (size_t i = 0; i < operands.size(); ++i) in.push_back(Operand(c, operands[i], g->inputs()[i]->type()));
  const std::string function = c.e.shared()->functions->NameOf(c, *g, h->name.empty() ? "subgraph" : h->name);
  std::vector<const Type*> outs;
  for (const Arg& a : g->outputs) outs.push_back(a.value() ? &a.value()->type() : nullptr);
  if (c.ok()) c.Return(c.e.Custom(FunctionLibrary::kDomain, function, in, {}, outs));
}

constexpr Row kControlRows[] = {
    {"higher_order.invoke_subgraph", InvokeSubgraph},
    {"higher_order.cond", Cond},
    {"higher_order.while_loop", WhileLoop},
    {"higher_order.map_impl", Scan},
    {"higher_order.map", Scan},
    {"higher_order.scan", Scan},
    {"higher_order.associative_scan", AssociativeScan},
};

}  // namespace

absl::Span<const Row> ControlRows() { return kControlRows; }

}  // namespace slipway::exporters::onnx_out
