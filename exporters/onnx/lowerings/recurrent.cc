// RNN, LSTM and GRU layers: ONNX's operators with the gates put in their order (torch's LSTM i f g o, ONNX's i o f c;
// torch's GRU r z n, ONNX's z r h with linear_before_reset). The re-ordering of weights is constant and folds.
#include <algorithm>
#include <string>
#include <vector>

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

// The gates of stored weights in ONNX's order, all weights behind each other, as one tensor of the file: [directions,
// rows, …]. Empty where one is computed.
V Stored(LoweringContext& c, const std::vector<ir::Value*>& weights, const Cell& cell, int64_t hidden, int directions,
         std::string_view name) {
  std::vector<ir::TensorRef> parts;
  Ints dims;
  for (const ir::Value* v : weights) {
    const ir::TensorRef* t = v ? c.graph().NumbersOf(v) : nullptr;
    if (!t || !t->is_contiguous() || t->sizes.empty() || t->sizes[0] != cell.gates * hidden ||
        ir::ByteSize(t->dtype) == 0)
      return {};
    if (dims.empty()) dims = t->sizes;
    if (dims != t->sizes || t->dtype != c.graph().NumbersOf(weights[0])->dtype) return {};
    for (int64_t g : cell.order) {
      ir::TensorRef part = *t;
      part.sizes[0] = hidden;
      part.offset += g * hidden * t->strides[0] * ir::ByteSize(t->dtype);
      parts.push_back(std::move(part));
    }
  }
  dims[0] *= static_cast<int64_t>(weights.size()) / directions;
  dims.insert(dims.begin(), directions);
  return c.widened(c.graph().Stacked(std::move(parts), dims, text::StrCat(c.node().output(0)->name(), ".", name)));
}

// A state of zeros, which is what a layer without one begins with.
bool IsZeros(const ir::Value* v) {
  const ir::Node* n = v->producer();
  if (!n) return false;
  if (n->op_name() == "aten.zeros.default") return true;
  if (n->op_name() != "aten.full.default") return false;
  const ir::Scalar s = ir::ArgReader(*n).scalar("fill_value");
  return s.is_constant() && s.kind != ir::Scalar::kComplex && s.d == 0;
}

void Recurrent(LoweringContext& c, const Cell& cell) {
  V x = c.in("input");
  std::vector<ir::Value*> params = c.tensors("params");
  bool biases = c.b("has_biases"), both = c.b("bidirectional"), batch_first = c.b("batch_first");
  int64_t layers = c.i("num_layers");
  if (c.b("train") && c.f("dropout") != 0 && layers > 1)
    return c.Unsupported("dropout between layers in training mode");
  const int dirs = both ? 2 : 1, per = biases ? 4 : 2;
  if (static_cast<int64_t>(params.size()) != layers * dirs * per)
    return c.Fail(text::StrCat(params.size(), " weights for ", layers, " layers"));
  const ir::Values given = cell.cell_state ? c.tensors("hx") : ir::Values{c.tensor("hx")};  // h (and c)
  if (given.size() != (cell.cell_state ? 2u : 1u)) return c.Fail("hx");
  const bool zeros = std::all_of(given.begin(), given.end(), IsZeros);
  std::vector<V> states;
  for (ir::Value* v : given) states.push_back(zeros ? V{} : c.value(v));
  const bool unbatched = x.rank == 2;
  if (unbatched) {
    x = c.e.Unsqueeze(x, {1});
    for (V& s : states) s = s ? c.e.Unsqueeze(s, {1}) : s;
  } else if (batch_first) {
    x = c.e.Transpose(x, {1, 0, 2});
  }
  std::vector<V> last_h, last_c;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto of = [&](int64_t first, int64_t count) {  // of each direction
      std::vector<ir::Value*> out;
      for (int64_t d = 0; d < dirs; ++d)
        for (int64_t k = 0; k < count; ++k)
          out.push_back(params[static_cast<size_t>((layer * dirs + d) * per + first + k)]);
      return out;
    };
    const std::vector<ir::Value*> recurrent = of(1, 1);
    const auto size = recurrent[0]->sizes().back().constant();
    if (!size) return c.Unsupported("a symbolic hidden size");
    const int64_t hidden = *size;
    const std::string suffix = layers > 1 ? text::StrCat("_l", layer) : "";
    const auto all = [&](const std::vector<ir::Value*>& weights, std::string_view name) {
      if (V stored = Stored(c, weights, cell, hidden, dirs, text::StrCat(name, suffix))) return stored;
      std::vector<V> rows;
      const size_t each = weights.size() / static_cast<size_t>(dirs);
      for (size_t k = 0; k < weights.size(); k += each) {
        std::vector<V> own;
        for (size_t i = 0; i < each; ++i) own.push_back(Reorder(c, c.value(weights[k + i]), cell, hidden));
        rows.push_back(c.e.Unsqueeze(c.e.Concat(std::move(own), 0), {0}));
      }
      return c.e.Concat(std::move(rows), 0);
    };
    auto part = [&](V s) { return layers == 1 || !s ? s : c.e.Slice(s, {layer * dirs}, {(layer + 1) * dirs}, {0}); };
    std::vector<V> in = {x, all(of(0, 1), "W"), all(recurrent, "R"), biases ? all(of(2, 2), "B") : V{}};
    if (!zeros) {
      in.insert(in.end(), {V{}, part(states[0])});
      if (cell.cell_state) in.push_back(part(states[1]));
    }
    Attrs attrs = cell.attrs;
    attrs.push_back({"hidden_size", hidden});
    attrs.push_back({"direction", std::string(both ? "bidirectional" : "forward")});
    std::vector<DType> outs(cell.cell_state ? 3 : 2, x.dtype);
    std::vector<V> y = c.e.OpN(cell.op, in, attrs, outs);
    y[0].rank = 4, y[1].rank = 3;
    last_h.push_back(y[1]);
    if (cell.cell_state) y[2].rank = 3, last_c.push_back(y[2]);
    // (seq, dirs, batch, hidden) -> (seq, batch, dirs * hidden)
    if (both) {
      V apart = c.e.Transpose(y[0], {0, 2, 1, 3});
      x = c.e.Reshape(apart, c.e.I64({0, 0, -1}), 3);
      const ir::Value* input = c.tensor("input");
      if (!unbatched && !batch_first)
        c.e.IsReshaped(x, apart, ir::Type::Tensor(x.dtype, {input->sizes()[0], input->sizes()[1], 2, hidden}));
    } else {
      x = c.e.Squeeze(y[0], {1});
    }
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

constexpr Row kRecurrentRows[] = {
    {"aten.lstm.input", Lstm, true, 0, Unprojected},
    {"aten.gru.input", Gru, true},
    {"aten.rnn_tanh.input", RnnTanh, true},
    {"aten.rnn_relu.input", RnnRelu, true},
};

}  // namespace

absl::Span<const Row> RecurrentRows() { return kRecurrentRows; }

}  // namespace slipway::exporters::onnx_out
