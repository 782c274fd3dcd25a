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

// What a shape function sees: the arguments, and a place for the result types in order.
class InferContext : public ArgReader {
 public:
  explicit InferContext(const Node& n, FreshSymbols fresh = FreshSymbols::kMake) : ArgReader(n), fresh_(fresh) {}

  void Out(Type t) { results_.push_back(std::move(t)); }
  void Out(DType dtype, Sizes sizes) { Out(Type::Tensor(dtype, std::move(sizes))); }
  void OutSym(Sym expr) { Out(Type::SymInt(expr)); }
  const std::vector<Type>& results() const { return results_; }
  SymTable& syms();
  // A size the inputs do not determine (nonzero): a fresh unbacked symbol with range 0..max.
  Sym FreshSize(int64_t max = std::numeric_limits<int64_t>::max()) { return Fresh({0, max}); }
  // The same for a number that may be negative.
  Sym FreshNumber() { return Fresh({}); }

  // torch's broadcasting. Sizes that cannot be proven equal and are not 1 are taken as equal (torch guarded on it);
  // provably different ones are an error.
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
// The types of n's results: by the op's row, else, when every result is an argument written in place, that argument's.
// Unimplemented when neither tells.
absl::StatusOr<std::vector<Type>> InferTypes(const Node& n, FreshSymbols fresh = FreshSymbols::kMake);

// The tables, one per family (ops/shapes_*.cc).
absl::Span<const ShapeRow> ElementwiseShapes();
absl::Span<const ShapeRow> ViewShapes();
absl::Span<const ShapeRow> ReductionShapes();
absl::Span<const ShapeRow> NnShapes();
absl::Span<const ShapeRow> IndexingShapes();
absl::Span<const ShapeRow> CreationShapes();
absl::Span<const ShapeRow> LinalgShapes();
absl::Span<const ShapeRow> SymbolicShapes();

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_INFER_H_
