// RNN, LSTM and GRU layers: ONNX's operators with the gates put in their order (torch's LSTM i f g o, ONNX's i o f c;
// torch's GRU r z n, ONNX's z r h with linear_before_reset). The re-ordering of weights is constant and folds.
#include "base/text.h"
#include "exporters/onnx/lowerings/util.h"

namespace slipway::exporters::onnx_out {
namespace {

struct Cell {
  const char* op;
  int gates;
  Ints order;  // torch's gate that goes to each ONNX place
  Attrs attrs;
  bool cell_state = false;
};

V Reorder(LoweringContext& c, V w, const Cell& cell, int64_t hidden) {
  if (cell.gates == 1) return w;
  std::vector<V> parts;
  for (int64_t g : cell.order) parts.push_back(c.e.Slice(w, {g * hidden}, {(g + 1) * hidden}, {0}));
  return c.e.Concat(parts, 0);
}

void Recurrent(LoweringContext& c, const Cell& cell) {
  V x = c.in("input");
  std::vector<ir::Value*> params = c.tensors("params");
  std::vector<V> p;
  for (ir::Value* v : params) p.push_back(c.value(v));
  bool biases = c.b("has_biases"), both = c.b("bidirectional"), batch_first = c.b("batch_first");
  int64_t layers = c.i("num_layers");
  if (c.b("train") && c.f("dropout") != 0 && layers > 1)
    return c.Unsupported("dropout between layers in training mode");
  const int dirs = both ? 2 : 1, per = biases ? 4 : 2;
  if (static_cast<int64_t>(p.size()) != layers * dirs * per)
    return c.Fail(text::StrCat(p.size(), " weights for ", layers, " layers"));
  std::vector<V> states;  // h (and c)
  if (cell.cell_state) {
    for (ir::Value* v : c.tensors("hx")) states.push_back(c.value(v));
  } else {
    states.push_back(c.in("hx"));
  }
  if (states.size() != (cell.cell_state ? 2u : 1u)) return c.Fail("hx");
  const bool unbatched = x.rank == 2;
  if (unbatched) {
    x = c.e.Unsqueeze(x, {1});
    for (V& s : states) s = c.e.Unsqueeze(s, {1});
  } else if (batch_first) {
    x = c.e.Transpose(x, {1, 0, 2});
  }
  std::vector<V> last_h, last_c;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<V> w, r, b;
    int64_t hidden = 0;
    for (int d = 0; d < dirs; ++d) {
      size_t at = (layer * dirs + d) * per;
      auto size = params[at + 1]->sizes().back().constant();
      if (!size) return c.Unsupported("a symbolic hidden size");
      hidden = *size;
      w.push_back(c.e.Unsqueeze(Reorder(c, p[at], cell, hidden), {0}));
      r.push_back(c.e.Unsqueeze(Reorder(c, p[at + 1], cell, hidden), {0}));
      if (biases)
        b.push_back(c.e.Unsqueeze(
            c.e.Concat({Reorder(c, p[at + 2], cell, hidden), Reorder(c, p[at + 3], cell, hidden)}, 0), {0}));
    }
    auto part = [&](V s) { return layers == 1 ? s : c.e.Slice(s, {layer * dirs}, {(layer + 1) * dirs}, {0}); };
    std::vector<V> in = {x, c.e.Concat(w, 0), c.e.Concat(r, 0), biases ? c.e.Concat(b, 0) : V{}, V{}, part(states[0])};
    if (cell.cell_state) in.push_back(part(states[1]));
    Attrs attrs = cell.attrs;
    attrs.push_back({"hidden_size", hidden});
    attrs.push_back({"direction", std::string(both ? "bidirectional" : "forward")});
    std::vector<DType> outs(cell.cell_state ? 3 : 2, x.dtype);
    std::vector<V> y = c.e.OpN(cell.op, in, attrs, outs);
    y[0].rank = 4, y[1].rank = 3;
    last_h.push_back(y[1]);
    if (cell.cell_state) y[2].rank = 3, last_c.push_back(y[2]);
    // (seq, dirs, batch, hidden) -> (seq, batch, dirs * hidden)
    x = both ? c.e.Reshape(c.e.Transpose(y[0], {0, 2, 1, 3}), c.e.I64({0, 0, -1}), 3) : c.e.Squeeze(y[0], {1});
  }
  if (unbatched)
    x = c.e.Squeeze(x, {1});
  else if (batch_first)
    x = c.e.Transpose(x, {1, 0, 2});
  V h = c.e.Concat(last_h, 0);
  if (unbatched) h = c.e.Squeeze(h, {1});
  if (!cell.cell_state) return c.Return({x, h});
  V cs = c.e.Concat(last_c, 0);
  if (unbatched) cs = c.e.Squeeze(cs, {1});
  c.Return({x, h, cs});
}

void Lstm(LoweringContext& c) { Recurrent(c, {"LSTM", 4, {0, 3, 1, 2}, {}, true}); }
void Gru(LoweringContext& c) { Recurrent(c, {"GRU", 3, {1, 0, 2}, {{"linear_before_reset", int64_t{1}}}, false}); }
void RnnTanh(LoweringContext& c) { Recurrent(c, {"RNN", 1, {0}, {}, false}); }

void RnnRelu(LoweringContext& c) {
  const std::vector<std::string> activations(c.b("bidirectional") ? 2 : 1, "Relu");
  Recurrent(c, {"RNN", 1, {0}, {{"activations", activations}}, false});
}

// ONNX's operator projects nothing; layers that do are decomposed.
bool Unprojected(const ir::Node& n) {
  ir::ArgReader c(n);
  const int64_t each = c.b("has_biases") ? 4 : 2, directions = c.b("bidirectional") ? 2 : 1;
  return static_cast<int64_t>(c.tensors("params").size()) == c.i("num_layers") * directions * each;
}

constexpr Row kRows[] = {
    {"aten.lstm.input", Lstm, true, 0, Unprojected},
    {"aten.gru.input", Gru, true},
    {"aten.rnn_tanh.input", RnnTanh, true},
    {"aten.rnn_relu.input", RnnRelu, true},
};

}  // namespace

absl::Span<const Row> RecurrentRows() { return kRows; }

}  // namespace slipway::exporters::onnx_out
