// What one walk over a model's graph keeps: what became of each value, and the constants that the program has already.
#ifndef SLIPWAY_IMPORTERS_ONNX_GRAPH_LOWERING_H_
#define SLIPWAY_IMPORTERS_ONNX_GRAPH_LOWERING_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "importers/onnx/lowering.h"
#include "ir/graph.h"

namespace slipway::importers::onnx_in {

// Operators without a row, or forms of them without a lowering, by what they are called, and a node of each.
struct Refusal {
  std::string what, node;
};

class GraphLowering {
 public:
  GraphLowering(ir::Program& p, ir::Graph& g, const std::map<std::string, int>& opsets, std::vector<Refusal>& refusals)
      : p_(p), g_(g), opsets_(opsets), refusals_(refusals) {}

  // Every node becomes ATen's; outputs are tensors. What is refused is added to the refusals, all of the graph at once.
  absl::Status Run();

  ir::Program& program() { return p_; }
  Operand& OperandOf(Value* v) { return operands_[v]; }
  // The tensor of a value, made of its elements where need be.
  Value* Tensor(Value* v, ir::Builder& b);
  // The elements of a value where they are known, those of small constants read from their bytes.
  std::optional<Elements> ElementsOf(Value* v);
  // The tensor behind a value that is stored in the program; null for others.
  const ir::TensorRef* Stored(const Value* v) const;
  Value* Store(std::string_view name, ir::TensorRef t);
  Value* Tensor(const Elements& e, ir::Builder& b);

 private:
  absl::Status Lower(ir::Node* n);

  ir::Program& p_;
  ir::Graph& g_;
  const std::map<std::string, int>& opsets_;  // by domain
  std::vector<Refusal>& refusals_;
  absl::flat_hash_map<const Value*, Operand> operands_;  // by the model's value
};

}  // namespace slipway::importers::onnx_in

#endif  // SLIPWAY_IMPORTERS_ONNX_GRAPH_LOWERING_H_
