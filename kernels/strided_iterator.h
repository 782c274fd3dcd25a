// Loops over strided tensors. Positions steps through all positions of tensors of the same sizes; Walk hands out whole
// rows, as long as memory lets them be; both step by NextPosition. Strides may be 0 or negative. Nothing here checks
// that sizes agree or that memory is there.
#ifndef SLIPWAY_KERNELS_STRIDED_ITERATOR_H_
#define SLIPWAY_KERNELS_STRIDED_ITERATOR_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace slipway::kernels {

// `t` without dimension `dim`; its first `count` dimensions; those from `first` on; with its data `offset` elements
// further.
inline Tensor DropDim(Tensor t, int dim) {
  --t.rank;
  for (int d = dim; d < t.rank; ++d) t.sizes[d] = t.sizes[d + 1], t.strides[d] = t.strides[d + 1];
  return t;
}
inline Tensor Head(Tensor t, int count) {
  t.rank = count;
  return t;
}
inline Tensor Tail(Tensor t, int first) {
  t.rank -= first;
  std::copy_n(t.sizes + first, t.rank, t.sizes);
  std::copy_n(t.strides + first, t.rank, t.strides);
  return t;
}
inline char* ElementAt(const Tensor& t, int64_t offset) {
  return static_cast<char*>(t.data) + offset * ByteSize(t.dtype);
}
inline Tensor At(Tensor t, int64_t offset) {
  t.data = ElementAt(t, offset);
  return t;
}

// The rest of NextPosition, where the last dimension is behind its end.
bool NextPositionBehindRow(int rank, const int64_t* sizes, int64_t* index, size_t count, char** at,
                           const int64_t (*steps)[kMaxRank]);
// The next index of `rank` dimensions in row-major order; false after the last one, where it begins again. The pointers
// at[t] follow, by steps[t][d] bytes an element along dimension d.
inline bool NextPosition(int rank, const int64_t* sizes, int64_t* index, size_t count, char** at,
                         const int64_t (*steps)[kMaxRank]) {
  if (rank <= 0) return false;
  for (size_t t = 0; t < count; ++t) at[t] += steps[t][rank - 1];
  if (++index[rank - 1] < sizes[rank - 1]) [[likely]]
    return true;
  return NextPositionBehindRow(rank, sizes, index, count, at, steps);
}
// Position number `first` of `rank` dimensions; false where there is none.
bool SetPosition(int rank, const int64_t* sizes, int64_t first, int64_t* index, size_t count,
                 const Tensor* const* tensors, char** at, int64_t (*steps)[kMaxRank]);

// The positions of `shape` from number `first` on; at[k] points to the present element of the k-th tensor.
//
//   for (Positions<2> at(x, {&x, &y}); at; at.Next()) Use(at[0], at[1]);
//
// Tensors have at least the dims of `shape`, of which the sizes count; further dims of theirs stay at 0.
template <size_t N>
class Positions {
 public:
  explicit Positions(const Tensor& shape, const std::array<const Tensor*, N>& tensors = {}, int64_t first = 0)
      : rank_(shape.rank) {
    std::copy_n(shape.sizes, rank_, sizes_);
    more_ = SetPosition(rank_, sizes_, first, index_, N, tensors.data(), at_.data(), steps_);
  }
  // Whether this is a position: false after the last one, and where there is none.
  explicit operator bool() const { return more_; }
  void Next() { more_ = NextPosition(rank_, sizes_, index_, N, at_.data(), steps_); }

  char* operator[](size_t t) const { return at_[t]; }
  const std::array<char*, N>& pointers() const { return at_; }
  int64_t index(int d) const { return index_[d]; }
  // The element here of any tensor of at least these dims: its offset in elements, its address.
  int64_t Offset(const Tensor& t) const {
    int64_t o = 0;
    for (int d = 0; d < rank_; ++d) o += index_[d] * t.strides[d];
    return o;
  }
  char* Of(const Tensor& t) const { return ElementAt(t, Offset(t)); }

 private:
  int rank_;
  bool more_;
  int64_t sizes_[kMaxRank], index_[kMaxRank];
  std::array<char*, N> at_;
  int64_t steps_[N == 0 ? 1 : N][kMaxRank];
};

// The dims of tensors of the same sizes that have elements: neighbours that all can walk as one are joined,
// those of size 1 left out. Gives how many are left, their sizes, and the bytes steps[t][d] from an element of tensor t
// to the next.
int JoinDims(std::span<const Tensor* const> tensors, int64_t* sizes, int64_t (*steps)[kMaxRank]);

// Calls row(pointers, strides, n) for every row of N tensors of the same sizes: pointers to the first element of each,
// strides in elements.
template <size_t N, typename F>
void Walk(const std::array<const Tensor*, N>& tensors, F row) {
  for (int d = 0; d < tensors[0]->rank; ++d)
    if (tensors[0]->sizes[d] == 0) return;
  int64_t sizes[kMaxRank], steps[N][kMaxRank], index[kMaxRank] = {};
  const int rank = JoinDims(tensors, sizes, steps);
  std::array<char*, N> at;
  std::array<int64_t, N> stride{};
  for (size_t t = 0; t < N; ++t) {
    at[t] = static_cast<char*>(tensors[t]->data);
    if (rank > 0) stride[t] = steps[t][rank - 1] / ByteSize(tensors[t]->dtype);
  }
  do row(at, stride, rank > 0 ? sizes[rank - 1] : int64_t{1});
  while (NextPosition(rank - 1, sizes, index, N, at.data(), steps));
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_STRIDED_ITERATOR_H_
