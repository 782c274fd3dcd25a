// What decompositions share beyond arithmetic: moving data about, and sizes that may be symbolic. Each function is one
// or two calls of the Builder.
#ifndef SLIPWAY_PASSES_DECOMPOSITIONS_UTIL_H_
#define SLIPWAY_PASSES_DECOMPOSITIONS_UTIL_H_

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/ops/op_table.h"
#include "passes/decompose.h"

namespace slipway::passes {

// Whether the operator has an argument of that name: overloads of one function tell what they are given so.
inline bool Declares(const Decomposer& d, std::string_view name) { return d.node().op().ArgIndex(name) >= 0; }

inline Value* Reshape(Decomposer& d, Value* x, SymInts sizes) {
  return d.b.Call("aten.reshape.default", {x, Arg(std::move(sizes))});
}
inline Value* Expand(Decomposer& d, Value* x, SymInts sizes) {
  return d.b.Call("aten.expand.default", {x, Arg(std::move(sizes))});
}
inline Value* Permute(Decomposer& d, Value* x, const std::vector<int>& order) {
  return d.b.Call("aten.permute.default", {x, ir::Ints(order.begin(), order.end())});
}
inline Value* Transpose(Decomposer& d, Value* x, int a, int b) { return d.b.Call("aten.transpose.int", {x, a, b}); }
inline Value* Unsqueeze(Decomposer& d, Value* x, int dim) { return d.b.Call("aten.unsqueeze.default", {x, dim}); }
inline Value* Squeeze(Decomposer& d, Value* x, int dim) { return d.b.Call("aten.squeeze.dim", {x, dim}); }
// x[start:end] along dim, as Python slices; no end is to the last.
inline Value* Slice(Decomposer& d, Value* x, int dim, IntOrValue start, std::optional<IntOrValue> end = std::nullopt) {
  return d.b.Call("aten.slice.Tensor", {x, dim, Arg(start), end ? Arg(*end) : Arg()});
}
inline Value* Select(Decomposer& d, Value* x, int dim, IntOrValue index) {
  return d.b.Call("aten.select.int", {x, dim, Arg(index)});
}
inline Value* Cat(Decomposer& d, Values xs, int dim) { return d.b.Call("aten.cat.default", {std::move(xs), dim}); }
inline Value* Stack(Decomposer& d, Values xs, int dim) { return d.b.Call("aten.stack.default", {std::move(xs), dim}); }
inline Value* Flip(Decomposer& d, Value* x, std::vector<int> dims) {
  return d.b.Call("aten.flip.default", {x, ir::Ints(dims.begin(), dims.end())});
}
inline Value* Matmul(Decomposer& d, Value* x, Value* y) { return d.b.Call("aten.matmul.default", {x, y}); }
inline Value* And(Decomposer& d, Value* x, Value* y) { return d.b.Call("aten.logical_and.default", {x, y}); }
inline Value* Or(Decomposer& d, Value* x, Value* y) { return d.b.Call("aten.logical_or.default", {x, y}); }
inline Value* Not(Decomposer& d, Value* x) { return d.Unary("logical_not", x); }
inline Value* ClampMin(Decomposer& d, Value* x, Arg least) {
  return d.b.Call("aten.clamp_min.default", {x, std::move(least)});
}
// 0 … n-1 as i64.
inline Value* Iota(Decomposer& d, IntOrValue n) {
  return d.b.Call("aten.arange.start_step", {0, Arg(n), 1}, {{"dtype", DType::kInt64}});
}
// The vector norm of order p over dims.
inline Value* NormOver(Decomposer& d, Value* x, Arg p, const std::vector<int>& dims, bool keepdim) {
  return d.b.Call("aten.linalg_vector_norm.default", {x, std::move(p), ir::Ints(dims.begin(), dims.end()), keepdim});
}
// All dims but one.
inline std::vector<int> DimsBut(int rank, int dim) {
  std::vector<int> out;
  for (int d = 0; d < rank; ++d)
    if (d != dim) out.push_back(d);
  return out;
}
inline std::vector<int> AllDims(int rank) { return DimsBut(rank, -1); }
// A vector laid along `dim` of a tensor of `rank`.
inline Value* Along(Decomposer& d, Value* x, int dim, int rank) {
  SymInts sizes(rank, 1);
  sizes[dim] = d.b.Size(x, 0);
  return rank == 1 ? x : Reshape(d, x, std::move(sizes));
}
// The product of sizes.
inline IntOrValue Product(Decomposer& d, const SymInts& sizes) {
  IntOrValue n = 1;
  for (const IntOrValue& s : sizes) n = d.b.Mul(n, s);
  return n;
}
inline bool IsOne(ir::Sym s) { return s.constant() == 1; }

// Contracts two tensors whose dims are named by labels: labels in both operands are multiplied along, those not in
// `keep` are summed over. A size of 1 broadcasts. Returns the result and its labels: shared kept ones, then x's own,
// then y's own.
struct Labeled {
  Value* value = nullptr;
  std::vector<int> labels;
};
Labeled Contract(Decomposer& d, Labeled x, Labeled y, const std::vector<int>& keep);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_DECOMPOSITIONS_UTIL_H_
