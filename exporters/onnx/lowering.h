// How an ATen operator becomes ONNX nodes: one row per op in the tables of lowerings/*.cc. A row's function reads its
// arguments through LoweringContext (an ir::ArgReader) and writes nodes through its Emitter; it returns one V per
// result.
#ifndef SLIPWAY_EXPORTERS_ONNX_LOWERING_H_
#define SLIPWAY_EXPORTERS_ONNX_LOWERING_H_

#include <functional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/text.h"
#include "exporters/onnx/custom_op.h"
#include "exporters/onnx/emitter.h"
#include "exporters/onnx/wire.h"
#include "ir/ops/args.h"
#include "passes/refusals.h"

namespace slipway::exporters::onnx_out {

class GraphLowering;

class LoweringContext : public ir::ArgReader {
 public:
  LoweringContext(const ir::Node& n, Emitter& e, GraphLowering& g, bool widen)
      : ArgReader(n), e(e), graph_(g), widen_(widen) {}

  Emitter& e;

  // The ONNX value of an argument. f16 and bf16 tensors come cast to f32 when the row asks for it (Row::widen).
  V in(std::string_view name);
  V opt_in(std::string_view name);            // empty V when None
  std::vector<V> ins(std::string_view name);  // Tensor[]
  V value(ir::Value* v);                      // of any SSA value; symbolic numbers are 0-d
  // The same without widening.
  V raw(ir::Value* v);
  V widened(V x) const;  // of any ONNX value
  // The value with its dims in another order. A weight that is read in no other way lies so in the file: what looks for
  // constant operands (quantizers, fusions) does not look behind a Transpose, and runtimes that fold it hold the weight
  // twice. One with other readers too, an embedding that is the last layer's matrix, would be in the file twice; it
  // gets the Transpose.
  V transposed(ir::Value* v, const Ints& perm);
  V turned(ir::Value* v, const Ints& perm);  // such a weight; empty for other values
  // The dtype results are computed in: the declared dtype of output i, or f32 when widened.
  DType compute_dtype(size_t i = 0);
  DType out_dtype(size_t i = 0) { return node_.output(i) ? node_.output(i)->dtype() : DType::kUnknown; }
  const ir::Type& out_type(size_t i = 0) { return node_.output(i)->type(); }
  int out_rank(size_t i = 0) { return node_.output(i) ? node_.output(i)->rank() : 0; }
  bool used(size_t i);  // the result has users or is a graph output

  // A Scalar argument as a 0-d V of `dtype`.
  V number(const ir::Scalar& s, DType dtype);
  // Symbolic or constant integers as a 1-D i64 tensor, and one as a 1-D of one element or 0-d.
  V shape(const ir::SymInts& ints);
  V dim1(ir::IntOrValue i);
  V dim0(ir::IntOrValue i);
  // The sizes of an SSA tensor value as a 1-D i64 tensor: a constant when static.
  V shape_of(ir::Value* v);

  void Return(V v) { Return(std::vector<V>{std::move(v)}); }
  void Return(std::vector<V> results) { results_ = std::move(results); }
  std::vector<V>& results() { return results_; }

  // A nested graph (cond, while, scan): lowers `g` with its inputs bound to the given values. The result can be an
  // attribute. `prologue`/`epilogue` add nodes around it.
  GraphLowering& graph() { return graph_; }

 private:
  GraphLowering& graph_;
  bool widen_;
  std::vector<V> results_;
};

using LowerFn = void (*)(LoweringContext& c);

// Whether a lowering computes in f32 when inputs are f16 or bf16: for those of more than one node, whose intermediate
// rounding (and overflow) would differ from torch's single rounding at the end. One of one node need not where a model
// had these types.
struct Widening {
  enum Kind : uint8_t { kNever, kAlways, kUnlessKept } kind = kNever;
  constexpr Widening(bool always) : kind(always ? kAlways : kNever) {}  // NOLINT
  constexpr Widening(Kind k) : kind(k) {}                               // NOLINT
};
inline constexpr Widening kUnlessKept = Widening::kUnlessKept;

struct Row {
  std::string_view op;
  LowerFn fn;
  Widening widen = false;
  int min_opset = 0;                              // 0: every opset we write
  bool (*legal_if)(const ir::Node& n) = nullptr;  // null: always; else the op is legal only where it returns true
  int max_opset = kMaxOpset;
  unsigned forms = ~0U;  // bits of OnnxForm
};

// The order in which a node puts the dims of its operand `self`, where it does nothing else (t, transpose, permute);
// nullopt for others.
std::optional<Ints> PermutationOf(const ir::Node& n);

// The user's mapping of an op, or null.
const CustomOp* FindCustomOp(const CustomOps& ops, const ir::OpDef& op);

// Whether a node is one of ONNX's, which a model that was read has kept (importers/onnx/to_aten.h).
bool IsOnnxNode(const ir::Node& n);

// The first row for an op at an opset, or null. `n` may be null to ask whether any form is legal.
const Row* FindRow(std::string_view op, int opset, const ir::Node* n, OnnxForm form = OnnxForm::kExact);
// The row that writes a node, with what it is made of, as the operator of ONNX that it was read of; or null.
const Row* FindJoin(const ir::Node& n, int opset);
std::vector<const Row*> AllRows();

// The tables (lowerings/*.cc).
absl::Span<const Row> ElementwiseRows();
absl::Span<const Row> ArithmeticRows();
absl::Span<const Row> LogicRows();
absl::Span<const Row> ActivationRows();
absl::Span<const Row> ViewRows();
absl::Span<const Row> ReductionRows();
absl::Span<const Row> SortRows();
absl::Span<const Row> NnRows();
absl::Span<const Row> AttentionRows();
absl::Span<const Row> PoolRows();
absl::Span<const Row> ResampleRows();
absl::Span<const Row> RecurrentRows();
absl::Span<const Row> IndexingRows();
absl::Span<const Row> ScatterRows();
absl::Span<const Row> CreationRows();
absl::Span<const Row> LinalgRows();
absl::Span<const Row> SymbolicRows();
absl::Span<const Row> ControlRows();
absl::Span<const Row> QuantRows();
absl::Span<const Row> QuantEmbeddingRows();
absl::Span<const Row> DetectionRows();
// Of programs that were ONNX models, in front of all others.
absl::Span<const Row> JoinRows();

// Lowers one graph: keeps the ONNX value of each SSA value.
class GraphLowering {
 public:
  GraphLowering(Emitter& e, GraphLowering* outer)
      : refusals(outer ? outer->refusals : nullptr), custom_ops(outer ? outer->custom_ops : nullptr),
        module_names(!outer || outer->module_names), e_(e), outer_(outer) {}

  using Problem = passes::Problem;

  void Bind(const ir::Value* v, V x) {
    e_.HasSizes(x, v->type());
    values_[v] = std::move(x);
  }
  // Lowers every node; problems are collected, never only the first.
  void Run(const ir::Graph& g, std::vector<Problem>* problems);
  // One node; where it cannot be lowered, it is among the problems and its results are placeholders.
  void Lower(const ir::Node& n, std::vector<Problem>* problems);
  // The ONNX value of `v`; an error in the emitter's status when it has none.
  V Get(const ir::Value* v);
  // The same; null where it has none.
  const V* Find(const ir::Value* v) const {
    const auto it = values_.find(v);
    return it == values_.end() ? nullptr : &it->second;
  }
  Emitter& emitter() { return e_; }
  std::vector<Problem>* problems() { return problems_; }
  // Why nodes without a row were not decomposed; null when not known.
  const passes::Refusals* refusals = nullptr;
  // Operators that become nodes of custom domains, before any row; null for none.
  const CustomOps* custom_ops = nullptr;
  // Nodes are named by their module's path.
  bool module_names = true;
  // Called for weights: makes the initializer on first use. With a form, the elements lie in the file as it says.
  std::function<V(const ir::Value*, const std::optional<StoredForm>&)> resolve;
  V StoredWeight(const ir::Value* v, const StoredForm& form);
  // The weight with its dims in this order as it lies in the file; empty for one that is read in another order, too,
  // and for other values. May be null.
  std::function<V(const ir::Value*, const Ints& perm)> turned;
  // A tensor of these sizes in the file whose elements are those of stored ones, one behind the other. May be null.
  std::function<V(std::vector<ir::TensorRef> parts, const Ints& dims, std::string_view name)> stacked;
  V Stacked(std::vector<ir::TensorRef> parts, const Ints& dims, std::string_view name);
  const ir::TensorRef* NumbersOf(const ir::Value* v) const;
  // The numbers of a weight that nothing updates; null for other values, and for weights without values. May be null.
  std::function<const ir::TensorRef*(const ir::Value*)> numbers;

 private:
  friend class LoweringContext;
  Emitter& e_;
  GraphLowering* outer_;
  std::vector<Problem>* problems_ = nullptr;
  absl::flat_hash_map<const ir::Value*, V> values_;
  text::Map<V> dim1_;  // 1-D forms of 0-d integers, by name
};

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_LOWERING_H_
