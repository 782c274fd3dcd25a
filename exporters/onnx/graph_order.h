// Puts what lowerings have emitted into an order, and under names, that depend on the program, not on the compiler: C++
// does not say in which order the arguments of a call are evaluated, so `e.Add(e.Mul(a, b), Num(c, 2))` emits the node
// and the constant in either order.
#ifndef SLIPWAY_EXPORTERS_ONNX_GRAPH_ORDER_H_
#define SLIPWAY_EXPORTERS_ONNX_GRAPH_ORDER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "exporters/onnx/emitter.h"
#include "onnx/onnx_pb.h"

namespace slipway::exporters::onnx_out {

// Sorts the nodes of a complete graph and of the graphs inside it: calls of lowerings stay in their order; in each,
// what a node reads stands before it in the order of its inputs. Results, nodes and constants are named in that order.
// Constants that nothing reads leave `constant_order`, and nodes that neither a lowering's result nor an output of the
// graph needs leave the graph.
void OrderGraph(onnx::GraphProto* g, EmitterShared* shared);

// Renames values of a graph, and what the graphs inside it read of them.
void RenameValues(onnx::GraphProto* g, const absl::flat_hash_map<std::string, std::string>& names);

// The names that the nodes of a graph and of those inside it read, and their outputs, each once, as they are met.
std::vector<std::string> ReadValues(const onnx::GraphProto& g);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_GRAPH_ORDER_H_
