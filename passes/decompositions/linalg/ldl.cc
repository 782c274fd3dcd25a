// The LDLᵀ factorization of symmetric matrices with the diagonal pivots of Bunch and Kaufman, and solves from it, in
// the form of LAPACK's sytrf and sytrs (lower). A block of D is 1 by 1 or 2 by 2 as the numbers tell, differently for
// each matrix of a stack, so a step works on both forms under masks, and the step after the first row of a 2 by 2 block
// leaves that matrix alone.
#include <cmath>

#include "passes/decompositions/linalg/algorithms.h"

namespace slipway::passes {
namespace {

Value* Number(Decomposer& d, Value* condition) { return d.b.Cast(condition, DType::kInt64); }
Value* Gather(Decomposer& d, Value* x, int dim, Value* index) {
  return d.b.Call("aten.gather.default", {x, dim, Expand(d, index, d.b.SizesOf(x))});
}
// Row i of x, i being [..., 1, 1] and so different for each matrix.
Value* RowOfEach(Decomposer& d, Value* x, Value* i) {
  SymInts sizes = d.b.SizesOf(x);
  sizes[sizes.size() - 2] = 1;
  return d.b.Call("aten.gather.default", {x, -2, Expand(d, i, sizes)});
}
Value* Largest(Decomposer& d, Value* x) { return d.b.Call("aten.amax.default", {x, ir::Ints{-2}, true}); }
// i + 1, or i where it is the last: of a matrix whose last block has one row, what a block of two would read.
Value* Next(Decomposer& d, Value* i, Value* n) { return d.b.Call("aten.minimum.default", {d.Add(i, 1), d.Sub(n, 1)}); }
Value* SizeTensor(Decomposer& d, IntOrValue n) { return d.b.ScalarTensor(Arg(n), DType::kInt64); }

}  // namespace

LdlFactors LdlFactor(Decomposer& d, Value* a) {
  const double kGrowth = (1 + std::sqrt(17.0)) / 8;  // balances the growth of the two kinds of step
  IntOrValue n = d.b.Size(a, -1);
  SymInts batch = BatchOf(d, a);
  Value *rows = RowNumbers(d, n), *columns = ColumnNumbers(d, n), *size = SizeTensor(d, n);
  Value* full = d.Add(d.b.Call("aten.tril.default", {a}), TransposeMatrix(d, d.b.Call("aten.tril.default", {a, -1})));
  Value* zero = d.b.Full(MatrixSizes(batch, 1, 1), 0, DType::kInt64);
  Values end = For(
      d, n, {full, d.b.Full(MatrixSizes(batch, n, 1), 0, DType::kInt64), zero, d.Cmp("ne", zero, 0)}, [&](LoopStep& s) {
        Decomposer& d = s.d;
        Value *a = s.state[0], *pivots = s.state[1], *info = s.state[2], *done = s.state[3], *k = s.i;
        Value *row = s(rows), *column = s(columns);
        auto size_at = [&](Value* x, Value* where) { return d.Where(where, d.Unary("abs", x), -1.0); };

        // Which pivot: the diagonal, another diagonal element, or a block with row `far`.
        Value *at_k = ColumnAt(d, a, k), *diagonal = d.Unary("abs", RowAt(d, at_k, k));
        Value* below = size_at(at_k, d.Cmp("gt", row, k));
        Value* far = d.b.Call("aten.argmax.default", {below, -2, true});
        Value* largest = ClampMin(d, Largest(d, below), 0.0);
        Value* far_row = TransposeMatrix(d, RowOfEach(d, a, far));
        Value* far_largest = Largest(d, size_at(far_row, And(d, d.Cmp("ge", row, k), d.Cmp("ne", row, far))));
        Value* far_diagonal = d.Unary("abs", RowOfEach(d, far_row, far));
        Value* none = d.Cmp("eq", d.b.Call("aten.maximum.default", {diagonal, largest}), 0);
        Value* bound = d.Mul(largest, kGrowth);
        // largest · (largest / far_largest), where there is anything below the diagonal.
        Value* ratio = d.Div(largest, d.Where(d.Cmp("gt", far_largest, 0), far_largest, 1.0));
        Value* stay = Or(d, Or(d, none, d.Cmp("ge", diagonal, bound)), d.Cmp("ge", diagonal, d.Mul(bound, ratio)));
        Value* two = And(d, Not(d, stay), d.Cmp("lt", far_diagonal, d.Mul(far_largest, kGrowth)));
        Value* p = d.Where(stay, k, far);
        Value* own = d.Add(Number(d, two), k);  // the row that comes from p

        // Exchange rows and columns of what is left.
        Value* from = Exchanged(d, row, own, p);
        Value* b = d.Where(d.Cmp("ge", column, k), Gather(d, a, -2, from), a);
        b = d.Where(d.Cmp("ge", row, k), Gather(d, b, -1, TransposeMatrix(d, from)), b);

        // One row: A -= x·xᵀ / pivot.
        Value *x = ColumnAt(d, b, k), *pivot = RowAt(d, x, k);
        Value *after = d.Cmp("gt", row, k), *l = d.Div(x, d.Where(none, 1.0, pivot));
        auto right = [&](Value* c) { return d.Cmp("gt", column, c); };
        Value* one_done = d.Where(
            after, d.Where(right(k), d.Sub(b, d.Mul(l, TransposeMatrix(d, x))), d.Where(d.Cmp("eq", column, k), l, b)),
            b);
        // Two: the same with the block's inverse, scaled by its other diagonal as LAPACK does.
        Value *k1 = Next(d, k, s(size)), *y = ColumnAt(d, b, k1);
        Value* d21 = d.Where(two, RowAt(d, x, k1), 1.0);
        Value *d11 = d.Div(RowAt(d, y, k1), d21), *d22 = d.Div(pivot, d21);
        Value* det = d.Where(two, d.Sub(d.Mul(d11, d22), 1.0), 1.0);
        Value* scale = d.Div(d.Unary("reciprocal", det), d21);
        Value* w0 = d.Mul(d.Sub(d.Mul(x, d11), y), scale);
        Value* w1 = d.Mul(d.Sub(d.Mul(y, d22), x), scale);
        Value* change = d.Add(d.Mul(x, TransposeMatrix(d, w0)), d.Mul(y, TransposeMatrix(d, w1)));
        Value* two_done = d.Where(d.Cmp("gt", row, k1),
                                  d.Where(right(k1), d.Sub(b, change),
                                          d.Where(d.Cmp("eq", column, k), w0, d.Where(d.Cmp("eq", column, k1), w1, b))),
                                  b);

        Value* next = d.Where(two, two_done, d.Where(none, b, one_done));
        Value* number = d.Add(p, 1);
        Value* mark = d.Where(two, d.Unary("neg", number), number);
        Value* marked = Or(d, d.Cmp("eq", row, k), And(d, two, d.Cmp("eq", row, d.Add(k, 1))));
        Value* fresh = And(d, none, And(d, d.Cmp("eq", info, 0), Not(d, done)));
        s.state = {d.Where(done, a, next), d.Where(And(d, marked, Not(d, done)), mark, pivots),
                   d.Where(fresh, d.Add(k, 1), info), And(d, two, Not(d, done))};
      });
  return {d.b.Call("aten.tril.default", {end[0]}), end[1], end[2]};
}

Value* SolveLdl(Decomposer& d, Value* ld, Value* pivots, Value* b) {
  if (Value* x = EmptySolution(d, ld, b)) return x;
  IntOrValue n = d.b.Size(ld, -1);
  SymInts batch = BroadcastBatch(d, ld, b);
  Value *rows = RowNumbers(d, n), *size = SizeTensor(d, n);
  Value* marks = Unsqueeze(d, d.b.Cast(pivots, DType::kInt64), -1);
  Value* x = Expand(d, b, MatrixSizes(batch, n, d.b.Size(b, -1)));
  Value* idle = d.b.Full(MatrixSizes(batch, 1, 1), false, DType::kBool);
  auto product = [](Decomposer& d, Value* column, Value* x) { return Matmul(d, TransposeMatrix(d, column), x); };

  // L·D, from the first row on. `done`: the row belongs to the block before.
  Value* y = For(d, n, {x, idle}, [&](LoopStep& s) {
    Decomposer& d = s.d;
    Value *x = s.state[0], *done = s.state[1], *k = s.i, *row = s(rows), *f = s(ld);
    Value *mark = RowAt(d, s(marks), k), *two = And(d, d.Cmp("lt", mark, 0), Not(d, done));
    Value* p = d.Sub(d.Unary("abs", mark), 1);
    Value* t = Gather(d, x, -2, Exchanged(d, row, d.Add(Number(d, two), k), p));
    Value *k1 = Next(d, k, s(size)), *l0 = ColumnAt(d, f, k), *l1 = ColumnAt(d, f, k1);
    Value *x0 = RowAt(d, t, k), *x1 = RowAt(d, t, k1), *d00 = RowAt(d, l0, k);
    Value* one_done = d.Where(d.Cmp("gt", row, k), d.Sub(t, d.Mul(l0, x0)),
                              d.Where(d.Cmp("eq", row, k), d.Div(x0, d.Where(two, 1.0, d00)), t));
    Value* d10 = d.Where(two, RowAt(d, l0, k1), 1.0);
    Value *s00 = d.Div(d00, d10), *s11 = d.Div(RowAt(d, l1, k1), d10);
    Value *det = d.Where(two, d.Sub(d.Mul(s00, s11), 1.0), 1.0), *b0 = d.Div(x0, d10), *b1 = d.Div(x1, d10);
    Value* z0 = d.Div(d.Sub(d.Mul(s11, b0), b1), det);
    Value* z1 = d.Div(d.Sub(d.Mul(s00, b1), b0), det);
    Value* two_done = d.Where(d.Cmp("gt", row, k1), d.Sub(t, d.Add(d.Mul(l0, x0), d.Mul(l1, x1))),
                              d.Where(d.Cmp("eq", row, k), z0, d.Where(d.Cmp("eq", row, k1), z1, t)));
    s.state = {d.Where(done, x, d.Where(two, two_done, one_done)), two};
  })[0];

  // Lᵀ, from the last row on; a block is met at its second row.
  return For(
      d, n, {y, idle},
      [&](LoopStep& s) {
        Decomposer& d = s.d;
        Value *x = s.state[0], *done = s.state[1], *k = s.i, *row = s(rows), *f = s(ld);
        Value *mark = RowAt(d, s(marks), k), *two = And(d, d.Cmp("lt", mark, 0), Not(d, done));
        Value* p = d.Sub(d.Unary("abs", mark), 1);
        Value *k0 = ClampMin(d, d.Sub(k, 1), 0), *after = d.Cmp("gt", row, k);
        Value* rest = d.Where(after, x, 0.0);
        Value* t0 = d.Sub(RowAt(d, x, k0), product(d, d.Where(after, ColumnAt(d, f, k0), 0.0), rest));
        Value* t1 = d.Sub(RowAt(d, x, k), product(d, d.Where(after, ColumnAt(d, f, k), 0.0), rest));
        Value* t = d.Where(d.Cmp("eq", row, k), t1, d.Where(And(d, two, d.Cmp("eq", row, k0)), t0, x));
        t = Gather(d, t, -2, Exchanged(d, row, k, p));
        s.state = {d.Where(done, x, t), two};
      },
      /*backwards=*/true)[0];
}

}  // namespace slipway::passes
