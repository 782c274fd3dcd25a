// Batch norms become part of the convolutions and linear layers in front of them, as torchao's prepare_pt2e does before
// anything is observed. The pass fold-batch-norms does the same in f64; here weights must be torch's to the bit.
#ifndef SLIPWAY_QUANTIZER_PT2E_FOLD_NORMS_H_
#define SLIPWAY_QUANTIZER_PT2E_FOLD_NORMS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace slipway::quantizer::pt2e {

// Keeps a new tensor: dense bytes of a type and sizes.
using StoreTensor = std::function<absl::StatusOr<ir::TensorRef>(ir::DType dtype, const std::vector<int64_t>& sizes,
                                                                const std::string& bytes)>;

// Of a functional program. A norm stays where its layer's result has other readers, which torchao would give the norm's
// result, and where weights are not stored f32 numbers.
absl::Status FoldNorms(ir::Program& p, const StoreTensor& store);

// Whether a graph input is a weight that has numbers and that no run of the program updates.
bool IsStoredWeight(const ir::Program& p, const ir::Value* v);
// Its name.
const std::string& WeightName(const ir::Program& p, const ir::Value* v);

}  // namespace slipway::quantizer::pt2e

#endif  // SLIPWAY_QUANTIZER_PT2E_FOLD_NORMS_H_
