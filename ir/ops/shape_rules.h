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

DType FloatOf(DType t);                         // integers and bool become the default float
DType SumDType(DType t);                        // integers and bool become i64
Sizes WithDim(Sizes sizes, int dim, Sym size);  // one size replaced; unchanged for a 0-d tensor

// Length of a slice of a dimension, bounds clamped as torch does; nullopt bounds are the ends.
Sym SliceLength(Sym size, std::optional<Sym> start, std::optional<Sym> end, Sym step);

// What torch refuses, as an error that leaves the rule. Nulls among `tensors` are skipped.
void NeedSameDType(InferContext& c, std::initializer_list<Value*> tensors);
// The same for the parameters of a normalization, which may be f32 where `x` is of 16 bits.
void NeedParameterDType(InferContext& c, Value* x, std::initializer_list<Value*> parameters);
void NeedDType(InferContext& c, Value* x, bool (*is)(DType), std::string_view what);
void NeedRank(InferContext& c, Value* x, int rank);
void NeedRankAtLeast(InferContext& c, Value* x, int rank);
void NeedSameSizes(InferContext& c, const Sizes& a, const Sizes& b, std::string_view what);
// `from` expands to `to`: no more dimensions, and each of 1 or of the other's size.
void NeedExpands(InferContext& c, const Sizes& from, const Sizes& to, std::string_view what);
void NeedNotNegative(InferContext& c, const Sizes& numbers, std::string_view what);

// Type-preserving rules.
void SameAsSelf(InferContext& c);         // dtype and sizes of the first argument
void FloatLikeSelf(InferContext& c);      // its sizes, its dtype made floating
void BoolLikeSelf(InferContext& c);       // its sizes, bool
void BroadcastFirstTwo(InferContext& c);  // broadcast and promotion of the first two arguments

// At least `rank` dimensions, as torch.atleast_3d has them: [] -> [1], [n] -> [1, n], [m, n] -> [m, n, 1].
Sizes AtLeastRank(Sizes s, int rank);
// Of a diagonal as a view, its dimension last.
Sizes DiagonalSizes(InferContext& c, Value* x, int64_t offset, int dim1, int dim2);
// All sizes but the last two, and sizes with others behind them.
Sizes BatchSizes(const Sizes& s);
Sizes JoinSizes(Sizes a, std::initializer_list<Sym> b);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_SHAPE_RULES_H_
