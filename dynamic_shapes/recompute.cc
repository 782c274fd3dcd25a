// A table by operator. Formulas are those of torch; what they divide by is at least 1, as a window of one element is 1.
#include "dynamic_shapes/recompute.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <set>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "dynamic_shapes/size_args.h"
#include "dynamic_shapes/unknowns.h"
#include "ir/builder.h"
#include "ir/ops/op_table.h"

namespace slipway::dynamic_shapes {
namespace {

using ir::Arg;
using ir::Builder;
using ir::DType;
using ir::Node;
using ir::Value;

// The nodes of one operator are made through this; every number that may be a size is an argument of its own.
class Maker {
 public:
  Maker(Node& n) : n_(n), b_(*n.graph(), &n, n.source()) {}  // NOLINT

  bool ok() const { return b_.ok(); }
  int64_t Count(std::string_view arg) const { return n_.Get(arg).get<int64_t>() ? *n_.Get(arg).get<int64_t>() : -1; }
  std::optional<double> Number(std::string_view arg, double otherwise) const {
    if (n_.op().ArgIndex(arg) < 0) return otherwise;
    const Arg& a = n_.Get(arg);
    if (auto d = a.get<double>()) return *d;
    if (auto i = a.get<int64_t>()) return static_cast<double>(*i);
    return std::nullopt;
  }
  bool Flag(std::string_view arg, bool otherwise) const {
    if (n_.op().ArgIndex(arg) < 0 || !n_.Get(arg).get<bool>()) return otherwise;
    return *n_.Get(arg).get<bool>();
  }
  Value* In(std::string_view arg) const { return n_.Get(arg).value(); }
  DType dtype() const { return n_.output()->dtype(); }

  Value* Call(std::string_view op, std::vector<Arg> args, std::vector<std::pair<std::string_view, Arg>> named = {}) {
    return b_.Call(op, std::move(args), std::move(named));
  }
  Value* Range(int64_t n) { return Call("aten.arange.default", {n}, {{"dtype", DType::kInt64}}); }
  Value* Cast(Value* x, DType t) { return b_.Cast(x, t); }
  // A 0-d tensor of an integer. What is made of it is computed from the tensor, so that each number is to be found
  // once.
  Value* Whole(int64_t n) { return Call("aten.full.default", {ir::Ints{}, n}, {{"dtype", DType::kInt64}}); }
  Value* Divisor(Value* n) { return Cast(Call("aten.clamp_min.default", {n, 1}), dtype()); }
  // A bound: an integer may be a size.
  Value* Bound(std::string_view arg) {
    const Arg& a = n_.Get(arg);
    if (auto i = a.get<int64_t>()) return Cast(Whole(*i), dtype());
    if (auto d = a.get<double>()) return Call("aten.full.default", {ir::Ints{}, *d}, {{"dtype", dtype()}});
    return nullptr;
  }
  Value* Add(Value* x, Arg y) { return Call("aten.add.Tensor", {x, std::move(y)}); }
  Value* Sub(Value* x, Arg y) { return Call("aten.sub.Tensor", {x, std::move(y)}); }
  Value* Mul(Value* x, Arg y) { return Call("aten.mul.Tensor", {x, std::move(y)}); }
  Value* Div(Value* x, Arg y) { return Call("aten.div.Tensor", {x, std::move(y)}); }

  // The points of linspace: counted from the start in the first half and from the end in the second.
  Value* Points() {
    const int64_t n = Count("steps");
    Value *start = Bound("start"), *end = Bound("end");
    if (!start || !end || (dtype() != DType::kFloat32 && dtype() != DType::kFloat64)) return nullptr;
    Value *i = Range(n), *last = Sub(Whole(n), 1), *span = Sub(end, start), *step = Div(span, Divisor(last));
    Value* up = Add(Mul(Cast(i, dtype()), step), start);
    Value* down = Sub(end, Mul(Cast(Sub(last, i), dtype()), step));
    // One point is the start.
    Value* first =
        Call("aten.logical_or.default", {Call("aten.lt.Tensor", {Mul(i, 2), last}), Call("aten.eq.Scalar", {i, 0})});
    return Call("aten.where.self", {first, up, down});
  }
  // The places of a window, from 0 to 1; and 1 everywhere where there is one element only.
  Value* Places() {
    const int64_t n = Count("window_length");
    Value* i = Cast(Range(n), dtype());
    return Div(i, Divisor(Flag("periodic", true) ? Whole(n) : Sub(Whole(n), 1)));
  }
  Value* Window(Value* w) {
    return Call("aten.where.self",
                {Call("aten.eq.Scalar", {Whole(Count("window_length")), 1}), Call("aten.ones_like.default", {w}), w});
  }
  bool HasWindowType() const { return dtype() == DType::kFloat32 || dtype() == DType::kFloat64; }
  Value* Cosines(double alpha, double beta, double gamma = 0) {
    Value* turn = Mul(Places(), 2 * std::numbers::pi);
    Value* w = Add(Mul(Call("aten.cos.default", {turn}), -beta), alpha);
    return gamma == 0 ? w : Add(w, Mul(Call("aten.cos.default", {Mul(turn, 2.0)}), gamma));
  }

 private:
  Node& n_;
  Builder b_;
};

// Each gives null where it has no formula.
Value* Linspace(Maker& m) { return m.Points(); }
Value* Logspace(Maker& m) {
  Value* p = m.Points();
  auto base = m.Number("base", 10);
  return p && base ? m.Call("aten.pow.Scalar", {*base, p}) : nullptr;
}
Value* Hann(Maker& m) { return m.HasWindowType() ? m.Window(m.Cosines(0.5, 0.5)) : nullptr; }
Value* Hamming(Maker& m) {
  const auto alpha = m.Number("alpha", 0.54), beta = m.Number("beta", 0.46);
  return m.HasWindowType() && alpha && beta ? m.Window(m.Cosines(*alpha, *beta)) : nullptr;
}
Value* Blackman(Maker& m) { return m.HasWindowType() ? m.Window(m.Cosines(0.42, 0.5, 0.08)) : nullptr; }
Value* Bartlett(Maker& m) {
  if (!m.HasWindowType()) return nullptr;
  Value* side = m.Call("aten.abs.default", {m.Sub(m.Mul(m.Places(), 2.0), 1.0)});
  return m.Window(m.Add(m.Mul(side, -1.0), 1.0));
}
Value* Kaiser(Maker& m) {
  const auto beta = m.Number("beta", 12.0);
  if (!m.HasWindowType() || !beta) return nullptr;
  Value* side = m.Sub(m.Mul(m.Places(), 2.0), 1.0);
  Value* root = m.Call("aten.sqrt.default",
                       {m.Call("aten.clamp_min.default", {m.Add(m.Mul(m.Mul(side, side), -1.0), 1.0), 0.0})});
  Value* whole = m.Call("aten.full.default", {ir::Ints{}, *beta}, {{"dtype", m.dtype()}});
  Value* place = m.Call("aten.i0.default", {m.Mul(root, *beta)});
  return m.Window(m.Div(place, m.Call("aten.i0.default", {whole})));
}
Value* OneHot(Maker& m) {
  const int64_t n = m.Count("num_classes");
  if (n < 0) return nullptr;
  return m.Cast(m.Call("aten.eq.Tensor", {m.Call("aten.unsqueeze.default", {m.In("self"), -1}), m.Range(n)}),
                DType::kInt64);
}
Value* Vander(Maker& m) {
  const int64_t n = m.Count("N");
  Value* x = m.In("x");
  if (n < 0 || !x || !ir::IsFloating(x->dtype())) return nullptr;
  Value* powers = m.Range(n);
  if (!m.Flag("increasing", false)) powers = m.Sub(m.Sub(m.Whole(n), 1), powers);
  return m.Call("aten.pow.Tensor_Tensor", {m.Call("aten.unsqueeze.default", {x, -1}), powers});
}

struct Row {
  std::string_view base;
  Value* (*make)(Maker&);
};
constexpr Row kRows[] = {
    {"linspace", Linspace},      {"logspace", Logspace},        {"hann_window", Hann},
    {"hamming_window", Hamming}, {"blackman_window", Blackman}, {"bartlett_window", Bartlett},
    {"kaiser_window", Kaiser},   {"one_hot", OneHot},           {"vander", Vander},
};

// Puts other nodes for a node. False where there is no formula.
bool Recompute(Node& n) {
  for (const Row& row : kRows) {
    if (n.op().base != row.base || !n.output() || n.outputs().size() != 1) continue;
    Maker m(n);
    Value* made = row.make(m);
    if (!made || !m.ok() || made->dtype() != n.output()->dtype() || made->rank() != n.output()->rank()) return false;
    ir::Graph& g = *n.graph();
    g.ReplaceAllUses(n.output(), made);
    g.TakeName(made, n.output());
    g.Erase(&n);
    return true;
  }
  return false;
}

// A frozen argument of which the nodes have other numbers.
std::optional<SizeArg> DiffersIn(Node& a, Node& b) {
  const std::vector<SizeArg> x = SizeArgsOf(a), y = SizeArgsOf(b);
  if (x.size() != y.size()) return std::nullopt;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i].frozen && x[i].arg == y[i].arg && x[i].value != y[i].value) return x[i];
  return std::nullopt;
}

absl::Status RecomputeNodes(absl::Span<ir::Graph* const> graphs) {
  std::vector<Node*> at;
  for (ir::Graph* g : graphs) at.push_back(g->first());
  while (at[0] && std::all_of(at.begin(), at.end(), [&](Node* n) { return n && &n->op() == &at[0]->op(); })) {
    std::vector<Node*> next;
    for (Node* n : at) next.push_back(n->next());
    for (size_t i = 0; i < at[0]->args().size(); ++i) {
      std::vector<ir::Graph*> bodies;
      for (Node* n : at)
        if (auto body = i < n->args().size() ? n->args()[i].arg.get<ir::SubGraph>() : nullptr)
          bodies.push_back(body->get());
      if (bodies.size() == at.size()) RETURN_IF_ERROR(RecomputeNodes(bodies));
    }
    std::optional<SizeArg> differs;
    int64_t there = 0;
    for (size_t k = 1; k < at.size() && !differs; ++k)
      if ((differs = DiffersIn(*at[0], *at[k]))) there = DiffersIn(*at[k], *at[0])->value;
    if (differs) {
      const std::string what = text::StrCat(PlaceOf(*at[0]), ": ", differs->arg, " is ", differs->value, " here and ",
                                            there, " there, and no symbolic size can stand for it");
      for (Node* n : at)
        if (!Recompute(*n)) return absl::UnimplementedError(what);
    }
    at = std::move(next);
  }
  return absl::OkStatus();
}

constexpr int64_t kMostElements = 64;

// The elements of a constant, where all are whole numbers.
std::optional<std::vector<int64_t>> WholeElements(const ir::TensorRef& t) {
  if (t.numel() > kMostElements) return std::nullopt;
  auto bytes = ir::ReadDense(t, static_cast<uint64_t>(kMostElements) * 8);
  if (!bytes.ok()) return std::nullopt;
  std::vector<int64_t> out;
  const auto as = [&](auto x) -> std::optional<std::vector<int64_t>> {
    if (bytes->size() != sizeof(x) * static_cast<size_t>(t.numel())) return std::nullopt;
    for (size_t at = 0; at < bytes->size(); at += sizeof(x)) {
      std::memcpy(&x, bytes->data() + at, sizeof(x));
      const double d = static_cast<double>(x);
      if (d != std::floor(d) || std::abs(d) > 0x1p52) return std::nullopt;
      out.push_back(static_cast<int64_t>(x));
    }
    return out;
  };
  switch (t.dtype) {
    case DType::kInt64: return as(int64_t{});
    case DType::kInt32: return as(int32_t{});
    case DType::kFloat32: return as(float{});
    case DType::kFloat64: return as(double{});
    default: return std::nullopt;
  }
}

bool SameElements(const ir::TensorRef& a, const ir::TensorRef& b) {
  if (a.storage == b.storage && a.offset == b.offset && a.strides == b.strides) return true;
  auto x = ir::ReadDense(a), y = ir::ReadDense(b);
  return x.ok() && y.ok() && *x == *y;
}

// Nodes that make the constant take its place among the inputs.
absl::Status MakeOfNumbers(ir::Program& p, size_t input, const std::vector<int64_t>& numbers) {
  Value* v = p.graph->inputs()[input];
  const DType t = v->dtype();
  Builder b(*p.graph, p.graph->first(), v->users().empty() ? nullptr : v->users()[0]->source());
  ir::Values made;
  for (int64_t number : numbers) made.push_back(b.Call("aten.full.default", {ir::Ints{}, number}, {{"dtype", t}}));
  Value* out = made[0];
  if (v->rank() > 0) {
    ir::Ints sizes;
    for (ir::Sym s : v->sizes()) sizes.push_back(s.constant().value_or(0));
    out = b.Call("aten.view.default", {b.Call("aten.stack.default", {made, 0}), sizes});
  }
  RETURN_IF_ERROR(b.status());
  p.graph->ReplaceAllUses(v, out);
  p.graph->TakeName(out, v);
  const std::string target = p.input_specs[input].target;
  p.graph->RemoveInput(input);
  p.input_specs.erase(p.input_specs.begin() + static_cast<std::ptrdiff_t>(input));
  p.weights.erase(target);
  return absl::OkStatus();
}

absl::Status RecomputeConstants(absl::Span<ir::Program* const> programs) {
  ir::Program& p = *programs[0];
  for (size_t i = p.input_specs.size(); i-- > 0;) {
    // What the trace lifted, and buffers that are no weights of the model but what it keeps of its last run.
    const ir::InputSpec::Kind kind = p.input_specs[i].kind;
    const bool buffer = kind == ir::InputSpec::kBuffer && !p.input_specs[i].persistent;
    if ((kind != ir::InputSpec::kTensorConstant && !buffer) || i >= p.graph->inputs().size()) continue;
    const std::string target = p.input_specs[i].target;
    const std::string place =
        p.graph->inputs()[i]->users().empty() ? "" : text::StrCat(", of ", PlaceOf(*p.graph->inputs()[i]->users()[0]));
    std::vector<const ir::TensorRef*> all;
    for (const ir::Program* q : programs) {
      auto it = q->weights.find(target);
      const bool same =
          i < q->input_specs.size() && q->input_specs[i].kind == kind && q->input_specs[i].target == target;
      if (same && it != q->weights.end()) all.push_back(&it->second);
    }
    if (all.size() != programs.size()) continue;  // aligning says so
    const ir::TensorRef& first = *all[0];
    bool differs = false;
    for (const ir::TensorRef* t : all) {
      if (t->sizes != first.sizes || t->dtype != first.dtype)
        return absl::UnimplementedError(
            text::StrCat(buffer ? "the buffer '" : "the constant '", target, "'", place, " is ",
                         first.sizes == t->sizes ? "of another type" : "of another size",
                         " in the other program; tensors made of the size (torch.arange, torch.full) are solved"));
      differs |= !SameElements(first, *t);
    }
    if (!differs) continue;
    std::vector<std::vector<int64_t>> numbers;
    for (const ir::TensorRef* t : all)
      if (auto whole = WholeElements(*t); whole && !whole->empty()) numbers.push_back(*std::move(whole));
    if (numbers.size() != all.size() || buffer)
      return absl::UnimplementedError(text::StrCat(buffer ? "the buffer '" : "the constant '", target, "'", place,
                                                   " has other elements in the other program, and only a few whole "
                                                   "numbers are solved; tensors made of the size (torch.full) are"));
    for (size_t k = 0; k < programs.size(); ++k) RETURN_IF_ERROR(MakeOfNumbers(*programs[k], i, numbers[k]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RecomputeDiffering(absl::Span<ir::Program* const> programs) {
  RETURN_IF_ERROR(RecomputeConstants(programs));
  std::vector<ir::Graph*> graphs;
  for (ir::Program* p : programs) graphs.push_back(p->graph.get());
  return RecomputeNodes(graphs);
}

}  // namespace slipway::dynamic_shapes
