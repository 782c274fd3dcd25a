// ONNX models as programs whose nodes nobody here understands, and back: what `minify`, `inspect` and `diff` of .onnx
// stand on.
//
// A node is an operator "onnx.TYPE", "onnx.DOMAIN::TYPE" or, with ONNX's overload, "onnx.DOMAIN::TYPE::OVERLOAD", which
// no table knows. Its first argument, without a name, is the list of its inputs (None where one is left out); its
// attributes follow by name. An attribute that an argument holds exactly is one (integers, floats, strings, lists of
// them, graphs), any other is the bytes of its message under "#" and its name. Graphs capture nothing in the IR: what
// they read of the graphs around them are their last inputs, in the order of the node's last argument, which has no
// name either.
//
// Weights are the initializers by name: parameters, buffers where they are defaults of inputs, tensor constants where
// they lie in a nested graph (into the innermost graph that reads them they are written again). Those that are no
// tensors of ours (strings, sparse ones) are nodes "onnx.#initializer" and "onnx.#sparse_initializer". All else that a
// model states is an object "onnx" of the program: the model without its nodes.
#ifndef SLIPWAY_ONNX_MODEL_ONNX_GRAPH_H_
#define SLIPWAY_ONNX_MODEL_ONNX_GRAPH_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "onnx/onnx_pb.h"

namespace slipway::onnx_model {

// Whether the nodes of a program are those of an ONNX model.
bool IsOnnx(const ir::Program& p);

// What an operator's name says.
struct Operator {
  std::string domain, type, overload;
};
Operator OperatorOf(std::string_view op_name);
// The arguments of a node of such a program that are its operands: all but its attributes. Null where there is none.
const ir::Values* InputsOf(const ir::Node& n);
const ir::Values* CapturedBy(const ir::Node& n);

// Finds the data of an initializer that says that they lie in another file.
using External = std::function<absl::StatusOr<ir::TensorRef>(const onnx::TensorProto& t)>;

// The program of a model. `weights` are in the order of the main graph's initializers and stand for their data;
// nullopt: the message has it. Types are what the model declares (InferTypes() finds the others).
//
// InvalidArgument for what contradicts itself: names made twice, used and not made, nodes in a circle, sizes of data
// that are not those of their shape. Unimplemented for lists of graphs and for names that no operator has.
absl::StatusOr<std::unique_ptr<ir::Program>> ToProgram(const onnx::ModelProto& model,
                                                       const std::vector<std::optional<ir::TensorRef>>& weights,
                                                       const External& external);

// The shape of an initializer, as a tensor without a storage; nullopt for element types that are none of ours.
absl::StatusOr<std::optional<ir::TensorRef>> ShapeOf(const onnx::TensorProto& t);
// InvalidArgument for an initializer with other bytes than its shape takes.
absl::Status SizeMismatch(const onnx::TensorProto& t, uint64_t bytes, uint64_t wanted);

// The model of a program. Weights of the main graph come by reference, and are not among its initializers.
struct Weight {
  std::string name;
  ir::TensorRef tensor;
};
absl::StatusOr<onnx::ModelProto> ToModel(const ir::Program& p, std::vector<Weight>* weights);

// What the model states beside its graph; the graph's own members are those that no program holds.
absl::StatusOr<onnx::ModelProto> FrameOf(const ir::Program& p);

// Types of all values by ONNX's inference, as far as it has any: with `afresh` those of inputs and weights alone are
// believed. Functions that call themselves are InvalidArgument; what inference does not know stays, or with `afresh`
// loses its sizes.
absl::Status InferTypes(ir::Program& p, bool afresh);
// The bodies of functions in place of their calls: of the model's own functions, and of those operators that ONNX
// defines by others, unless `keep` says for a node and its opset that it is understood. InvalidArgument as
// InferTypes().
absl::Status InlineFunctions(onnx::ModelProto& model,
                             const std::function<bool(const onnx::NodeProto& n, int opset)>& keep);
// What ONNX's checker and its strict inference find wrong: InvalidArgument with their words.
absl::Status Check(const ir::Program& p);
// The same of a model, whose weights without data are among its inputs.
absl::Status CheckModel(const onnx::ModelProto& model, onnx::ModelProto* inferred = nullptr);

// Without what says nothing of what is computed: names, documentation, metadata, declared types, functions and operator
// sets that nothing uses.
void StripMetadata(ir::Program& p);
// Whether an attribute may be left out: none that its operator's schema requires, no graph, no operand.
bool MayDrop(const ir::Program& p, const ir::Node& n, const ir::NamedArg& a);

}  // namespace slipway::onnx_model

#endif  // SLIPWAY_ONNX_MODEL_ONNX_GRAPH_H_
