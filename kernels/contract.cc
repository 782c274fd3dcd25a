// Products of matrices.
#include <algorithm>
#include <vector>

#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/registry.h"
#include "kernels/walk.h"

namespace slipway::kernels {
namespace {

// What a product is made of: leading dims that are walked, and the matrices of one step.
struct Product {
  Tensor a, b, out, bias;  // bias: of out's sizes; no data where there is none
  int batch = 0;           // leading dims
  int64_t m = 0, n = 0, k = 0;

  int64_t steps() const {
    int64_t n = 1;
    for (int d = 0; d < batch; ++d) n *= out.sizes[d];
    return n;
  }
  // Calls f with pointers to the matrices of each of the steps [first, last): a, b, out, bias.
  template <typename F>
  void ForEach(int64_t first, int64_t last, F f) const {
    int64_t index[kMaxRank] = {};
    for (int64_t d = batch - 1, rest = first; d >= 0; rest /= out.sizes[d], --d) index[d] = rest % out.sizes[d];
    auto at = [&](const Tensor& t) {
      int64_t o = 0;
      for (int d = 0; d < batch; ++d) o += index[d] * t.strides[d];
      return static_cast<char*>(t.data) + o * ByteSize(t.dtype);
    };
    for (int64_t step = first; step < last; ++step) {
      f(at(a), at(b), at(out), bias.data != nullptr ? at(bias) : nullptr);
      for (int d = batch - 1; d >= 0 && ++index[d] == out.sizes[d]; --d) index[d] = 0;
    }
  }
};

// The last leading dim becomes rows where the right matrix is the same for all of it.
void JoinRows(Product& p) {
  while (p.batch > 0) {
    const int d = p.batch - 1;
    auto joins = [&](const Tensor& t) {
      return t.sizes[d] == 1 || t.sizes[d + 1] == 1 || t.strides[d] == t.strides[d + 1] * t.sizes[d + 1];
    };
    if (p.out.sizes[d] != 1 &&
        (p.b.strides[d] != 0 || !joins(p.a) || !joins(p.out) || (p.bias.data != nullptr && !joins(p.bias))))
      return;
    auto drop = [&](Tensor& t, bool rows) {
      if (rows && t.sizes[d + 1] == 1) t.strides[d + 1] = t.strides[d];
      if (rows) t.sizes[d + 1] *= t.sizes[d];
      t = DropDim(t, d);
    };
    drop(p.a, true), drop(p.out, true), drop(p.b, false);
    if (p.bias.data != nullptr) drop(p.bias, true);
    --p.batch;
    p.m = p.out.sizes[p.batch];
  }
}

// Reads a matrix into dense rows of the compute type.
template <typename T>
void LoadMatrix(const char* from, const Tensor& t, DType as, T* to) {
  const int64_t rows = t.sizes[t.rank - 2], columns = t.sizes[t.rank - 1];
  const int64_t row = t.strides[t.rank - 2], column = t.strides[t.rank - 1];
  if (column != 1 && row == 1) {  // along memory, then turned
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

// In f32: operands are read as they are where nothing is lost. The steps [first, last).
void FloatProduct(const Call& c, const Product& p, int64_t first, int64_t last, const Workers* workers) {
  auto direct = [&](const Tensor& t) {
    return t.dtype == c.compute || (c.compute == DType::kF32 && (t.dtype == DType::kF16 || t.dtype == DType::kBF16));
  };
  std::vector<float> left, right, product, row(static_cast<size_t>(p.bias.data != nullptr ? p.n : 0));
  auto matrix = [&](const char* at, const Tensor& t, std::vector<float>& copy) -> MatrixRef {
    if (t.packed) return {at, t.dtype, p.k, 0};
    if (direct(t)) return {at, t.dtype, t.strides[t.rank - 2], t.strides[t.rank - 1]};
    copy.resize(static_cast<size_t>(t.sizes[t.rank - 2] * t.sizes[t.rank - 1]));
    LoadMatrix<float>(at, t, c.compute, copy.data());
    return {copy.data(), DType::kF32, t.sizes[t.rank - 1], 1};
  };
  const Tensor& out = p.out;
  const bool narrow = out.dtype != DType::kF32;
  if (narrow) product.resize(static_cast<size_t>(p.m * p.n));
  // A bias that is the same for all rows goes with the product.
  const bool by_column = p.bias.data != nullptr && (p.bias.strides[p.bias.rank - 2] == 0 || p.m == 1);
  p.ForEach(first, last, [&](char* a, char* b, char* to, char* bias) {
    GemmCall g;
    g.m = p.m, g.n = p.n, g.k = p.k;
    g.a = matrix(a, p.a, left);
    g.b = matrix(b, p.b, right);
    g.packed = p.b.packed;
    g.c = narrow ? product.data() : reinterpret_cast<float*>(to);
    g.c_row = narrow ? p.n : out.strides[p.batch];
    g.c_column = narrow ? 1 : out.strides[p.batch + 1];
    if (by_column) {
      LoadRow<float>(bias, p.bias.dtype, p.bias.strides[p.batch + 1], p.n, p.bias.dtype, row.data());
      g.bias = row.data();
    } else if (bias != nullptr) {
      for (int64_t i = 0; i < p.m; ++i) {
        LoadRow<float>(bias + i * p.bias.strides[p.batch] * ByteSize(p.bias.dtype), p.bias.dtype,
                       p.bias.strides[p.batch + 1], p.n, p.bias.dtype, row.data());
        StoreRow<float>(row.data(), p.n, g.c + i * g.c_row, DType::kF32, g.c_column);
      }
      g.accumulate = true;
    }
    FastGemm(g, workers);
    if (narrow)
      for (int64_t r = 0; r < p.m; ++r)
        StoreRow<float>(&product[static_cast<size_t>(r * p.n)], p.n,
                        to + r * out.strides[p.batch] * ByteSize(out.dtype), out.dtype, out.strides[p.batch + 1]);
  });
}

template <typename T>
void PlainProduct(const Call& c, const Product& p) {
  std::vector<T> right(static_cast<size_t>(p.k * p.n)), left(static_cast<size_t>(p.m * p.k)),
      product(static_cast<size_t>(p.m * p.n));
  p.ForEach(0, p.steps(), [&](char* a, char* b, char* to, char* bias) {
    LoadMatrix<T>(b, p.b, c.compute, right.data());
    LoadMatrix<T>(a, p.a, c.compute, left.data());
    if (bias != nullptr)
      LoadMatrix<T>(bias, p.bias, c.compute, product.data());
    else
      std::fill(product.begin(), product.end(), T(0));
    Gemm<T>(p.m, p.n, p.k, left.data(), p.k, right.data(), p.n, product.data(), p.n);
    for (int64_t r = 0; r < p.m; ++r)
      StoreRow<T>(&product[static_cast<size_t>(r * p.n)], p.n, to + r * p.out.strides[p.batch] * ByteSize(p.out.dtype),
                  p.out.dtype, p.out.strides[p.batch + 1]);
  });
}

// out[…,m,n] = sum over k of in[0][…,m,k] · in[1][…,k,n], plus in[2][…,m,n] where there is one. Leading dims are equal
// (the caller expands them). Sums of f16 and bf16 are kept in f32 and rounded once.
const char* Matmul(const Call& c) {
  constexpr const char* kSizes = "the sizes do not agree";
  if (c.in.size() < 2) return kSizes;
  const Tensor &a = c.in[0], &b = c.in[1], &out = c.out[0];
  const int batch = out.rank - 2;
  if (batch < 0 || a.rank != out.rank || b.rank != out.rank || a.sizes[batch] != out.sizes[batch] ||
      b.sizes[batch + 1] != out.sizes[batch + 1] || a.sizes[batch + 1] != b.sizes[batch])
    return kSizes;
  for (int d = 0; d < batch; ++d)
    if (a.sizes[d] != out.sizes[d] || b.sizes[d] != out.sizes[d]) return kSizes;
  Product p = {a, b, out, {}, batch, out.sizes[batch], out.sizes[batch + 1], a.sizes[batch + 1]};
  if (c.in.size() > 2) {
    if (c.in[2].rank != out.rank) return kSizes;
    for (int d = 0; d < out.rank; ++d)
      if (c.in[2].sizes[d] != out.sizes[d]) return kSizes;
    p.bias = c.in[2];
  }
  if (out.numel() == 0) return nullptr;
  JoinRows(p);
  if (ComputeType(c.compute) == DType::kF32) {
    // Threads take whole matrices where there are enough of them.
    const int64_t steps = p.steps();
    if (c.workers != nullptr && steps >= c.workers->threads && p.m * p.n * p.k >= 4096)
      ParallelFor(c.workers, steps, 1, [&](int64_t first, int64_t last) { FloatProduct(c, p, first, last, nullptr); });
    else
      FloatProduct(c, p, 0, steps, c.workers);
  } else {
    WithComputeType(c.compute, [&]<typename T>() { PlainProduct<T>(c, p); });
  }
  return nullptr;
}

constexpr Kernel kKernels[] = {{.name = "matmul", .run = Matmul, .inputs = 2, .packed = 1}};

}  // namespace

std::span<const Kernel> ContractKernels() { return kKernels; }

}  // namespace slipway::kernels
