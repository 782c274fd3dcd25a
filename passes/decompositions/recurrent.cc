// Decompositions of recurrent layers: a cell by its formula (torch.nn.LSTMCell, GRUCell, RNNCell), a layer as a scan of
// the cell over time. Targets with operators for whole layers take these only for what theirs cannot: ONNX has no
// projections.
#include "base/text.h"
#include "passes/decompositions/loop_builder.h"

namespace slipway::passes {
namespace {

enum class Cell { kLstm, kGru, kTanh, kRelu };
constexpr int Gates(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }

// The weights of one layer in one direction; biases and projection may be null.
struct RecurrentWeights {
  Value *input = nullptr, *hidden = nullptr, *input_bias = nullptr, *hidden_bias = nullptr, *projection = nullptr;
};

Value* Linear(Decomposer& d, Value* x, Value* weight, Value* bias) {
  return d.b.Call("aten.linear.default", {x, weight, Arg(bias)});
}
Value* Sigmoid(Decomposer& d, Value* x) { return d.Unary("sigmoid", x); }
Value* Tanh(Decomposer& d, Value* x) { return d.Unary("tanh", x); }

// One step: `gates` is what the input contributes, `state` {h} or {h, c}; gives the next state. Order of gates in the
// weights: LSTM i f g o; GRU r z n.
template <Cell cell>
Values Step(Decomposer& d, Value* gates, const Values& state, const RecurrentWeights& w) {
  Value* h = state[0];
  Value* own = Linear(d, h, w.hidden, w.hidden_bias);
  if (cell == Cell::kTanh) return {Tanh(d, d.Add(gates, own))};
  if (cell == Cell::kRelu) return {d.Unary("relu", d.Add(gates, own))};
  if (cell == Cell::kGru) {
    Values x = d.b.CallMulti("aten.chunk.default", {gates, 3, -1}),
           y = d.b.CallMulti("aten.chunk.default", {own, 3, -1});
    if (x.size() != 3 || y.size() != 3) return d.Fail("the weights are not of three gates"), state;
    Value* reset = Sigmoid(d, d.Add(x[0], y[0]));
    Value* keep = Sigmoid(d, d.Add(x[1], y[1]));
    Value* fresh = Tanh(d, d.Add(x[2], d.Mul(reset, y[2])));
    return {d.Add(d.Mul(d.Sub(h, fresh), keep), fresh)};
  }
  Values g = d.b.CallMulti("aten.chunk.default", {d.Add(gates, own), 4, -1});
  if (g.size() != 4) return d.Fail("the weights are not of four gates"), state;
  Value* c = d.Add(d.Mul(Sigmoid(d, g[1]), state[1]), d.Mul(Sigmoid(d, g[0]), Tanh(d, g[2])));
  h = d.Mul(Sigmoid(d, g[3]), Tanh(d, c));
  if (w.projection) h = Linear(d, h, w.projection, nullptr);
  return {h, c};
}

template <Cell cell>
void OneCell(Decomposer& d) {
  Values state = cell == Cell::kLstm ? d.ins("hx") : Values{d.in("hx")};
  if (state.size() != (cell == Cell::kLstm ? 2u : 1u)) return d.Fail("hx");
  RecurrentWeights w{d.in("w_ih"), d.in("w_hh"), d.opt_in("b_ih"), d.opt_in("b_hh"), nullptr};
  d.Return(Step<cell>(d, Linear(d, d.in("input"), w.input, w.input_bias), state, w));
}

// A direction of a layer over x (time, batch, features): {results over time, last state…}.
template <Cell cell>
Values Direction(Decomposer& d, Value* x, const Values& state, const RecurrentWeights& w, bool backwards) {
  Value* gates = Linear(d, x, w.input, w.input_bias);
  if (backwards) gates = d.b.Call("aten.flip.default", {gates, ir::Ints{0}});
  const Values out =
      Scan(d, state, {gates}, [&](Decomposer& inner, const Values& carried, const Values& at, Captures& in) {
        auto capture = [&](Value* v) { return v ? in(v) : nullptr; };
        RecurrentWeights own;
        own.hidden = capture(w.hidden);
        own.hidden_bias = capture(w.hidden_bias);
        own.projection = capture(w.projection);
        Values next = Step<cell>(inner, at[0], carried, own);
        next.push_back(next[0]);
        return next;
      });
  if (out.empty()) return Values(state.size() + 1, x);
  Value* results = out.back();
  if (backwards) results = d.b.Call("aten.flip.default", {results, ir::Ints{0}});
  Values all = {results};
  all.insert(all.end(), out.begin(), out.end() - 1);
  return all;
}

template <Cell cell>
void Layers(Decomposer& d) {
  Value* x = d.in("input");
  const Values params = d.ins("params");
  Values start = cell == Cell::kLstm ? d.ins("hx") : Values{d.in("hx")};
  const int64_t layers = d.i("num_layers"), directions = d.flag("bidirectional") ? 2 : 1;
  if (d.flag("train") && d.f("dropout") != 0 && layers > 1)
    return d.Unsupported("dropout between layers in training mode");
  const int64_t biases = d.flag("has_biases") ? 2 : 0;
  int64_t each = 2 + biases;
  const bool projected = cell == Cell::kLstm && static_cast<int64_t>(params.size()) == layers * directions * (each + 1);
  each += projected;
  if (layers < 1 || static_cast<int64_t>(params.size()) != layers * directions * each ||
      start.size() != (cell == Cell::kLstm ? 2u : 1u))
    return d.Fail(text::StrCat(params.size(), " weights for ", layers, " layers"));
  if (!d.ok()) return;
  const bool batched = x->rank() == 3, batch_first = d.flag("batch_first");
  if (!batched) {
    x = d.b.Call("aten.unsqueeze.default", {x, 1});
    for (Value*& s : start) s = d.b.Call("aten.unsqueeze.default", {s, 1});
  } else if (batch_first) {
    x = d.b.Call("aten.transpose.int", {x, 0, 1});
  }
  std::vector<Values> last(start.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    Values results;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t place = layer * directions + direction, at = place * each;
      RecurrentWeights w{params[at], params[at + 1], biases ? params[at + 2] : nullptr,
                         biases ? params[at + 3] : nullptr, projected ? params[at + each - 1] : nullptr};
      Values state;
      for (Value* s : start) state.push_back(d.b.Call("aten.select.int", {s, 0, place}));
      Values out = Direction<cell>(d, x, state, w, direction == 1);
      if (!d.ok() || !d.b.ok()) return;
      results.push_back(out[0]);
      for (size_t i = 0; i < last.size(); ++i) last[i].push_back(out[i + 1]);
    }
    x = directions == 1 ? results[0] : d.b.Call("aten.cat.default", {results, 2});
  }
  if (!batched)
    x = d.b.Call("aten.squeeze.dim", {x, 1});
  else if (batch_first)
    x = d.b.Call("aten.transpose.int", {x, 0, 1});
  Values all = {x};
  for (const Values& states : last) {
    Value* s = d.b.Call("aten.stack.default", {states, 0});
    all.push_back(batched ? s : d.b.Call("aten.squeeze.dim", {s, 1}));
  }
  d.Return(std::move(all));
}

// clang-format off
constexpr DecomposeRow kRecurrentRows[] = {
    {"aten.lstm_cell.default", OneCell<Cell::kLstm>},    {"aten.gru_cell.default", OneCell<Cell::kGru>},
    {"aten.rnn_tanh_cell.default", OneCell<Cell::kTanh>}, {"aten.rnn_relu_cell.default", OneCell<Cell::kRelu>},
    {"aten.lstm.input", Layers<Cell::kLstm>},            {"aten.gru.input", Layers<Cell::kGru>},
    {"aten.rnn_tanh.input", Layers<Cell::kTanh>},        {"aten.rnn_relu.input", Layers<Cell::kRelu>},
};
// clang-format on

}  // namespace

absl::Span<const DecomposeRow> RecurrentDecompositions() { return kRecurrentRows; }

}  // namespace slipway::passes
