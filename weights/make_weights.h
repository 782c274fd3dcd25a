// Weights that cannot be taken as they lie: of another floating-point type than the program has, or in pieces.
#ifndef SLIPWAY_WEIGHTS_MAKE_WEIGHTS_H_
#define SLIPWAY_WEIGHTS_MAKE_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ir/sharded.h"
#include "ir/tensor.h"

namespace slipway::weights {

// A tensor that becomes dense and of dtype `to`: its own, or one that FindCast() casts it to.
struct WeightToMake {
  ir::ShardedTensor from;
  ir::DType to;
  ir::TensorRef made;
};

// Makes them, rounding to nearest even. The values go to a file without a name in `folder`, not to memory, however many
// there are; `made` are ranges of it.
absl::Status MakeWeights(std::vector<WeightToMake>& weights, const std::string& folder);

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_MAKE_WEIGHTS_H_
