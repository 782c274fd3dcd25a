// Weights given by name for those of a program: --weights of convert.
#ifndef SLIPWAY_DRIVER_JOIN_WEIGHTS_H_
#define SLIPWAY_DRIVER_JOIN_WEIGHTS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "driver/convert.h"
#include "ir/graph.h"

namespace slipway::driver {

// Whether a tensor can stand for the program's parameter, buffer or constant that is input number `input`:
// InvalidArgument saying what both are, where it cannot.
absl::Status FitsWeight(const ir::Program& p, size_t input, ir::DType dtype, const std::vector<int64_t>& sizes);

// Replaces the program's parameters and buffers by the tensors of o.weights, by name; those of another floating-point type
// are cast, those in pieces (distributed checkpoints) put together, in a file without a name beside o.output. The error names all mismatches or
// all missing names at once, and the program is then as it was. Names that are not used become a line of the summary.
absl::Status JoinWeights(ir::Program& p, const ConvertOptions& o, ConvertSummary& summary);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_JOIN_WEIGHTS_H_
