// Shape functions: the type of every result of a node from the types of its inputs. One row per op in the tables of
// shapes_*.cc; adding an op's shape function is adding a row.
#ifndef SLIPWAY_IR_OPS_INFER_H_
#define SLIPWAY_IR_OPS_INFER_H_

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/ops/args.h"

namespace slipway::ir {

// torch.result_type over tensors and scalars: dimensioned tensors outrank 0-d ones, which outrank Python scalars; a
// lower rank only counts when its category (bool < integer < float < complex) is higher. Python floats count as f32,
// complex ones as c64, ints as i64. Null values are skipped.
DType ResultTypeOf(absl::Span<Value* const> tensors, absl::Span<const Scalar> scalars = {});

// What becomes of a size or number that the inputs do not determine.
enum class FreshSymbols : uint8_t {
  kMake,  // a new symbol of the program: for nodes being built
  kNone,  // an expression of unknown value, equal to no other of the node: for checking a node that has its types
};

// A condition that a node needs and that does not hold for all values of the symbols inside: exporting guarded on it.
struct ShapeConstraint {
  const Node* node = nullptr;
  Sym condition;  // bool-valued: an equality or a least value
};

// What a shape function sees: the arguments, and a place for the result types in order. A rule that takes sizes to be
// equal, or to be at least so large, says so through Require...(): what is provably false is an error, what is not
// provable is recorded, so that no rule assumes silently.
class InferContext : public ArgReader {
 public:
  // `constraints` (may be null) receives what is recorded.
  explicit InferContext(const Node& n, FreshSymbols fresh = FreshSymbols::kMake,
                        std::vector<ShapeConstraint>* constraints = nullptr)
      : ArgReader(n), fresh_(fresh), constraints_(constraints) {}

  void Out(Type t) { results_.push_back(std::move(t)); }
  void Out(DType dtype, Sizes sizes) { Out(Type::Tensor(dtype, std::move(sizes))); }
  void OutSym(Sym expr) { Out(Type::SymInt(expr)); }
  const std::vector<Type>& results() const { return results_; }
  SymTable& syms();
  // A size the inputs do not determine (nonzero): a fresh unbacked symbol with range 0..max.
  Sym FreshSize(int64_t max = std::numeric_limits<int64_t>::max()) { return Fresh({0, max}); }
  // The same for a number that may be negative.
  Sym FreshNumber() { return Fresh({}); }

  // a == b. False, with an error "`what`: a and b differ", where that can never hold.
  bool RequireEqual(Sym a, Sym b, std::string_view what);
  // a >= least; no error here where it never holds.
  void RequireAtLeast(Sym a, int64_t least);

  // torch's broadcasting. Of two sizes that are not known to be 1, equality is required: a symbol whose range begins at
  // 1 or below is taken not to be 1, as exporting guards on it.
  Sizes Broadcast(absl::Span<const Sizes> shapes);
  Sizes Broadcast(const Sizes& a, const Sizes& b);
  DType ResultType(absl::Span<Value* const> tensors, absl::Span<const Scalar> scalars = {}) {
    return ResultTypeOf(tensors, scalars);
  }
  // ResultType, then integers and bool become the default float (ops like sin, div, mean of ints).
  DType FloatResultType(absl::Span<Value* const> tensors, absl::Span<const Scalar> scalars = {});
  // Sizes after reducing `dims` with or without keepdim.
  Sizes Reduce(const Sizes& in, const std::vector<int>& dims, bool keepdim);
  Sizes ToSizes(const SymInts& ints);

 private:
  Sym Fresh(SymRange range);

  FreshSymbols fresh_;
  std::vector<ShapeConstraint>* constraints_;
  int fresh_count_ = 0;
  std::vector<Type> results_;
};

using ShapeFn = void (*)(InferContext& c);
struct ShapeRow {
  std::string_view op;
  ShapeFn fn;
};

// Null when the op has no row.
ShapeFn FindShapeFn(std::string_view op);
// The types of n's results: by the op's row, else, when every result is an argument written in place, that argument's,
// and what is written was looked at by the row of the operator that computes it. Unimplemented when neither tells.
absl::StatusOr<std::vector<Type>> InferTypes(const Node& n, FreshSymbols fresh = FreshSymbols::kMake,
                                             std::vector<ShapeConstraint>* constraints = nullptr);
// What all nodes of a program need, nested graphs included, in the order of the nodes. Nodes whose types cannot be
// inferred
// need nothing here: infer-shapes reports them.
std::vector<ShapeConstraint> ConstraintsOf(const Program& p);

// The tables, one per family (ops/shapes_*.cc).
absl::Span<const ShapeRow> ElementwiseShapes();
absl::Span<const ShapeRow> ViewShapes();
absl::Span<const ShapeRow> PartShapes();
absl::Span<const ShapeRow> ReductionShapes();
absl::Span<const ShapeRow> ConvShapes();
absl::Span<const ShapeRow> NnShapes();
absl::Span<const ShapeRow> SpectrumShapes();
absl::Span<const ShapeRow> QuantizationShapes();
absl::Span<const ShapeRow> IndexingShapes();
absl::Span<const ShapeRow> CreationShapes();
absl::Span<const ShapeRow> ProductShapes();
absl::Span<const ShapeRow> LinalgShapes();
absl::Span<const ShapeRow> SymbolicShapes();
absl::Span<const ShapeRow> DetectionShapes();

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_INFER_H_
