// Shape functions: products of vectors, matrices and tensors.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {

namespace {

void OutMatMul(InferContext& c, Value* a, Value* b) {
  NeedSameDType(c, {a, b});
  Sizes x = a->sizes(), y = b->sizes();
  if (x.empty() || y.empty()) return c.Fail("a 0-d tensor in a matrix product");
  bool row = x.size() == 1, column = y.size() == 1;
  if (row) x.insert(x.begin(), 1);
  if (column) y.push_back(1);
  if (!c.RequireEqual(x.back(), y[y.size() - 2], "inner sizes")) return;
  Sizes out = c.Broadcast(BatchSizes(x), BatchSizes(y));
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

constexpr ShapeFamily kProductFamilies[] = {
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
};

}  // namespace

absl::Span<const ShapeRow> ProductShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kProductFamilies);
  return rows;
}

}  // namespace slipway::ir
