// Element by element: operands are read in blocks into contiguous rows of the compute type, the operator runs over the
// rows, the result is written back in the result's dtype. So an operator is one loop over at most three types, and a
// chain of operators can share one pass over memory.
#ifndef SLIPWAY_KERNELS_ELEMENTWISE_H_
#define SLIPWAY_KERNELS_ELEMENTWISE_H_

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/convert.h"
#include "kernels/registry.h"
#include "kernels/walk.h"

namespace slipway::kernels {

inline constexpr int64_t kBlock = 512;

// out = op(in...) with `N` operands of out's sizes; op takes rows: op(const std::array<const T*, N>&, T* out, n).
template <typename T, size_t N, typename Op>
void Elementwise(const Call& c, Op op) {
  std::array<const Tensor*, N + 1> all;
  all[0] = &c.out[0];
  for (size_t i = 0; i < N; ++i) all[i + 1] = &c.in[i];
  Walk(all, [&](std::array<char*, N + 1> at, const std::array<int64_t, N + 1>& step, int64_t n) {
    alignas(64) T rows[N + 1][kBlock];
    std::array<const T*, N> operands;
    for (size_t i = 0; i < N; ++i) operands[i] = rows[i + 1];
    for (int64_t done = 0; done < n; done += kBlock) {
      const int64_t m = std::min(kBlock, n - done);
      for (size_t i = 1; i <= N; ++i) {
        LoadRow<T>(at[i], all[i]->dtype, step[i], m, c.compute, rows[i]);
        at[i] += m * step[i] * ByteSize(all[i]->dtype);
      }
      op(operands, rows[0], m);
      StoreRow<T>(rows[0], m, at[0], all[0]->dtype, step[0]);
      at[0] += m * step[0] * ByteSize(all[0]->dtype);
    }
  });
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ELEMENTWISE_H_
