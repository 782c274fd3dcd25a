// Pieces that reductions, sorting, indexing and creation share: filled tensors, index ranges, loops along an axis.
#ifndef SLIPWAY_EXPORTERS_ONNX_LOWERINGS_DATA_H_
#define SLIPWAY_EXPORTERS_ONNX_LOWERINGS_DATA_H_

#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "exporters/onnx/lowerings/util.h"

namespace slipway::exporters::onnx_out {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();  // Slice: to the end

// `x`, a number made a vector of one element.
inline V AtLeast1d(Emitter& e, V x) { return x.rank == 0 ? e.Reshape(x, {1}) : x; }
// A 0-d `value` spread over `shape` (1-D i64 of `rank` elements).
V Filled(Emitter& e, V value, V shape, int rank);
// The shape of `x`, its sizes along axes [start, end).
V ShapeRange(Emitter& e, V x, int start, int end);
// The mean over these axes, which stay with size 1 and are not empty: GlobalAveragePool where that is it, which
// runtimes compute in the layout of the convolutions around it.
V KeptMean(Emitter& e, V x, const Ints& axes);
// 0, 1, …, n - 1 as 1-D i64; `n` is 0-d.
V Iota(Emitter& e, V n);
// The number of elements as 0-d i64, and the elements in one dimension.
V Numel(Emitter& e, V x);
V Flat(Emitter& e, V x);
// Python's reading of an index along a dim of `n` elements: negative ones count from the end.
V WrapIndex(Emitter& e, V index, V n);
// The permutation that puts `front` first and keeps the rest in order, and its inverse.
Ints FrontFirst(const std::vector<int>& front, int rank);
Ints Inverse(const Ints& perm);

// The largest (smallest) value of a dtype: infinity where it has one.
V Extreme(Emitter& e, DType dtype, bool largest);
// True unless the sizes prove that every one of `dims` has an element.
bool MayBeEmpty(const ir::Value* v, const std::vector<int>& dims);
// Whether the mean over these dims is one of nothing for some sizes, which torch says is NaN and ONNX Runtime 0.
bool MayBeMeanOfNothing(LoweringContext& c, const ir::Value* v, const std::vector<int>& dims);
// Whether there may be NaN, of which torch's extrema and orders say something else than ONNX Runtime's: true unless the
// value's dtype or its producer rules it out, or the operators are ONNX's own.
bool MayBeNan(LoweringContext& c, const ir::Value* v);
V IsNan(Emitter& e, V x);
// Elements that are not zero (NaN is not), as u8 so that reductions over nothing give 0 for the maximum.
V NonZeroMask(Emitter& e, V x);

// The `k` (1-D, one element) largest or smallest elements along `axis` in order, ties by position, with torch's order
// of NaN (greatest) when `nan` says there may be some. Returns values and their i64 positions.
std::pair<V, V> TopK(Emitter& e, V x, V k, int axis, bool largest, bool nan, bool sorted = true);

// A loop along `axis` of the tensors `xs` (all of one shape): `body` sees the state and one slice of each, gives the
// next state and what to emit; results are the emitted slices stacked along `axis` again. Runtimes refuse a loop of no
// steps: `may_be_empty` adds one and drops what it emits.
using ScanBody =
    std::function<void(Emitter& e, std::vector<V>& state, const std::vector<V>& slices, std::vector<V>& emit)>;
std::vector<V> ScanAlong(LoweringContext& c, std::vector<V> state, const std::vector<V>& xs, int axis,
                         bool may_be_empty, const ScanBody& body);

// Where each of the values falls among sorted `edges` along the last dim: how many edges are less (`right`: less or
// equal), as i64 of the values' shape. Edges are 1-D or have the values' leading sizes.
V CountEdges(Emitter& e, V edges, V values, bool right);

// The sum over `shape`-broadcast pieces sized so that axis `d` of an index of `rank` dims varies: `v` (1-D) along d.
V Along(Emitter& e, V v, int d, int rank);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_LOWERINGS_DATA_H_
