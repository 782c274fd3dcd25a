// Factorizations and solvers of stacks of matrices [..., m, n], written once over the builder: what decompositions of
// linear algebra are made of. Every algorithm takes whatever batch sizes and matrix sizes there are, known or not, and
// works in the dtype it is given. Vectors are [..., n, 1].
#ifndef SLIPWAY_PASSES_DECOMPOSITIONS_LINALG_ALGORITHMS_H_
#define SLIPWAY_PASSES_DECOMPOSITIONS_LINALG_ALGORITHMS_H_

#include "passes/decompositions/loop_builder.h"
#include "passes/decompositions/util.h"

namespace slipway::passes {

// Whether a size known now is zero.
bool IsEmpty(Value* x);
// Sizes before the last two; the same followed by `rows` and `columns`.
SymInts BatchOf(Decomposer& d, Value* a);
SymInts MatrixSizes(SymInts batch, IntOrValue rows, IntOrValue columns);
// Batch sizes of two operands broadcast. Sizes that are not known to be 1 are taken as equal.
SymInts BroadcastBatch(Decomposer& d, Value* a, Value* b);
IntOrValue Smaller(Decomposer& d, IntOrValue a, IntOrValue b);
// 0 … n-1 as [n, 1], and as [1, n].
Value* RowNumbers(Decomposer& d, IntOrValue n);
Value* ColumnNumbers(Decomposer& d, IntOrValue n);
// Row or column i, a 0-d i64, its dim kept.
Value* RowAt(Decomposer& d, Value* a, Value* i);
Value* ColumnAt(Decomposer& d, Value* a, Value* i);
Value* TransposeMatrix(Decomposer& d, Value* a);
Value* Eye(Decomposer& d, IntOrValue rows, IntOrValue columns, DType dtype);
// The diagonal as [..., k].
Value* DiagonalOf(Decomposer& d, Value* a);

// Numbers with i in the place of p and p in that of i: where to fetch rows from so that the two change places.
Value* Exchanged(Decomposer& d, Value* numbers, Value* i, Value* p);

// LU with partial pivoting: the largest element of a column, the first of equal ones, as LAPACK's getrf.
struct LuFactors {
  Value* lu;      // U above, L below the diagonal of ones
  Value* pivots;  // [..., k, 1] i64: the row that row i was exchanged with, from 0
  Value* order;   // [..., m, 1] i64: where row i of L·U comes from
  Value* info;    // [..., 1, 1] i64: 0, or i+1 for the first zero pivot i
};
LuFactors LuFactor(Decomposer& d, Value* a);
// `order` of LuFactors from pivots counted from 1, [..., k] of any integer type.
Value* OrderOfPivots(Decomposer& d, Value* pivots, IntOrValue m);
// P of P·L·U, [..., m, m].
Value* PermutationMatrix(Decomposer& d, Value* order, DType dtype);
// The factors L, [..., m, k], and U, [..., k, n].
Value* LowerOfLu(Decomposer& d, Value* lu);
Value* UpperOfLu(Decomposer& d, Value* lu);

// X of A·X = B where it is known to be empty, else null. Solves begin with it: runtimes differ in how they broadcast
// batches of no matrices.
Value* EmptySolution(Decomposer& d, Value* a, Value* b);

// X of A·X = B, with A's other triangle (and, with `unit`, its diagonal) not read.
Value* SolveTriangular(Decomposer& d, Value* a, Value* b, bool upper, bool unit);
// X of A·X = B, or Aᵀ·X = B, from the factors.
Value* SolveLu(Decomposer& d, Value* lu, Value* order, Value* b, bool transposed);

// L of A = L·Lᵀ from A's lower triangle. A pivot that is not positive gives NaN from its column on.
struct CholeskyFactor {
  Value* l;
  Value* info;  // [..., 1, 1] i64: 0, or i+1 for the first pivot i that is not positive
};
CholeskyFactor Cholesky(Decomposer& d, Value* a);

// Householder reflectors as LAPACK's geqrf leaves them: R above, vectors below the diagonal; tau is [..., k, 1].
struct Reflectors {
  Value* a;
  Value* tau;
};
Reflectors QrFactor(Decomposer& d, Value* a);
// The product of the reflectors H0·H1·… (or, transposed, …·H1·H0) applied to c from the left.
Value* ApplyReflectors(Decomposer& d, const Reflectors& r, Value* c, bool transposed);

// L·D·Lᵀ of the symmetric matrix in A's lower triangle, pivoted as LAPACK's sytrf does.
struct LdlFactors {
  Value* ld;
  Value* pivots;  // [..., n, 1] i64, as LAPACK counts and marks them
  Value* info;    // [..., 1, 1] i64: 0, or i+1 for the first zero block i
};
LdlFactors LdlFactor(Decomposer& d, Value* a);
// X of A·X = B; pivots are [..., n] of any integer type.
Value* SolveLdl(Decomposer& d, Value* ld, Value* pivots, Value* b);

// Singular values and the product with the right vectors, by one-sided Jacobi rotations: A·V = W, whose columns are
// orthogonal, of lengths s in descending order. V is n by n; s and W have n columns, of which those past the m-th are
// 0. Without `vectors`, W and V may be null.
struct Jacobi {
  Value* w;  // [..., m, n]
  Value* v;  // [..., n, n]
  Value* s;  // [..., n]
};
Jacobi OneSidedJacobi(Decomposer& d, Value* a, bool vectors);

// Eigenvalues, [..., n], ascending, and eigenvectors in columns, [..., n, n], of a symmetric matrix.
struct Eigen {
  Value* values;
  Value* vectors;
};
// Whether LapackEigen takes a stack: matrices of at most 3 rows, f32 or f64.
bool EigenHasSigns(Value* a);
// Of the matrix in one triangle of A, with the signs that torch's LAPACK gives. NaN where a number of the triangle is
// not finite.
Eigen LapackEigen(Decomposer& d, Value* a, bool upper);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_DECOMPOSITIONS_LINALG_ALGORITHMS_H_
