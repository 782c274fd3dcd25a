// What one walk over a model's graph keeps: what became of each value, and the constants that the program has already.
#ifndef SLIPWAY_IMPORTERS_ONNX_GRAPH_LOWERING_H_
#define SLIPWAY_IMPORTERS_ONNX_GRAPH_LOWERING_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "importers/onnx/lowering.h"
#include "ir/graph.h"

namespace slipway::importers::onnx_in {

// Operators without a row, or forms of them without a lowering, by what they are called, and a node of each.
struct Refusal {
  std::string what, node;
};

// A graph of the model on its way into one of the program.
//
// A nested graph is written into a graph of its own, whose inputs are those of the model's graph and, behind them, what
// is read of the graphs around, in the order in which it is met; or, a branch that is always taken, in front of the
// node that owns it. Constants and elements that are known outside are known inside.
class GraphLowering {
 public:
  // The main graph, each node replaced in front of itself. `written` is as of OnnxToAten().
  GraphLowering(ir::Program& p, ir::Graph& g, const std::map<std::string, int>& opsets, std::vector<Refusal>& refusals,
                int written)
      : p_(p), g_(g), into_(g), opsets_(opsets), refusals_(refusals), written_(written) {}
  // A graph that a node of `outer` owns; `around` writes in front of that node. `captured`: the values of the outer
  // graph that the last inputs of `g` stand for.
  GraphLowering(GraphLowering& outer, ir::Builder& around, ir::Graph& g, const Values* captured, ir::Graph& into)
      : p_(outer.p_), g_(g), into_(into), opsets_(outer.opsets_), refusals_(outer.refusals_), written_(outer.written_),
        outer_(&outer), around_(&around), captured_(captured ? *captured : Values()) {}

  // Every node becomes ATen's; outputs are tensors. What is refused is added to the refusals, all of the graph at once.
  absl::Status Run();
  // The same of a nested graph whose first inputs are these; the results as they are.
  absl::StatusOr<std::vector<Operand>> RunNested(std::vector<Operand> inputs);

  ir::Program& program() { return p_; }
  ir::Graph& into() { return into_; }
  // Whether what was read is refused: nothing that is built of it is looked at.
  bool refused() const { return !refusals_.empty(); }
  // The values of the graph around that the nested graph takes behind its own inputs.
  const Values& taken() const { return taken_; }
  // A value of the graph around, as seen inside; the same of what one has become.
  Value* Take(Value* outer);
  Operand TakeOperand(const Operand& outside);

  // The tensor of a value, made of its elements where need be.
  Value* Tensor(Value* v, ir::Builder& b);
  // What a value has become; inputs and weights are tensors.
  Operand OperandOf(Value* v);
  // The elements of a value where they are known, those of small constants read from their bytes.
  std::optional<Elements> ElementsOf(Value* v);
  // The element type of a value of the model; kUnknown where inference has found none.
  DType OnnxType(const Value* v) const;
  // The tensor behind a value that is stored in the program; null for others.
  const ir::TensorRef* Stored(const Value* v) const;
  Value* Store(std::string_view name, ir::TensorRef t);
  Value* Tensor(const Elements& e, ir::Builder& b);

 private:
  absl::Status Lower(ir::Node* n);
  // How far the program is written: the last node, what each graph takes of those around it, the main graph's inputs.
  struct Mark {
    ir::Node* node = nullptr;
    std::vector<size_t> taken;
    size_t inputs = 0;
  };
  Mark Now(const ir::Builder& b) const;
  // Whether a node of the model may stay: its operator means the same in both opsets, and no graphs are in it.
  bool MayStay(const ir::Node& n, const Row& row, int opset) const;
  // Puts the call's node, as it is, in place of what was written for it since `before`, whose types its results have.
  // Leaves that where something else reads it, or where types are not the model's.
  void Stay(Call& call, Values inputs, std::vector<ir::NamedArg> attributes, const Mark& before);
  void TakeBack(const Mark& before);
  void Import(Value* v);
  // Inputs and weights become what the program has for their types.
  absl::Status TakeInputs();
  // Gives what a value of the model has become that value's name, where it has no other of the model's.
  void KeepName(Value* v, const Operand& o);

  ir::Program& p_;
  ir::Graph& g_;                              // the model's
  ir::Graph& into_;                           // the program's
  const std::map<std::string, int>& opsets_;  // by domain
  std::vector<Refusal>& refusals_;
  const int written_;
  absl::flat_hash_map<const Value*, Operand> operands_;  // by the model's value
  absl::flat_hash_map<const Value*, DType> onnx_types_;  // of inputs that have others in the program
  absl::flat_hash_map<const Value*, Value*> named_;      // what has the name of a value of the model
  absl::flat_hash_set<const Value*> holders_;            // all of these

  // Of nested graphs.
  GraphLowering* outer_ = nullptr;
  ir::Builder* around_ = nullptr;
  Values captured_;
  Values taken_;
  absl::flat_hash_map<Value*, Value*> inside_;                              // by the value outside
  absl::flat_hash_map<const Value*, const ir::TensorRef*> stored_outside_;  // of inputs that stand for constants
};

}  // namespace slipway::importers::onnx_in

#endif  // SLIPWAY_IMPORTERS_ONNX_GRAPH_LOWERING_H_
