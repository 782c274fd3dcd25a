// Decompositions: how an ATen operator is made of simpler ones, shared by every target. One row per op in the tables of
// decompose_*.cc; a row's function reads its arguments through Decomposer (an ir::ArgReader), builds nodes through its
// Builder and returns one value per result.
#ifndef SLIPWAY_PASSES_DECOMPOSE_H_
#define SLIPWAY_PASSES_DECOMPOSE_H_

#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "ir/builder.h"
#include "ir/ops/args.h"

namespace slipway::passes {

using ir::Arg;
using ir::DType;
using ir::IntOrValue;
using ir::SymInts;
using ir::Value;
using ir::Values;

class Decomposer : public ir::ArgReader {
 public:
  // With `widen`, tensor arguments of f16 and bf16 come cast to f32 and results go back: intermediate roundings of a
  // chain would otherwise differ from torch's kernels, which compute in f32 and round once.
  Decomposer(ir::Node& n, bool widen);
  // The same node, built into a graph of its own: the body of a loop.
  Decomposer(const Decomposer& outer, ir::Graph& body)
      : ArgReader(outer.node_), b(body, nullptr, outer.node_.source()), widen_(outer.widen_) {}

  ir::Builder b;

  // A tensor argument (widened); tensors() likewise.
  Value* in(std::string_view name);
  Value* opt_in(std::string_view name);
  Values ins(std::string_view name);
  // A bool argument (`b` is the builder here).
  bool flag(std::string_view name) { return ArgReader::b(name); }
  // The result's declared type.
  const ir::Type& out_type(size_t i = 0) { return node_.output(i)->type(); }
  // The dtype to compute result i in: as declared, or f32 when widened.
  DType compute_dtype(size_t i = 0);

  void Return(Value* v) { results_ = {v}; }
  void Return(Values vs) { results_ = std::move(vs); }
  const Values& results() const { return results_; }

  // Shorthands over b.Call for what decompositions are mostly made of. Operands are tensors or numbers.
  Value* Add(Value* x, Arg y) { return Two("add", x, std::move(y)); }
  Value* Sub(Value* x, Arg y) { return Two("sub", x, std::move(y)); }
  Value* Mul(Value* x, Arg y) { return Two("mul", x, std::move(y)); }
  Value* Div(Value* x, Arg y) { return Two("div", x, std::move(y)); }
  Value* Rsub(Value* x, Arg y) { return b.Call("aten.rsub.Scalar", {x, std::move(y)}); }  // y - x
  Value* Unary(std::string_view op, Value* x);                                            // "exp" -> aten.exp.default
  Value* Sum(Value* x, std::vector<int> dims, bool keepdim = false);
  Value* Mean(Value* x, std::vector<int> dims, bool keepdim = false);
  Value* Cmp(std::string_view op, Value* x, Arg y) { return Two(op, x, std::move(y)); }  // "lt", "eq", …
  Value* Where(Value* c, Arg x, Arg y);  // numbers become 0-d tensors of the result's dtype
  // Loss reductions: 0 none, 1 mean, 2 sum.
  Value* ReduceLoss(Value* x, int64_t reduction);

 private:
  bool widen_;
  Values results_;
  Value* Two(std::string_view op, Value* x, Arg y);  // picks the Tensor or Scalar overload
};

using DecomposeFn = void (*)(Decomposer& d);
struct DecomposeRow {
  std::string_view op;
  DecomposeFn fn;
  bool widen = true;
};

// Null when the op has no decomposition.
const DecomposeRow* FindDecomposition(std::string_view op);
std::vector<const DecomposeRow*> AllDecompositions();

// Replaces `n` by what the row makes of it. The row's error where it refuses; the node then stays as it is.
absl::Status ApplyDecomposition(ir::Node* n, const DecomposeRow& row);

// Takes `n` out: one value for each of its results, null for unused ones, which take over uses, sizes and names.
void ReplaceNode(ir::Node* n, const Values& results);

// The tables (passes/decompose_*.cc).
absl::Span<const DecomposeRow> AliasDecompositions();  // ops that are others by another name
absl::Span<const DecomposeRow> LossDecompositions();
absl::Span<const DecomposeRow> NormDecompositions();     // norms, statistics
absl::Span<const DecomposeRow> ProductDecompositions();  // products of vectors, matrices and more dims
absl::Span<const DecomposeRow> ShapeDecompositions();    // data movement made of simpler movement
absl::Span<const DecomposeRow> SpecialDecompositions();  // special functions
absl::Span<const DecomposeRow> LinalgDecompositions();
absl::Span<const DecomposeRow> NnDecompositions();
absl::Span<const DecomposeRow> RecurrentDecompositions();
absl::Span<const DecomposeRow> RandomDecompositions();  // distributions
absl::Span<const DecomposeRow> HistogramDecompositions();
absl::Span<const DecomposeRow> SegmentDecompositions();    // torch_scatter's operators
absl::Span<const DecomposeRow> AudioDecompositions();      // torchaudio's operators
absl::Span<const DecomposeRow> DetectionDecompositions();  // torchvision's operators
// torchao's and pt2e's operators, to slipway.quantize and dequantize
absl::Span<const DecomposeRow> QuantizedForms();
absl::Span<const DecomposeRow> QuantDecompositions();  // those, to ATen

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_DECOMPOSE_H_
