// Which part of each tensor a rank of a tensor-parallel job holds, by rules from a file.
#ifndef SLIPWAY_WEIGHTS_TENSOR_PARALLEL_H_
#define SLIPWAY_WEIGHTS_TENSOR_PARALLEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weights/named_tensor.h"

namespace slipway::weights {

struct TensorParallel {
  std::vector<std::vector<NamedTensor>> ranks;
  std::vector<std::string> notes;  // names that no rule matches, rules that match no name
};

// Splits tensors for `ranks` ranks. The file is a JSON array of {"match": RE, "split": HOW}; the first rule whose
// expression is found in a name decides: "column" splits dimension 0 (a linear's output features; Megatron's
// ColumnParallelLinear), "row" dimension 1 (its input features; RowParallelLinear), each in equal runs, "replicate"
// gives every rank the whole, as do names that no rule matches.
//
// Errors: InvalidArgument for a malformed file, and for tensors that lack the dimension or whose size is not divisible,
// all of them; Unimplemented for parts that would begin within a byte; those of reading the file.
absl::StatusOr<TensorParallel> SplitTensors(const std::vector<NamedTensor>& tensors, int ranks,
                                            const std::string& rules);

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_TENSOR_PARALLEL_H_
