// Weights given by name for those of a program.
#ifndef SLIPWAY_WEIGHTS_JOIN_H_
#define SLIPWAY_WEIGHTS_JOIN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ir/graph.h"
#include "ir/sharded.h"

namespace slipway::weights {

// Whether a tensor can stand for the program's parameter, buffer or constant that is input number `input`:
// InvalidArgument saying what both are, where it cannot.
absl::Status FitsWeight(const ir::Program& p, size_t input, ir::DType dtype, const std::vector<int64_t>& sizes);

struct JoinOptions {
  bool allow_missing = false;  // weights that are not given stay as they are
  std::string folder = ".";    // where values that must be made are kept, in a file without a name
};

// Replaces the program's parameters and buffers by the tensors given; those of another floating-point type are cast,
// those in pieces (distributed checkpoints) put together. InvalidArgument names all mismatches or all missing names at
// once; on any error the program is as it was. What was cast and what is not used are notes.
absl::Status JoinWeights(ir::Program& p, const std::map<std::string, ir::ShardedTensor>& given,
                         const JoinOptions& options, std::vector<std::string>* notes);

// An expression for names (names.h), "^model\.=>", that gives the program all the values that JoinWeights() misses,
// where the names differ by their beginning alone; "" where none does.
std::string RenameThatFits(const ir::Program& p, const std::map<std::string, ir::ShardedTensor>& given);

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_JOIN_H_
