// Builds ATen nodes with inferred types: what decompositions and passes write with.
//
//   Builder b(graph, before, source);
//   Value* y = b.Call("aten.add.Tensor", {x, b.Call("aten.mul.Tensor", {z, 2.0})});
//
// Arguments are positional in schema order; trailing ones may be left out. After the first error every call returns a
// harmless value and status() tells what went wrong.
#ifndef SLIPWAY_IR_BUILDER_H_
#define SLIPWAY_IR_BUILDER_H_

#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ir/graph.h"

namespace slipway::ir {

class Builder {
 public:
  // New nodes go before `before` (null: at the end) and carry `source`.
  Builder(Graph& graph, Node* before, std::shared_ptr<const Source> source)
      : graph_(graph), before_(before), source_(std::move(source)) {}

  // The single (or first) result.
  Value* Call(std::string_view op, std::vector<Arg> args = {},
              std::vector<std::pair<std::string_view, Arg>> named = {});
  // All results, lists flattened.
  Values CallMulti(std::string_view op, std::vector<Arg> args = {},
                   std::vector<std::pair<std::string_view, Arg>> named = {});
  // A call whose result types the caller states: for ops without a shape function.
  Values CallTyped(std::string_view op, std::vector<Arg> args, std::vector<std::pair<std::string_view, Arg>> named,
                   std::vector<Type> types);

  // Shorthands for what nearly every decomposition needs. Tensor arithmetic follows torch's promotion.
  Value* Cast(Value* x, DType dtype);  // x itself when it already is
  Value* Full(SymInts sizes, Arg value, DType dtype);
  Value* ScalarTensor(Arg value, DType dtype) { return Full({}, std::move(value), dtype); }
  IntOrValue Size(Value* x, int dim);  // constant where known, else a sym_size node
  SymInts SizesOf(Value* x);
  // Integer arithmetic on sizes: folds constants, else emits _operator nodes.
  IntOrValue Add(IntOrValue a, IntOrValue b);
  IntOrValue Sub(IntOrValue a, IntOrValue b);
  IntOrValue Mul(IntOrValue a, IntOrValue b);
  IntOrValue FloorDiv(IntOrValue a, IntOrValue b);
  IntOrValue Numel(Value* x);

  Graph& graph() { return graph_; }
  Node* before() const { return before_; }
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  void SetStatus(absl::Status s) {
    if (status_.ok()) status_ = std::move(s);
  }

 private:
  Graph& graph_;
  Node* before_;
  std::shared_ptr<const Source> source_;
  absl::Status status_;
  Value* Poison();
  IntOrValue Arith(std::string_view op, IntOrValue a, IntOrValue b);
};

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_BUILDER_H_
