// Weights given by name for those of a program.
#ifndef SLIPWAY_WEIGHTS_JOIN_H_
#define SLIPWAY_WEIGHTS_JOIN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ir/graph.h"
#include "weights/sources.h"

namespace slipway::weights {

// Whether a tensor can stand for the program's parameter, buffer or constant that is input number `input`:
// InvalidArgument saying what both are, where it cannot.
absl::Status FitsWeight(const ir::Program& p, size_t input, ir::DType dtype, const std::vector<int64_t>& sizes);

// Gives the program's weights the tensors that `sources` names for them; those of another floating-point type are cast,
// those in pieces (distributed checkpoints) put together. InvalidArgument names all that are missing or do not fit at
// once; on any error the program is as it was. What was cast and what is not used are notes. Values that must be made
// are kept in a file without a name in `folder`.
absl::Status JoinWeights(ir::Program& p, const GivenTensors& given, const Sources& sources, const std::string& folder,
                         std::vector<std::string>* notes);

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_JOIN_H_
