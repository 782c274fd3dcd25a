// Decompositions: linear algebra over the algorithms of matrix_algorithms.h. Where torch raises an error for a matrix
// (singular, not positive definite), a program cannot: what divides by zero is infinite or NaN, and the operators that
// report a status report it. Eigenvectors and singular vectors are determined but for their signs (and, in an
// eigenspace of more dims, a rotation), which LAPACK leaves to rounding: no other computation can give the same, so
// they are refused where the program returns them as they are, and any valid ones serve where it computes with them.
// Eigenvectors of 3 rows at most are LAPACK's (matrix_eigen.cc).
#include <cmath>
#include <limits>

#include "base/text.h"
#include "passes/decompositions/linalg/algorithms.h"

namespace slipway::passes {
namespace {

// The i-th argument, a stack of matrices of real floating point numbers.
Value* Matrix(Decomposer& d, size_t i) {
  const std::string& name = d.node().op().args[i].name;
  Value* a = d.in(name);
  if (ir::IsComplex(a->dtype())) {
    d.Unsupported(text::StrCat("complex ", name));
  } else if (!ir::IsFloating(a->dtype()) || a->rank() < 2) {
    d.Fail(text::StrCat(name, " is not a stack of matrices"));
  }
  return a;
}
Value* Drop(Decomposer& d, Value* x) { return Squeeze(d, x, -1); }
Value* DropTwo(Decomposer& d, Value* x) { return Drop(d, Drop(d, x)); }
Value* Empty(Decomposer& d, Value* like) { return d.b.Full({0}, 0, like->dtype()); }
Value* EyeLike(Decomposer& d, Value* a) {
  IntOrValue n = d.b.Size(a, -1);
  return Expand(d, Eye(d, n, n, a->dtype()), d.b.SizesOf(a));
}

// ---- Triangular systems, LU

// Solves from the right, X·A = B, are solves of the transposed: Aᵀ·Xᵀ = Bᵀ.
template <typename Solve>
Value* FromSide(Decomposer& d, Value* b, bool left, Solve solve) {
  return left ? solve(b) : TransposeMatrix(d, solve(TransposeMatrix(d, b)));
}
void LinalgSolveTriangular(Decomposer& d) {
  Value *a = Matrix(d, 0), *b = Matrix(d, 1);
  bool upper = d.flag("upper"), left = d.flag("left"), unit = d.flag("unitriangular");
  if (!d.ok()) return;
  if (!left) a = TransposeMatrix(d, a);
  d.Return(FromSide(d, b, left, [&](Value* b) { return SolveTriangular(d, a, b, upper == left, unit); }));
}
void OldTriangularSolve(Decomposer& d) {
  Value *b = Matrix(d, 0), *a = Matrix(d, 1);
  bool upper = d.flag("upper"), transpose = d.flag("transpose");
  if (!d.ok()) return;
  Value* x = SolveTriangular(d, transpose ? TransposeMatrix(d, a) : a, b, upper != transpose, d.flag("unitriangular"));
  d.Return({x, Expand(d, a, MatrixSizes(BroadcastBatch(d, a, b), d.b.Size(a, -2), d.b.Size(a, -1)))});
}

// A's factors by an operator that may ask for no pivoting.
std::optional<LuFactors> Factors(Decomposer& d) {
  Value* a = Matrix(d, 0);
  if (!d.flag("pivot")) d.Unsupported("LU without pivoting");
  if (!d.ok()) return std::nullopt;
  return LuFactor(d, a);
}
void LinalgLuFactor(Decomposer& d) {
  if (auto f = Factors(d)) d.Return({f->lu, d.Add(Drop(d, f->pivots), 1), DropTwo(d, f->info)});
}
void LinalgLu(Decomposer& d) {
  auto f = Factors(d);
  if (f) d.Return({PermutationMatrix(d, f->order, f->lu->dtype()), LowerOfLu(d, f->lu), UpperOfLu(d, f->lu)});
}
void LuUnpack(Decomposer& d) {
  Value *lu = Matrix(d, 0), *pivots = d.tensor("LU_pivots");
  bool data = d.flag("unpack_data"), order = d.flag("unpack_pivots");
  if (!d.ok()) return;
  Value* none = Empty(d, lu);
  d.Return({order ? PermutationMatrix(d, OrderOfPivots(d, pivots, d.b.Size(lu, -2)), lu->dtype()) : none,
            data ? LowerOfLu(d, lu) : none, data ? UpperOfLu(d, lu) : none});
}
void SolveFactored(Decomposer& d, Value* lu, Value* pivots, Value* b, bool left, bool transposed) {
  if (!d.ok()) return;
  Value* order = OrderOfPivots(d, pivots, d.b.Size(lu, -2));
  d.Return(FromSide(d, b, left, [&](Value* b) { return SolveLu(d, lu, order, b, transposed == left); }));
}
void LinalgLuSolve(Decomposer& d) {
  SolveFactored(d, Matrix(d, 0), d.tensor("pivots"), Matrix(d, 2), d.flag("left"), d.flag("adjoint"));
}
void LuSolve(Decomposer& d) { SolveFactored(d, Matrix(d, 1), d.tensor("LU_pivots"), Matrix(d, 0), true, false); }

// The result, then the status; results between the two are factors of a transposed layout and have no use here.
void LinalgSolve(Decomposer& d) {
  Value *a = Matrix(d, 0), *b = d.in("B");
  bool left = d.flag("left");
  if (!d.ok()) return;
  bool vectors = b->rank() == 1 || d.out_type().rank() == a->rank() - 1;
  if (vectors) b = Unsqueeze(d, b, -1);
  if (b->rank() < 2) return d.Fail("B is not a stack of matrices");
  LuFactors f = LuFactor(d, a);
  Value* x = FromSide(d, b, left, [&](Value* b) { return SolveLu(d, f.lu, f.order, b, !left); });
  Values results(d.node().outputs().size());
  if (results.size() > 1) results.back() = DropTwo(d, f.info);
  results[0] = vectors ? Drop(d, x) : x;
  d.Return(std::move(results));
}
void LinalgInv(Decomposer& d) {
  Value* a = Matrix(d, 0);
  if (!d.ok()) return;
  LuFactors f = LuFactor(d, a);
  d.Return({SolveLu(d, f.lu, f.order, EyeLike(d, a), false), DropTwo(d, f.info)});
}
void TensorInv(Decomposer& d) {
  Value* x = d.in("self");
  int64_t ind = d.i("ind");
  SymInts sizes = d.b.SizesOf(x);
  if (ind <= 0 || ind > x->rank()) return d.Fail("ind is out of range");
  SymInts rows(sizes.begin(), sizes.begin() + ind), columns(sizes.begin() + ind, sizes.end());
  Value* a = Reshape(d, x, {Product(d, rows), Product(d, columns)});
  columns.insert(columns.end(), rows.begin(), rows.end());
  d.Return(Reshape(d, d.b.Call("aten.linalg_inv.default", {a}), columns));
}
void TensorSolve(Decomposer& d) {
  Value *x = d.in("self"), *other = d.in("other");
  if (d.has("dims")) {  // moved to the end
    std::vector<int> moved = d.dims("dims", x->rank(), false), order;
    for (int k = 0; k < x->rank(); ++k)
      if (std::find(moved.begin(), moved.end(), k) == moved.end()) order.push_back(k);
    order.insert(order.end(), moved.begin(), moved.end());
    if (static_cast<int>(order.size()) != x->rank()) return d.Fail("dims repeat");
    x = Permute(d, x, order);
  }
  SymInts sizes = d.b.SizesOf(x);
  if (!d.ok() || other->rank() > x->rank()) return d.Fail("operands of wrong rank");
  SymInts result(sizes.begin() + other->rank(), sizes.end());
  IntOrValue n = Product(d, result);
  Value* solution = d.b.Call("aten.linalg_solve.default", {Reshape(d, x, {n, n}), Reshape(d, other, {n})});
  d.Return(Reshape(d, solution, result));
}

// ---- Determinants

struct Determinant {
  Value* diagonal;  // of U
  Value* parity;    // 1, or -1 after an odd number of exchanges
};
Determinant FactorDeterminant(Decomposer& d, Value* a) {
  LuFactors f = LuFactor(d, a);
  Value* exchanged = d.Cmp("ne", f.pivots, RowNumbers(d, d.b.Size(f.pivots, -2)));
  Value* count = d.Sum(d.b.Cast(exchanged, DType::kInt64), {-2, -1});
  Value* odd = d.Cmp("eq", d.b.Call("aten.remainder.Scalar", {count, 2}), 1);
  return {DiagonalOf(d, f.lu), d.Where(odd, d.b.ScalarTensor(-1, a->dtype()), 1)};
}
Value* Prod(Decomposer& d, Value* x) { return d.b.Call("aten.prod.dim_int", {x, -1}); }
void LinalgDet(Decomposer& d) {
  Value* a = Matrix(d, 0);
  if (!d.ok()) return;
  Determinant det = FactorDeterminant(d, a);
  d.Return({d.Mul(Prod(d, det.diagonal), det.parity), nullptr, nullptr});
}
std::pair<Value*, Value*> SignAndLog(Decomposer& d, Value* a) {
  Determinant det = FactorDeterminant(d, a);
  return {d.Mul(Prod(d, d.Unary("sign", det.diagonal)), det.parity),
          d.Sum(d.Unary("log", d.Unary("abs", det.diagonal)), {-1})};
}
void LinalgSlogdet(Decomposer& d) {
  Value* a = Matrix(d, 0);
  if (!d.ok()) return;
  auto [sign, log] = SignAndLog(d, a);
  d.Return({sign, log, nullptr, nullptr});
}
void Logdet(Decomposer& d) {
  Value* a = Matrix(d, 0);
  if (!d.ok()) return;
  auto [sign, log] = SignAndLog(d, a);
  d.Return(d.Where(d.Cmp("eq", sign, -1), std::numeric_limits<double>::quiet_NaN(), log));
}

// ---- Symmetric matrices

void LinalgCholesky(Decomposer& d) {
  Value* a = Matrix(d, 0);
  bool upper = d.flag("upper");
  if (!d.ok()) return;
  CholeskyFactor f = Cholesky(d, upper ? TransposeMatrix(d, a) : a);
  d.Return({upper ? TransposeMatrix(d, f.l) : f.l, DropTwo(d, f.info)});
}
// X of L·Lᵀ·X = B or, upper, Uᵀ·U·X = B.
Value* SolveCholesky(Decomposer& d, Value* factor, Value* b, bool upper) {
  Value *other = TransposeMatrix(d, factor), *l = upper ? other : factor, *u = upper ? factor : other;
  return SolveTriangular(d, u, SolveTriangular(d, l, b, false, false), true, false);
}
void CholeskySolve(Decomposer& d) {
  Value *b = Matrix(d, 0), *factor = Matrix(d, 1);
  if (d.ok()) d.Return(SolveCholesky(d, factor, b, d.flag("upper")));
}
void CholeskyInverse(Decomposer& d) {
  Value* factor = Matrix(d, 0);
  if (d.ok()) d.Return(SolveCholesky(d, factor, EyeLike(d, factor), d.flag("upper")));
}

void LinalgLdlFactor(Decomposer& d) {  // of real numbers, `hermitian` tells nothing
  Value* a = Matrix(d, 0);
  if (!d.ok()) return;
  LdlFactors f = LdlFactor(d, a);
  d.Return({f.ld, Drop(d, f.pivots), DropTwo(d, f.info)});
}
void LinalgLdlSolve(Decomposer& d) {
  Value *ld = Matrix(d, 0), *pivots = d.tensor("pivots"), *b = Matrix(d, 2);
  if (d.ok()) d.Return(SolveLdl(d, ld, pivots, b));
}

// ---- QR

// The first `columns` columns of Q.
Value* ColumnsOfQ(Decomposer& d, const Reflectors& r, IntOrValue columns) {
  IntOrValue m = d.b.Size(r.a, -2);
  Value* eye = Expand(d, Eye(d, m, columns, r.a->dtype()), MatrixSizes(BatchOf(d, r.a), m, columns));
  return ApplyReflectors(d, r, eye, false);
}
void Qr(Decomposer& d) {
  Value* a = Matrix(d, 0);
  bool complete, wants_q = true;
  if (Declares(d, "some")) {
    complete = !d.flag("some");
  } else {
    std::string mode = d.str("mode");
    complete = mode == "complete";
    wants_q = mode != "r";
    if (!complete && wants_q && mode != "reduced") d.Fail(text::StrCat("mode '", mode, "'"));
  }
  if (!d.ok()) return;
  Reflectors r = QrFactor(d, a);
  IntOrValue m = d.b.Size(a, -2), k = complete ? m : Smaller(d, m, d.b.Size(a, -1));
  Value* upper = d.b.Call("aten.triu.default", {complete ? r.a : Slice(d, r.a, -2, 0, k)});
  d.Return({wants_q ? ColumnsOfQ(d, r, k) : Empty(d, a), upper});
}
void Geqrf(Decomposer& d) {
  Value* a = Matrix(d, 0);
  if (!d.ok()) return;
  Reflectors r = QrFactor(d, a);
  d.Return({r.a, Drop(d, r.tau)});
}
Reflectors GivenReflectors(Decomposer& d) {
  Value *a = Matrix(d, 0), *tau = d.in(d.node().op().args[1].name);
  if (d.ok() && tau->rank() != a->rank() - 1) d.Fail("tau has a wrong rank");
  return {a, d.ok() ? Unsqueeze(d, tau, -1) : tau};
}
void HouseholderProduct(Decomposer& d) {
  Reflectors r = GivenReflectors(d);
  if (d.ok()) d.Return(ColumnsOfQ(d, r, d.b.Size(r.a, -1)));
}
void Ormqr(Decomposer& d) {
  Reflectors r = GivenReflectors(d);
  Value* c = Matrix(d, 2);
  bool left = d.flag("left"), transpose = d.flag("transpose");
  if (!d.ok()) return;
  d.Return(FromSide(d, c, left, [&](Value* c) { return ApplyReflectors(d, r, c, transpose == left); }));
}

// ---- Eigenvalues and singular values

// Rotations run in f64: what a small value loses to a large one is then below what f32 tells.
Value* Wide(Decomposer& d, Value* a) { return d.b.Cast(a, DType::kFloat64); }

bool Used(Decomposer& d, size_t i) {
  Value* v = d.node().output(i);
  return v && (!v->users().empty() || v->graph()->IsOutput(v));
}
bool RefuseReturned(Decomposer& d, Value* a, size_t i, std::string_view what) {
  Value* v = d.node().output(i);
  if (!v || !v->graph()->IsOutput(v) || IsEmpty(a)) return false;
  d.Unsupported(text::StrCat(what, " as a result of the program: LAPACK leaves their signs to rounding"));
  return true;
}

// Of the symmetric matrix in one triangle of A, in f64; `vectors` null where not wanted. With c no less than its norm,
// A + c·I is positive semidefinite: its singular values and vectors are eigenvalues and eigenvectors.
Eigen SymmetricEigen(Decomposer& d, Value* a, bool upper, bool vectors) {
  a = Wide(d, upper ? TransposeMatrix(d, a) : a);
  Value* below = d.b.Call("aten.tril.default", {a, -1});
  a = d.Add(d.b.Call("aten.tril.default", {a}), TransposeMatrix(d, below));
  Value* c = d.Unary("sqrt", d.Sum(d.Mul(a, a), {-2, -1}, true));
  IntOrValue n = d.b.Size(a, -1);
  Jacobi j = OneSidedJacobi(d, d.Add(a, d.Mul(Eye(d, n, n, a->dtype()), c)), vectors);
  Value* values = d.Sub(j.s, Drop(d, c));
  return {Flip(d, values, {-1}), vectors ? Flip(d, j.v, {-1}) : nullptr};
}
Eigen EigenOf(Decomposer& d, Value* a, bool vectors, bool as_lapack) {
  std::string triangle = d.str("UPLO");
  bool upper = triangle == "U" || triangle == "u";
  if (!upper && triangle != "L" && triangle != "l") d.Fail(text::StrCat("UPLO '", triangle, "'"));
  if (!d.ok()) return {a, a};
  return as_lapack ? LapackEigen(d, a, upper) : SymmetricEigen(d, a, upper, vectors);
}
void LinalgEigh(Decomposer& d) {
  Value* a = Matrix(d, 0);
  bool given = !Declares(d, "compute_v") || d.flag("compute_v");
  if (!d.ok()) return;
  bool vectors = given && Used(d, 1), as_lapack = vectors && EigenHasSigns(a) && !IsEmpty(a);
  if (given && !as_lapack && RefuseReturned(d, a, 1, "eigenvectors of more than 3 rows, or of an unknown number,"))
    return;
  Eigen e = EigenOf(d, a, vectors, as_lapack);
  d.Return({e.values, given ? e.vectors : Empty(d, a)});
}
void LinalgEigvalsh(Decomposer& d) {
  Value* a = Matrix(d, 0);
  if (d.ok()) d.Return(EigenOf(d, a, false, false).values);
}

// Taller than wide where that is known: rotations then have fewer columns to turn.
bool Turned(Value* a) {
  auto m = a->sizes()[a->rank() - 2].constant(), n = a->sizes()[a->rank() - 1].constant();
  return m && n && *m < *n;
}
Value* SingularValues(Decomposer& d, Value* a) {
  IntOrValue k = Smaller(d, d.b.Size(a, -2), d.b.Size(a, -1));
  return Slice(d, OneSidedJacobi(d, Wide(d, Turned(a) ? TransposeMatrix(d, a) : a), false).s, -1, 0, k);
}
void LinalgSvdvals(Decomposer& d) {
  Value* a = Matrix(d, 0);
  if (d.ok()) d.Return(SingularValues(d, a));
}
struct SvdParts {
  Value *u, *s, *v;
};
SvdParts SvdOf(Decomposer& d, Value* a, bool full) {
  if (Turned(a)) {
    SvdParts t = SvdOf(d, TransposeMatrix(d, a), full);
    return {t.v, t.s, t.u};
  }
  IntOrValue m = d.b.Size(a, -2), k = Smaller(d, m, d.b.Size(a, -1));
  Jacobi j = OneSidedJacobi(d, Wide(d, a), true);
  // The columns of W, scaled, are left vectors; QR gives them up to signs, and completes those of length zero.
  Reflectors r = QrFactor(d, Slice(d, j.w, -1, 0, k));
  Value* q = ColumnsOfQ(d, r, full ? m : k);
  Value* negative = Unsqueeze(d, d.Cmp("lt", DiagonalOf(d, r.a), 0), -2);
  Value* first = Slice(d, q, -1, 0, k);
  Value* u = d.Where(negative, d.Unary("neg", first), first);
  if (full) u = Cat(d, {u, Slice(d, q, -1, k)}, -1);
  return {u, Slice(d, j.s, -1, 0, k), full ? j.v : Slice(d, j.v, -1, 0, k)};
}
void Svd(Decomposer& d) {
  Value* a = Matrix(d, 0);
  bool old = Declares(d, "some"), vectors = !Declares(d, "compute_uv") || d.flag("compute_uv");
  bool full = old ? !d.flag("some") : d.flag("full_matrices");
  if (!d.ok()) return;
  if (!vectors) {
    auto none = [&](IntOrValue n) {
      return old ? d.b.Full(MatrixSizes(BatchOf(d, a), n, n), 0, a->dtype()) : Empty(d, a);
    };
    return d.Return({none(d.b.Size(a, -2)), SingularValues(d, a), none(d.b.Size(a, -1))});
  }
  if (RefuseReturned(d, a, 0, "singular vectors") || RefuseReturned(d, a, 2, "singular vectors")) return;
  if (!Used(d, 0) && !Used(d, 2)) return d.Return({nullptr, SingularValues(d, a), nullptr});
  SvdParts p = SvdOf(d, a, full);
  d.Return({p.u, p.s, old ? p.v : TransposeMatrix(d, p.v)});
}

// A = U·H with orthonormal columns of U and H positive semidefinite: of A = L·S·Rᵀ they are L·Rᵀ and R·S·Rᵀ, whatever
// the signs of vectors.
void LinalgPolar(Decomposer& d) {
  Value* a = Matrix(d, 0);
  if (!d.ok()) return;
  if (IsEmpty(a)) {
    const IntOrValue n = d.b.Size(a, -1);
    return d.Return({a, d.b.Full(MatrixSizes(BatchOf(d, a), n, n), 0, a->dtype())});
  }
  SvdParts p = SvdOf(d, a, false);
  Value* right = TransposeMatrix(d, p.v);
  d.Return({Matmul(d, p.u, right), Matmul(d, d.Mul(p.v, Unsqueeze(d, p.s, -2)), right)});
}
// The root of a symmetric matrix, in whose lower triangle it is; what rounding made negative of its eigenvalues counts
// as zero.
void LinalgMatrixSqrth(Decomposer& d) {
  Value* a = Matrix(d, 0);
  if (!d.ok()) return;
  if (IsEmpty(a)) return d.Return(a);
  Eigen e = SymmetricEigen(d, a, false, true);
  Value* roots = d.Unary("sqrt", ClampMin(d, e.values, 0));
  d.Return(Matmul(d, d.Mul(e.vectors, Unsqueeze(d, roots, -2)), TransposeMatrix(d, e.vectors)));
}

// ---- What counts as zero: ranks, pseudoinverses, condition numbers

// The least value that counts, [..., 1]: the larger of the absolute tolerance and the relative one times the largest
// of `values`, [..., k]. Operators name their tolerances in several ways.
Value* Threshold(Decomposer& d, Value* a, Value* values) {
  auto given = [&](std::string_view name) -> Value* {
    int at = d.node().op().ArgIndex(name);
    if (at < 0 || !d.has(name)) return nullptr;
    if (d.node().op().args[at].type != "Tensor") return d.b.ScalarTensor(d.f(name), DType::kFloat64);
    Value* t = Wide(d, d.in(name));
    return t->rank() ? Unsqueeze(d, t, -1) : t;
  };
  Value *absolute = given("atol"), *relative = given("rtol");
  if (Value* tol = given("tol")) absolute = tol, relative = d.b.ScalarTensor(0.0, DType::kFloat64);
  if (Value* rcond = given("rcond")) relative = rcond;
  if (!relative) {
    double eps = a->dtype() == DType::kFloat64 ? std::numeric_limits<double>::epsilon()
                                               : static_cast<double>(std::numeric_limits<float>::epsilon());
    Value* rows = d.b.ScalarTensor(Arg(d.b.Size(a, -2)), DType::kFloat64);
    Value* columns = d.b.ScalarTensor(Arg(d.b.Size(a, -1)), DType::kFloat64);
    relative = d.Mul(d.b.Call("aten.maximum.default", {rows, columns}), eps);
    if (absolute) relative = d.Where(d.Cmp("gt", absolute, 0), 0.0, relative);
  }
  Value* largest = d.b.Call("aten.amax.default", {values, ir::Ints{-1}, true});
  Value* scaled = d.Mul(largest, relative);
  return absolute ? d.b.Call("aten.maximum.default", {scaled, absolute}) : scaled;
}
void MatrixRank(Decomposer& d) {
  Value* a = Matrix(d, 0);
  bool hermitian = d.flag("hermitian");
  if (!d.ok()) return;
  if (IsEmpty(a)) return d.Return(d.b.Full(BatchOf(d, a), 0, DType::kInt64));
  Value* values = hermitian ? d.Unary("abs", SymmetricEigen(d, a, false, false).values) : SingularValues(d, a);
  d.Return(d.Sum(d.b.Cast(d.Cmp("gt", values, Threshold(d, a, values)), DType::kInt64), {-1}));
}
void Pinv(Decomposer& d) {
  Value* a = Matrix(d, 0);
  bool hermitian = Declares(d, "hermitian") && d.flag("hermitian");
  if (!d.ok()) return;
  if (IsEmpty(a))
    return d.Return(d.b.Full(MatrixSizes(BatchOf(d, a), d.b.Size(a, -1), d.b.Size(a, -2)), 0, a->dtype()));
  auto inverse = [&](Value* values, Value* square, Value* least) {  // 1 / square where values count
    Value* kept = d.Cmp("gt", d.Unary("abs", values), least);
    return Unsqueeze(d, d.Where(kept, d.Unary("reciprocal", d.Where(kept, square, 1.0)), 0.0), -2);
  };
  if (hermitian) {
    Eigen e = SymmetricEigen(d, a, false, true);
    Value* least = Threshold(d, a, d.Unary("abs", e.values));
    return d.Return(Matmul(d, d.Mul(e.vectors, inverse(e.values, e.values, least)), TransposeMatrix(d, e.vectors)));
  }
  // A·V = W, whose columns are orthogonal and as long as s: the pseudoinverse is V·s⁻²·Wᵀ.
  bool turned = Turned(a);
  Jacobi j = OneSidedJacobi(d, Wide(d, turned ? TransposeMatrix(d, a) : a), true);
  Value* scale = inverse(j.s, d.Mul(j.s, j.s), Threshold(d, a, j.s));
  Value* r = Matmul(d, d.Mul(j.v, scale), TransposeMatrix(d, j.w));
  d.Return(turned ? TransposeMatrix(d, r) : r);
}
void LinalgCond(Decomposer& d) {
  Value* a = Matrix(d, 0);
  Arg order = Declares(d, "p") && d.has("p") ? d.node().Get("p") : Arg();
  if (!d.ok()) return;
  if (IsEmpty(a)) return d.Return(d.b.Full(BatchOf(d, a), 0, a->dtype()));
  double p = 0;
  bool named = order.is<std::string>();
  if (!named) {
    if (order.is_none()) order = Arg(2.0);
    if (auto i = order.get<int64_t>())
      p = static_cast<double>(*i);
    else if (auto f = order.get<double>())
      p = *f;
    else
      return d.Unsupported("an order that is not a constant real number");
  }
  if (!named && std::abs(p) == 2) {
    Value* s = SingularValues(d, a);
    Value *first = Select(d, s, -1, 0), *last = Select(d, s, -1, -1);
    return d.Return(p > 0 ? d.Div(first, last) : d.Div(last, first));
  }
  if (named && *order.get<std::string>() == "nuc") {
    Value* s = SingularValues(d, a);
    return d.Return(d.Mul(d.Sum(s, {-1}), d.Sum(d.Unary("reciprocal", s), {-1})));
  }
  Values inverse = d.b.CallMulti("aten.linalg_inv_ex.default", {a});
  auto norm = [&](Value* x) {
    return d.b.Call(named ? "aten.linalg_matrix_norm.str_ord" : "aten.linalg_matrix_norm.default",
                    {x, order, ir::Ints{-2, -1}});
  };
  d.Return(
      d.Where(d.Cmp("ne", inverse[1], 0), std::numeric_limits<double>::infinity(), d.Mul(norm(a), norm(inverse[0]))));
}

// ---- The exponential

// Of A / 2^s, whose norm is at most 1, by its Taylor series; then squared s times.
void MatrixExp(Decomposer& d) {
  constexpr int64_t kMost = 1100;  // beyond a double's exponents
  Value* a = Matrix(d, 0);
  if (!d.ok()) return;
  if (ir::IsLowPrecision(d.out_type().dtype))  // torch's kernel has coefficients for f32 and f64 alone
    return d.Unsupported("f16 and bf16, whose results torch leaves undefined");
  if (IsEmpty(a)) return d.Return(a);
  Value* norm = d.b.Call("aten.amax.default", {d.Sum(d.Unary("abs", a), {-2}, true), ir::Ints{-1}, true});
  Value* times = d.Unary("ceil", d.Unary("log2", ClampMin(d, norm, 1.0)));
  times = d.b.Call("aten.clamp.default", {times, 0, kMost});
  // In two halves, since 2^-s may not be representable.
  Value* half = d.Unary("floor", d.Mul(times, 0.5));
  Value* x = d.Mul(d.Mul(a, d.Unary("exp2", d.Unary("neg", half))), d.Unary("exp2", d.Sub(half, times)));
  IntOrValue n = d.b.Size(a, -1);
  Value *eye = Eye(d, n, n, a->dtype()), *sum = eye;
  for (int k = a->dtype() == DType::kFloat64 ? 18 : 12; k > 0; --k) sum = d.Add(d.Mul(Matmul(d, x, sum), 1.0 / k), eye);
  d.Return(For(d, kMost, {sum}, [&](LoopStep& s) {
    Value *sum = s.state[0], *left = s(times);
    s.state = {s.d.Where(s.d.Cmp("gt", left, s.i), Matmul(s.d, sum, sum), sum)};
    s.StopWhen(Not(s.d, s.d.Unary("any", s.d.Cmp("gt", left, s.d.Add(s.i, 1)))));
  })[0]);
}

constexpr DecomposeRow kLinalgRows[] = {
    {"aten.linalg_solve_triangular.default", LinalgSolveTriangular},
    {"aten.triangular_solve.default", OldTriangularSolve},
    {"aten.linalg_lu_factor.default", LinalgLuFactor},
    {"aten.linalg_lu_factor_ex.default", LinalgLuFactor},
    {"aten._lu_with_info.default", LinalgLuFactor},
    {"aten.linalg_lu.default", LinalgLu},
    {"aten.lu_unpack.default", LuUnpack},
    {"aten.linalg_lu_solve.default", LinalgLuSolve},
    {"aten.lu_solve.default", LuSolve},
    {"aten.linalg_solve.default", LinalgSolve},
    {"aten.linalg_solve_ex.default", LinalgSolve},
    {"aten._linalg_solve_ex.default", LinalgSolve},
    {"aten.linalg_inv.default", LinalgInv},
    {"aten.linalg_inv_ex.default", LinalgInv},
    {"aten.linalg_tensorinv.default", TensorInv},
    {"aten.linalg_tensorsolve.default", TensorSolve},
    {"aten.linalg_det.default", LinalgDet},
    {"aten._linalg_det.default", LinalgDet},
    {"aten.linalg_slogdet.default", LinalgSlogdet},
    {"aten._linalg_slogdet.default", LinalgSlogdet},
    {"aten.logdet.default", Logdet},
    {"aten.cholesky.default", LinalgCholesky},
    {"aten.linalg_cholesky.default", LinalgCholesky},
    {"aten.linalg_cholesky_ex.default", LinalgCholesky},
    {"aten.cholesky_solve.default", CholeskySolve},
    {"aten.cholesky_inverse.default", CholeskyInverse},
    {"aten.linalg_ldl_factor.default", LinalgLdlFactor},
    {"aten.linalg_ldl_factor_ex.default", LinalgLdlFactor},
    {"aten.linalg_ldl_solve.default", LinalgLdlSolve},
    {"aten.linalg_qr.default", Qr},
    {"aten.qr.default", Qr},
    {"aten.geqrf.default", Geqrf},
    {"aten.linalg_householder_product.default", HouseholderProduct},
    {"aten.ormqr.default", Ormqr},
    {"aten.linalg_eigh.default", LinalgEigh},
    {"aten._linalg_eigh.default", LinalgEigh},
    {"aten.linalg_eigvalsh.default", LinalgEigvalsh},
    {"aten.linalg_svdvals.default", LinalgSvdvals},
    {"aten.linalg_polar.default", LinalgPolar},
    {"aten.linalg_matrix_sqrth.default", LinalgMatrixSqrth},
    {"aten.linalg_svd.default", Svd},
    {"aten._linalg_svd.default", Svd},
    {"aten.svd.default", Svd},
    {"aten.linalg_matrix_rank.default", MatrixRank},
    {"aten.linalg_matrix_rank.tol_tensor", MatrixRank},
    {"aten.linalg_matrix_rank.atol_rtol_tensor", MatrixRank},
    {"aten.linalg_matrix_rank.atol_rtol_float", MatrixRank},
    {"aten.linalg_pinv.default", Pinv},
    {"aten.linalg_pinv.rcond_tensor", Pinv},
    {"aten.linalg_pinv.atol_rtol_tensor", Pinv},
    {"aten.linalg_pinv.atol_rtol_float", Pinv},
    {"aten.pinverse.default", Pinv},
    {"aten.linalg_cond.default", LinalgCond},
    {"aten.linalg_cond.p_str", LinalgCond},
    {"aten.matrix_exp.default", MatrixExp},
};

}  // namespace

absl::Span<const DecomposeRow> LinalgDecompositions() { return kLinalgRows; }

}  // namespace slipway::passes
