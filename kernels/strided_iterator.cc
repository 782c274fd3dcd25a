// What loops over strided tensors do but once a row: out of line, since each kernel has loops for each of its types.
#include "kernels/strided_iterator.h"

namespace slipway::kernels {

bool NextPositionBehindRow(int rank, const int64_t* sizes, int64_t* index, size_t count, char** at,
                           const int64_t (*steps)[kMaxRank]) {
  for (int d = rank - 1;;) {
    for (size_t t = 0; t < count; ++t) at[t] -= steps[t][d] * sizes[d];
    index[d] = 0;
    if (--d < 0) return false;
    for (size_t t = 0; t < count; ++t) at[t] += steps[t][d];
    if (++index[d] < sizes[d]) return true;
  }
}

bool SetPosition(int rank, const int64_t* sizes, int64_t first, int64_t* index, size_t count,
                 const Tensor* const* tensors, char** at, int64_t (*steps)[kMaxRank]) {
  bool is_one = true;
  for (size_t t = 0; t < count; ++t) at[t] = static_cast<char*>(tensors[t]->data);
  for (int d = rank - 1; d >= 0; --d) {
    is_one = is_one && sizes[d] > 0;
    index[d] = is_one ? first % sizes[d] : 0;
    if (is_one) first /= sizes[d];
    for (size_t t = 0; t < count; ++t) {
      steps[t][d] = tensors[t]->strides[d] * ByteSize(tensors[t]->dtype);
      at[t] += index[d] * steps[t][d];
    }
  }
  return is_one;
}

int JoinDims(std::span<const Tensor* const> tensors, int64_t* sizes, int64_t (*steps)[kMaxRank]) {
  const Tensor& shape = *tensors[0];
  int rank = 0;
  for (int d = 0; d < shape.rank; ++d) {
    if (shape.sizes[d] == 1) continue;
    bool joins = rank > 0;
    for (size_t t = 0; t < tensors.size() && joins; ++t)
      joins = steps[t][rank - 1] == tensors[t]->strides[d] * shape.sizes[d] * ByteSize(tensors[t]->dtype);
    if (joins)
      sizes[rank - 1] *= shape.sizes[d];
    else
      sizes[rank++] = shape.sizes[d];
    for (size_t t = 0; t < tensors.size(); ++t)
      steps[t][rank - 1] = tensors[t]->strides[d] * ByteSize(tensors[t]->dtype);
  }
  return rank;
}

}  // namespace slipway::kernels
