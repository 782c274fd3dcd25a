// Kernels `lstm`, `gru`, `rnn_tanh`, `rnn_relu`: one layer of recurrent cells over time, in one direction. What the
// inputs contribute comes as one product for all times, which the planner makes; here are the steps, each a product
// with the state and one pass over the gates.
#include <algorithm>
#include <cstring>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/product.h"
#include "kernels/isa/isa.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/scratch.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

constexpr const char* kNotDense = "the tensor is not dense or not of f32";

bool IsDenseFloat(const Tensor& t) {
  return t.dtype == DType::kF32 && t.rank > 0 && (t.strides[t.rank - 1] == 1 || t.sizes[t.rank - 1] == 1);
}

// Many products with one matrix: packed once, unless rows are so few that dots are as quick.
bool Packs(const Tensor& w, int64_t times, int64_t batch) {
  constexpr int64_t kSmall = 2;
  return !w.is_packed() && batch > kSmall && times > 2;
}

// The product with the state, without where it lies: of a weight that is to be packed, as if it were.
GemmParams StateGemm(const Tensor& w, int64_t times, int64_t batch) {
  GemmParams g;
  g.m = batch, g.n = w.sizes[1], g.k = w.sizes[0];
  g.packed = w.is_packed() || Packs(w, times, batch);
  g.b = g.packed ? MatrixRef{nullptr, DType::kF32, g.k, 0} : MatrixRef{nullptr, DType::kF32, 1, w.strides[1]};
  return g;
}

// in: gates of the inputs [times, batch, gates · n], weight of the state [n, gates · n], which is dense along n or
// packed, the state [batch, n], of LSTM the cells' [batch, n], then the bias of the state [gates · n] where there is
// one. out: states of all times [times, batch, n], the last one [batch, n], of LSTM the cells'. All of f32, dense along
// the last dim but for the weight.
template <Cell kCell>
const char* Recurrent(const Call& c, const RecurrentAttributes& a) {
  constexpr bool kLstm = kCell == Cell::kLstm;
  constexpr size_t kStates = kLstm ? 2 : 1;
  if (c.in.size() != 2 + kStates + a.has_bias || c.out.size() != 1 + kStates) return kSizesDiffer;
  const Tensor &x = c.in[0], &w = c.in[1], &y = c.out[0];
  for (const Tensor& t : c.in)
    if (&t != &w && !IsDenseFloat(t)) return kNotDense;
  for (const Tensor& t : c.out)
    if (!IsDenseFloat(t)) return kNotDense;
  if (x.rank != 3 || w.rank != 2 || y.rank != 3) return kSizesDiffer;
  const int64_t times = x.sizes[0], batch = x.sizes[1], n = w.sizes[0], wide = x.sizes[2];
  if (w.dtype != DType::kF32 || (!w.is_packed() && n > 1 && w.strides[0] != 1)) return kNotDense;
  if (wide / Gates(kCell) != n || wide % Gates(kCell) != 0 || w.sizes[1] != wide || y.sizes[0] != times ||
      y.sizes[1] != batch || y.sizes[2] != n)
    return kSizesDiffer;
  auto is_state = [&](const Tensor& t) { return t.rank == 2 && t.sizes[0] == batch && t.sizes[1] == n; };
  for (size_t k = 0; k < kStates; ++k)
    if (!is_state(c.in[2 + k]) || !is_state(c.out[1 + k])) return kSizesDiffer;
  const float* bias = nullptr;
  if (a.has_bias) {
    const Tensor& b = c.in[2 + kStates];
    if (b.rank != 1 || b.sizes[0] != wide) return kSizesDiffer;
    bias = b.as<const float>();
  }
  if (batch == 0 || n == 0) return nullptr;
  const Isa& isa = BestIsa();
  Scratch& scratch = *c.scratch;
  GemmParams g = StateGemm(w, times, batch);
  g.b.data = w.data;
  if (g.packed && !w.is_packed()) {
    float* packed = scratch.Take<float>((wide + kPanel - 1) / kPanel * kPanel * n);
    if (!scratch.querying()) isa.gemm.pack({w.data, DType::kF32, 1, w.strides[1]}, n, wide, packed);
    g.b.data = packed;
  }
  g.c = scratch.Take<float>(batch * wide);
  g.c_stride = wide;
  constexpr int64_t kGrain = 2 * kPanel;
  const int64_t grain = std::max(kGrain, (int64_t{1} << 16) / (batch * n) / kGrain * kGrain);
  // g.c = what the state contributes to the gates. Threads share columns.
  auto multiply = [&] {
    ParallelFor(scratch, c.workers, wide, grain, [&](int64_t first, int64_t last, Scratch& own) {
      GemmParams part = g;
      part.n = last - first;
      float* const room = own.Take<float>(isa.gemm.workspace(part));
      if (own.querying()) return;
      part.b.data = static_cast<const float*>(g.b.data) + first * (g.packed ? n : w.strides[1]);
      part.c = g.c + first;
      isa.gemm.run(part, room);
    });
  };
  if (scratch.querying()) {
    g.a = {nullptr, DType::kF32, n, 1};
    multiply();
    return nullptr;
  }

  auto rows = [](const Tensor& t, int64_t i) { return t.as<float>() + i * t.strides[0]; };
  auto copy = [&](const float* from, int64_t from_stride, const Tensor& to) {
    for (int64_t i = 0; i < batch; ++i)
      std::memmove(rows(to, i), from + i * from_stride, static_cast<size_t>(n) * sizeof(float));
  };
  if (kLstm) copy(c.in[3].as<const float>(), c.in[3].strides[0], c.out[2]);
  const float* h = c.in[2].as<const float>();
  int64_t h_row = c.in[2].strides[0];
  for (int64_t i = 0; i < times; ++i) {
    const int64_t t = a.reverse ? times - 1 - i : i;
    g.a = {h, DType::kF32, h_row, 1};
    multiply();
    float* const out = rows(y, t);
    for (int64_t b = 0; b < batch; ++b) {
      RnnCellParams cell;
      cell.x = rows(x, t) + b * x.strides[1];
      cell.own = g.c + b * wide;
      cell.bias = bias;
      cell.h = h + b * h_row;
      cell.c = kLstm ? rows(c.out[2], b) : nullptr;
      cell.out = out + b * y.strides[1];
      cell.n = n;
      isa.rnn.cell(kCell, cell);
    }
    h = out, h_row = y.strides[1];
  }
  copy(h, h_row, c.out[1]);
  return nullptr;
}

// The product with the state, once for each time.
bool StateProduct(const Call& c, const RecurrentAttributes&, int64_t rows, Product* p) {
  if (c.in.size() < 2 || c.in[0].rank != 3 || c.in[1].rank != 2) return false;
  const Tensor &x = c.in[0], &w = c.in[1];
  p->batch = SizeOf(x, 0, 0, 1), p->m = SizeOf(x, 0, 1, 2), p->k = SizeOf(w, 1, 0, 1), p->n = SizeOf(w, 1, 1, 2);
  if (rows > 0) p->m.value = rows;
  p->matrix = 1;
  p->operations = Operations(*p), p->bytes = BytesOf(w), p->reads = static_cast<double>(p->batch.value);
  p->loop = F32GemmLoop(StateGemm(w, p->batch.value, p->m.value));
  return true;
}

template <Cell kCell>
constexpr Kernel Row(std::string_view name) {
  constexpr int8_t kStates = kCell == Cell::kLstm ? 2 : 1;
  return With<RecurrentAttributes, Recurrent<kCell>>({.name = name,
                                                      .inputs = 2 + kStates,
                                                      .outputs = 1 + kStates,
                                                      .packed = {Packable::kNever, Packable::kFloats},
                                                      .queries_workspace = true,
                                                      .product = ProductOfCall<RecurrentAttributes, StateProduct>});
}
constexpr Kernel kKernels[] = {Row<Cell::kLstm>("lstm"), Row<Cell::kGru>("gru"), Row<Cell::kTanh>("rnn_tanh"),
                               Row<Cell::kRelu>("rnn_relu")};

}  // namespace

std::span<const Kernel> RecurrentKernels() { return kKernels; }

}  // namespace slipway::kernels
