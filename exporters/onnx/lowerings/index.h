// What reading and writing by index share: advanced indices, diagonals and strided positions.
#ifndef SLIPWAY_EXPORTERS_ONNX_LOWERINGS_INDEX_H_
#define SLIPWAY_EXPORTERS_ONNX_LOWERINGS_INDEX_H_

#include <optional>
#include <vector>

#include "exporters/onnx/lowerings/data.h"

namespace slipway::exporters::onnx_out {

// Tensor indices as x[i, :, j] gives them, masks replaced by positions.
struct Indexing {
  V x;  // what is indexed; 0-d masks add dims of size 1, listed in `added`
  std::vector<int> added;
  std::vector<int> dims;  // the dims of x indexed, ascending, and the i64 index of each
  std::vector<V> index;
  int index_rank = 0;  // of the indices broadcast together
  int at = 0;          // where the index dims stand among the others in the result

  V Stacked(Emitter& e) const;  // [index..., dims] for GatherND and ScatterND
  Ints ToResult() const;        // permutation from [index..., rest...] to the result's order
};
// nullopt after a recorded error.
std::optional<Indexing> ReadIndices(LoweringContext& c, V x, const ir::Values& indices);
// Out-of-range positions become the nearest in range.
void ClampIndices(Emitter& e, Indexing* r);
// Argument `indices` of an operator whose mask excludes places outside `self`, which x is: clamped. Unsupported where
// self may be empty.
std::optional<Indexing> ReadMaskedIndices(LoweringContext& c, V x);

// [length, 2] positions of the diagonal of the first two dims of x, and the elements there: [length, rest...].
V DiagonalPositions(Emitter& e, V x, int64_t offset);
V DiagonalOf(Emitter& e, V x, int64_t offset);

// The elements of a tensor as they lie in memory, 1-D. Unsupported (nullopt) where the layout is not known dense.
std::optional<V> StorageOrder(LoweringContext& c, const char* name, V x);
// Positions in memory of each element of as_strided's result: i64 of the shape `size`.
std::optional<V> StridedPositions(LoweringContext& c);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_LOWERINGS_INDEX_H_
