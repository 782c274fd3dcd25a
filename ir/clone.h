// Copies of programs and parts of programs: whole programs, the nodes of one graph into another, and regions: sets of
// nodes with what they take from and give to the rest of their graph.
#ifndef SLIPWAY_IR_CLONE_H_
#define SLIPWAY_IR_CLONE_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "ir/graph.h"

namespace slipway::ir {

// A program that shares nothing with `p` but the storages of its weights, so that one may be rewritten while the other
// stays. Names, the order of nodes and symbols, and the sharing of one body by several calls are kept.
std::unique_ptr<Program> Clone(const Program& p);

// Copies nodes, values and graphs from one program into another or into the same one. A value that has been copied, or
// put into `values` by the caller, is replaced by its copy wherever it is used; others stay as they are. One copier is
// for
// one destination: a graph that several arguments share is copied once.
class GraphCopier {
 public:
  // For another program, symbols are given names in its table: `symbols` copies expressions. Null: the same table.
  explicit GraphCopier(Program* into, SymCopier* symbols = nullptr) : into_(into), symbols_(symbols) {}

  absl::flat_hash_map<const Value*, Value*> values;  // from the original to the copy

  Type CopyType(const Type& t);
  Arg CopyArg(const Arg& a);
  // The copy stands before `before` (null: at the end) in `into`; its results are in `values` afterwards.
  Node* CopyNode(const Node& n, Graph& into, Node* before = nullptr);
  // Inputs, nodes and outputs of `from` at the ends of those of `into`.
  void CopyContents(const Graph& from, Graph& into);
  SubGraph CopyGraph(const Graph& g);

 private:
  Program* into_;
  SymCopier* symbols_;
  absl::flat_hash_map<const Graph*, SubGraph> graphs_;
};

// Nodes of one graph with the values that cross the border.
struct Region {
  std::vector<Node*> nodes;  // in the order of the graph
  Values inputs;             // used inside and made outside, in the order of first use
  Values outputs;            // made inside and used outside or given back by the graph, in order
};
// `nodes` in the order of their graph `g`.
Region RegionOf(const Graph& g, std::vector<Node*> nodes);
// The nodes that `values` depend on, up to those in `stop`, as a walk from the values finds them; in time linear in
// their number.
std::vector<Node*> NodesThatCompute(absl::Span<Value* const> values, absl::Span<Value* const> stop = {});
// The same as a region of their graph: the smallest that computes `values`.
Region RegionThatComputes(const Graph& g, absl::Span<Value* const> values, absl::Span<Value* const> stop = {});

// The region as a functional program: its inputs are weights where they are weights of `p`, else user inputs, and its
// results are `outputs`, which are among what the region makes.
std::unique_ptr<Program> Extract(const Program& p, const Region& region, absl::Span<Value* const> outputs);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_CLONE_H_
