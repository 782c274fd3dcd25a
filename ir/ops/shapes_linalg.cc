// Shape functions: decompositions, solvers and norms of matrices.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {

Sizes BatchSizes(const Sizes& s) { return Sizes(s.begin(), s.end() - 2); }
Sizes JoinSizes(Sizes a, std::initializer_list<Sym> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

namespace {

// The parts of a stack of matrices: batch sizes, rows, columns, the smaller of the two.
struct Matrix {
  Value* v;
  Sizes batch;
  Sym m, n, k;
};

bool ReadMatrix(InferContext& c, Value* v, Matrix& a) {
  NeedRankAtLeast(c, v, 2);
  a = {v, BatchSizes(v->sizes()), v->sizes()[v->rank() - 2], v->sizes().back(), 0};
  a.k = SmallerOf(a.m, a.n);
  return c.ok();
}

bool ReadSquare(InferContext& c, Value* v, Matrix& a) {
  return ReadMatrix(c, v, a) && c.RequireEqual(a.m, a.n, "rows and columns of a square matrix");
}

void NeedSquare(InferContext& c, Value* v) {
  Matrix a;
  ReadSquare(c, v, a);
}

void SquareLikeSelf(InferContext& c) {
  NeedSquare(c, Self(c));
  SameAsSelf(c);
}

void SameAndInfo(InferContext& c) {  // cholesky_ex, inv_ex: a status per matrix
  Matrix a;
  if (!ReadSquare(c, Self(c), a)) return;
  SameAsSelf(c);
  c.Out(DType::kInt32, a.batch);
}

template <DType kTo>
void PerMatrixTo(InferContext& c) {
  Matrix a;
  if (ReadMatrix(c, Self(c), a)) c.Out(kTo, a.batch);
}

void PerMatrix(InferContext& c) {  // determinants
  Matrix a;
  if (ReadSquare(c, Self(c), a)) c.Out(a.v->dtype(), a.batch);
}

void PerMatrixReal(InferContext& c) {
  Matrix a;
  if (ReadMatrix(c, Self(c), a)) c.Out(ToReal(a.v->dtype()), a.batch);
}

void DetWithFactors(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  PerMatrix(c);
  if (c.node().op().base == "_linalg_slogdet") PerMatrixReal(c);
  SameAsSelf(c);
  c.Out(DType::kInt32, JoinSizes(a.batch, {a.m}));
}

void SlogDet(InferContext& c) {
  PerMatrix(c);
  PerMatrixReal(c);
}

void EigenValues(InferContext& c) {  // of symmetric matrices
  Matrix a;
  if (ReadSquare(c, Self(c), a)) c.Out(ToReal(a.v->dtype()), JoinSizes(a.batch, {a.n}));
}

void Eigh(InferContext& c) {
  EigenValues(c);
  SameAsSelf(c);
}

void ComplexEigenValues(InferContext& c) {
  Matrix a;
  if (ReadSquare(c, Self(c), a)) c.Out(ToComplex(a.v->dtype()), JoinSizes(a.batch, {a.n}));
}

void Eig(InferContext& c) {
  ComplexEigenValues(c);
  c.Out(ToComplex(Self(c)->dtype()), Self(c)->sizes());
}

void OutSvd(InferContext& c, const Matrix& a, bool full, bool transposed) {
  Sizes v = transposed ? JoinSizes(a.batch, {full ? a.n : a.k, a.n}) : JoinSizes(a.batch, {a.n, full ? a.n : a.k});
  c.Out(a.v->dtype(), JoinSizes(a.batch, {a.m, full ? a.m : a.k}));
  c.Out(ToReal(a.v->dtype()), JoinSizes(a.batch, {a.k}));
  c.Out(a.v->dtype(), v);
}

void LinalgPolar(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  if (ProvablyLess(a.m, a.n)) return c.Fail("fewer rows than columns");
  c.RequireAtLeast(a.m - a.n, 0);
  c.Out(a.v->dtype(), JoinSizes(a.batch, {a.m, a.n}));
  c.Out(a.v->dtype(), JoinSizes(a.batch, {a.n, a.n}));
}

void MatrixSqrth(InferContext& c) {
  Matrix a;
  if (ReadSquare(c, Self(c), a)) c.Out(a.v->dtype(), Self(c)->sizes());
}

void LinalgSvd(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  if (c.node().op().ArgIndex("compute_uv") >= 0 && !c.b("compute_uv")) {
    c.Out(a.v->dtype(), {0});
    c.Out(ToReal(a.v->dtype()), JoinSizes(a.batch, {a.k}));
    return c.Out(a.v->dtype(), {0});
  }
  OutSvd(c, a, c.b("full_matrices"), /*transposed=*/true);
}

void Svd(InferContext& c) {  // the older form: V itself, and zeros of the full size where it is not wanted
  Matrix a;
  if (ReadMatrix(c, Self(c), a)) OutSvd(c, a, !c.b("some") || !c.b("compute_uv"), /*transposed=*/false);
}

void SingularValues(InferContext& c) {
  Matrix a;
  if (ReadMatrix(c, Self(c), a)) c.Out(ToReal(a.v->dtype()), JoinSizes(a.batch, {a.k}));
}

void Qr(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  bool old = c.node().op().ArgIndex("some") >= 0;
  std::string mode = old ? (c.b("some") ? "reduced" : "complete") : c.str("mode");
  bool complete = mode == "complete";
  if (!complete && mode != "reduced" && mode != "r") return c.Fail(text::StrCat("mode '", mode, "'"));
  c.Out(a.v->dtype(), mode == "r" ? Sizes{0} : JoinSizes(a.batch, {a.m, complete ? a.m : a.k}));
  c.Out(a.v->dtype(), JoinSizes(a.batch, {complete ? a.m : a.k, a.n}));
}

void Lu(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  c.Out(a.v->dtype(), c.b("pivot") ? JoinSizes(a.batch, {a.m, a.m}) : Sizes{0});
  c.Out(a.v->dtype(), JoinSizes(a.batch, {a.m, a.k}));
  c.Out(a.v->dtype(), JoinSizes(a.batch, {a.k, a.n}));
}

void LuFactor(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  SameAsSelf(c);
  c.Out(DType::kInt32, JoinSizes(a.batch, {a.k}));
  if (c.node().op().returns.size() > 2) c.Out(DType::kInt32, a.batch);
}

void LuUnpack(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  NeedSameSizes(c, TensorAt(c, 1)->sizes(), JoinSizes(a.batch, {a.k}), "the pivots");
  bool data = c.b("unpack_data");
  c.Out(a.v->dtype(), c.b("unpack_pivots") ? JoinSizes(a.batch, {a.m, a.m}) : Sizes{0});
  c.Out(a.v->dtype(), data ? JoinSizes(a.batch, {a.m, a.k}) : Sizes{0});
  c.Out(a.v->dtype(), data ? JoinSizes(a.batch, {a.k, a.n}) : Sizes{0});
}

void LdlFactor(InferContext& c) {
  Matrix a;
  if (!ReadSquare(c, Self(c), a)) return;
  SameAsSelf(c);
  c.Out(DType::kInt32, JoinSizes(a.batch, {a.n}));
  if (c.node().op().returns.size() > 2) c.Out(DType::kInt32, a.batch);
}

// b with the batch sizes of both.
Sizes SolutionSizes(InferContext& c, const Matrix& a, const Matrix& b) {
  return JoinSizes(c.Broadcast(a.batch, b.batch), {b.m, b.n});
}

template <size_t kMatrix, size_t kRight>
void Solution(InferContext& c) {
  Matrix a, b;
  if (!ReadSquare(c, TensorAt(c, kMatrix), a) || !ReadMatrix(c, TensorAt(c, kRight), b)) return;
  NeedSameDType(c, {a.v, b.v});
  const bool left = c.node().op().ArgIndex("left") < 0 || c.b("left");
  c.RequireEqual(a.n, left ? b.m : b.n, "sizes of the matrix and the right-hand sides");
  c.Out(b.v->dtype(), SolutionSizes(c, a, b));
}

void TriangularSolve(InferContext& c) {
  Matrix a, b;
  if (!ReadSquare(c, TensorAt(c, 1), a) || !ReadMatrix(c, Self(c), b)) return;
  NeedSameDType(c, {a.v, b.v});
  c.RequireEqual(a.n, b.m, "sizes of the matrix and the right-hand sides");
  c.Out(b.v->dtype(), SolutionSizes(c, a, b));
  c.Out(a.v->dtype(), JoinSizes(c.Broadcast(a.batch, b.batch), {a.m, a.n}));
}

// Solves with B a matrix or, when it looks like a batch of vectors, vectors. Then a status per matrix, where returned.
void Solve(InferContext& c) {
  Matrix a;
  Value* right = TensorAt(c, 1);
  if (!ReadSquare(c, Self(c), a)) return;
  NeedSameDType(c, {a.v, right});
  const bool left = c.node().op().ArgIndex("left") < 0 || c.b("left");
  const Sizes& s = right->sizes();
  Sizes rows = JoinSizes(a.batch, {a.m});
  bool vectors =
      s.size() == 1 || (s.size() == rows.size() && std::equal(s.begin(), s.end(), rows.begin(), ProvablyEqual));
  Sizes out;
  if (vectors) {
    c.RequireEqual(a.n, s.back(), "sizes of the matrix and the right-hand sides");
    out = JoinSizes(c.Broadcast(a.batch, Sizes(s.begin(), s.end() - 1)), {s.back()});
  } else {
    Matrix b;
    if (!ReadMatrix(c, right, b)) return;
    c.RequireEqual(a.n, left ? b.m : b.n, "sizes of the matrix and the right-hand sides");
    out = SolutionSizes(c, a, b);
  }
  c.Out(a.v->dtype(), out);
  if (c.node().op().returns.size() == 4) {  // with the factors
    SameAsSelf(c);
    c.Out(DType::kInt32, JoinSizes(a.batch, {a.n}));
  }
  if (c.node().op().returns.size() > 1) c.Out(DType::kInt32, a.batch);
}

void PseudoInverse(InferContext& c) {
  Matrix a;
  if (ReadMatrix(c, Self(c), a)) c.Out(a.v->dtype(), JoinSizes(a.batch, {a.n, a.m}));
}

void Geqrf(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  SameAsSelf(c);
  c.Out(a.v->dtype(), JoinSizes(a.batch, {a.k}));
}

void Householder(InferContext& c) {
  Matrix a;
  Value* tau = TensorAt(c, 1);
  if (!ReadMatrix(c, Self(c), a)) return;
  NeedRankAtLeast(c, tau, 1);
  NeedSameDType(c, {a.v, tau});
  NeedSameSizes(c, WithDim(tau->sizes(), tau->rank() - 1, 0), JoinSizes(a.batch, {0}), "batches of the reflections");
  if (ProvablyLess(a.m, a.n)) c.Fail("fewer rows than columns");
  if (ProvablyLess(a.n, tau->sizes().back())) c.Fail("more reflections than columns");
  SameAsSelf(c);
}

void LikeThird(InferContext& c) {
  Value* x = TensorAt(c, 2);
  c.Out(x->dtype(), x->sizes());
}

void TensorInverse(InferContext& c) {
  Value* x = Self(c);
  int64_t ind = c.i("ind");
  if (ind <= 0 || ind > x->rank()) return c.Fail("ind is out of range");
  Sizes out(x->sizes().begin() + ind, x->sizes().end());
  out.insert(out.end(), x->sizes().begin(), x->sizes().begin() + ind);
  c.RequireEqual(Product(Sizes(x->sizes().begin(), x->sizes().begin() + ind)),
                 Product(Sizes(x->sizes().begin() + ind, x->sizes().end())), "elements of the rows and the columns");
  c.Out(x->dtype(), out);
}

void TensorSolve(InferContext& c) {
  Value *x = Self(c), *other = TensorAt(c, 1);
  Sizes s = x->sizes();
  if (c.has("dims")) {  // moved to the end
    std::vector<int> dims = c.dims("dims", x->rank(), false);
    Sizes kept;
    for (int d = 0; d < x->rank(); ++d)
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(s[d]);
    for (int d : dims)
      if (d < x->rank()) kept.push_back(s[d]);
    s = kept;
  }
  if (other->rank() > static_cast<int>(s.size())) return c.Fail("bad ranks");
  Sizes out(s.begin() + other->rank(), s.end());
  c.RequireEqual(Product(out), NumelOf(other), "elements of the unknowns and the right-hand sides");
  NeedSameDType(c, {x, other});
  c.Out(x->dtype(), out);
}

void Vandermonde(InferContext& c) {
  Value* x = Self(c);
  auto n = c.opt_sym("N");
  Sizes out = x->rank() ? x->sizes() : Sizes{1};
  out.push_back(n ? ExprOf(*n) : out.back());
  c.Out(SumDType(x->dtype()), out);
}

void Norm(InferContext& c) {  // over dims, or everything; a real number
  Value* x = Self(c);
  std::vector<int> dims = c.dims("dim", x->rank());
  c.Out(ToReal(c.dtype("dtype").value_or(x->dtype())), c.Reduce(x->sizes(), dims, c.b("keepdim")));
}

constexpr ShapeFamily kLinalgFamilies[] = {
    {SquareLikeSelf,
     "cholesky linalg_cholesky cholesky_inverse linalg_inv inverse matrix_exp linalg_matrix_exp matrix_power "
     "linalg_matrix_power"},
    {Householder, "linalg_householder_product orgqr"},
    {SameAndInfo, "linalg_cholesky_ex linalg_inv_ex"},
    {PerMatrix, "linalg_det det logdet"},
    {DetWithFactors, "_linalg_det _linalg_slogdet"},
    {SlogDet, "linalg_slogdet slogdet"},
    {PerMatrixReal, "linalg_cond linalg_cond.p_str"},
    {PerMatrixTo<DType::kInt64>,
     "linalg_matrix_rank linalg_matrix_rank.tol_tensor linalg_matrix_rank.atol_rtol_tensor "
     "linalg_matrix_rank.atol_rtol_float"},
    {EigenValues, "linalg_eigvalsh"},
    {Eigh, "linalg_eigh _linalg_eigh"},
    {ComplexEigenValues, "linalg_eigvals _linalg_eigvals"},
    {Eig, "linalg_eig"},
    {LinalgPolar, "linalg_polar"},
    {MatrixSqrth, "linalg_matrix_sqrth"},
    {LinalgSvd, "linalg_svd _linalg_svd"},
    {Svd, "svd"},
    {SingularValues, "linalg_svdvals"},
    {Qr, "linalg_qr qr"},
    {Lu, "linalg_lu"},
    {LuFactor, "linalg_lu_factor linalg_lu_factor_ex _lu_with_info"},
    {LuUnpack, "lu_unpack"},
    {LdlFactor, "linalg_ldl_factor linalg_ldl_factor_ex"},
    {Solution<0, 2>, "linalg_lu_solve linalg_ldl_solve"},
    {Solution<1, 0>, "lu_solve cholesky_solve"},
    {Solution<0, 1>, "linalg_solve_triangular"},
    {TriangularSolve, "triangular_solve"},
    {Solve, "linalg_solve linalg_solve_ex _linalg_solve_ex"},
    {PseudoInverse,
     "pinverse linalg_pinv linalg_pinv.rcond_tensor linalg_pinv.atol_rtol_tensor linalg_pinv.atol_rtol_float"},
    {Geqrf, "geqrf"},
    {LikeThird, "ormqr"},
    {TensorInverse, "linalg_tensorinv"},
    {TensorSolve, "linalg_tensorsolve"},
    {Vandermonde, "linalg_vander vander"},
    {Norm, "linalg_norm linalg_norm.ord_str linalg_vector_norm linalg_matrix_norm linalg_matrix_norm.str_ord"},
};

}  // namespace

absl::Span<const ShapeRow> LinalgShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kLinalgFamilies);
  return rows;
}

}  // namespace slipway::ir
