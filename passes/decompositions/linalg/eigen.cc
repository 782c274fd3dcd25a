// Eigenvalues and eigenvectors of symmetric matrices by the steps of LAPACK's syevd, each rounded where LAPACK rounds:
// reduction to a tridiagonal matrix by a reflector (sytd2), implicit QL or QR steps with Wilkinson's shift (steqr),
// selection sort.
//
// The sign of an eigenvector is what is left of all the rotations that made it. One step more or less turns it over,
// and whether there is one more is decided by an element that is rounding itself. So signs agree with torch's (MKL's
// LAPACK, whose rotations are those of slartg before release 3.10 and which takes -0 for positive) where every rounding
// does. Up to 3 rows every rounding is known: values and vectors were equal to the bit for all of 100000 matrices
// (random, scaled, correlations, kernels, graph Laplacians, small integers), with MKL's steps for any processor
// (MKL_CBWR=COMPATIBLE; AMD's get them anyway). On Intel's with AVX2 MKL takes others, and torch's signs are not those
// of another processor for kernels, scaled matrices, Laplacians and small integers; for random ones and correlations
// they are. From 4 rows on the reduction has sums of more than two products, MKL's order of them depends on the
// processor, and torch itself gives other signs
// with another MKL_CBWR: f32, for 0.07 % of random matrices of 5 rows, 8 % of 12, 39 % of 25. These steps in f64, with
// LAPACK's thresholds, give another sign than torch for 0.1 % of random f32 matrices of 4 rows, 0.5 % of 5, 7 % of 12;
// of graph Laplacians of 4 rows, for a fourth in f32 and a sixth in f64. From 26 rows on syevd divides and conquers:
// signs then follow from where it cuts, except those of vectors that it deflates.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/decompositions/linalg/algorithms.h"

namespace slipway::passes {
namespace {

// Numbers of one matrix are [..., 1], vectors [..., n].
Value* AbsoluteValue(Decomposer& d, Value* x) { return d.Unary("abs", x); }
Value* Sqrt(Decomposer& d, Value* x) { return d.Unary("sqrt", x); }
// An operator of its own: of a product with 1 / x ONNX Runtime makes a division, which rounds once and not twice.
Value* Inverse(Decomposer& d, Value* x) { return d.Unary("reciprocal", x); }
Value* Neg(Decomposer& d, Value* x) { return d.Unary("neg", x); }
Value* Larger(Decomposer& d, Value* x, Value* y) { return d.b.Call("aten.maximum.default", {x, y}); }
Value* Lesser(Decomposer& d, Value* x, Value* y) { return d.b.Call("aten.minimum.default", {x, y}); }
Value* Most(Decomposer& d, Value* x) { return d.b.Call("aten.amax.default", {x, ir::Ints{-1}, true}); }
Value* Least(Decomposer& d, Value* x) { return d.b.Call("aten.amin.default", {x, ir::Ints{-1}, true}); }

// sqrt(x² + y²) as slapy2 rounds it.
Value* Hypot(Decomposer& d, Value* x, Value* y) {
  Value *large = Larger(d, AbsoluteValue(d, x), AbsoluteValue(d, y)),
        *small = Lesser(d, AbsoluteValue(d, x), AbsoluteValue(d, y));
  Value* ratio = d.Div(small, d.Where(d.Cmp("eq", large, 0), 1.0, large));
  return d.Mul(large, Sqrt(d, d.Add(d.Mul(ratio, ratio), 1.0)));
}
Value* WithSignOf(Decomposer& d, Value* size, Value* of) {
  size = AbsoluteValue(d, size);
  return d.Where(d.Cmp("ge", of, 0), size, Neg(d, size));
}

struct Rotation {
  Value *c, *s, *r;
};
// c·f + s·g = r, c·g - s·f = 0, as slartg up to LAPACK 3.9 chooses their signs. Like there, numbers whose squares would
// vanish are scaled by a power of two first, which rounds nothing.
Rotation RotationOf(Decomposer& d, Value* f, Value* g) {
  const bool wide = f->dtype() == DType::kFloat64;
  Value *tiny = d.Cmp("le", Larger(d, AbsoluteValue(d, f), AbsoluteValue(d, g)), std::ldexp(1.0, wide ? -484 : -51)),
        *one = d.b.ScalarTensor(1.0, f->dtype());
  Value *up = d.Where(tiny, std::ldexp(1.0, wide ? 900 : 100), one), *large_f = d.Mul(f, up), *large_g = d.Mul(g, up);
  Value* r = Sqrt(d, d.Add(d.Mul(large_f, large_f), d.Mul(large_g, large_g)));
  Value *c = d.Div(large_f, r), *s = d.Div(large_g, r);
  r = d.Mul(r, d.Where(tiny, std::ldexp(1.0, wide ? -900 : -100), one));
  Value* turn = And(d, d.Cmp("gt", AbsoluteValue(d, f), AbsoluteValue(d, g)), d.Cmp("lt", c, 0));
  Value *no_g = d.Cmp("eq", g, 0), *no_f = d.Cmp("eq", f, 0);
  auto choose = [&](Arg without_g, Arg without_f, Value* x) {
    return d.Where(no_g, std::move(without_g), d.Where(no_f, std::move(without_f), d.Where(turn, Neg(d, x), x)));
  };
  return {choose(1.0, 0.0, c), choose(0.0, 1.0, s), choose(f, g, r)};
}

struct TwoByTwo {
  Value *larger, *smaller;  // eigenvalues, by size
  Value *c, *s;             // the vector of the larger
};
// Of [[a, b], [b, c]], as slaev2.
TwoByTwo EigenOfTwo(Decomposer& d, Value* a, Value* b, Value* c) {
  Value *sum = d.Add(a, c), *difference = d.Sub(a, c), *b2 = d.Add(b, b);
  Value *wide = AbsoluteValue(d, difference), *high = AbsoluteValue(d, b2);
  auto root = [&](Value* large, Value* small) {
    Value* ratio = d.Div(small, large);
    return d.Mul(large, Sqrt(d, d.Add(d.Mul(ratio, ratio), 1.0)));
  };
  Value* rt = d.Where(d.Cmp("gt", wide, high), root(wide, high),
                      d.Where(d.Cmp("lt", wide, high), root(high, wide), d.Mul(high, std::sqrt(2.0))));
  Value *negative = d.Cmp("lt", sum, 0), *balanced = d.Cmp("eq", sum, 0),
        *first = d.Cmp("gt", AbsoluteValue(d, a), AbsoluteValue(d, c));
  Value* half = d.Mul(rt, 0.5);
  Value* larger = d.Where(balanced, half, d.Mul(d.Where(negative, d.Sub(sum, rt), d.Add(sum, rt)), 0.5));
  Value* smaller = d.Sub(d.Mul(d.Div(d.Where(first, a, c), larger), d.Where(first, c, a)), d.Mul(d.Div(b, larger), b));
  smaller = d.Where(balanced, Neg(d, half), smaller);

  Value* rising = d.Cmp("ge", difference, 0);
  Value* cs = d.Where(rising, d.Add(difference, rt), d.Sub(difference, rt));
  Value* steep = d.Cmp("gt", AbsoluteValue(d, cs), high);
  Value* t = d.Where(steep, d.Div(Neg(d, b2), cs), d.Div(Neg(d, cs), b2));
  Value* short_side = Inverse(d, Sqrt(d, d.Add(d.Mul(t, t), 1.0)));
  Value* long_side = d.Mul(t, short_side);
  Value *co = d.Where(steep, long_side, short_side), *si = d.Where(steep, short_side, long_side);
  Value* diagonal = And(d, Not(d, steep), d.Cmp("eq", high, 0));
  co = d.Where(diagonal, 1.0, co);
  si = d.Where(diagonal, 0.0, si);
  Value* same = d.Cmp("eq", Not(d, negative), rising);
  return {larger, smaller, d.Where(same, Neg(d, si), co), d.Where(same, co, si)};
}

// Constants of the arithmetic, as LAPACK's lamch and syevd have them.
struct Limits {
  double eps, safe_min, least_block, least, most;
};
Limits LimitsOf(DType dtype) {
  const int digits = dtype == DType::kFloat64 ? 53 : 24, least = dtype == DType::kFloat64 ? -1022 : -126;
  double edge = std::sqrt(std::ldexp(1.0, least + digits - 1));
  return {std::ldexp(1.0, -digits), std::ldexp(1.0, least), std::ldexp(1.0, least / 2 + 2 * digits), edge, 1 / edge};
}

// The tridiagonal matrix, and Q as one reflector I - tau·w·wᵀ (null where there is none).
struct Tridiagonal {
  Values diagonal, beside;
  Value *w = nullptr, *tau = nullptr;  // w: [..., 1, 3]
};
// sytd2 for 2 or 3 rows, of `at(i, j)`, i >= j, of a lower triangle.
template <typename At>
Tridiagonal Reduce(Decomposer& d, int64_t n, const At& at) {
  if (n == 2) return {{at(0, 0), at(1, 1)}, {at(1, 0)}};
  Value *alpha = at(1, 0), *x = at(2, 0), *none = d.Cmp("eq", x, 0);
  Value* beta = d.Where(none, alpha, Neg(d, WithSignOf(d, Hypot(d, alpha, x), alpha)));
  Value* tau = d.Where(none, 0.0, d.Div(d.Sub(beta, alpha), beta));
  Value* v = d.Where(none, 0.0, d.Mul(x, Inverse(d, d.Sub(alpha, beta))));
  // y = tau·A·w less its part along w, then A -= w·yᵀ + y·wᵀ, in the order of symv, axpy and syr2.
  Value *a = at(1, 1), *b = at(2, 1), *c = at(2, 2), *tau_v = d.Mul(tau, v);
  Value* y0 = d.Add(d.Mul(tau, a), d.Mul(tau, d.Mul(b, v)));
  Value* y1 = d.Add(d.Mul(tau, b), d.Mul(tau_v, c));
  Value* along = d.Mul(d.Mul(tau, -0.5), d.Add(y0, d.Mul(y1, v)));
  y0 = d.Add(y0, along);
  y1 = d.Add(y1, d.Mul(along, v));
  // MKL's ssyr2 takes the two products off one by one, its dsyr2 their sum but for the first.
  auto less = [&](Value* x, Value* p, Value* q) {
    return x->dtype() == DType::kFloat64 ? d.Sub(x, d.Add(p, q)) : d.Sub(d.Sub(x, p), q);
  };
  Value* v_y1 = d.Mul(v, y1);
  a = d.Sub(d.Sub(a, y0), y0);
  b = less(b, d.Mul(v, y0), y1);
  c = less(c, v_y1, v_y1);
  Value* zero = d.b.Full(d.b.SizesOf(v), 0, v->dtype());
  Value* w = Unsqueeze(d, Cat(d, {zero, d.b.Full(d.b.SizesOf(v), 1, v->dtype()), v}, -1), -2);
  return {{at(0, 0), a, c}, {beta, b}, w, Unsqueeze(d, tau, -1)};
}

// The tridiagonal matrix's eigenvalues, in no order, and their vectors as rows of `rows`: steqr. Blocks of matrices end
// after different numbers of steps, so a step of the loop does for each matrix what comes next: take a block, look for
// an element beside the diagonal that is nothing, and then end a value, two, or turn one pair of a sweep. LAPACK's QR
// is its QL read from the other end: `dir` tells which.
struct Spectrum {
  Value *values, *rows;
};
Spectrum TridiagonalQl(Decomposer& d, int64_t n, const SymInts& batch, Value* diagonal, Value* beside, Value* finite) {
  const Limits limits = LimitsOf(diagonal->dtype());
  const DType dtype = diagonal->dtype();
  SymInts numbers = batch;
  numbers.push_back(1);
  auto whole = [&](int64_t x) { return d.b.Full(numbers, x, DType::kInt64); };
  auto real = [&](double x) { return d.b.Full(numbers, x, dtype); };
  Value *places = Iota(d, n), *lines = RowNumbers(d, n);
  Value* rows = Expand(d, Eye(d, n, n, dtype), MatrixSizes(batch, n, n));
  Value* next_block = d.Where(finite, whole(0), n);
  // A block of no rows: the first step takes one.
  Values start = {diagonal, beside,   rows,     next_block, whole(0), whole(-1), whole(1),
                  whole(0), whole(0), real(1),  real(0),    real(0),  real(0),   d.b.Full(numbers, false, DType::kBool),
                  real(1),  whole(0), whole(-1)};
  constexpr int64_t kSteps = 30;  // for each row, as LAPACK allows
  Values end = For(d, kSteps * n * n + 3 * n, start, [&](LoopStep& step) {
    Decomposer& d = step.d;
    Values& state = step.state;
    Value *a = state[0], *e = state[1], *rows = state[2], *next_block = state[3], *l = state[4], *last = state[5],
          *dir = state[6];
    Value *j = state[7], *m = state[8], *c = state[9], *s = state[10], *p = state[11], *g = state[12],
          *sweeping = state[13];
    Value *back = state[14], *from = state[15], *to = state[16], *place = step(places);
    Value* integer_zero = d.b.ScalarTensor(0, DType::kInt64);
    auto is = [&](Value* i) { return d.Cmp("eq", place, i); };
    auto between = [&](Value* i, Value* k) { return And(d, d.Cmp("ge", place, i), d.Cmp("lt", place, k)); };
    auto inside = [&](Value* i, int64_t most) { return d.b.Call("aten.clamp.default", {i, 0, most}); };
    auto at = [&](Value* x, Value* i) { return d.b.Call("aten.gather.default", {x, -1, inside(i, n - 1)}); };
    auto set = [&](Value*& x, Value* when, Arg to) { x = d.Where(when, std::move(to), x); };
    auto after = [&](Value* x) { return Cat(d, {Slice(d, x, -1, 1), Slice(d, x, -1, n - 1)}, -1); };

    // A block that is done: its scale goes back.
    Value* idle = d.Cmp("lt", d.Mul(d.Sub(last, l), dir), 0);
    set(a, And(d, idle, between(from, d.Add(to, 1))), d.Mul(a, back));
    Value *done = And(d, idle, d.Cmp("ge", next_block, n)), *take = And(d, idle, Not(d, done));
    step.StopWhen(Not(d, d.Unary("any", Not(d, done))));
    // The next one: up to the first element beside the diagonal that is nothing, scaled up where squares would vanish.
    Value* split = d.Cmp("le", AbsoluteValue(d, e),
                         d.Mul(d.Mul(Sqrt(d, AbsoluteValue(d, a)), Sqrt(d, AbsoluteValue(d, after(a)))), limits.eps));
    Value* block_end = Least(d, d.Where(And(d, split, d.Cmp("ge", place, next_block)), place, n - 1));
    set(e, And(d, take, is(block_end)), 0.0);
    Value *block = between(next_block, d.Add(block_end, 1)), *edges = between(next_block, block_end);
    Value* norm =
        Most(d, Larger(d, d.Where(block, AbsoluteValue(d, a), 0.0), d.Where(edges, AbsoluteValue(d, e), 0.0)));
    Value* tiny =
        And(d, And(d, d.Cmp("gt", norm, 0), d.Cmp("lt", norm, limits.least_block)), d.Cmp("lt", next_block, block_end));
    Value *grow = And(d, take, tiny), *least_block = d.b.ScalarTensor(limits.least_block, dtype),
          *up = d.Div(least_block, norm);
    set(a, And(d, grow, block), d.Mul(a, up));
    set(e, And(d, grow, edges), d.Mul(e, up));
    back = d.Where(grow, d.Div(norm, least_block), d.Where(idle, 1.0, back));
    set(from, take, next_block);
    set(to, take, block_end);
    Value* turned = d.Cmp("lt", AbsoluteValue(d, at(a, block_end)), AbsoluteValue(d, at(a, next_block)));
    set(l, take, d.Where(turned, block_end, next_block));
    set(last, take, d.Where(turned, next_block, block_end));
    set(dir, take, d.Where(turned, d.b.ScalarTensor(-1, DType::kInt64), 1));
    set(next_block, take, d.Add(block_end, 1));

    // From l on, the first element that is nothing: `near` rows away.
    Value *look = Not(d, Or(d, done, sweeping)), *forward = d.Cmp("gt", dir, 0);
    Value *size = AbsoluteValue(d, a), *size_after = AbsoluteValue(d, after(a));
    Value* bound = d.Add(
        d.Mul(d.Mul(d.Where(forward, size, size_after), limits.eps * limits.eps), d.Where(forward, size_after, size)),
        limits.safe_min);
    Value *nothing = d.Cmp("le", d.Mul(e, e), bound), *span = AbsoluteValue(d, d.Sub(last, l));
    Value* distance = d.Where(forward, d.Sub(place, l), d.Sub(d.Sub(l, 1), place));
    Value* near = Least(d, d.Where(And(d, nothing, between(Lesser(d, l, last), Larger(d, l, last))), distance, span));
    set(m, look, d.Add(l, d.Mul(dir, near)));
    // beside row i, on the side away from l
    auto edge_from = [&](Value* i) { return d.Where(forward, i, d.Sub(i, 1)); };
    set(e, And(d, And(d, look, d.Cmp("lt", near, span)), is(edge_from(m))), 0.0);
    Value *one = And(d, look, d.Cmp("eq", near, 0)), *two = And(d, look, d.Cmp("eq", near, 1)),
          *begin = And(d, look, d.Cmp("gt", near, 1));

    // Two rows are solved.
    Value* pair = Lesser(d, l, d.Add(l, dir));
    TwoByTwo solved = EigenOfTwo(d, at(a, pair), at(e, pair), at(a, d.Add(pair, 1)));
    // A sweep begins with the shift.
    Value *at_l = at(a, l), *e_l = at(e, edge_from(l));
    Value *shift = d.Div(d.Sub(at(a, d.Add(l, dir)), at_l), d.Mul(e_l, 2.0)), *unit = d.b.ScalarTensor(1.0, dtype);
    Value* root = WithSignOf(d, Hypot(d, shift, unit), shift);
    set(g, begin, d.Add(d.Sub(at(a, m), at_l), d.Div(e_l, d.Add(shift, root))));
    set(c, begin, 1.0);
    set(s, begin, 1.0);
    set(p, begin, 0.0);
    set(j, begin, d.Sub(m, dir));
    // It turns rows j and the one beyond, `far`.
    Value *turn = Or(d, begin, sweeping), *far = d.Add(j, dir), *edge = Lesser(d, j, far), *e_j = at(e, edge);
    Value* b = d.Mul(c, e_j);
    Rotation rotation = RotationOf(d, g, d.Mul(s, e_j));
    set(c, turn, rotation.c);
    set(s, turn, rotation.s);
    set(e, And(d, And(d, turn, d.Cmp("ne", far, m)), is(d.Add(edge, dir))), rotation.r);
    Value* rest = d.Sub(at(a, far), p);
    Value* r = d.Add(d.Mul(d.Sub(at(a, j), rest), s), d.Mul(d.Mul(c, 2.0), b));
    set(p, turn, d.Mul(s, r));
    set(g, turn, d.Sub(d.Mul(c, r), b));
    set(a, And(d, turn, is(far)), d.Add(rest, p));
    Value* ends = And(d, turn, d.Cmp("eq", j, l));
    set(a, And(d, ends, is(l)), d.Sub(a, p));
    set(e, And(d, ends, is(edge)), g);
    set(a, And(d, two, is(pair)), solved.larger);
    set(a, And(d, two, is(d.Add(pair, 1))), solved.smaller);
    set(e, And(d, two, is(pair)), 0.0);

    // Vectors: rows k and k + 1.
    Value* k = Unsqueeze(d, inside(d.Where(two, pair, edge), n - 2), -1);
    Value* co = Unsqueeze(d, d.Where(two, solved.c, d.Where(turn, c, 1.0)), -1);
    Value* si = Unsqueeze(d, d.Where(two, solved.s, d.Where(turn, d.Where(forward, Neg(d, s), s), 0.0)), -1);
    auto row = [&](Value* i) {
      SymInts sizes = d.b.SizesOf(rows);
      sizes[sizes.size() - 2] = 1;
      return d.b.Call("aten.gather.default", {rows, -2, Expand(d, i, sizes)});
    };
    Value *low = row(k), *high = row(d.Add(k, 1)), *line = step(lines);
    rows = d.Where(d.Cmp("eq", line, k), d.Add(d.Mul(co, low), d.Mul(si, high)),
                   d.Where(d.Cmp("eq", line, d.Add(k, 1)), d.Sub(d.Mul(co, high), d.Mul(si, low)), rows));

    Value* ended = d.Where(two, d.b.ScalarTensor(2, DType::kInt64),
                           d.Where(one, d.b.ScalarTensor(1, DType::kInt64), integer_zero));
    l = d.Add(l, d.Mul(dir, ended));
    set(j, turn, d.Sub(j, dir));
    state = {a, e, rows, next_block, l, last, dir, j, m, c, s, p, g, And(d, turn, Not(d, ends)), back, from, to};
  });
  return {end[0], end[2]};
}

}  // namespace

bool EigenHasSigns(Value* a) {
  auto n = a->sizes()[a->rank() - 1].constant();
  return n && *n <= 3 && (a->dtype() == DType::kFloat32 || a->dtype() == DType::kFloat64);
}

Eigen LapackEigen(Decomposer& d, Value* a, bool upper) {
  const int64_t n = *a->sizes()[a->rank() - 1].constant();
  const DType dtype = a->dtype();
  const Limits limits = LimitsOf(dtype);
  SymInts batch = BatchOf(d, a), numbers = batch;
  numbers.push_back(1);
  auto element = [&](int64_t i, int64_t j) { return Unsqueeze(d, Select(d, Select(d, a, -2, i), -1, j), -1); };
  if (n == 1) return {Select(d, a, -1, 0), d.b.Full(MatrixSizes(batch, 1, 1), 1, dtype)};
  // The upper triangle, read from its end, is a lower one, and sytd2 does the same to it.
  Value* norm = nullptr;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      Value* size = AbsoluteValue(d, upper ? element(j, i) : element(i, j));
      norm = norm ? Larger(d, norm, size) : size;
    }
  // Very small and very large ones are scaled.
  Value* finite = d.Cmp("lt", norm, std::numeric_limits<double>::infinity());
  auto to_bound = [&](double bound) { return d.Div(d.b.ScalarTensor(bound, dtype), norm); };
  Value* small = And(d, d.Cmp("gt", norm, 0), d.Cmp("lt", norm, d.b.ScalarTensor(limits.least, dtype)));
  Value* large = d.Cmp("gt", norm, d.b.ScalarTensor(limits.most, dtype));
  Value* scale = d.Where(small, to_bound(limits.least), d.Where(large, to_bound(limits.most), 1.0));
  Tridiagonal t = Reduce(
      d, n, [&](int64_t i, int64_t j) { return d.Mul(upper ? element(n - 1 - i, n - 1 - j) : element(i, j), scale); });
  Value* zero = d.b.Full(numbers, 0, dtype);
  if (upper) {
    std::reverse(t.diagonal.begin(), t.diagonal.end());
    std::reverse(t.beside.begin(), t.beside.end());
    if (t.w) t.w = Flip(d, t.w, {t.w->rank() - 1});
  }
  t.beside.push_back(zero);
  Spectrum q = TridiagonalQl(d, n, batch, Cat(d, t.diagonal, -1), Cat(d, t.beside, -1), finite);

  Value *values = q.values, *rows = q.rows, *places = Iota(d, n);
  if (t.w) rows = d.Sub(rows, d.Mul(d.Mul(d.Sum(d.Mul(rows, t.w), {-1}, true), t.tau), t.w));
  for (int64_t i = 0; i + 1 < n; ++i) {  // selection sort, which places equal values as LAPACK does
    Value *left = d.Cmp("ge", places, i),
          *least = Least(d, d.Where(left, values, std::numeric_limits<double>::infinity()));
    Value* k = Least(d, d.Where(And(d, left, d.Cmp("eq", values, least)), places, n - 1));
    Value* from = Exchanged(d, places, d.b.ScalarTensor(i, DType::kInt64), k);
    values = d.b.Call("aten.gather.default", {values, -1, from});
    rows = d.b.Call("aten.gather.default", {rows, -2, Expand(d, Unsqueeze(d, from, -1), d.b.SizesOf(rows))});
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  values = d.Where(finite, d.Mul(values, Inverse(d, scale)), nan);
  return {values, TransposeMatrix(d, d.Where(Unsqueeze(d, finite, -1), rows, nan))};
}

}  // namespace slipway::passes
