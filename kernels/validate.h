// Checks of operands that many kernels share (registry.h says what they must check).
#ifndef SLIPWAY_KERNELS_VALIDATE_H_
#define SLIPWAY_KERNELS_VALIDATE_H_

#include <utility>

#include "kernels/registry.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

inline constexpr const char* kSizesDiffer = "the sizes do not agree";

// Sizes of dims [first, first + count) of a and those from `at` on of b.
inline bool SameSizes(const Tensor& a, int first, int count, const Tensor& b, int at) {
  if (first < 0 || at < 0 || count < 0 || first + count > a.rank || at + count > b.rank) return false;
  for (int d = 0; d < count; ++d)
    if (a.sizes[first + d] != b.sizes[at + d]) return false;
  return true;
}
inline bool SameSizes(const Tensor& a, const Tensor& b) { return a.rank == b.rank && SameSizes(a, 0, a.rank, b, 0); }
// Of norms: the vectors that `parts` says are there; false where they are not, or are no vectors of n.
inline bool NormParameters(const Call& c, int64_t parts, int64_t n, const Tensor** weight, const Tensor** bias) {
  size_t next = 1;
  for (auto [part, to] : {std::pair(kNormHasWeight, weight), std::pair(kNormHasBias, bias)}) {
    *to = nullptr;
    if (!(parts & part)) continue;
    if (next >= c.in.size() || c.in[next].rank != 1 || c.in[next].sizes[0] != n) return false;
    *to = &c.in[next++];
  }
  return true;
}

inline bool IsIndexType(DType t) { return t == DType::kI64 || t == DType::kI32; }

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_VALIDATE_H_
