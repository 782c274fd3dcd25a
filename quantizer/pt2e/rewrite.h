// The quantized program: in front of each annotated input stand quantize and dequantize nodes of torch's
// quantized_decomposed, the nodes that torchao's convert_pt2e writes; weights are stored as their integers. In dynamic
// recipes a node in front of them computes scale and zero point of the tensor that is at hand.
#ifndef SLIPWAY_QUANTIZER_PT2E_REWRITE_H_
#define SLIPWAY_QUANTIZER_PT2E_REWRITE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "ir/graph.h"
#include "ir/tensor.h"
#include "quantizer/pt2e/annotate.h"
#include "quantizer/pt2e/observers.h"
#include "quantizer/pt2e/recipe.h"

namespace slipway::quantizer::pt2e {

// Values whose integers share scale and zero point: observed together, in the order in which a run makes them.
struct ActivationGroup {
  std::vector<ir::Value*> values;
};
// In the order of their first values.
std::vector<ActivationGroup> GroupActivations(const ir::Graph& g, const Annotations& a);

// The values that are read as weights, in the order of the graph, each once.
std::vector<ir::Value*> WeightsOf(const ir::Graph& g, const Annotations& a);

// Values made of stored weights alone, which convert_pt2e stores as integers; and weights themselves.
class ConstantValues {
 public:
  explicit ConstantValues(const ir::Program& p);
  bool Contains(const ir::Value* v) const { return values_.contains(v); }

 private:
  absl::flat_hash_set<const ir::Value*> values_;
};

// What a value becomes. Of activations in a dynamic recipe all is known that there is.
struct Quantized {
  std::vector<float> scales;  // one, or one for each index of the first dim
  int64_t zero_point = 0;
  std::optional<ir::TensorRef> codes;  // of a constant; others are quantized when the program runs
};

struct QuantizedValues {
  absl::flat_hash_map<const ir::Value*, Quantized> activations, weights;
};

// Every edge and result of `a` must have an entry.
absl::Status Rewrite(ir::Program& p, const Annotations& a, const Recipe& r, const QuantizedValues& values);

}  // namespace slipway::quantizer::pt2e

#endif  // SLIPWAY_QUANTIZER_PT2E_REWRITE_H_
