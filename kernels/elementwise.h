// Element by element: operands are read in blocks into contiguous rows of the compute type, the operator runs over the
// rows, the result is written back in the result's dtype. So an operator is one loop over at most three types, and a
// chain of operators can share one pass over memory.
#ifndef SLIPWAY_KERNELS_ELEMENTWISE_H_
#define SLIPWAY_KERNELS_ELEMENTWISE_H_

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "kernels/convert.h"
#include "kernels/registry.h"
#include "kernels/walk.h"

namespace slipway::kernels {

inline constexpr int64_t kBlock = 512;

template <typename T>
inline constexpr DType kTypeOf = std::is_same_v<T, float>    ? DType::kF32
                                 : std::is_same_v<T, double> ? DType::kF64
                                                             : DType::kI64;

// out = op(in...) with `N` operands of out's sizes; op takes rows: op(const std::array<const T*, N>&, T* out, n). Dense
// rows of T are handed to it where they are.
template <typename T, size_t N, typename Op>
void Elementwise(const Call& c, Op op) {
  std::array<const Tensor*, N + 1> all;
  all[0] = &c.out[0];
  for (size_t i = 0; i < N; ++i) all[i + 1] = &c.in[i];
  Walk(all, [&](std::array<char*, N + 1> at, const std::array<int64_t, N + 1>& step, int64_t n) {
    alignas(64) T rows[N + 1][kBlock];
    std::array<const T*, N> operands;
    bool direct[N + 1], all_direct = true;
    for (size_t i = 0; i <= N; ++i) {
      direct[i] = all[i]->dtype == kTypeOf<T> && (i == 0 || c.compute == kTypeOf<T>)&&(step[i] == 1 || n == 1);
      all_direct = all_direct && direct[i];
      if (i > 0 && !direct[i]) operands[i - 1] = rows[i];
      // One element for the whole row is read once.
      if (i > 0 && !direct[i] && step[i] == 0)
        LoadRow<T>(at[i], all[i]->dtype, 0, std::min(n, kBlock), c.compute, rows[i]);
    }
    for (int64_t done = 0; done < n;) {
      const int64_t m = all_direct ? n : std::min(kBlock, n - done);
      for (size_t i = 1; i <= N; ++i) {
        if (direct[i])
          operands[i - 1] = reinterpret_cast<const T*>(at[i]);
        else if (step[i] != 0)
          LoadRow<T>(at[i], all[i]->dtype, step[i], m, c.compute, rows[i]);
        at[i] += m * step[i] * ByteSize(all[i]->dtype);
      }
      op(operands, direct[0] ? reinterpret_cast<T*>(at[0]) : rows[0], m);
      if (!direct[0]) StoreRow<T>(rows[0], m, at[0], all[0]->dtype, step[0]);
      at[0] += m * step[0] * ByteSize(all[0]->dtype);
      done += m;
    }
  });
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ELEMENTWISE_H_
