// Layers of recurrent cells over whole sequences, in f32: for each layer and direction one product for the inputs of
// all times and one kernel for the steps. Other dtypes and projections are decomposed.
#include "base/text.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

void Recurrent(PlanContext& c) {
  const bool lstm = c.kernel() == "lstm";
  const int gates = lstm ? 4 : c.kernel() == "gru" ? 3 : 1;
  Operand x = c.in("input");
  std::vector<Operand> params, start;
  for (ir::Value* v : c.tensors("params")) params.push_back(c.of(v));
  if (lstm) {
    for (ir::Value* v : c.tensors("hx")) start.push_back(c.of(v));
  } else {
    start.push_back(c.in("hx"));
  }
  const int64_t layers = c.i("num_layers"), directions = c.b("bidirectional") ? 2 : 1;
  const size_t each = c.b("has_biases") ? 4 : 2, states = lstm ? 2 : 1;
  if (!c.ok()) return;
  if (c.b("train") && c.f("dropout") != 0 && layers > 1)
    return c.Unsupported("dropout between layers in training mode");
  if (layers < 1 || layers > 1 << 20 || params.size() != static_cast<size_t>(layers * directions) * each)
    return c.Unsupported("projections");
  if (start.size() != states) return c.Fail("hx");
  for (const Operand& t : params)
    if (t.dtype != DType::kFloat32) return c.Unsupported(text::StrCat("of ", ir::Name(t.dtype)));
  if (x.dtype != DType::kFloat32 || (x.rank() != 2 && x.rank() != 3)) return c.Unsupported("other than rows of f32");
  const bool batched = x.rank() == 3, batch_first = batched && c.b("batch_first");
  std::vector<Operand> results;
  for (size_t k = 0; k <= states; ++k) results.push_back(c.Result(k));
  if (!c.ok()) return;
  // With a batch dim; where that comes first, memory is so for all layers and the kernel takes turned views.
  auto with_batch = [&](const Operand& t) { return batched ? t : Unsqueeze(t, 1); };
  auto by_time = [&](const Operand& t) { return batch_first ? Swap(t, 0, 1) : t; };
  x = with_batch(x);
  std::vector<Operand> last;
  for (size_t k = 0; k < states; ++k) {
    start[k] = with_batch(start[k]);
    last.push_back(with_batch(results[k + 1]));
    if (start[k].rank() != 3 || start[k].dtype != DType::kFloat32) return c.Fail("hx");
    c.RequireEqual(start[k].sizes[0], layers * directions, "hx has another number of layers");
  }
  for (int64_t layer = 0; layer < layers; ++layer) {
    Dims sizes = x.sizes;
    const Operand& hidden = params[static_cast<size_t>(layer * directions) * each + 1];
    if (hidden.rank() != 2) return c.Fail("a weight is no matrix");
    const Dim n = hidden.sizes[1];
    sizes[2] = n * directions;
    Operand y = layer + 1 == layers ? with_batch(results[0]) : c.Temp(DType::kFloat32, sizes);
    for (int64_t direction = 0; direction < directions && c.ok(); ++direction) {
      const int64_t place = layer * directions + direction;
      const Operand* w = &params[static_cast<size_t>(place) * each];
      if (w[0].rank() != 2 || w[1].rank() != 2) return c.Fail("a weight is no matrix");
      c.RequireEqual(w[0].sizes[1], x.sizes[2], "a weight has other sizes");
      for (int k = 0; k < 2; ++k) c.RequireEqual(w[k].sizes[0], n * gates, "a weight has other sizes");
      c.RequireEqual(w[1].sizes[1], n, "a weight has other sizes");
      Dims wide = x.sizes;
      wide[2] = n * gates;
      Operand made = c.Temp(DType::kFloat32, wide);
      std::vector<Operand> in = {x, c.Expand(Swap(w[0], 0, 1), {wide[0], x.sizes[2], wide[2]})};
      if (each == 4) in.push_back(c.Expand(w[2], wide));
      if (!c.ok()) return;
      c.Emit("matmul", std::move(in), {made}, DType::kFloat32);
      in = {by_time(made), Swap(c.Dense(w[1]), 0, 1)};
      std::vector<Operand> out = {by_time(directions == 1 ? y : Narrow(y, 2, n * direction, n))};
      for (size_t k = 0; k < states; ++k) {
        in.push_back(c.Dense(Select(start[k], 0, place)));
        out.push_back(Select(last[k], 0, place));
      }
      if (each == 4) in.push_back(c.Dense(w[3]));
      c.Emit(c.kernel(), std::move(in), std::move(out), DType::kFloat32,
             kernels::RecurrentAttributes{direction != 0, each == 4});
    }
    x = y;
  }
  c.Return(std::move(results));
}

constexpr PlanFamily kRecurrentFamilies[] = {
    {Recurrent, "lstm", "lstm.input"},
    {Recurrent, "gru", "gru.input"},
    {Recurrent, "rnn_tanh", "rnn_tanh.input"},
    {Recurrent, "rnn_relu", "rnn_relu.input"},
};

}  // namespace

absl::Span<const PlanFamily> RecurrentPlans() { return kRecurrentFamilies; }

}  // namespace slipway::planner
