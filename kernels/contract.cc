// Products of matrices, plain: the right operand is read once into rows of the compute type, then rows are added up.
#include <type_traits>
#include <vector>

#include "kernels/convert.h"
#include "kernels/registry.h"
#include "kernels/walk.h"

namespace slipway::kernels {
namespace {

// out[…,m,n] = sum over k of in[0][…,m,k] · in[1][…,k,n]. Leading dims are equal (the caller expands them). Sums of f16
// and bf16 are kept in f32 and rounded once.
const char* Matmul(const Call& c) {
  const Tensor &a = c.in[0], &b = c.in[1], &out = c.out[0];
  const int batch = out.rank - 2;
  const int64_t m = out.sizes[batch], n = out.sizes[batch + 1], k = a.sizes[batch + 1];
  WithComputeType(c.compute, [&]<typename T>() {
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;  // integers wrap
    std::vector<T> right(k * n), left(k), row(n);
    std::vector<Sum> sum(n);
    int64_t index[kMaxRank] = {};
    for (int64_t batches =
             [&] {
               int64_t x = 1;
               for (int d = 0; d < batch; ++d) x *= out.sizes[d];
               return x;
             }();
         batches > 0; --batches) {
      auto base = [&](const Tensor& t) {
        int64_t o = 0;
        for (int d = 0; d < batch; ++d) o += index[d] * t.strides[d];
        return static_cast<char*>(t.data) + o * ByteSize(t.dtype);
      };
      for (int64_t i = 0; i < k; ++i)
        LoadRow<T>(base(b) + i * b.strides[batch] * ByteSize(b.dtype), b.dtype, b.strides[batch + 1], n, c.compute,
                   &right[i * n]);
      for (int64_t r = 0; r < m; ++r) {
        LoadRow<T>(base(a) + r * a.strides[batch] * ByteSize(a.dtype), a.dtype, a.strides[batch + 1], k, c.compute,
                   left.data());
        std::fill(sum.begin(), sum.end(), Sum(0));
        for (int64_t i = 0; i < k; ++i) {
          const Sum x = static_cast<Sum>(left[i]);
          const T* y = &right[i * n];
          for (int64_t j = 0; j < n; ++j) sum[j] += x * static_cast<Sum>(y[j]);
        }
        for (int64_t j = 0; j < n; ++j) row[j] = static_cast<T>(sum[j]);
        StoreRow<T>(row.data(), n, base(out) + r * out.strides[batch] * ByteSize(out.dtype), out.dtype,
                    out.strides[batch + 1]);
      }
      for (int d = batch - 1; d >= 0 && ++index[d] == out.sizes[d]; --d) index[d] = 0;
    }
  });
  return nullptr;
}

constexpr Kernel kKernels[] = {{"matmul", Matmul}};

}  // namespace

std::span<const Kernel> ContractKernels() { return kKernels; }

}  // namespace slipway::kernels
