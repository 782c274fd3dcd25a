// Kernel `matmul`: products of matrices with leading dims and a bias. f32 and narrower go through GemmF32, integers of
// 8 bits too (in runs so short that f32 has every sum exactly), f64 and wider integers through plain loops.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/convert.h"
#include "kernels/gemm/reference_gemm.h"
#include "kernels/registry.h"
#include "kernels/scratch.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

// What a call is made of: leading dims that are walked, and the matrices of one step.
struct Operands {
  Tensor a, b, out, bias;  // bias: of out's sizes
  bool has_bias = false;
  int batch = 0;  // leading dims
  int64_t m = 0, n = 0, k = 0;

  int64_t steps() const {
    int64_t n = 1;
    for (int d = 0; d < batch; ++d) n *= out.sizes[d];
    return n;
  }
  // Calls f with pointers to the matrices of each of the steps [first, last): a, b, out, bias.
  template <typename F>
  void ForEach(int64_t first, int64_t last, F f) const {
    Positions<4> at(Head(out, batch), {&a, &b, &out, has_bias ? &bias : &out}, first);
    for (int64_t step = first; step < last; ++step, at.Next()) f(at[0], at[1], at[2], has_bias ? at[3] : nullptr);
  }
};

// The last leading dim becomes rows where the right matrix is the same for all of it.
void JoinRows(Operands& p) {
  while (p.batch > 0) {
    const int d = p.batch - 1;
    auto joins = [&](const Tensor& t) {
      return t.sizes[d] == 1 || t.sizes[d + 1] == 1 || t.strides[d] == t.strides[d + 1] * t.sizes[d + 1];
    };
    if (p.out.sizes[d] != 1 && (p.b.strides[d] != 0 || !joins(p.a) || !joins(p.out) || (p.has_bias && !joins(p.bias))))
      return;
    auto drop = [&](Tensor& t, bool rows) {
      if (rows && t.sizes[d + 1] == 1) t.strides[d + 1] = t.strides[d];
      if (rows) t.sizes[d + 1] *= t.sizes[d];
      t = DropDim(t, d);
    };
    drop(p.a, true), drop(p.out, true), drop(p.b, false);
    if (p.has_bias) drop(p.bias, true);
    --p.batch;
    p.m = p.out.sizes[p.batch];
  }
}

// Reads a matrix into dense rows of the compute type.
template <typename T>
void LoadMatrix(const char* from, const Tensor& t, DType as, T* to) {
  const int64_t rows = t.sizes[t.rank - 2], columns = t.sizes[t.rank - 1];
  const int64_t row = t.strides[t.rank - 2], column = t.strides[t.rank - 1];
  if (column != 1 && row == 1) {  // along memory, then transposed
    std::vector<T> line(static_cast<size_t>(rows));
    for (int64_t j = 0; j < columns; ++j) {
      LoadRow<T>(from + j * column * ByteSize(t.dtype), t.dtype, 1, rows, as, line.data());
      for (int64_t i = 0; i < rows; ++i) to[i * columns + j] = line[static_cast<size_t>(i)];
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    LoadRow<T>(from + i * row * ByteSize(t.dtype), t.dtype, column, columns, as, to + i * columns);
}

// In f32: operands are read as they are where nothing is lost.
class FloatProduct {
 public:
  FloatProduct(const Call& c, const Operands& p) : c_(c), p_(p) {}

  // The steps [first, last).
  void Run(int64_t first, int64_t last, const Workers* workers, Scratch& scratch) const {
    const Tensor& out = p_.out;
    float* const row = p_.has_bias ? scratch.Take<float>(p_.n) : nullptr;
    float* const left = Direct(p_.a) ? nullptr : scratch.Take<float>(p_.m * p_.k);
    float* const right = Direct(p_.b) ? nullptr : scratch.Take<float>(p_.k * p_.n);
    float* const product = narrow() ? scratch.Take<float>(p_.m * p_.n) : nullptr;
    if (scratch.querying()) return GemmF32(Sizes(), workers, scratch);
    // A bias that is the same for all rows goes with the product.
    const bool by_column = p_.has_bias && (p_.bias.strides[p_.bias.rank - 2] == 0 || p_.m == 1);
    p_.ForEach(first, last, [&](char* a, char* b, char* to, char* bias) {
      GemmParams g = Sizes();
      Place(a, p_.a, left, &g.a);
      Place(b, p_.b, right, &g.b);
      g.c = narrow() ? product : reinterpret_cast<float*>(to);
      const bool rounds = out.dtype == DType::kBF16 && out.strides[p_.batch + 1] == 1 && RoundsToBf16(g);
      if (rounds) g.rounded = reinterpret_cast<uint16_t*>(to), g.rounded_stride = out.strides[p_.batch];
      if (by_column) {
        LoadRow<float>(bias, p_.bias.dtype, p_.bias.strides[p_.batch + 1], p_.n, p_.bias.dtype, row);
        g.bias = row;
      } else if (bias != nullptr) {
        for (int64_t i = 0; i < p_.m; ++i) {
          LoadRow<float>(bias + i * p_.bias.strides[p_.batch] * ByteSize(p_.bias.dtype), p_.bias.dtype,
                         p_.bias.strides[p_.batch + 1], p_.n, p_.bias.dtype, row);
          StoreRow<float>(row, p_.n, g.c + i * g.c_stride, DType::kF32, g.c_column_stride);
        }
        g.accumulate = true;
      }
      GemmF32(g, workers, scratch);
      if (narrow() && !rounds)
        for (int64_t r = 0; r < p_.m; ++r)
          StoreRow<float>(product + r * p_.n, p_.n, to + r * out.strides[p_.batch] * ByteSize(out.dtype), out.dtype,
                          out.strides[p_.batch + 1]);
    });
  }

  Loop TakenLoop() const { return GemmLoop(Sizes()); }

  // Whether threads take whole matrices: where there are enough of them.
  bool by_steps() const {
    return c_.workers != nullptr && p_.steps() >= c_.workers->threads &&
           static_cast<double>(p_.m) * static_cast<double>(p_.n) * static_cast<double>(p_.k) >= 4096;
  }

 private:
  bool Direct(const Tensor& t) const {
    return t.is_packed() || t.dtype == c_.compute ||
           (c_.compute == DType::kF32 && (t.dtype == DType::kF16 || t.dtype == DType::kBF16));
  }
  bool narrow() const { return p_.out.dtype != DType::kF32; }
  // The product of a step, that is without where its operands lie.
  GemmParams Sizes() const {
    GemmParams g;
    g.m = p_.m, g.n = p_.n, g.k = p_.k;
    g.packed = p_.b.is_packed();
    for (auto [t, to] : {std::pair{&p_.a, &g.a}, {&p_.b, &g.b}}) {
      const int64_t columns = t->sizes[t->rank - 1], row = t->strides[t->rank - 2], column = t->strides[t->rank - 1];
      *to = t->is_packed() ? MatrixRef{nullptr, t->dtype, p_.k, 0}
            : Direct(*t)   ? MatrixRef{nullptr, t->dtype, row, column}
                           : MatrixRef{nullptr, DType::kF32, columns, 1};
    }
    g.c_stride = narrow() ? p_.n : p_.out.strides[p_.batch];
    g.c_column_stride = narrow() ? 1 : p_.out.strides[p_.batch + 1];
    return g;
  }
  // The matrix at `at`, or its elements in `copy`.
  void Place(const char* at, const Tensor& t, float* copy, MatrixRef* to) const {
    to->data = at;
    if (copy == nullptr) return;
    LoadMatrix<float>(at, t, c_.compute, copy);
    to->data = copy;
  }

  const Call& c_;
  const Operands& p_;
};

template <typename T>
void PlainProduct(const Call& c, const Operands& p) {
  T *const right = c.scratch->Take<T>(p.k * p.n), *const left = c.scratch->Take<T>(p.m * p.k),
           *const product = c.scratch->Take<T>(p.m * p.n);
  if (c.scratch->querying()) return;
  p.ForEach(0, p.steps(), [&](char* a, char* b, char* to, char* bias) {
    LoadMatrix<T>(b, p.b, c.compute, right);
    LoadMatrix<T>(a, p.a, c.compute, left);
    if (bias != nullptr)
      LoadMatrix<T>(bias, p.bias, c.compute, product);
    else
      std::fill_n(product, p.m * p.n, T(0));
    Gemm<T>(p.m, p.n, p.k, left, p.k, right, p.n, product, p.n);
    for (int64_t r = 0; r < p.m; ++r)
      StoreRow<T>(product + r * p.n, p.n, to + r * p.out.strides[p.batch] * ByteSize(p.out.dtype), p.out.dtype,
                  p.out.strides[p.batch + 1]);
  });
}

// The largest magnitude of a dtype of 8 bits; 0 of others.
int64_t Largest(DType t) { return t == DType::kI8 ? 128 : t == DType::kU8 ? 255 : 0; }
// Of integers of 8 bits: in f32, which has the sum of so few of their products exactly, whatever the order.
void ByteProduct(const Call& c, const Operands& p, Scratch& scratch) {
  const int64_t depth = std::min(p.k, (int64_t{1} << 24) / (Largest(p.a.dtype) * Largest(p.b.dtype)));
  float *const left = scratch.Take<float>(p.m * p.k), *const right = scratch.Take<float>(p.k * p.n);
  float* const product = scratch.Take<float>(p.m * p.n);
  int64_t* const sums = scratch.Take<int64_t>(p.m * p.n);
  // Rows of memory stay rows: the right matrix may be transposed.
  const bool transposed = p.b.strides[p.b.rank - 2] == 1 && p.b.strides[p.b.rank - 1] != 1;
  Tensor b = p.b;
  if (transposed)
    std::swap(b.sizes[b.rank - 2], b.sizes[b.rank - 1]), std::swap(b.strides[b.rank - 2], b.strides[b.rank - 1]);
  auto part = [&](int64_t k) {
    GemmParams g;
    g.m = p.m, g.n = p.n, g.k = std::min(depth, p.k - k);
    g.a = {left + k, DType::kF32, p.k, 1};
    g.b = transposed ? MatrixRef{right + k, DType::kF32, 1, p.k} : MatrixRef{right + k * p.n, DType::kF32, p.n, 1};
    g.c = product, g.c_stride = p.n;
    return g;
  };
  if (scratch.querying()) return GemmF32(part(0), c.workers, scratch);
  p.ForEach(0, p.steps(), [&](char* a, char* from, char* to, char* bias) {
    LoadMatrix<float>(a, p.a, p.a.dtype, left);
    LoadMatrix<float>(from, b, b.dtype, right);
    if (bias != nullptr)
      LoadMatrix<int64_t>(bias, p.bias, c.compute, sums);
    else
      std::fill_n(sums, p.m * p.n, int64_t{0});
    for (int64_t k = 0; k < p.k; k += depth) {
      GemmF32(part(k), c.workers, scratch);
      for (int64_t i = 0; i < p.m * p.n; ++i)
        sums[i] = static_cast<int64_t>(static_cast<uint64_t>(sums[i]) +
                                       static_cast<uint64_t>(static_cast<int64_t>(product[i])));
    }
    for (int64_t r = 0; r < p.m; ++r)
      StoreRow<int64_t>(sums + r * p.n, p.n, to + r * p.out.strides[p.batch] * ByteSize(p.out.dtype), p.out.dtype,
                        p.out.strides[p.batch + 1]);
  });
}

// The product of a call; null, or what is wrong.
const char* ProductOf(const Call& c, Operands* p) {
  if (c.in.size() < 2) return kSizesDiffer;
  const Tensor &a = c.in[0], &b = c.in[1], &out = c.out[0];
  const int batch = out.rank - 2;
  if (batch < 0 || a.rank != out.rank || b.rank != out.rank || a.sizes[batch] != out.sizes[batch] ||
      b.sizes[batch + 1] != out.sizes[batch + 1] || a.sizes[batch + 1] != b.sizes[batch])
    return kSizesDiffer;
  for (int d = 0; d < batch; ++d)
    if (a.sizes[d] != out.sizes[d] || b.sizes[d] != out.sizes[d]) return kSizesDiffer;
  *p = {a, b, out, {}, false, batch, out.sizes[batch], out.sizes[batch + 1], a.sizes[batch + 1]};
  if (c.in.size() > 2) {
    if (!SameSizes(c.in[2], out)) return kSizesDiffer;
    p->bias = c.in[2];
    p->has_bias = true;
  }
  if (out.numel() != 0) JoinRows(*p);
  return nullptr;
}

// Integers of 8 bits, what is computed in f32, and all others.
enum class Way : uint8_t { kBytes, kFloats, kPlain };
Way WayOf(const Call& c, const Operands& p) {
  if (Largest(p.a.dtype) > 0 && Largest(p.b.dtype) > 0 && (c.compute == DType::kI32 || c.compute == DType::kI64))
    return Way::kBytes;
  return ComputeType(c.compute) == DType::kF32 ? Way::kFloats : Way::kPlain;
}

// out[…,m,n] = sum over k of in[0][…,m,k] · in[1][…,k,n], plus in[2][…,m,n] where there is one. Leading dims are equal
// (the caller expands them). Sums of f16 and bf16 are kept in f32 and rounded once.
const char* Matmul(const Call& c, const NoAttributes&) {
  Operands p;
  if (const char* wrong = ProductOf(c, &p)) return wrong;
  if (c.out[0].numel() == 0) return nullptr;
  switch (WayOf(c, p)) {
    case Way::kBytes: ByteProduct(c, p, *c.scratch); return nullptr;
    case Way::kPlain: WithComputeType(c.compute, [&]<typename T>() { PlainProduct<T>(c, p); }); return nullptr;
    case Way::kFloats: break;
  }
  const FloatProduct product(c, p);
  const bool by_steps = product.by_steps();
  ParallelFor(*c.scratch, by_steps ? c.workers : nullptr, p.steps(), 1,
              [&](int64_t first, int64_t last, Scratch& scratch) {
                product.Run(first, last, by_steps ? nullptr : c.workers, scratch);
              });
  return nullptr;
}

bool MatmulProduct(const Call& c, const NoAttributes&, int64_t rows, Product* to) {
  Operands p;
  if (ProductOf(c, &p) != nullptr) return false;
  const Tensor &a = c.in[0], &b = c.in[1];
  const int r = a.rank;
  to->batch = SizeOf(a, 0, 0, p.batch);
  to->m = SizeOf(a, 0, p.batch, r - 1), to->k = SizeOf(b, 1, r - 2, r - 1), to->n = SizeOf(b, 1, r - 1, r);
  if (rows > 0) to->m.value = p.m = rows;
  to->matrix = 1;
  to->operations = Operations(*to), to->bytes = BytesOf(b);
  switch (WayOf(c, p)) {
    case Way::kBytes: to->loop = {BestIsa().name, "integers as f32, in exact runs"}; break;
    case Way::kPlain: to->loop = {"any", "plain loops"}; break;
    case Way::kFloats: to->loop = FloatProduct(c, p).TakenLoop(); break;
  }
  return true;
}

constexpr Kernel kKernels[] = {With<NoAttributes, Matmul>({.name = "matmul",
                                                           .inputs = 2,
                                                           .packed = {Packable::kNever, Packable::kFloats},
                                                           .queries_workspace = true,
                                                           .product = ProductOfCall<NoAttributes, MatmulProduct>,
                                                           .unsigned64 = Unsigned64::kSame})};

}  // namespace

std::span<const Kernel> MatmulKernels() { return kKernels; }

}  // namespace slipway::kernels
