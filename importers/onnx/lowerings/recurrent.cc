// RNN, GRU and LSTM. Layers as PyTorch has them are its operators, with gates in its order; others (activations,
// peepholes, lengths, gates that are reset before the product) are a scan over time.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {
namespace {

using ir::Type;

struct Cell {
  int gates;
  std::vector<std::string> activations;  // of one direction, as ONNX's operator has them by default
};
const Cell kRnn = {1, {"Tanh"}}, kGru = {3, {"Sigmoid", "Tanh"}}, kLstm = {4, {"Sigmoid", "Tanh", "Tanh"}};

// A layer's operands and attributes, time first.
struct Layer {
  Value *x = nullptr, *w = nullptr, *r = nullptr, *bias = nullptr, *lengths = nullptr, *h = nullptr, *state = nullptr,
        *peephole = nullptr;
  Value *w_scale = nullptr, *r_scale = nullptr;  // of weights that are integers: [directions, 1 or rows]
  int64_t hidden = 0;
  int directions = 1;
  bool reverse = false, batch_first = false;  // layout 1
  std::vector<std::string> activations;       // all directions'
  std::vector<double> alpha, beta;
  double clip = 0;
  bool reset_behind = false, coupled = false;
};

std::vector<std::string> Names(Call& c) {
  c.Ignore("activations");
  for (const ir::NamedArg& a : c.node().args())
    if (a.name == "activations")
      if (const auto* names = a.arg.get<std::vector<std::string>>()) return *names;
  return {};
}

// Integers [directions, columns, rows] less their zero points (of each direction, or of each of its rows), as floats in
// the order of other weights.
Value* Centred(Call& c, size_t weight, size_t zero) {
  Value *v = c.in(weight), *z = c.opt_in(zero);
  if (v->rank() != 3 || (v->dtype() != DType::kInt8 && v->dtype() != DType::kUInt8) ||
      (z && z->dtype() != v->dtype())) {
    c.Wrong("weights of another type or rank");
    return v;
  }
  const SymInts each = {c.b.Size(v, 0), IntOrValue(1), IntOrValue(-1)};
  v = c.b.Cast(v, DType::kFloat32);
  if (z)
    v = c.b.Call("aten.sub.Tensor", {v, c.b.Call("aten.reshape.default", {c.b.Cast(z, DType::kFloat32), Arg(each)})});
  return c.b.Call("aten.transpose.int", {v, 1, 2});
}

std::optional<Layer> Read(Call& c, const Cell& cell, bool quantized = false) {
  Layer l;
  l.x = c.in(0), l.bias = c.opt_in(3), l.lengths = c.opt_in(4), l.h = c.opt_in(5);
  if (quantized) {
    l.w = Centred(c, 1, 9), l.r = Centred(c, 2, 11);
    const SymInts each = {c.b.Size(l.w, 0), IntOrValue(-1)};
    l.w_scale = c.b.Call("aten.reshape.default", {c.in(8), Arg(each)});
    l.r_scale = c.b.Call("aten.reshape.default", {c.in(10), Arg(each)});
  } else {
    l.w = c.in(1), l.r = c.in(2);
  }
  if (cell.gates == 4) l.state = c.opt_in(6), l.peephole = c.opt_in(7);
  const std::string direction = c.text("direction", "forward");
  l.directions = direction == "bidirectional" ? 2 : 1;
  l.reverse = direction == "reverse";
  l.batch_first = c.integer("layout", 0) != 0;
  l.clip = c.real("clip", 0);
  c.Ignore("hidden_size");
  l.reset_behind = c.integer("linear_before_reset", 0) != 0;
  l.coupled = c.integer("input_forget", 0) != 0;
  l.activations = Names(c);
  if (l.activations.empty())
    for (int d = 0; d < l.directions; ++d)
      l.activations.insert(l.activations.end(), cell.activations.begin(), cell.activations.end());
  l.alpha = c.reals("activation_alpha").value_or(std::vector<double>());
  l.beta = c.reals("activation_beta").value_or(std::vector<double>());
  if (!c.ok()) return std::nullopt;
  const auto rank = [&](const Value* v, int n) { return !v || v->rank() == n; };
  if (!rank(l.x, 3) || !rank(l.w, 3) || !rank(l.r, 3) || !rank(l.bias, 2) || !rank(l.lengths, 1) || !rank(l.h, 3) ||
      !rank(l.state, 3) || !rank(l.peephole, 2) ||
      l.activations.size() != cell.activations.size() * static_cast<size_t>(l.directions)) {
    c.Wrong(text::StrCat("operands of other ranks, or activations of other directions: x ", l.x->type().ToString(),
                         ", w ", l.w->type().ToString(), ", r ", l.r->type().ToString()));
    return std::nullopt;
  }
  const auto hidden = l.r->sizes()[2].constant(), directions = l.w->sizes()[0].constant();
  if (!hidden || *hidden < 1) {
    c.Refuse("of a dynamic hidden size");
    return std::nullopt;
  }
  l.hidden = *hidden;
  if (directions != l.directions || c.integer("hidden_size", l.hidden) != l.hidden) {
    c.Wrong("weights of other directions or another hidden_size");
    return std::nullopt;
  }
  if (l.batch_first) {
    l.x = c.b.Call("aten.transpose.int", {l.x, 0, 1});
    if (l.h) l.h = c.b.Call("aten.transpose.int", {l.h, 0, 1});
    if (l.state) l.state = c.b.Call("aten.transpose.int", {l.state, 0, 1});
  }
  const SymInts shape = {IntOrValue(l.directions), c.b.Size(l.x, 1), IntOrValue(l.hidden)};
  if (!l.h) l.h = c.b.Full(shape, Arg(0.0), l.x->dtype());
  if (cell.gates == 4 && !l.state) l.state = c.b.Full(shape, Arg(0.0), l.x->dtype());
  return l;
}

// Y [time, directions, batch, hidden], and the last states.
void Finish(Call& c, const Layer& l, Value* y, Value* h, Value* state) {
  const auto last = [&](Value* v) { return l.batch_first ? c.b.Call("aten.transpose.int", {v, 0, 1}) : v; };
  if (l.batch_first) y = c.b.Call("aten.permute.default", {y, Arg(Ints{2, 0, 1, 3})});
  c.Give(0, y);
  c.Give(1, last(h));
  if (state) c.Give(2, last(state));
}

// ---- As PyTorch's operators

// Rows of gates in the order of the other library.
Value* Reordered(Call& c, Value* v, const Ints& order, int64_t hidden) {
  if (order.size() == 1) return v;
  Values parts;
  for (int64_t g : order) parts.push_back(c.b.Call("aten.slice.Tensor", {v, 0, g * hidden, (g + 1) * hidden, 1}));
  return c.b.Call("aten.cat.default", {Arg(parts), 0});
}

void AsOperator(Call& c, const Layer& l, const char* op, const Ints& order) {
  const auto gates = static_cast<int64_t>(order.size()) * l.hidden;
  Values params;
  for (int64_t d = 0; d < l.directions; ++d) {
    const auto of_direction = [&](Value* v) { return c.b.Call("aten.select.int", {v, 0, d}); };
    params.push_back(Reordered(c, of_direction(l.w), order, l.hidden));
    params.push_back(Reordered(c, of_direction(l.r), order, l.hidden));
    for (int64_t half = 0; l.bias && half < 2; ++half)
      params.push_back(
          Reordered(c, c.b.Call("aten.slice.Tensor", {of_direction(l.bias), 0, half * gates, (half + 1) * gates, 1}),
                    order, l.hidden));
  }
  Value* x = l.reverse ? c.b.Call("aten.flip.default", {l.x, Arg(Ints{0})}) : l.x;
  const Arg states = l.state ? Arg(Values{l.h, l.state}) : Arg(l.h);
  const Values out =
      c.b.CallMulti(op, {x, states, Arg(params), l.bias != nullptr, 1, 0.0, false, l.directions == 2, false});
  if (!c.ok()) return;
  Value* y = l.reverse ? c.b.Call("aten.flip.default", {out[0], Arg(Ints{0})}) : out[0];
  if (l.directions == 1) {
    y = c.b.Call("aten.unsqueeze.default", {y, 1});
  } else {
    y = c.b.Call("aten.reshape.default",
                 {y, Arg(SymInts{c.b.Size(l.x, 0), c.b.Size(l.x, 1), IntOrValue(l.directions), IntOrValue(l.hidden)})});
    y = c.b.Call("aten.permute.default", {y, Arg(Ints{0, 2, 1, 3})});
  }
  Finish(c, l, y, out[1], l.state ? out[2] : nullptr);
}

// ---- As a scan

// What an activation does; `k`: its place among all of the node, which its parameters are at.
Value* Activate(Call& c, ir::Builder& b, const Layer& l, size_t k, Value* x) {
  const std::string& name = l.activations[k];
  const auto alpha = [&](double otherwise) { return k < l.alpha.size() ? l.alpha[k] : otherwise; };
  const auto beta = [&](double otherwise) { return k < l.beta.size() ? l.beta[k] : otherwise; };
  if (name == "Sigmoid") return b.Call("aten.sigmoid.default", {x});
  if (name == "Tanh") return b.Call("aten.tanh.default", {x});
  if (name == "Relu") return b.Call("aten.relu.default", {x});
  if (name == "LeakyRelu") return b.Call("aten.leaky_relu.default", {x, alpha(0.01)});
  if (name == "Elu") return b.Call("aten.elu.default", {x, alpha(1.0)});
  if (name == "ThresholdedRelu") return b.Call("aten.threshold.default", {x, alpha(1.0), 0.0});
  if (name == "Softplus") return b.Call("aten.softplus.default", {x});
  if (name == "Affine" || name == "HardSigmoid") {
    const bool hard = name == "HardSigmoid";
    x = b.Call("aten.add.Scalar", {b.Call("aten.mul.Scalar", {x, alpha(hard ? 0.2 : 1.0)}), beta(hard ? 0.5 : 0.0)});
    return hard ? b.Call("aten.clamp.default", {x, 0.0, 1.0}) : x;
  }
  if (name == "ScaledTanh")
    return b.Call("aten.mul.Scalar",
                  {b.Call("aten.tanh.default", {b.Call("aten.mul.Scalar", {x, beta(1.0)})}), alpha(1.0)});
  if (name == "Softsign")
    return b.Call("aten.div.Tensor", {x, b.Call("aten.add.Scalar", {b.Call("aten.abs.default", {x}), 1.0})});
  c.Refuse(text::StrCat("with activation ", name));
  return x;
}

// The product with weights that are integers, times their scale: x becomes 8 bits over the range of all of it, which
// has 0 in it. Sums are those of integers up to the rounding of f32.
Value* QuantizedProduct(ir::Builder& b, Value* x, Value* w, Value* scale) {
  Value* low = b.Call("aten.clamp.default", {b.Call("aten.amin.default", {x}), Arg(), 0.0});
  Value* high = b.Call("aten.clamp.default", {b.Call("aten.amax.default", {x}), 0.0});
  Value* step = b.Call("aten.div.Scalar", {b.Call("aten.sub.Tensor", {high, low}), 255.0});
  Value* none = b.Call("aten.eq.Scalar", {step, 0.0});
  step = b.Call("aten.where.self", {none, b.ScalarTensor(Arg(1.0), DType::kFloat32), step});
  Value* zero = b.Call("aten.neg.default", {b.Call("aten.div.Tensor", {low, step})});
  zero = b.Call("aten.round.default", {b.Call("aten.clamp.default", {zero, 0.0, 255.0})});
  Value* q = b.Call("aten.round.default", {b.Call("aten.div.Tensor", {x, step})});
  q = b.Call("aten.clamp.default", {b.Call("aten.add.Tensor", {q, zero}), 0.0, 255.0});
  q = b.Call("aten.sub.Tensor", {q, zero});
  return b.Call("aten.mul.Tensor", {b.Call("aten.linear.default", {q, w}), b.Call("aten.mul.Tensor", {scale, step})});
}

// One direction: the body takes the states, then the slices (products of the input with w, and the time where lengths
// count), then the recurrent weight, and peepholes and lengths where there are any.
Values AsScan(Call& c, const Cell& cell, const Layer& l, int64_t d) {
  ir::Builder& b = c.b;
  const bool lstm = cell.gates == 4, gru = cell.gates == 3, backwards = l.reverse || d == 1;
  const int64_t n = l.hidden, gates = cell.gates * n;
  const size_t first = static_cast<size_t>(d) * cell.activations.size();
  const auto of_direction = [&](Value* v) { return b.Call("aten.select.int", {v, 0, d}); };
  const auto part = [](ir::Builder& at, Value* v, int64_t begin, int64_t end) {
    return at.Call("aten.slice.Tensor", {v, -1, begin, end, 1});
  };
  Value *w = of_direction(l.w), *bias = l.bias ? of_direction(l.bias) : nullptr;
  Value *of_w = bias ? part(b, bias, 0, gates) : nullptr, *of_r = bias ? part(b, bias, gates, 2 * gates) : nullptr;
  Value* products;
  if (l.w_scale) {
    products = QuantizedProduct(b, l.x, w, of_direction(l.w_scale));
    if (of_w) products = b.Call("aten.add.Tensor", {products, of_w});
  } else {
    products = b.Call("aten.linear.default", {l.x, w, of_w ? Arg(of_w) : Arg()});
  }
  // A bias of the recurrent product is one of the whole sum, but where a gate multiplies the product.
  const bool inside = gru && l.reset_behind && of_r;
  if (of_r && !inside) products = b.Call("aten.add.Tensor", {products, of_r});

  Values states = {of_direction(l.h)}, over = {products}, captured = {of_direction(l.r)};
  if (lstm) states.push_back(of_direction(l.state));
  if (inside) captured.push_back(of_r);
  if (l.peephole) captured.push_back(of_direction(l.peephole));
  if (l.r_scale) captured.push_back(of_direction(l.r_scale));
  if (l.lengths) {
    captured.push_back(b.Call("aten.unsqueeze.default", {b.Cast(l.lengths, DType::kInt64), 1}));
    over.push_back(b.Call("aten.arange.default", {Arg(b.Size(l.x, 0))}, {{"dtype", Arg(DType::kInt64)}}));
  }
  if (backwards)
    for (Value*& v : over) v = b.Call("aten.flip.default", {v, Arg(Ints{0})});
  if (!c.ok()) return {};

  auto body = std::make_shared<ir::Graph>(b.graph().program());
  const auto plain = [](const Value* v, size_t from) {
    return Type::Tensor(v->dtype(), ir::Sizes(v->sizes().begin() + static_cast<int64_t>(from), v->sizes().end()));
  };
  Values in_states, in_over, in_captured;
  for (const Value* v : states) in_states.push_back(body->AddInput("state", plain(v, 0)));
  for (const Value* v : over) in_over.push_back(body->AddInput("slice", plain(v, 1)));
  for (const Value* v : captured) in_captured.push_back(body->AddInput("weight", plain(v, 0)));
  ir::Builder s(*body, nullptr, c.node().source());
  size_t at = 0;
  Value* r = in_captured[at++];
  Value* recurrent_bias = inside ? in_captured[at++] : nullptr;
  Value* peephole = l.peephole ? in_captured[at++] : nullptr;
  Value* r_scale = l.r_scale ? in_captured[at++] : nullptr;
  Value* lengths = l.lengths ? in_captured[at++] : nullptr;
  Value *h = in_states[0], *x = in_over[0];
  const auto activate = [&](size_t k, Value* v) { return Activate(c, s, l, first + k, v); };
  const auto clip = [&](Value* v) { return l.clip > 0 ? s.Call("aten.clamp.default", {v, -l.clip, l.clip}) : v; };
  const auto add = [&](Value* p, Value* q) { return s.Call("aten.add.Tensor", {p, q}); };
  const auto mul = [&](Value* p, Value* q) { return s.Call("aten.mul.Tensor", {p, q}); };
  const auto gate = [&](Value* v, int64_t k) { return part(s, v, k * n, (k + 1) * n); };
  Values next;
  if (lstm) {  // i o f c
    Value* product = r_scale ? QuantizedProduct(s, h, r, r_scale) : s.Call("aten.linear.default", {h, r});
    Value *sum = add(x, product), *old = in_states[1];
    const auto sees = [&](Value* v, int64_t k, Value* state) {
      return peephole ? add(v, mul(part(s, peephole, k * n, (k + 1) * n), state)) : v;
    };
    Value* i = activate(0, clip(sees(gate(sum, 0), 0, old)));
    Value* f = l.coupled ? s.Call("aten.add.Scalar", {s.Call("aten.neg.default", {i}), 1.0})
                         : activate(0, clip(sees(gate(sum, 2), 2, old)));
    Value* cell_state = add(mul(f, old), mul(i, activate(1, clip(gate(sum, 3)))));
    Value* o = activate(0, clip(sees(gate(sum, 1), 1, cell_state)));
    next = {mul(o, activate(2, cell_state)), cell_state};
  } else if (gru) {  // z r h
    Value *rows_zr = s.Call("aten.slice.Tensor", {r, 0, 0, 2 * n, 1}),
          *rows_h = s.Call("aten.slice.Tensor", {r, 0, 2 * n, 3 * n, 1});
    Value* zr =
        s.Call("aten.linear.default", {h, rows_zr, recurrent_bias ? Arg(part(s, recurrent_bias, 0, 2 * n)) : Arg()});
    zr = activate(0, clip(add(part(s, x, 0, 2 * n), zr)));
    Value *z = gate(zr, 0), *reset = gate(zr, 1), *candidate;
    if (l.reset_behind)
      candidate =
          mul(reset, s.Call("aten.linear.default", {h, rows_h, recurrent_bias ? Arg(gate(recurrent_bias, 2)) : Arg()}));
    else
      candidate = s.Call("aten.linear.default", {mul(reset, h), rows_h});
    candidate = activate(1, clip(add(gate(x, 2), candidate)));
    // (1 - z) * candidate + z * h
    next = {add(candidate, mul(z, s.Call("aten.sub.Tensor", {h, candidate})))};
  } else {
    next = {activate(0, clip(add(x, s.Call("aten.linear.default", {h, r}))))};
  }
  Value* y = next[0];
  if (lengths) {  // beyond its length a row keeps its states and gives 0
    Value* within = s.Call("aten.lt.Tensor", {in_over[1], lengths});
    for (size_t k = 0; k < next.size(); ++k) next[k] = s.Call("aten.where.self", {within, next[k], in_states[k]});
    y = s.Call("aten.where.self", {within, y, s.ScalarTensor(Arg(0.0), y->dtype())});
  } else {
    y = s.Call("aten.clone.default", {y});
  }
  if (!s.ok()) c.Fail(s.status());
  if (!c.ok()) return {};
  std::vector<Type> types;
  for (size_t k = 0; k < next.size(); ++k) {
    body->outputs.emplace_back(next[k]);
    types.push_back(plain(states[k], 0));
  }
  body->outputs.emplace_back(y);
  types.push_back(plain(y, 0));
  types.back().sizes.insert(types.back().sizes.begin(), products->sizes()[0]);
  Values out = b.CallTyped("higher_order.scan", {Arg(body), Arg(states), Arg(over), Arg(captured)}, {}, types);
  if (backwards && c.ok()) out.back() = b.Call("aten.flip.default", {out.back(), Arg(Ints{0})});
  return out;
}

void Scanned(Call& c, const Cell& cell, const Layer& l) {
  Values y, h, state;
  for (int64_t d = 0; d < l.directions; ++d) {
    const Values out = AsScan(c, cell, l, d);
    if (!c.ok()) return;
    h.push_back(out[0]);
    if (l.state) state.push_back(out[1]);
    y.push_back(out.back());
  }
  const auto stack = [&](const Values& v, int64_t dim) {
    return v.empty() ? nullptr : c.b.Call("aten.stack.default", {Arg(v), dim});
  };
  Finish(c, l, stack(y, 1), stack(h, 0), stack(state, 0));
}

bool All(const Layer& l, const std::vector<std::string>& each) {
  for (size_t k = 0; k < l.activations.size(); ++k)
    if (l.activations[k] != each[k % each.size()]) return false;
  return true;
}
bool IsPlain(const Layer& l) { return !l.lengths && l.clip == 0; }

void Rnn(Call& c) {
  const auto l = Read(c, kRnn);
  if (!l) return;
  if (IsPlain(*l) && All(*l, {"Tanh"})) return AsOperator(c, *l, "aten.rnn_tanh.input", {0});
  if (IsPlain(*l) && All(*l, {"Relu"})) return AsOperator(c, *l, "aten.rnn_relu.input", {0});
  Scanned(c, kRnn, *l);
}
void Gru(Call& c) {
  const auto l = Read(c, kGru);
  if (!l) return;
  if (IsPlain(*l) && l->reset_behind && All(*l, kGru.activations))
    return AsOperator(c, *l, "aten.gru.input", {1, 0, 2});
  Scanned(c, kGru, *l);
}
void Lstm(Call& c) {
  const auto l = Read(c, kLstm);
  if (!l) return;
  if (IsPlain(*l) && !l->peephole && !l->coupled && All(*l, kLstm.activations))
    return AsOperator(c, *l, "aten.lstm.input", {0, 2, 3, 1});
  Scanned(c, kLstm, *l);
}

// The input of all steps and rows is quantized at once, which lengths would cut; the states of a step, as ONNX
// Runtime's with one thread, which gives each of several its own rows.
void DynamicQuantizeLstm(Call& c) {
  if (c.has(4)) return c.Refuse("with lengths");
  if (const auto l = Read(c, kLstm, /*quantized=*/true)) Scanned(c, kLstm, *l);
}

// Whether PyTorch's operator is not all that a node becomes. `each`: what activations of one direction it may have.
bool Differs(Call& c, const std::vector<std::vector<std::string>>& each) {
  const std::vector<std::string> names = Names(c);
  const auto fits = [&](const std::vector<std::string>& of) {
    for (size_t k = 0; k < names.size(); ++k)
      if (names[k] != of[k % of.size()]) return false;
    return true;
  };
  return c.has(4) || c.real("clip", 0) != 0 || c.integer("layout", 0) != 0 ||
         c.text("direction", "forward") == "reverse" || std::none_of(each.begin(), each.end(), fits);
}
bool RnnDiffers(Call& c) { return Differs(c, {{"Tanh"}, {"Relu"}}); }
bool GruDiffers(Call& c) { return Differs(c, {kGru.activations}) || c.integer("linear_before_reset", 0) == 0; }
bool LstmDiffers(Call& c) { return Differs(c, {kLstm.activations}) || c.integer("input_forget", 0) != 0 || c.has(7); }

constexpr Row kRecurrentRows[] = {
    {"GRU", Gru, 3, nullptr, GruDiffers},
    {"LSTM", Lstm, 1, nullptr, LstmDiffers},
    {"RNN", Rnn, 1, nullptr, RnnDiffers},
};

constexpr Row kMicrosoftRecurrent[] = {
    {"DynamicQuantizeLSTM", DynamicQuantizeLstm, 1, nullptr, Always},
};

}  // namespace

absl::Span<const Row> RecurrentRows() { return kRecurrentRows; }
absl::Span<const Row> MicrosoftRecurrentRows() { return kMicrosoftRecurrent; }

}  // namespace slipway::importers::onnx_in
