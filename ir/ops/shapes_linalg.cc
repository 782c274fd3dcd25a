// Shape functions: products of matrices, decompositions and solvers.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {
namespace {

Sizes Batch(const Sizes& s) { return Sizes(s.begin(), s.end() - 2); }
Sizes Join(Sizes a, std::initializer_list<Sym> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// --- Products ----------------------------------------------------------------------------------------------------

void OutMatMul(InferContext& c, Value* a, Value* b) {
  NeedSameDType(c, {a, b});
  Sizes x = a->sizes(), y = b->sizes();
  if (x.empty() || y.empty()) return c.Fail("a 0-d tensor in a matrix product");
  bool row = x.size() == 1, column = y.size() == 1;
  if (row) x.insert(x.begin(), 1);
  if (column) y.push_back(1);
  if (!c.RequireEqual(x.back(), y[y.size() - 2], "inner sizes")) return;
  Sizes out = c.Broadcast(Batch(x), Batch(y));
  if (!row) out.push_back(x[x.size() - 2]);
  if (!column) out.push_back(y.back());
  c.Out(a->dtype(), out);
}
void MatMul(InferContext& c) { OutMatMul(c, Self(c), TensorAt(c, 1)); }
void Mm(InferContext& c) {
  Value *a = Self(c), *b = TensorAt(c, 1);
  NeedRank(c, a, 2);
  NeedRank(c, b, 2);
  OutMatMul(c, a, b);
}
void IntMm(InferContext& c) {
  Value *a = Self(c), *b = TensorAt(c, 1);
  NeedRank(c, a, 2);
  NeedRank(c, b, 2);
  c.RequireEqual(a->sizes()[1], b->sizes()[0], "inner sizes");
  c.Out(DType::kInt32, {a->sizes()[0], b->sizes()[1]});
}
// The batch sizes agree; the constant one of the two is kept.
Sizes Bmm(InferContext& c, Value* a, Value* b) {
  NeedSameDType(c, {a, b});
  NeedRank(c, a, 3);
  NeedRank(c, b, 3);
  c.RequireEqual(a->sizes()[0], b->sizes()[0], "batch sizes");
  c.RequireEqual(a->sizes()[2], b->sizes()[1], "inner sizes");
  return {b->sizes()[0].is_constant() ? b->sizes()[0] : a->sizes()[0], a->sizes()[1], b->sizes()[2]};
}
DType GivenOr(InferContext& c, DType t) {
  return c.node().op().ArgIndex("out_dtype") >= 0 ? c.dtype("out_dtype").value_or(t) : t;
}
void BatchMm(InferContext& c) { c.Out(GivenOr(c, Self(c)->dtype()), Bmm(c, Self(c), TensorAt(c, 1))); }
// Products of groups: a dim that both have in three dims is a batch; where a matrix is divided, the number of groups
// is.
void GroupedMm(InferContext& c) {
  Value *a = Self(c), *b = TensorAt(c, 1), *ends = c.opt_tensor("offs");
  NeedSameDType(c, {a, b});
  if (!c.ok()) return;
  for (Value* v : {a, b})
    if (v->rank() != 2 && v->rank() != 3) return c.Fail("a tensor of neither two nor three dims");
  const bool rows = a->rank() == 2, columns = b->rank() == 2;
  if ((rows || columns) != (ends != nullptr))
    return c.Fail("ends of groups where no dim is divided, or none where one is");
  if (ends) NeedRank(c, ends, 1);
  c.RequireEqual(a->sizes().back(), b->sizes()[b->rank() - 2], "inner sizes");
  if (!c.ok()) return;
  if (!rows && ends) c.RequireEqual(a->sizes()[0], ends->sizes()[0], "matrices and groups");
  if (!columns && ends) c.RequireEqual(b->sizes()[0], ends->sizes()[0], "matrices and groups");
  if (!ends) c.RequireEqual(a->sizes()[0], b->sizes()[0], "batch sizes");
  Sizes out = {a->sizes()[a->rank() - 2], b->sizes().back()};
  if (rows == columns) out.insert(out.begin(), ends ? ends->sizes()[0] : a->sizes()[0]);
  c.Out(GivenOr(c, a->dtype()), out);
}
// self (broadcast) + product: baddbmm, addbmm, addmm, addmv, addr
void OutAdded(InferContext& c, DType t, const Sizes& product) {
  if (t == TensorAt(c, 1)->dtype()) NeedSameDType(c, {Self(c), TensorAt(c, 1)});
  NeedExpands(c, Self(c)->sizes(), product, "what is added to the product");
  c.Out(t, product);
}
void AddBmm(InferContext& c) {
  OutAdded(c, GivenOr(c, TensorAt(c, 1)->dtype()), Bmm(c, TensorAt(c, 1), TensorAt(c, 2)));
}
void AddBmmSum(InferContext& c) {
  Sizes s = Bmm(c, TensorAt(c, 1), TensorAt(c, 2));
  OutAdded(c, TensorAt(c, 1)->dtype(), {s[1], s[2]});
}
void AddMm(InferContext& c) {
  Value *a = TensorAt(c, 1), *b = TensorAt(c, 2);
  NeedSameDType(c, {a, b});
  NeedRank(c, a, 2);
  NeedRank(c, b, 2);
  c.RequireEqual(a->sizes()[1], b->sizes()[0], "inner sizes");
  OutAdded(c, GivenOr(c, a->dtype()), {a->sizes()[0], b->sizes()[1]});
}
void AddMv(InferContext& c) {
  Value *a = TensorAt(c, 1), *b = TensorAt(c, 2);
  NeedSameDType(c, {a, b});
  NeedRank(c, a, 2);
  NeedRank(c, b, 1);
  c.RequireEqual(a->sizes()[1], b->sizes()[0], "inner sizes");
  OutAdded(c, a->dtype(), {a->sizes()[0]});
}
void AddR(InferContext& c) {
  Values all = {Self(c), TensorAt(c, 1), TensorAt(c, 2)};
  NeedRank(c, all[1], 1);
  NeedRank(c, all[2], 1);
  Sizes out = {all[1]->sizes()[0], all[2]->sizes()[0]};
  NeedExpands(c, all[0]->sizes(), out, "what is added to the product");
  c.Out(c.ResultType(all), out);
}
void Mv(InferContext& c) {
  Value *a = Self(c), *b = TensorAt(c, 1);
  NeedRank(c, a, 2);
  NeedRank(c, b, 1);
  OutMatMul(c, a, b);
}
void Dot(InferContext& c) {
  Value *a = Self(c), *b = TensorAt(c, 1);
  NeedRank(c, a, 1);
  NeedRank(c, b, 1);
  OutMatMul(c, a, b);
}
void Inner(InferContext& c) {
  Value *a = Self(c), *b = TensorAt(c, 1);
  NeedSameDType(c, {a, b});
  if (a->rank() == 0 || b->rank() == 0) return BroadcastFirstTwo(c);
  if (!c.RequireEqual(a->sizes().back(), b->sizes().back(), "inner sizes")) return;
  Sizes out(a->sizes().begin(), a->sizes().end() - 1);
  out.insert(out.end(), b->sizes().begin(), b->sizes().end() - 1);
  c.Out(a->dtype(), out);
}
void Outer(InferContext& c) {
  Values all = {Self(c), TensorAt(c, 1)};
  NeedRank(c, all[0], 1);
  NeedRank(c, all[1], 1);
  c.Out(c.ResultType(all), {all[0]->sizes()[0], all[1]->sizes()[0]});
}
void Linear(InferContext& c) {
  Value *x = Self(c), *w = TensorAt(c, 1);
  if (x->rank() == 0 || w->rank() == 0 || w->rank() > 2) return c.Fail("a linear layer needs a matrix of weights");
  if (!c.RequireEqual(x->sizes().back(), w->sizes().back(), "input features")) return;
  Sizes out(x->sizes().begin(), x->sizes().end() - 1);
  if (w->rank() == 2) out.push_back(w->sizes()[0]);
  Value* bias = c.opt_tensor("bias");
  if (bias) NeedExpands(c, bias->sizes(), out, "the bias");
  // A quantized layer says of what dtype its weight is, and rounds.
  if (c.node().op().ns == "aten") NeedSameDType(c, {x, w, bias});
  c.Out(x->dtype(), out);
}
// input [.., k] and weight [n, k] are integers, input_scale has an element a row.
void IntegerLinear(InferContext& c) {
  Value *x = c.tensor("input"), *w = c.tensor("weight"), *scale = c.tensor("input_scale");
  if (x->rank() == 0 || w->rank() != 2 || scale->rank() != x->rank())
    return c.Fail("an integer linear layer needs matrices");
  if (!c.RequireEqual(x->sizes().back(), w->sizes().back(), "input features")) return;
  Sizes out(x->sizes().begin(), x->sizes().end() - 1), rows = out;
  rows.push_back(1);
  NeedExpands(c, scale->sizes(), rows, "the input's scale");
  out.push_back(w->sizes()[0]);
  c.Out(DType::kFloat32, out);
}
void TensorDot(InferContext& c) {
  Value *a = Self(c), *b = TensorAt(c, 1);
  std::vector<int> da = c.dims("dims_self", a->rank(), false), db = c.dims("dims_other", b->rank(), false);
  if (da.size() != db.size()) return c.Fail("the lists of dims differ in length");
  NeedSameDType(c, {a, b});
  for (size_t i = 0; i < da.size(); ++i) {
    if (da[i] >= a->rank() || db[i] >= b->rank()) return c.Fail("a 0-d tensor has no dimension to contract");
    const Sym m = a->sizes()[da[i]], n = b->sizes()[db[i]];
    if (!m.is(1) && !n.is(1)) c.RequireEqual(m, n, "contracted sizes");
  }
  Sizes out;
  auto keep = [&](Value* v, const std::vector<int>& dims) {
    for (int d = 0; d < v->rank(); ++d)
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) out.push_back(v->sizes()[d]);
  };
  keep(a, da);
  keep(b, db);
  c.Out(a->dtype(), out);
}
void Kron(InferContext& c) {
  Values all = {Self(c), TensorAt(c, 1)};
  Sizes x = all[0]->sizes(), y = all[1]->sizes();
  while (x.size() < y.size()) x.insert(x.begin(), 1);
  while (y.size() < x.size()) y.insert(y.begin(), 1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] * y[i];
  c.Out(c.ResultType(all), x);
}
// Sizes by letters. Dots stand for broadcast dimensions.
void Einsum(InferContext& c) {
  std::string equation = c.str("equation");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  Values all = c.tensors("tensors");
  size_t arrow = equation.find("->");
  std::vector<std::string_view> terms = text::Split(std::string_view(equation).substr(0, arrow), ',');
  if (terms.size() != all.size()) return c.Fail("the equation has another number of operands");
  std::map<char, Sym> sizes;
  std::map<char, int> seen;
  Sizes dots;
  for (size_t i = 0; i < terms.size(); ++i) {
    std::string_view t = terms[i];
    size_t at = t.find("...");
    std::string_view before = t.substr(0, at), after = at == std::string_view::npos ? "" : t.substr(at + 3);
    const Sizes& s = all[i]->sizes();
    size_t named = before.size() + after.size();
    if (named > s.size() || (at == std::string_view::npos && named != s.size()))
      return c.Fail("the equation does not fit an operand's rank");
    auto note = [&](char letter, Sym size) {
      ++seen[letter];
      auto [it, fresh] = sizes.emplace(letter, size);
      if (fresh) return;
      it->second = c.Broadcast(Sizes{it->second}, Sizes{size})[0];
    };
    for (size_t k = 0; k < before.size(); ++k) note(before[k], s[k]);
    for (size_t k = 0; k < after.size(); ++k) note(after[k], s[s.size() - after.size() + k]);
    dots = c.Broadcast(dots, Sizes(s.begin() + before.size(), s.end() - after.size()));
  }
  std::string result;
  if (arrow != std::string::npos) {
    result = equation.substr(arrow + 2);
  } else {
    result = "...";
    for (auto [letter, n] : seen)
      if (n == 1) result += letter;
  }
  Sizes out;
  for (size_t k = 0; k < result.size(); ++k) {
    if (result[k] == '.') {
      out.insert(out.end(), dots.begin(), dots.end());
      k += 2;
    } else if (auto it = sizes.find(result[k]); it != sizes.end()) {
      out.push_back(it->second);
    } else {
      return c.Fail("the equation's result names an unknown letter");
    }
  }
  // A sum over one operand's letters widens small integers, a product of two operands does not.
  DType t = c.ResultType(all);
  bool sums = out.size() < sizes.size() + dots.size();
  if (SumDType(t) != t && sums && all.size() > 1) return c.Unsupported("contractions of small integers");
  c.Out(sums ? SumDType(t) : t, out);
}
void MultiDot(InferContext& c) {
  Values all = c.tensors(c.node().op().args[0].name);
  if (all.size() < 2 || !all.front() || !all.back()) return c.Fail("fewer than two tensors");
  Sizes out;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool end = i == 0 || i + 1 == all.size();
    if (!all[i] || all[i]->rank() != 2) {
      if (!all[i] || !end || all[i]->rank() != 1) return c.Fail(text::StrCat("tensor ", i, " is no matrix"));
    }
    if (i == 0) continue;
    NeedSameDType(c, {all[0], all[i]});
    c.RequireEqual(all[i - 1]->sizes().back(), all[i]->sizes()[0], "inner sizes");
  }
  if (all.front()->rank() == 2) out.push_back(all.front()->sizes()[0]);
  if (all.back()->rank() == 2) out.push_back(all.back()->sizes()[1]);
  c.Out(all[0]->dtype(), out);
}
void Trilinear(InferContext& c) {
  Value* in[3];
  Sizes shapes[3];
  int rank = 0;
  const char* expand[] = {"expand1", "expand2", "expand3"};
  for (int i = 0; i < 3; ++i)
    rank = std::max(rank, TensorAt(c, i)->rank() + static_cast<int>(c.ints(expand[i]).size()));
  Sizes out;
  for (int i = 0; i < 3; ++i) {
    in[i] = TensorAt(c, i);
    shapes[i] = in[i]->sizes();
    Ints at = c.ints(expand[i]);
    std::sort(at.begin(), at.end());
    for (int64_t d : at) {
      if (d < 0 || d > static_cast<int64_t>(shapes[i].size())) return c.Fail("a dimension to expand is out of range");
      shapes[i].insert(shapes[i].begin() + d, 1);
    }
    out = c.Broadcast(out, shapes[i]);
  }
  c.Out(in[0]->dtype(), c.Reduce(out, c.dims("sumdim", rank, false), false));
}
void Bilinear(InferContext& c) {
  Value *x = Self(c), *y = TensorAt(c, 1), *w = TensorAt(c, 2), *bias = c.opt_tensor("bias");
  NeedRank(c, w, 3);
  NeedRankAtLeast(c, x, 1);
  NeedSameDType(c, {x, y, w, bias});
  NeedSameSizes(c, WithDim(x->sizes(), x->rank() - 1, w->sizes()[1]), x->sizes(), "features of the first input");
  NeedSameSizes(c, WithDim(x->sizes(), x->rank() - 1, w->sizes()[2]), y->sizes(), "sizes of the second input");
  Sizes out = WithDim(x->sizes(), x->rank() - 1, w->sizes()[0]);
  if (bias) NeedExpands(c, bias->sizes(), out, "the bias");
  c.Out(x->dtype(), out);
}
void Cross(InferContext& c) {
  BroadcastFirstTwo(c);
  const Sizes& s = c.results()[0].sizes;
  if (c.has("dim"))
    c.RequireEqual(s.empty() ? Sym(1) : s[c.dim("dim", static_cast<int>(s.size()))], 3, "the size of a vector");
}
void VecDot(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  Sizes s = c.Broadcast(o.shapes);
  c.Out(c.ResultType(o.tensors), c.Reduce(s, {c.dim("dim", static_cast<int>(s.size()))}, false));
}

// --- Decompositions and solvers ----------------------------------------------------------------------------------

// The parts of a stack of matrices: batch sizes, rows, columns, the smaller of the two.
struct Matrix {
  Value* v;
  Sizes batch;
  Sym m, n, k;
};
bool ReadMatrix(InferContext& c, Value* v, Matrix& a) {
  NeedRankAtLeast(c, v, 2);
  a = {v, Batch(v->sizes()), v->sizes()[v->rank() - 2], v->sizes().back(), 0};
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
  c.Out(DType::kInt32, Join(a.batch, {a.m}));
}
void SlogDet(InferContext& c) {
  PerMatrix(c);
  PerMatrixReal(c);
}
void EigenValues(InferContext& c) {  // of symmetric matrices
  Matrix a;
  if (ReadSquare(c, Self(c), a)) c.Out(ToReal(a.v->dtype()), Join(a.batch, {a.n}));
}
void Eigh(InferContext& c) {
  EigenValues(c);
  SameAsSelf(c);
}
void ComplexEigenValues(InferContext& c) {
  Matrix a;
  if (ReadSquare(c, Self(c), a)) c.Out(ToComplex(a.v->dtype()), Join(a.batch, {a.n}));
}
void Eig(InferContext& c) {
  ComplexEigenValues(c);
  c.Out(ToComplex(Self(c)->dtype()), Self(c)->sizes());
}
void OutSvd(InferContext& c, const Matrix& a, bool full, bool transposed) {
  Sizes v = transposed ? Join(a.batch, {full ? a.n : a.k, a.n}) : Join(a.batch, {a.n, full ? a.n : a.k});
  c.Out(a.v->dtype(), Join(a.batch, {a.m, full ? a.m : a.k}));
  c.Out(ToReal(a.v->dtype()), Join(a.batch, {a.k}));
  c.Out(a.v->dtype(), v);
}
void LinalgPolar(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  if (ProvablyLess(a.m, a.n)) return c.Fail("fewer rows than columns");
  c.RequireAtLeast(a.m - a.n, 0);
  c.Out(a.v->dtype(), Join(a.batch, {a.m, a.n}));
  c.Out(a.v->dtype(), Join(a.batch, {a.n, a.n}));
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
    c.Out(ToReal(a.v->dtype()), Join(a.batch, {a.k}));
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
  if (ReadMatrix(c, Self(c), a)) c.Out(ToReal(a.v->dtype()), Join(a.batch, {a.k}));
}
void Qr(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  bool old = c.node().op().ArgIndex("some") >= 0;
  std::string mode = old ? (c.b("some") ? "reduced" : "complete") : c.str("mode");
  bool complete = mode == "complete";
  if (!complete && mode != "reduced" && mode != "r") return c.Fail(text::StrCat("mode '", mode, "'"));
  c.Out(a.v->dtype(), mode == "r" ? Sizes{0} : Join(a.batch, {a.m, complete ? a.m : a.k}));
  c.Out(a.v->dtype(), Join(a.batch, {complete ? a.m : a.k, a.n}));
}
void Lu(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  c.Out(a.v->dtype(), c.b("pivot") ? Join(a.batch, {a.m, a.m}) : Sizes{0});
  c.Out(a.v->dtype(), Join(a.batch, {a.m, a.k}));
  c.Out(a.v->dtype(), Join(a.batch, {a.k, a.n}));
}
void LuFactor(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  SameAsSelf(c);
  c.Out(DType::kInt32, Join(a.batch, {a.k}));
  if (c.node().op().returns.size() > 2) c.Out(DType::kInt32, a.batch);
}
void LuUnpack(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  NeedSameSizes(c, TensorAt(c, 1)->sizes(), Join(a.batch, {a.k}), "the pivots");
  bool data = c.b("unpack_data");
  c.Out(a.v->dtype(), c.b("unpack_pivots") ? Join(a.batch, {a.m, a.m}) : Sizes{0});
  c.Out(a.v->dtype(), data ? Join(a.batch, {a.m, a.k}) : Sizes{0});
  c.Out(a.v->dtype(), data ? Join(a.batch, {a.k, a.n}) : Sizes{0});
}
void LdlFactor(InferContext& c) {
  Matrix a;
  if (!ReadSquare(c, Self(c), a)) return;
  SameAsSelf(c);
  c.Out(DType::kInt32, Join(a.batch, {a.n}));
  if (c.node().op().returns.size() > 2) c.Out(DType::kInt32, a.batch);
}
// b with the batch sizes of both.
Sizes SolutionSizes(InferContext& c, const Matrix& a, const Matrix& b) {
  return Join(c.Broadcast(a.batch, b.batch), {b.m, b.n});
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
  c.Out(a.v->dtype(), Join(c.Broadcast(a.batch, b.batch), {a.m, a.n}));
}
// Solves with B a matrix or, when it looks like a batch of vectors, vectors. Then a status per matrix, where returned.
void Solve(InferContext& c) {
  Matrix a;
  Value* right = TensorAt(c, 1);
  if (!ReadSquare(c, Self(c), a)) return;
  NeedSameDType(c, {a.v, right});
  const bool left = c.node().op().ArgIndex("left") < 0 || c.b("left");
  const Sizes& s = right->sizes();
  Sizes rows = Join(a.batch, {a.m});
  bool vectors =
      s.size() == 1 || (s.size() == rows.size() && std::equal(s.begin(), s.end(), rows.begin(), ProvablyEqual));
  Sizes out;
  if (vectors) {
    c.RequireEqual(a.n, s.back(), "sizes of the matrix and the right-hand sides");
    out = Join(c.Broadcast(a.batch, Sizes(s.begin(), s.end() - 1)), {s.back()});
  } else {
    Matrix b;
    if (!ReadMatrix(c, right, b)) return;
    c.RequireEqual(a.n, left ? b.m : b.n, "sizes of the matrix and the right-hand sides");
    out = SolutionSizes(c, a, b);
  }
  c.Out(a.v->dtype(), out);
  if (c.node().op().returns.size() == 4) {  // with the factors
    SameAsSelf(c);
    c.Out(DType::kInt32, Join(a.batch, {a.n}));
  }
  if (c.node().op().returns.size() > 1) c.Out(DType::kInt32, a.batch);
}
void PseudoInverse(InferContext& c) {
  Matrix a;
  if (ReadMatrix(c, Self(c), a)) c.Out(a.v->dtype(), Join(a.batch, {a.n, a.m}));
}
void Geqrf(InferContext& c) {
  Matrix a;
  if (!ReadMatrix(c, Self(c), a)) return;
  SameAsSelf(c);
  c.Out(a.v->dtype(), Join(a.batch, {a.k}));
}
void Householder(InferContext& c) {
  Matrix a;
  Value* tau = TensorAt(c, 1);
  if (!ReadMatrix(c, Self(c), a)) return;
  NeedRankAtLeast(c, tau, 1);
  NeedSameDType(c, {a.v, tau});
  NeedSameSizes(c, WithDim(tau->sizes(), tau->rank() - 1, 0), Join(a.batch, {0}), "batches of the reflections");
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

// --- Norms -------------------------------------------------------------------------------------------------------

void Norm(InferContext& c) {  // over dims, or everything; a real number
  Value* x = Self(c);
  std::vector<int> dims = c.dims("dim", x->rank());
  c.Out(ToReal(c.dtype("dtype").value_or(x->dtype())), c.Reduce(x->sizes(), dims, c.b("keepdim")));
}

constexpr ShapeFamily kFamilies[] = {
    {MatMul, "matmul linalg_matmul"},
    {Mm, "mm"},
    {IntMm, "_int_mm"},
    {BatchMm, "bmm bmm.dtype"},
    {GroupedMm, "_grouped_mm /transformers.grouped_mm_fallback.default"},
    {AddBmm, "baddbmm baddbmm.dtype"},
    {AddBmmSum, "addbmm"},
    {AddMm, "addmm addmm.dtype _addmm_activation"},
    {AddMv, "addmv"},
    {AddR, "addr"},
    {Mv, "mv"},
    {Dot, "dot vdot"},
    {Inner, "inner"},
    {Outer, "outer ger"},
    {Linear, "linear /slipway.quantized_linear.default"},
    {IntegerLinear, "/slipway.integer_linear.default"},
    {TensorDot, "tensordot"},
    {Kron, "kron"},
    {Einsum, "einsum"},
    {MultiDot, "linalg_multi_dot chain_matmul"},
    {Trilinear, "_trilinear"},
    {Bilinear, "bilinear"},
    {Cross, "cross linalg_cross"},
    {VecDot, "linalg_vecdot"},
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
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kFamilies);
  return rows;
}

}  // namespace slipway::ir
