// Products of matrices, plain: operands are read once into rows of the compute type.
#include <vector>

#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/registry.h"
#include "kernels/walk.h"

namespace slipway::kernels {
namespace {

// out[…,m,n] = sum over k of in[0][…,m,k] · in[1][…,k,n]. Leading dims are equal (the caller expands them). Sums of f16
// and bf16 are kept in f32 and rounded once.
const char* Matmul(const Call& c) {
  const Tensor &a = c.in[0], &b = c.in[1], &out = c.out[0];
  const int batch = out.rank - 2;
  if (batch < 0 || a.rank != out.rank || b.rank != out.rank || a.sizes[batch] != out.sizes[batch] ||
      b.sizes[batch + 1] != out.sizes[batch + 1] || a.sizes[batch + 1] != b.sizes[batch])
    return "the sizes do not agree";
  for (int d = 0; d < batch; ++d)
    if (a.sizes[d] != out.sizes[d] || b.sizes[d] != out.sizes[d]) return "the sizes do not agree";
  const int64_t m = out.sizes[batch], n = out.sizes[batch + 1], k = a.sizes[batch + 1];
  WithComputeType(c.compute, [&]<typename T>() {
    std::vector<T> right(k * n), left(m * k), product(m * n);
    int64_t index[kMaxRank] = {};
    int64_t batches = 1;
    for (int d = 0; d < batch; ++d) batches *= out.sizes[d];
    for (; batches > 0; --batches) {
      auto base = [&](const Tensor& t) {
        int64_t o = 0;
        for (int d = 0; d < batch; ++d) o += index[d] * t.strides[d];
        return static_cast<char*>(t.data) + o * ByteSize(t.dtype);
      };
      auto load = [&](const Tensor& t, int64_t rows, int64_t columns, T* to) {
        const int64_t row = t.strides[batch], column = t.strides[batch + 1];
        if (column != 1 && row == 1) {  // along memory, then turned
          std::vector<T> line(rows);
          for (int64_t j = 0; j < columns; ++j) {
            LoadRow<T>(base(t) + j * column * ByteSize(t.dtype), t.dtype, 1, rows, c.compute, line.data());
            for (int64_t i = 0; i < rows; ++i) to[i * columns + j] = line[i];
          }
          return;
        }
        for (int64_t i = 0; i < rows; ++i)
          LoadRow<T>(base(t) + i * row * ByteSize(t.dtype), t.dtype, column, columns, c.compute, to + i * columns);
      };
      load(b, k, n, right.data());
      load(a, m, k, left.data());
      std::fill(product.begin(), product.end(), T(0));
      Gemm<T>(m, n, k, left.data(), k, right.data(), n, product.data(), n);
      for (int64_t r = 0; r < m; ++r)
        StoreRow<T>(&product[r * n], n, base(out) + r * out.strides[batch] * ByteSize(out.dtype), out.dtype,
                    out.strides[batch + 1]);
      for (int d = batch - 1; d >= 0 && ++index[d] == out.sizes[d]; --d) index[d] = 0;
    }
  });
  return nullptr;
}

constexpr Kernel kKernels[] = {{"matmul", Matmul}};

}  // namespace

std::span<const Kernel> ContractKernels() { return kKernels; }

}  // namespace slipway::kernels
