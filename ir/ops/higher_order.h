// Higher-order operators (torch._higher_order_ops) decoded: which graphs a node owns, what it passes to them and what
// it expects back. The verifier, inlining, the ONNX lowering and the planner all read nodes through this.
#ifndef SLIPWAY_IR_OPS_HIGHER_ORDER_H_
#define SLIPWAY_IR_OPS_HIGHER_ORDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace slipway::ir {

// The node's parts. The inputs of each body are, in order: carried, scanned, captured; for kAssociativeScan scanned
// twice (left and right elements), captured.
struct HigherOrder {
  enum Kind : uint8_t {
    kCond,       // cond(predicate, then, else, captured): bodies {then, else}
    kWhileLoop,  // while_loop(condition, body, carried, captured): bodies {condition, body}
    // scan(body, carried, scanned, captured), map_impl(body, scanned, captured): along dimension 0; the results are the
    // last carried values, then the body's other outputs stacked
    kScan,
    kAssociativeScan,  // associative_scan(combine, scanned, captured)
    kCall,             // invoke_subgraph(body, name, captured...) and the operators with the trait body(N)
  };
  Kind kind = kCall;
  std::vector<SubGraph> bodies;
  Arg predicate;                                // kCond
  std::vector<Arg> carried, scanned, captured;  // values, numbers or None
  bool reverse = false;                         // kScan: from the last element on
  std::string name;                             // kCall: of the body, where the node states one

  // The number of inputs that each body takes.
  size_t inputs() const {
    return carried.size() + scanned.size() * (kind == kAssociativeScan ? 2 : 1) + captured.size();
  }
};

// InvalidArgument, naming the operator, where a graph is missing, the counts of inputs, outputs and results do not
// agree, or a tensor operand has another dtype or rank than the input it becomes, or a result than the output it comes
// from. Unimplemented for a scan along another dimension (torch before 2.7) and for operators that are not known.
absl::StatusOr<HigherOrder> DecodeHigherOrder(const Node& n);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_HIGHER_ORDER_H_
