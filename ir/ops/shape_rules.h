// What the tables of shape functions are written with: families of ops that share a rule, argument access by position,
// and the few rules that several tables use.
#ifndef SLIPWAY_IR_OPS_SHAPE_RULES_H_
#define SLIPWAY_IR_OPS_SHAPE_RULES_H_

#include <initializer_list>
#include <string_view>
#include <vector>

#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"

namespace slipway::ir {

// Ops that share a shape function, as names separated by white space. A name without a namespace is of ATen, one
// without an overload is its default overload: "abs" is aten.abs.default, "add.Tensor" aten.add.Tensor. Names with a
// leading "/" are taken as they stand.
struct ShapeFamily {
  ShapeFn fn;
  std::string_view ops;
};
// The rows of families, one per op. The result lives forever.
absl::Span<const ShapeRow> ExpandFamilies(absl::Span<const ShapeFamily> families);

// The tensor argument at this position of the declaration; it must be there.
Value* TensorAt(InferContext& c, size_t i);
inline Value* Self(InferContext& c) { return TensorAt(c, 0); }

// Tensor operands of an op, some of which may be numbers (torch wraps numbers given for tensors).
struct Operands {
  Values tensors;
  std::vector<Scalar> scalars;
  std::vector<Sizes> shapes;  // of the tensors
};
// The arguments at these positions, absent ones skipped.
Operands OperandsAt(InferContext& c, std::initializer_list<size_t> positions);

// Product of sizes; 1 for none.
Sym Product(absl::Span<const Sym> sizes);
inline Sym NumelOf(const Value* v) { return Product(v->sizes()); }
// Max and Min that take the one operand when the order is provable.
Sym SmallerOf(Sym a, Sym b);
Sym LargerOf(Sym a, Sym b);

DType FloatOf(DType t);        // integers and bool become the default float
DType SumDType(DType t);       // integers and bool become i64
Sizes WithDim(Sizes sizes, int dim, Sym size);  // one size replaced; unchanged for a 0-d tensor

// Length of a slice of a dimension, bounds clamped as torch does; nullopt bounds are the ends.
Sym SliceLength(Sym size, std::optional<Sym> start, std::optional<Sym> end, Sym step);

// Type-preserving rules.
void SameAsSelf(InferContext& c);        // dtype and sizes of the first argument
void FloatLikeSelf(InferContext& c);     // its sizes, its dtype made floating
void BoolLikeSelf(InferContext& c);      // its sizes, bool
void BroadcastFirstTwo(InferContext& c); // broadcast and promotion of the first two arguments

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_SHAPE_RULES_H_
