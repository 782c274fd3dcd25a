// The one loop over strided tensors: all but the innermost dimension are walked here, rows are handed out.
#ifndef SLIPWAY_KERNELS_WALK_H_
#define SLIPWAY_KERNELS_WALK_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/tensor.h"

namespace slipway::kernels {

// Calls row(pointers, strides, n) for every row of N tensors of the same sizes: pointers to the first element of each,
// strides in elements. Neighbouring dimensions that all tensors can walk as one are joined, so rows are long.
template <size_t N, typename F>
void Walk(const std::array<const Tensor*, N>& tensors, F row) {
  const Tensor& shape = *tensors[0];
  // Joined dims, outermost first.
  int rank = 0;
  int64_t sizes[kMaxRank];
  int64_t strides[N][kMaxRank];
  for (int d = 0; d < shape.rank; ++d) {
    if (shape.sizes[d] == 0) return;
    if (shape.sizes[d] == 1) continue;
    bool joins = rank > 0;
    for (size_t t = 0; t < N && joins; ++t) joins = strides[t][rank - 1] == tensors[t]->strides[d] * shape.sizes[d];
    if (joins) {
      sizes[rank - 1] *= shape.sizes[d];
      for (size_t t = 0; t < N; ++t) strides[t][rank - 1] = tensors[t]->strides[d];
    } else {
      sizes[rank] = shape.sizes[d];
      for (size_t t = 0; t < N; ++t) strides[t][rank] = tensors[t]->strides[d];
      ++rank;
    }
  }
  std::array<char*, N> at;
  std::array<int64_t, N> step{};
  int bytes[N];
  for (size_t t = 0; t < N; ++t) {
    at[t] = static_cast<char*>(tensors[t]->data);
    bytes[t] = ByteSize(tensors[t]->dtype);
    if (rank > 0) step[t] = strides[t][rank - 1];
  }
  if (rank == 0) return row(at, step, int64_t{1});
  int64_t index[kMaxRank] = {};
  for (;;) {
    row(at, step, sizes[rank - 1]);
    int d = rank - 2;
    for (; d >= 0; --d) {
      for (size_t t = 0; t < N; ++t) at[t] += strides[t][d] * bytes[t];
      if (++index[d] < sizes[d]) break;
      for (size_t t = 0; t < N; ++t) at[t] -= strides[t][d] * sizes[d] * bytes[t];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// Positions of tensors of the same sizes, one after the other from any one on: at[k] points to the present element of the
// k-th.
template <size_t N>
class Positions {
 public:
  Positions(const std::array<const Tensor*, N>& tensors, int64_t first) : shape_(*tensors[0]) {
    for (size_t t = 0; t < N; ++t) at_[t] = static_cast<char*>(tensors[t]->data);
    for (int d = shape_.rank - 1; d >= 0; --d) {
      index_[d] = shape_.sizes[d] > 0 ? first % shape_.sizes[d] : 0;
      if (shape_.sizes[d] > 0) first /= shape_.sizes[d];
      for (size_t t = 0; t < N; ++t) {
        step_[t][d] = tensors[t]->strides[d] * ByteSize(tensors[t]->dtype);
        at_[t] += index_[d] * step_[t][d];
      }
    }
  }
  char* operator[](size_t t) const { return at_[t]; }
  void Next() {
    for (int d = shape_.rank - 1; d >= 0; --d) {
      for (size_t t = 0; t < N; ++t) at_[t] += step_[t][d];
      if (++index_[d] < shape_.sizes[d]) return;
      for (size_t t = 0; t < N; ++t) at_[t] -= step_[t][d] * shape_.sizes[d];
      index_[d] = 0;
    }
  }

 private:
  const Tensor& shape_;
  std::array<char*, N> at_;
  int64_t index_[kMaxRank], step_[N][kMaxRank];
};

// `t` without dimension `dim`; with dims `a` and `b` exchanged.
inline Tensor DropDim(Tensor t, int dim) {
  --t.rank;
  for (int d = dim; d < t.rank; ++d) t.sizes[d] = t.sizes[d + 1], t.strides[d] = t.strides[d + 1];
  return t;
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_WALK_H_
