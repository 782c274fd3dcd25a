// Layers of recurrent cells over time: what the inputs contribute comes as one product for all times, here are the
// steps, each a product with the state and one pass over the gates.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/check.h"
#include "kernels/isa.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/scope.h"

namespace slipway::kernels {
namespace {

constexpr const char* kNotDense = "the tensor is not dense or not of f32";

bool IsDenseFloat(const Tensor& t) {
  return t.dtype == DType::kF32 && t.rank > 0 && (t.strides[t.rank - 1] == 1 || t.sizes[t.rank - 1] == 1);
}

// Many products with one matrix: packed once, unless rows are so few that dots are as quick.
bool Packs(const Tensor& w, int64_t times, int64_t batch) {
  constexpr int64_t kFew = 2;
  return !w.is_packed() && batch > kFew && times > 2;
}

// in: gates of the inputs [times, batch, gates · n], weight of the state [n, gates · n], which is dense along n or
// packed, the state [batch, n], of LSTM the cells' [batch, n], then the bias of the state [gates · n] where ints[1]
// is 1. out: states of all times [times, batch, n], the last one [batch, n], of LSTM the cells'. ints[0]: from the last
// time to the first. All of f32, dense along the last dim but for the weight.
template <Cell kCell>
const char* Recurrent(const Call& c) {
  constexpr bool kLstm = kCell == Cell::kLstm;
  constexpr size_t kStates = kLstm ? 2 : 1;
  if (c.ints.size() < 2) return kAttributeMissing;
  const bool has_bias = c.ints[1] != 0;
  if (c.in.size() != 2 + kStates + has_bias || c.out.size() != 1 + kStates) return kSizesDiffer;
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
  if (has_bias) {
    const Tensor& b = c.in[2 + kStates];
    if (b.rank != 1 || b.sizes[0] != wide) return kSizesDiffer;
    bias = b.as<const float>();
  }
  if (batch == 0 || n == 0) return nullptr;
  auto rows = [](const Tensor& t, int64_t i) { return t.as<float>() + i * t.strides[0]; };
  auto copy = [&](const float* from, int64_t from_row, const Tensor& to) {
    for (int64_t i = 0; i < batch; ++i)
      std::memmove(rows(to, i), from + i * from_row, static_cast<size_t>(n) * sizeof(float));
  };
  if (kLstm) copy(c.in[3].as<const float>(), c.in[3].strides[0], c.out[2]);

  const Isa& isa = BestIsa();
  Scope memory(c);
  GemmCall g;
  g.m = batch, g.n = wide, g.k = n;
  g.packed = w.is_packed();
  g.b = w.is_packed() ? MatrixRef{w.data, DType::kF32, n, 0} : MatrixRef{w.data, DType::kF32, 1, w.strides[1]};
  if (Packs(w, times, batch)) {
    float* packed = memory->Take<float>((wide + kPanel - 1) / kPanel * kPanel * n);
    isa.pack(g.b, n, wide, packed);
    g.b = {packed, DType::kF32, n, 0};
    g.packed = true;
  }
  g.c = memory->Take<float>(batch * wide);
  g.c_row = wide;
  constexpr int64_t kGrain = 2 * kPanel;
  const int64_t grain = std::max(kGrain, (int64_t{1} << 16) / (batch * n) / kGrain * kGrain);
  const int64_t scratch = isa.gemm_scratch(g);
  float* const spare = memory->Take<float>(scratch * memory.parts() + 16 * memory.parts());
  const int64_t apart = (scratch + 15) / 16 * 16;

  const float* h = c.in[2].as<const float>();
  int64_t h_row = c.in[2].strides[0];
  for (int64_t i = 0; i < times; ++i) {
    const int64_t t = c.ints[0] != 0 ? times - 1 - i : i;
    g.a = {h, DType::kF32, h_row, 1};
    std::atomic<int64_t> parts = 0;
    ParallelFor(c.workers, wide, grain, [&](int64_t first, int64_t last) {
      GemmCall part = g;
      part.n = last - first;
      const float* b = static_cast<const float*>(g.b.data);
      part.b.data = b + first * (g.packed ? n : w.strides[1]);
      part.c = g.c + first;
      isa.gemm(part, spare + apart * parts++);
    });
    float* const out = rows(y, t);
    for (int64_t b = 0; b < batch; ++b) {
      CellCall cell;
      cell.x = rows(x, t) + b * x.strides[1];
      cell.own = g.c + b * wide;
      cell.bias = bias;
      cell.h = h + b * h_row;
      cell.c = kLstm ? rows(c.out[2], b) : nullptr;
      cell.out = out + b * y.strides[1];
      cell.n = n;
      isa.cell(kCell, cell);
    }
    h = out, h_row = y.strides[1];
  }
  copy(h, h_row, c.out[1]);
  return nullptr;
}

int64_t RecurrentMemory(const Call& c) {
  if (c.in.size() < 2 || c.in[0].rank != 3 || c.in[1].rank != 2) return 0;
  const Tensor &x = c.in[0], &w = c.in[1];
  if (w.sizes[1] != x.sizes[2] || w.sizes[0] > w.sizes[1]) return 0;
  GemmCall g;
  g.m = x.sizes[1], g.n = x.sizes[2], g.k = w.sizes[0];
  const bool packs = Packs(w, x.sizes[0], g.m);
  g.packed = w.is_packed() || packs;
  g.b = g.packed ? MatrixRef{nullptr, DType::kF32, g.k, 0} : MatrixRef{nullptr, DType::kF32, 1, w.strides[1]};
  g.a = {nullptr, DType::kF32, g.k, 1}, g.c_row = g.n;
  const int64_t parts = c.workers != nullptr ? MostParts(*c.workers) : 1;
  Need need;
  if (packs) need.Take<float>((g.n + kPanel - 1) / kPanel * kPanel * g.k);
  need.Take<float>(g.m * g.n);
  need.Take<float>((BestIsa().gemm_scratch(g) + 16) * parts);
  return need.bytes();
}

constexpr Kernel kKernels[] = {
    {.name = "lstm", .run = Recurrent<Cell::kLstm>, .inputs = 4, .outputs = 3, .packed = {Packable::kNever, Packable::kFloats}, .memory = RecurrentMemory},
    {.name = "gru", .run = Recurrent<Cell::kGru>, .inputs = 3, .outputs = 2, .packed = {Packable::kNever, Packable::kFloats}, .memory = RecurrentMemory},
    {.name = "rnn_tanh", .run = Recurrent<Cell::kTanh>, .inputs = 3, .outputs = 2, .packed = {Packable::kNever, Packable::kFloats}, .memory = RecurrentMemory},
    {.name = "rnn_relu", .run = Recurrent<Cell::kRelu>, .inputs = 3, .outputs = 2, .packed = {Packable::kNever, Packable::kFloats}, .memory = RecurrentMemory},
};

}  // namespace

std::span<const Kernel> RecurrentKernels() { return kKernels; }

}  // namespace slipway::kernels
