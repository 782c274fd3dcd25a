// Static -> dynamic: the input dimensions of a program that was exported for one size are made symbols, and the numbers
// in it that were computed from sizes are found again.
//
// An export keeps 8 where the model said x.shape[1]. Each such number becomes an unknown; the shape functions of all
// nodes say which sizes must be equal, and solving these equations gives most unknowns as expressions of the inputs'
// dimensions. What the equations leave open is decided by evidence: the source line that the node keeps, the kind of
// the argument. Where a number may or may not be a size and nothing tells, the dimensions in question stay static, with
// the node named: a wrong number is never acceptable.
//
// What cannot be seen in one file: branches that the model took because of a size, and numbers that came from a size by
// arithmetic that no other part of the program repeats. docs/shapes.md says more; `shapes --unify` sees them.
#ifndef SLIPWAY_DYNAMIC_SHAPES_GENERALIZE_DIMS_H_
#define SLIPWAY_DYNAMIC_SHAPES_GENERALIZE_DIMS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dynamic_shapes/ledger.h"
#include "ir/graph.h"

namespace slipway::dynamic_shapes {

// Which input dimensions are asked for. `name` may be empty; a range is what the caller promises.
struct DimRequest {
  bool free = true;
  bool follows = false;  // only where a dimension that is asked for makes it
  std::string name;
  ir::SymRange range;
};
// By input and axis; nullopt leaves a dimension as it is.
using DimRequests = std::function<std::optional<DimRequest>(const ir::Value& input, int axis)>;
// Every dimension that is not 0 or 1, which torch specializes as well.
std::optional<DimRequest> RequestAll(const ir::Value& input, int axis);

// Rewrites the program: types get symbols, arguments the nodes that compute them. The facts say what became of each
// dimension of the user inputs, in order. Any form. The program computes what it did for the sizes of the example.
enum class Numbers : uint8_t {
  kMayBeSizes,  // in a static export
  kLiteral,     // in one with symbols: sizes are symbols already
};
absl::StatusOr<Ledger> GeneralizeDims(ir::Program& p, const DimRequests& ask, Numbers numbers = Numbers::kMayBeSizes);

// The same model exported at several sizes: `p` becomes dynamic in the dimensions that differ, so that it is each of
// the others at its sizes. The ledger is as above. Weights are those of `p`, and must be of the same names, types and
// sizes. InvalidArgument where the programs are not one: another operator, another constant; Unimplemented where a
// number differs that no expression of the inputs' sizes explains. Both name the node or the constant. The others are
// changed as far as they must be to be solved together.
absl::StatusOr<Ledger> Unify(ir::Program& p, absl::Span<ir::Program* const> others);

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_GENERALIZE_DIMS_H_
