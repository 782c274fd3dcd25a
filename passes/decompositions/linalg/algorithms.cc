// LU with partial pivoting, Cholesky, Householder QR, one-sided Jacobi and triangular solves. Pivots are exchanged by
// gathering rows, since which row is largest differs from matrix to matrix of a stack.
#include "passes/decompositions/linalg/algorithms.h"

#include <algorithm>

#include "base/text.h"

namespace slipway::passes {
namespace {

Value* IndexSelect(Decomposer& d, Value* x, int dim, Value* index) {
  return d.b.Call("aten.index_select.default", {x, dim, index});
}
Value* GatherRows(Decomposer& d, Value* x, Value* index) { return d.b.Call("aten.gather.default", {x, -2, index}); }
Value* Abs(Decomposer& d, Value* x) { return d.Unary("abs", x); }
Value* Any(Decomposer& d, Value* x) { return d.Unary("any", x); }
// i + 1 where `failed` for the first time.
Value* Note(Decomposer& d, Value* info, Value* failed, Value* i) {
  return d.Where(And(d, failed, d.Cmp("eq", info, 0)), d.Add(i, 1), info);
}

}  // namespace

bool IsEmpty(Value* x) {
  for (const ir::Sym& s : x->sizes())
    if (s.constant() == 0) return true;
  return false;
}
SymInts BatchOf(Decomposer& d, Value* a) {
  SymInts sizes;
  for (int k = 0; k + 2 < a->rank(); ++k) sizes.push_back(d.b.Size(a, k));
  return sizes;
}
SymInts MatrixSizes(SymInts batch, IntOrValue rows, IntOrValue columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}
SymInts BroadcastBatch(Decomposer& d, Value* a, Value* b) {
  SymInts out;
  const int rank = std::max(a->rank(), b->rank());
  for (int k = 0; k + 2 < rank; ++k) {
    int i = k - (rank - a->rank()), j = k - (rank - b->rank());
    bool from_a = j < 0 || (i >= 0 && (IsOne(b->sizes()[j]) || (!IsOne(a->sizes()[i]) && a->sizes()[i].constant())));
    out.push_back(from_a ? d.b.Size(a, i) : d.b.Size(b, j));
  }
  return out;
}
IntOrValue Smaller(Decomposer& d, IntOrValue a, IntOrValue b) {
  if (!a.value && !b.value) return std::min(a.constant, b.constant);
  if (ir::ProvablyEqual(ir::ExprOf(a), ir::ExprOf(b))) return a;
  return d.b.Call("torch.sym_min", {Arg(a), Arg(b)});
}
Value* RowNumbers(Decomposer& d, IntOrValue n) { return Unsqueeze(d, Iota(d, n), 1); }
Value* ColumnNumbers(Decomposer& d, IntOrValue n) { return Unsqueeze(d, Iota(d, n), 0); }
Value* RowAt(Decomposer& d, Value* a, Value* i) { return IndexSelect(d, a, -2, Reshape(d, i, {1})); }
Value* ColumnAt(Decomposer& d, Value* a, Value* i) { return IndexSelect(d, a, -1, Reshape(d, i, {1})); }
Value* TransposeMatrix(Decomposer& d, Value* a) { return Transpose(d, a, -2, -1); }
Value* Eye(Decomposer& d, IntOrValue rows, IntOrValue columns, DType dtype) {
  return d.b.Cast(d.Cmp("eq", RowNumbers(d, rows), ColumnNumbers(d, columns)), dtype);
}
Value* DiagonalOf(Decomposer& d, Value* a) { return d.b.Call("aten.diagonal.default", {a, 0, -2, -1}); }

Value* Exchanged(Decomposer& d, Value* numbers, Value* i, Value* p) {
  return d.Where(d.Cmp("eq", numbers, i), p, d.Where(d.Cmp("eq", numbers, p), i, numbers));
}

LuFactors LuFactor(Decomposer& d, Value* a) {
  IntOrValue m = d.b.Size(a, -2), n = d.b.Size(a, -1), k = Smaller(d, m, n);
  SymInts batch = BatchOf(d, a);
  Value *rows = RowNumbers(d, m), *columns = ColumnNumbers(d, n), *steps = RowNumbers(d, k);
  Values end = For(d, k,
                   {a, d.b.Full(MatrixSizes(batch, k, 1), 0, DType::kInt64), Expand(d, rows, MatrixSizes(batch, m, 1)),
                    d.b.Full(MatrixSizes(batch, 1, 1), 0, DType::kInt64)},
                   [&](LoopStep& s) {
                     Decomposer& d = s.d;
                     Value *a = s.state[0], *pivots = s.state[1], *order = s.state[2], *info = s.state[3], *i = s.i;
                     Value *row = s(rows), *column = s(columns);
                     // The largest at or below the diagonal comes to row i.
                     Value* size = d.Where(d.Cmp("ge", row, i), Abs(d, ColumnAt(d, a, i)), -1.0);
                     Value* p = d.b.Call("aten.argmax.default", {size, -2, true});
                     Value* from = Exchanged(d, row, i, p);
                     a = GatherRows(d, a, Expand(d, from, d.b.SizesOf(a)));
                     // Eliminate below it.
                     Value *pivot_row = RowAt(d, a, i), *pivot = ColumnAt(d, pivot_row, i), *left = ColumnAt(d, a, i);
                     Value *zero = d.Cmp("eq", pivot, 0), *below = d.Cmp("gt", row, i);
                     Value* factor = d.Where(zero, left, d.Div(left, d.Where(zero, 1.0, pivot)));
                     Value* reduced = d.Where(d.Cmp("gt", column, i), d.Sub(a, d.Mul(factor, pivot_row)),
                                              d.Where(d.Cmp("eq", column, i), factor, a));
                     s.state = {d.Where(below, reduced, a), d.Where(d.Cmp("eq", s(steps), i), p, pivots),
                                GatherRows(d, order, from), Note(d, info, zero, i)};
                   });
  return {end[0], end[1], end[2], end[3]};
}

Value* OrderOfPivots(Decomposer& d, Value* pivots, IntOrValue m) {
  SymInts batch = d.b.SizesOf(pivots);
  batch.pop_back();
  Value *rows = RowNumbers(d, m), *from_0 = Unsqueeze(d, d.Sub(d.b.Cast(pivots, DType::kInt64), 1), -1);
  return For(d, d.b.Size(pivots, -1), {Expand(d, rows, MatrixSizes(batch, m, 1))}, [&](LoopStep& s) {
    Value* p = RowAt(s.d, s(from_0), s.i);
    s.state = {GatherRows(s.d, s.state[0], Exchanged(s.d, s(rows), s.i, p))};
  })[0];
}
Value* PermutationMatrix(Decomposer& d, Value* order, DType dtype) {
  return d.b.Cast(d.Cmp("eq", RowNumbers(d, d.b.Size(order, -2)), TransposeMatrix(d, order)), dtype);
}
Value* LowerOfLu(Decomposer& d, Value* lu) {
  IntOrValue m = d.b.Size(lu, -2), k = Smaller(d, m, d.b.Size(lu, -1));
  Value* l = d.b.Call("aten.tril.default", {Slice(d, lu, -1, 0, k), -1});
  return d.Add(l, Eye(d, m, k, lu->dtype()));
}
Value* UpperOfLu(Decomposer& d, Value* lu) {
  IntOrValue k = Smaller(d, d.b.Size(lu, -2), d.b.Size(lu, -1));
  return d.b.Call("aten.triu.default", {Slice(d, lu, -2, 0, k)});
}

Value* EmptySolution(Decomposer& d, Value* a, Value* b) {
  Value* x = d.b.Full(MatrixSizes(BroadcastBatch(d, a, b), d.b.Size(b, -2), d.b.Size(b, -1)), 0, b->dtype());
  return IsEmpty(x) ? x : nullptr;
}
Value* SolveTriangular(Decomposer& d, Value* a, Value* b, bool upper, bool unit) {
  if (Value* x = EmptySolution(d, a, b)) return x;
  if (upper) {  // a lower one, read from its end
    Value* x = SolveTriangular(d, Flip(d, a, {a->rank() - 2, a->rank() - 1}), Flip(d, b, {b->rank() - 2}), false, unit);
    return Flip(d, x, {x->rank() - 2});
  }
  IntOrValue n = d.b.Size(a, -1);
  Value *rows = RowNumbers(d, n), *columns = ColumnNumbers(d, n);
  Value* start = d.b.Full(MatrixSizes(BroadcastBatch(d, a, b), n, d.b.Size(b, -1)), 0, b->dtype());
  return For(d, n, {start}, [&](LoopStep& s) {
    Decomposer& d = s.d;
    Value* row = RowAt(d, s(a), s.i);
    Value* known = Matmul(d, d.Where(d.Cmp("lt", s(columns), s.i), row, 0.0), s.state[0]);
    Value* x = d.Sub(RowAt(d, s(b), s.i), known);
    if (!unit) x = d.Div(x, ColumnAt(d, row, s.i));
    s.state = {d.Where(d.Cmp("eq", s(rows), s.i), x, s.state[0])};
  })[0];
}
Value* SolveLu(Decomposer& d, Value* lu, Value* order, Value* b, bool transposed) {
  if (Value* x = EmptySolution(d, lu, b)) return x;
  Value* p = PermutationMatrix(d, order, b->dtype());
  if (!transposed) {
    Value* y = SolveTriangular(d, lu, Matmul(d, TransposeMatrix(d, p), b), false, true);
    return SolveTriangular(d, lu, y, true, false);
  }
  Value* turned = TransposeMatrix(d, lu);
  Value* y = SolveTriangular(d, turned, b, false, false);
  return Matmul(d, p, SolveTriangular(d, turned, y, true, true));
}

CholeskyFactor Cholesky(Decomposer& d, Value* a) {
  IntOrValue n = d.b.Size(a, -1);
  Value *rows = RowNumbers(d, n), *columns = ColumnNumbers(d, n);
  SymInts batch = BatchOf(d, a);
  Values end = For(
      d, n, {d.b.Full(MatrixSizes(batch, n, n), 0, a->dtype()), d.b.Full(MatrixSizes(batch, 1, 1), 0, DType::kInt64)},
      [&](LoopStep& s) {
        Decomposer& d = s.d;
        Value *l = s.state[0], *info = s.state[1], *i = s.i;
        Value* left = d.Sub(ColumnAt(d, s(a), i), Matmul(d, l, TransposeMatrix(d, RowAt(d, l, i))));
        Value *pivot = RowAt(d, left, i), *root = d.Unary("sqrt", pivot);
        Value* row = s(rows);
        Value* column = d.Where(d.Cmp("gt", row, i), d.Div(left, root), d.Where(d.Cmp("eq", row, i), root, 0.0));
        s.state = {d.Where(d.Cmp("eq", s(columns), i), column, l), Note(d, info, Not(d, d.Cmp("gt", pivot, 0)), i)};
      });
  return {end[0], end[1]};
}

Reflectors QrFactor(Decomposer& d, Value* a) {
  IntOrValue m = d.b.Size(a, -2), n = d.b.Size(a, -1), k = Smaller(d, m, n);
  Value *rows = RowNumbers(d, m), *columns = ColumnNumbers(d, n), *steps = RowNumbers(d, k);
  Values end = For(d, k, {a, d.b.Full(MatrixSizes(BatchOf(d, a), k, 1), 0, a->dtype())}, [&](LoopStep& s) {
    Decomposer& d = s.d;
    Value *a = s.state[0], *taus = s.state[1], *i = s.i, *row = s(rows), *column = s(columns);
    Value *below = d.Cmp("gt", row, i), *here = d.Cmp("eq", row, i);
    Value *x = ColumnAt(d, a, i), *alpha = RowAt(d, x, i), *tail = d.Where(below, x, 0.0);
    // The length from the diagonal on, scaled so that squares neither overflow nor vanish.
    auto largest = [&](Value* v) { return d.b.Call("aten.amax.default", {Abs(d, v), ir::Ints{-2}, true}); };
    Value *tail_size = largest(tail), *none = d.Cmp("eq", tail_size, 0);
    Value* scale = d.Where(none, 1.0, d.b.Call("aten.maximum.default", {tail_size, Abs(d, alpha)}));
    Value* unit = d.Div(d.Where(d.Cmp("ge", row, i), x, 0.0), scale);
    Value* length = d.Mul(d.Unary("sqrt", d.Sum(d.Mul(unit, unit), {-2}, true)), scale);
    Value* beta = d.Where(none, alpha, d.Where(d.Cmp("ge", alpha, 0), d.Unary("neg", length), length));
    Value* tau = d.Where(none, 0.0, d.Div(d.Sub(beta, alpha), d.Where(none, 1.0, beta)));
    Value* v = d.Where(here, 1.0, d.Div(tail, d.Where(none, 1.0, d.Sub(alpha, beta))));
    Value* change = d.Mul(d.Mul(tau, v), Matmul(d, TransposeMatrix(d, v), a));
    Value* own = d.Where(here, beta, d.Where(below, v, x));
    s.state = {d.Where(d.Cmp("gt", column, i), d.Sub(a, change), d.Where(d.Cmp("eq", column, i), own, a)),
               d.Where(d.Cmp("eq", s(steps), i), tau, taus)};
  });
  return {end[0], end[1]};
}
Value* ApplyReflectors(Decomposer& d, const Reflectors& r, Value* c, bool transposed) {
  Value* rows = RowNumbers(d, d.b.Size(r.a, -2));
  auto step = [&](LoopStep& s) {
    Decomposer& d = s.d;
    Value *row = s(rows), *c = s.state[0];
    Value* v = d.Where(d.Cmp("gt", row, s.i), ColumnAt(d, s(r.a), s.i), d.b.Cast(d.Cmp("eq", row, s.i), r.a->dtype()));
    Value* tau = RowAt(d, s(r.tau), s.i);
    s.state = {d.Sub(c, d.Mul(d.Mul(tau, v), Matmul(d, TransposeMatrix(d, v), c)))};
  };
  return For(d, d.b.Size(r.tau, -2), {c}, step, /*backwards=*/!transposed)[0];
}

Jacobi OneSidedJacobi(Decomposer& d, Value* a, bool vectors) {
  constexpr int64_t kSweeps = 40;        // rotations converge quadratically: some ten sweeps are the rule
  constexpr double kOrthogonal = 1e-12;  // a cosine this small before a sweep is below rounding after it
  constexpr double kNothing = 1e-31;     // of the squared norm: what rounding leaves of zero columns
  constexpr int64_t kLargest = int64_t{1} << 32;
  IntOrValue n = d.b.Size(a, -1);
  if (!n.value && n.constant > kLargest) d.Unsupported(text::StrCat("matrices of ", n.constant, " columns"));
  if (!d.ok()) return {a, a, a};
  // Columns lie as rows here, so that fetching one is one copy.
  Value *w = TransposeMatrix(d, a), *numbers = Iota(d, n);
  Value* v = vectors ? Expand(d, Eye(d, n, n, a->dtype()), MatrixSizes(BatchOf(d, a), n, n)) : nullptr;
  if (IsEmpty(a)) return {a, v, d.Sum(a, {-2})};
  Value *lines = Unsqueeze(d, numbers, -1), *size = d.b.ScalarTensor(Arg(n), DType::kInt64);
  auto squares = [](Decomposer& d, Value* w) { return d.Sum(d.Mul(w, w), {-1}, true); };
  Value* nothing = d.Mul(d.Sum(squares(d, w), {-2}, true), kNothing);
  Values start = {d.b.ScalarTensor(false, DType::kBool), w};
  if (vectors) start.push_back(v);
  // Every step rotates disjoint pairs: those whose numbers add up to the step's, modulo n. In n steps, a sweep, each
  // meets every other.
  Values end = For(d, d.b.Mul(n, kSweeps), start, [&](LoopStep& s) {
    Decomposer& d = s.d;
    Value *w = s.state[1], *line = s(lines), *n = s(size);
    Value* round = d.b.Call("aten.remainder.Tensor", {s.i, n});
    Value* other = d.b.Call("aten.remainder.Tensor", {d.Sub(round, s(numbers)), n});
    Value *others = Unsqueeze(d, other, -1), *partner = IndexSelect(d, w, -2, other);
    Value *own = squares(d, w), *its = IndexSelect(d, own, -2, other);
    Value* product = d.Sum(d.Mul(w, partner), {-1}, true);
    Value* extent = Abs(d, product);
    Value* turn = And(d, d.Cmp("gt", extent, s(nothing)), d.Cmp("ne", line, others));
    Value* wide = d.Cmp("gt", extent, d.Mul(d.Unary("sqrt", d.Mul(own, its)), kOrthogonal));
    Value* zeta = d.Div(d.Sub(its, own), d.Where(turn, d.Mul(product, 2.0), 1.0));
    // Of equal lengths the first turns one way, the second the other.
    Value* positive = Or(d, d.Cmp("gt", zeta, 0), And(d, d.Cmp("eq", zeta, 0), d.Cmp("lt", line, others)));
    Value* tangent = d.Div(d.Where(positive, d.b.ScalarTensor(1.0, w->dtype()), -1.0),
                           d.Add(Abs(d, zeta), d.Unary("sqrt", d.Add(d.Mul(zeta, zeta), 1.0))));
    tangent = d.Where(turn, tangent, 0.0);
    Value* cosine = d.Unary("reciprocal", d.Unary("sqrt", d.Add(d.Mul(tangent, tangent), 1.0)));
    Value* sine = d.Mul(tangent, cosine);
    auto rotate = [&](Value* x, Value* with) { return d.Sub(d.Mul(x, cosine), d.Mul(with, sine)); };
    Value* first = d.Cmp("eq", round, 0);
    Value* busy = Or(d, Any(d, And(d, turn, wide)), And(d, Not(d, first), s.state[0]));
    s.StopWhen(And(d, Not(d, busy), d.Cmp("eq", d.Add(round, 1), n)));
    Values next = {busy, rotate(w, partner)};
    if (vectors) next.push_back(rotate(s.state[2], IndexSelect(d, s.state[2], -2, other)));
    s.state = next;
  });
  Value* lengths = Squeeze(d, d.Unary("sqrt", squares(d, end[1])), -1);
  Values sorted = d.b.CallMulti("aten.sort.stable", {lengths}, {{"stable", true}, {"dim", -1}, {"descending", true}});
  if (!vectors) return {nullptr, nullptr, sorted[0]};
  auto arrange = [&](Value* x) {
    return TransposeMatrix(d, GatherRows(d, x, Expand(d, Unsqueeze(d, sorted[1], -1), d.b.SizesOf(x))));
  };
  return {arrange(end[1]), arrange(end[2]), sorted[0]};
}

}  // namespace slipway::passes
