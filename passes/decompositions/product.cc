// Decompositions: products of vectors, matrices and tensors. All come down to one contraction of two tensors whose dims
// carry labels, which becomes a matrix product between permutations and reshapes.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "base/text.h"
#include "passes/decompositions/loop_builder.h"
#include "passes/decompositions/util.h"

namespace slipway::passes {
namespace {

bool Has(const std::vector<int>& v, int x) { return std::find(v.begin(), v.end(), x) != v.end(); }
int IndexOf(const std::vector<int>& v, int x) { return static_cast<int>(std::find(v.begin(), v.end(), x) - v.begin()); }

// The dims of x in the order of `labels`, all of which it has.
Value* Arrange(Decomposer& d, const Labeled& x, const std::vector<int>& labels) {
  std::vector<int> order;
  bool sorted = true;
  for (int l : labels) {
    order.push_back(IndexOf(x.labels, l));
    sorted &= order.back() == static_cast<int>(order.size()) - 1;
  }
  return sorted ? x.value : Permute(d, x.value, order);
}
// Sums over the labels that `keep` does not accept.
template <typename Keep>
void SumOut(Decomposer& d, Labeled& x, Keep keep) {
  std::vector<int> dims, left;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (keep(x.labels[i]))
      left.push_back(x.labels[i]);
    else
      dims.push_back(static_cast<int>(i));
  }
  if (dims.empty()) return;
  x.value = d.Sum(x.value, dims);
  x.labels = left;
}
// Drops dims of size 1 whose label has another size in `other`.
void DropBroadcast(Decomposer& d, Labeled& x, const Labeled& other) {
  for (size_t i = 0; i < x.labels.size();) {
    int at = IndexOf(other.labels, x.labels[i]);
    if (at < other.value->rank() && IsOne(x.value->sizes()[i]) && !IsOne(other.value->sizes()[at])) {
      x.value = Squeeze(d, x.value, static_cast<int>(i));
      x.labels.erase(x.labels.begin() + i);
    } else {
      ++i;
    }
  }
}
std::vector<int> Join(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

Labeled Contract(Decomposer& d, Labeled x, Labeled y, const std::vector<int>& keep) {
  DropBroadcast(d, x, y);
  DropBroadcast(d, y, x);
  SumOut(d, x, [&](int l) { return Has(keep, l) || Has(y.labels, l); });
  SumOut(d, y, [&](int l) { return Has(keep, l) || Has(x.labels, l); });
  std::vector<int> batch, own_x, own_y, inner;
  for (int l : x.labels) (!Has(y.labels, l) ? own_x : Has(keep, l) ? batch : inner).push_back(l);
  for (int l : y.labels)
    if (!Has(x.labels, l)) own_y.push_back(l);
  std::vector<int> labels = Join(Join(batch, own_x), own_y);
  Value* a = Arrange(d, x, Join(Join(batch, own_x), inner));
  size_t nb = batch.size(), nx = own_x.size(), ny = own_y.size(), ni = inner.size();

  if (ni == 0) {
    // No sum: an elementwise product.
    Value* b = Arrange(d, y, Join(batch, own_y));
    for (size_t i = 0; i < ny; ++i) a = Unsqueeze(d, a, -1);
    for (size_t i = 0; i < nx; ++i) b = Unsqueeze(d, b, static_cast<int>(nb));
    return {d.Mul(a, b), labels};
  }
  Value* b = Arrange(d, y, Join(Join(batch, inner), own_y));
  // One dim for each group after the batch dims.
  SymInts batch_sizes, rows, columns, depth;
  for (size_t i = 0; i < nb; ++i) batch_sizes.push_back(d.b.Size(a, static_cast<int>(i)));
  for (size_t i = 0; i < nx; ++i) rows.push_back(d.b.Size(a, static_cast<int>(nb + i)));
  for (size_t i = 0; i < ni; ++i) depth.push_back(d.b.Size(a, static_cast<int>(nb + nx + i)));
  for (size_t i = 0; i < ny; ++i) columns.push_back(d.b.Size(b, static_cast<int>(nb + ni + i)));
  auto grouped = [&](Value* v, const SymInts& first, const SymInts& second) {
    if (first.size() == 1 && second.size() == 1) return v;
    SymInts sizes = batch_sizes;
    sizes.push_back(Product(d, first));
    sizes.push_back(Product(d, second));
    return Reshape(d, v, sizes);
  };
  Value* product = Matmul(d, grouped(a, rows, depth), grouped(b, depth, columns));
  if (nx != 1 || ny != 1) {
    SymInts sizes = batch_sizes;
    sizes.insert(sizes.end(), rows.begin(), rows.end());
    sizes.insert(sizes.end(), columns.begin(), columns.end());
    product = Reshape(d, product, sizes);
  }
  return {product, labels};
}

namespace {

// ---- Einsum

// Labels: letters are themselves; the dims of an ellipsis count from its end, so that they meet as torch aligns them.
constexpr int kEllipsis = 1000;

struct Equation {
  std::vector<std::vector<int>> terms;  // an ellipsis is kEllipsis here, expanded once the operands' ranks are known
  std::optional<std::vector<int>> result;
};

std::optional<Equation> ParseEquation(Decomposer& d, std::string_view text) {
  Equation e;
  std::vector<int>* at = &e.terms.emplace_back();
  auto bad = [&](std::string_view why) {
    d.Fail(text::StrCat("equation '", text, "': ", why));
    return std::nullopt;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    char ch = text[i];
    if (ch == ' ') continue;
    if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')) {
      at->push_back(ch);
    } else if (ch == '.') {
      if (text.substr(i, 3) != "..." || Has(*at, kEllipsis)) return bad("a misplaced '.'");
      at->push_back(kEllipsis);
      i += 2;
    } else if (ch == ',' && !e.result) {
      at = &e.terms.emplace_back();
    } else if (ch == '-' && text.substr(i, 2) == "->" && !e.result) {
      at = &e.result.emplace();
      ++i;
    } else {
      return bad(text::StrCat("unexpected '", std::string(1, ch), "'"));
    }
  }
  return e;
}

void Einsum(Decomposer& d) {
  std::string text = d.str("equation");
  Values operands = d.ins("tensors");
  std::optional<Equation> e = ParseEquation(d, text);
  if (!e) return;
  if (e->terms.size() != operands.size() || operands.empty())
    return d.Fail("the equation has another number of operands");

  // The dims each ellipsis stands for.
  int dots = 0;
  std::vector<int> counts;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]) return d.Fail("an operand is None");
    bool has = Has(e->terms[i], kEllipsis);
    int named = static_cast<int>(e->terms[i].size()) - has;
    int n = operands[i]->rank() - named;
    if (n < 0 || (n > 0 && !has)) return d.Fail("the equation does not fit an operand's rank");
    counts.push_back(n);
    dots = std::max(dots, n);
  }
  auto expand = [](const std::vector<int>& term, int n) {
    std::vector<int> out;
    for (int l : term) {
      if (l != kEllipsis)
        out.push_back(l);
      else
        for (int k = n; k > 0; --k) out.push_back(kEllipsis + k);
    }
    return out;
  };
  std::vector<std::vector<int>> terms;
  std::map<int, int> seen;
  for (size_t i = 0; i < operands.size(); ++i) {
    terms.push_back(expand(e->terms[i], counts[i]));
    for (int l : terms.back()) ++seen[l];
  }
  std::vector<int> result;
  if (e->result) {
    result = expand(*e->result, dots);
  } else {
    for (int k = dots; k > 0; --k) result.push_back(kEllipsis + k);
    for (auto [l, n] : seen)
      if (l < kEllipsis && n == 1) result.push_back(l);
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (!seen.contains(result[i])) return d.Fail("the equation's result names an unknown letter");
    if (IndexOf(result, result[i]) != static_cast<int>(i)) return d.Fail("the equation's result repeats a letter");
  }

  // A letter that an operand repeats stands for its diagonal.
  std::vector<Labeled> xs;
  for (size_t i = 0; i < operands.size(); ++i) {
    Labeled x{operands[i], terms[i]};
    for (size_t k = 0; k < x.labels.size();) {
      int first = IndexOf(x.labels, x.labels[k]);
      if (first == static_cast<int>(k)) {
        ++k;
        continue;
      }
      int label = x.labels[k];
      x.value = d.b.Call("aten.diagonal.default", {x.value, 0, first, static_cast<int>(k)});
      x.labels.erase(x.labels.begin() + k);
      x.labels.erase(x.labels.begin() + first);
      x.labels.push_back(label);
      k = 0;
    }
    xs.push_back(x);
  }
  Labeled acc = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) {
    std::vector<int> keep = result;
    for (size_t k = i + 1; k < xs.size(); ++k) keep = Join(keep, xs[k].labels);
    acc = Contract(d, acc, xs[i], keep);
  }
  SumOut(d, acc, [&](int l) { return Has(result, l); });
  if (acc.labels.size() != result.size()) return d.Fail("the equation does not fit its operands");
  d.Return(Arrange(d, acc, result));
}

// ---- Contractions by other names

void Tensordot(Decomposer& d, Value* x, Value* y, const std::vector<int>& dims_x, const std::vector<int>& dims_y) {
  if (dims_x.size() != dims_y.size()) return d.Fail("lists of dims of different lengths");
  Labeled a{x, {}}, b{y, {}};
  std::vector<int> keep;
  for (int k = 0; k < x->rank(); ++k) a.labels.push_back(k);
  for (int k = 0; k < y->rank(); ++k) b.labels.push_back(kEllipsis + k);
  for (size_t i = 0; i < dims_x.size(); ++i) b.labels[dims_y[i]] = dims_x[i];
  for (int l : a.labels)
    if (!Has(dims_x, l)) keep.push_back(l);
  for (int l : b.labels)
    if (l >= kEllipsis) keep.push_back(l);
  Labeled r = Contract(d, a, b, keep);
  SumOut(d, r, [&](int l) { return Has(keep, l); });
  d.Return(Arrange(d, r, keep));
}
void TensordotOp(Decomposer& d) {
  Value *x = d.in("self"), *y = d.in("other");
  Tensordot(d, x, y, d.dims("dims_self", x->rank(), false), d.dims("dims_other", y->rank(), false));
}
void Inner(Decomposer& d) {
  Value *x = d.in("self"), *y = d.in("other");
  if (x->rank() == 0 || y->rank() == 0) return d.Return(d.Mul(x, y));
  Tensordot(d, x, y, {x->rank() - 1}, {y->rank() - 1});
}
void Outer(Decomposer& d) { d.Return(d.Mul(Unsqueeze(d, d.in("self"), 1), Unsqueeze(d, d.in("vec2"), 0))); }
void Vdot(Decomposer& d) {
  Value *x = d.in("self"), *y = d.in("other");
  if (ir::IsComplex(x->dtype())) return d.Unsupported("complex numbers");
  d.Return(d.b.Call("aten.dot.default", {x, y}));
}
void VecDot(Decomposer& d) {
  Value *x = d.in("x"), *y = d.in("y");
  if (ir::IsComplex(x->dtype())) return d.Unsupported("complex numbers");
  Value* product = d.Mul(x, y);
  d.Return(d.Sum(product, {d.dim("dim", product->rank())}));
}
void Kron(Decomposer& d) {
  Value *x = d.in("self"), *y = d.in("other");
  int n = std::max(x->rank(), y->rank());
  // Each dim of x before the same dim of y, aligned at the end.
  SymInts x_sizes, y_sizes, sizes;
  for (int k = 0; k < n; ++k) {
    int kx = k - (n - x->rank()), ky = k - (n - y->rank());
    IntOrValue a = kx >= 0 ? d.b.Size(x, kx) : IntOrValue(1), b = ky >= 0 ? d.b.Size(y, ky) : IntOrValue(1);
    x_sizes.push_back(a), x_sizes.push_back(1);
    y_sizes.push_back(1), y_sizes.push_back(b);
    sizes.push_back(d.b.Mul(a, b));
  }
  d.Return(Reshape(d, d.Mul(Reshape(d, x, x_sizes), Reshape(d, y, y_sizes)), sizes));
}

constexpr double kMostFactor = 1e18;

// beta * self + alpha * product, of the product's shape. With beta 0 torch does not look at self, NaN included.
void AddScaled(Decomposer& d, Value* product) {
  ir::Scalar beta = d.scalar("beta"), alpha = d.scalar("alpha");
  auto is = [](const ir::Scalar& s, double v) { return s.is_constant() && s.kind != ir::Scalar::kComplex && s.d == v; };
  if (ir::IsBool(product->dtype())) {
    if (!alpha.is_constant() || !beta.is_constant()) return d.Unsupported("symbolic factors of truth values");
    Value* none = d.Where(product, false, false);
    if (is(alpha, 0)) product = none;
    return d.Return(is(beta, 0) ? product : Or(d, d.in("self"), product));
  }
  // Among integers torch takes factors as integers.
  auto factor = [&](const char* name, const ir::Scalar& s) {
    const bool cut = s.kind == ir::Scalar::kFloat && !ir::IsFloating(product->dtype());
    return cut ? Arg(static_cast<int64_t>(std::clamp(s.d, -kMostFactor, kMostFactor))) : d.node().Get(name);
  };
  if (!is(alpha, 1)) product = d.Mul(product, factor("alpha", alpha));
  if (is(beta, 0)) return d.Return(product);
  Value* self = d.in("self");
  if (!is(beta, 1)) self = d.Mul(self, factor("beta", beta));
  d.Return(d.Add(self, product));
}
void AddBmm(Decomposer& d) {
  // Over the batch and the inner dim at once.
  std::vector<int> keep = {1, 3};
  AddScaled(d, Contract(d, {d.in("batch1"), {0, 1, 2}}, {d.in("batch2"), {0, 2, 3}}, keep).value);
}
void AddR(Decomposer& d) { AddScaled(d, d.Mul(Unsqueeze(d, d.in("vec1"), 1), Unsqueeze(d, d.in("vec2"), 0))); }

void CrossAlong(Decomposer& d, int64_t dim_arg) {
  Values xs = d.b.CallMulti("aten.broadcast_tensors.default", {Values{d.in("self"), d.in("other")}});
  Value *x = xs[0], *y = xs[1];
  int dim = d.WrapDim(dim_arg, x->rank());
  auto turned = [&](Value* v, int64_t by) { return d.b.Call("aten.roll.default", {v, ir::Ints{by}, ir::Ints{dim}}); };
  d.Return(d.Sub(d.Mul(turned(x, -1), turned(y, 1)), d.Mul(turned(x, 1), turned(y, -1))));
}
void LinalgCross(Decomposer& d) { CrossAlong(d, d.i("dim")); }
void Cross(Decomposer& d) {
  if (auto dim = d.opt_i("dim")) return CrossAlong(d, *dim);
  Value* x = d.tensor("self");
  for (int k = 0; k < x->rank(); ++k)
    if (x->sizes()[k].constant() == 3) return CrossAlong(d, k);
  d.Fail("no dim of size 3");
}

// A chain of matrices in the order of least multiplications where the sizes are known.
void MultiDot(Decomposer& d) {
  Values xs = d.ins(d.node().op().args[0].name);
  if (xs.empty()) return d.Fail("no tensors");
  if (xs.size() == 1) return d.Return(xs[0]);
  bool first_is_vector = xs.front()->rank() == 1, last_is_vector = xs.back()->rank() == 1;
  if (xs.size() == 2) return d.Return(Matmul(d, xs[0], xs[1]));
  if (first_is_vector) xs.front() = Unsqueeze(d, xs.front(), 0);
  if (last_is_vector) xs.back() = Unsqueeze(d, xs.back(), 1);
  size_t n = xs.size();
  std::vector<double> sizes;
  bool known = n <= 64;
  for (size_t i = 0; i <= n; ++i) {
    Value* x = xs[std::min(i, n - 1)];
    if (x->rank() != 2) return d.Fail("an operand of wrong rank");
    auto size = x->sizes()[i < n ? 0 : 1].constant();
    known &= size.has_value();
    sizes.push_back(size ? static_cast<double>(*size) : 0);
  }
  // cost[i][j], cut[i][j]: of multiplying i … j.
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<size_t>> cut(n, std::vector<size_t>(n, 0));
  for (size_t span = 1; span < n; ++span) {
    for (size_t i = 0; i + span < n; ++i) {
      size_t j = i + span;
      cut[i][j] = j - 1;
      if (!known) continue;
      cost[i][j] = std::numeric_limits<double>::infinity();
      for (size_t k = i; k < j; ++k) {
        double c = cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
        if (c < cost[i][j]) cost[i][j] = c, cut[i][j] = k;
      }
    }
  }
  std::function<Value*(size_t, size_t)> product = [&](size_t i, size_t j) -> Value* {
    if (i == j) return xs[i];
    Value* left = product(i, cut[i][j]);
    return d.b.Call("aten.mm.default", {left, product(cut[i][j] + 1, j)});
  };
  Value* r = product(0, n - 1);
  if (last_is_vector) r = Squeeze(d, r, 1);
  if (first_is_vector) r = Squeeze(d, r, 0);
  d.Return(r);
}

void MatrixPower(Decomposer& d) {
  Value* x = d.in("self");
  int64_t n = d.i("n");
  if (x->rank() < 2) return d.Fail("an operand of rank below 2");
  if (n == 0) {
    Value* eye = d.b.Call("aten.eye.default", {Arg(d.b.Size(x, -1))}, {{"dtype", x->dtype()}});
    return d.Return(Expand(d, eye, d.b.SizesOf(x)));
  }
  if (n < 0) x = d.b.Call("aten.linalg_inv.default", {x});
  // By squaring; an int64 has at most 63 of them.
  uint64_t left = n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  Value *result = nullptr, *power = x;
  for (;; power = Matmul(d, power, power)) {
    if (left & 1) result = result ? Matmul(d, result, power) : power;
    if (!(left >>= 1)) break;
  }
  d.Return(result);
}

// x1[…, i] * weight[o, i, j] * x2[…, j] + bias[o]
void Bilinear(Decomposer& d) {
  Value *x = d.in("input1"), *y = d.in("input2"), *w = d.in("weight"), *bias = d.opt_in("bias");
  if (w->rank() != 3 || x->rank() == 0 || x->rank() != y->rank()) return d.Fail("operands of wrong rank");
  std::vector<int> batch;
  for (int k = 0; k + 1 < x->rank(); ++k) batch.push_back(kEllipsis + k);
  enum { kOut, kLeft, kRight };
  Labeled xw = Contract(d, {x, Join(batch, {kLeft})}, {w, {kOut, kLeft, kRight}}, Join(batch, {kOut, kRight}));
  Labeled r = Contract(d, xw, {y, Join(batch, {kRight})}, Join(batch, {kOut}));
  Value* out = Arrange(d, r, Join(batch, {kOut}));
  d.Return(bias ? d.Add(out, bias) : out);
}

// Powers 0 … n-1 of x along a new last dim.
Value* Powers(Decomposer& d, Value* x, IntOrValue n) {
  constexpr int64_t kUnrolled = 32;
  if (!n.value && n.constant <= kUnrolled) {
    SymInts sizes = d.b.SizesOf(x);
    if (n.constant <= 0) {
      sizes.push_back(0);
      return d.b.Full(sizes, 0, x->dtype());
    }
    Values powers = {d.b.Full(sizes, 1, x->dtype())};
    for (int64_t k = 1; k < n.constant; ++k) powers.push_back(k == 1 ? x : d.Mul(powers.back(), x));
    return Stack(d, powers, -1);
  }
  Value* base = Unsqueeze(d, x, -1);
  SymInts sizes = d.b.SizesOf(base);
  Value* ones = d.b.Full(sizes, 1, x->dtype());
  sizes.back() = d.b.Sub(n, 1);
  return Cat(d, {ones, d.b.Call("aten.cumprod.default", {Expand(d, base, sizes), -1})}, -1);
}
void LinalgVander(Decomposer& d) {
  Value* x = d.b.Cast(d.in("x"), d.compute_dtype());
  if (x->rank() == 0) x = Unsqueeze(d, x, 0);
  d.Return(Powers(d, x, d.opt_sym("N").value_or(d.b.Size(x, -1))));
}
void Vander(Decomposer& d) {
  Value* x = d.b.Cast(d.in("x"), d.compute_dtype());
  if (x->rank() == 0) return d.Fail("a 0-d operand");
  Value* powers = Powers(d, x, d.opt_sym("N").value_or(d.b.Size(x, -1)));
  d.Return(d.flag("increasing") ? powers : Flip(d, powers, {powers->rank() - 1}));
}

// x along dim in as many parts as there are ends, and what is behind the last end.
Values Groups(Decomposer& d, Value* x, int dim, const Values& ends) {
  SymInts sizes;
  IntOrValue start = 0;
  for (Value* end : ends) {
    sizes.push_back(d.b.Sub(end, start));
    start = end;
  }
  sizes.push_back(d.b.Sub(d.b.Size(x, dim), start));
  return d.b.CallMulti("aten.split_with_sizes.default", {x, std::move(sizes), dim});
}
// Products of groups of rows, columns or terms with a matrix each: what ends of groups divide is a matrix, what is not
// divided is a batch of them. Where nothing is divided it is a batched product. Rows and columns behind the last group
// are zeros.
void ProductOfGroups(Decomposer& d, Value* x, Value* y, Value* at) {
  const bool rows = x->rank() == 2, columns = y->rank() == 2;
  const DType t = d.out_type().dtype;
  if (!at) return d.Return(d.b.Cast(Matmul(d, x, y), t));
  const auto count = at->rank() == 1 ? at->sizes()[0].constant() : std::nullopt;
  if (!count) return d.Unsupported("a number of groups that is not known");
  if (!rows && !columns) return d.Fail("nothing to divide");
  at = d.b.Cast(at, DType::kInt64);
  Values ends;
  for (int64_t i = 0; i < *count; ++i) ends.push_back(d.b.Call("aten.item.default", {Select(d, at, 0, i)}));
  const Values xs = rows ? Groups(d, x, columns ? 1 : 0, ends) : d.b.CallMulti("aten.unbind.int", {x, 0});
  const Values ys = columns ? Groups(d, y, rows ? 0 : 1, ends) : d.b.CallMulti("aten.unbind.int", {y, 0});
  if (!d.b.ok()) return;
  if (static_cast<int64_t>(std::min(xs.size(), ys.size())) < *count)
    return d.Fail("matrices and groups differ in number");
  Values products;
  for (int64_t i = 0; i < *count; ++i) products.push_back(Matmul(d, xs[i], ys[i]));
  if (!d.b.ok()) return;
  if (rows && columns) return d.Return(d.b.Cast(Stack(d, products, 0), t));
  SymInts rest = {rows ? d.b.Size(xs.back(), 0) : d.b.Size(x, 1), rows ? d.b.Size(y, 2) : d.b.Size(ys.back(), 1)};
  products.push_back(d.b.Full(std::move(rest), 0, x->dtype()));
  d.Return(d.b.Cast(Cat(d, products, rows ? 0 : 1), t));
}
void GroupedMm(Decomposer& d) {
  if (d.has("bias")) return d.Unsupported("a bias");
  ProductOfGroups(d, d.tensor("self"), d.tensor("mat2"), d.opt_tensor("offs"));
}
void GroupedMmFallback(Decomposer& d) { ProductOfGroups(d, d.tensor("input"), d.tensor("weight"), d.tensor("offs")); }

// Products of complex numbers along a dim, every one of them, as pairs of reals.
void ComplexCumprod(Decomposer& d) {
  Value *re = d.tensor("re"), *im = d.tensor("im");
  const int dim = d.dim("dim", re->rank());
  auto first = [&](Value* v) { return d.b.Call("aten.movedim.int", {v, dim, 0}); };
  SymInts sizes = d.b.SizesOf(re);
  sizes.erase(sizes.begin() + dim);
  const Values out = Scan(d, {d.b.Full(sizes, 1, re->dtype()), d.b.Full(sizes, 0, re->dtype())}, {first(re), first(im)},
                          [](Decomposer& d, const Values& state, const Values& at, Captures&) {
                            Value* x = d.Sub(d.Mul(state[0], at[0]), d.Mul(state[1], at[1]));
                            Value* y = d.Add(d.Mul(state[0], at[1]), d.Mul(state[1], at[0]));
                            return Values{x, y, x, y};
                          });
  if (out.empty()) return;
  auto back = [&](Value* v) { return d.b.Call("aten.movedim.int", {v, 0, dim}); };
  d.Return({back(out[2]), back(out[3])});
}

constexpr DecomposeRow kProductRows[] = {
    {"aten._grouped_mm.default", GroupedMm, false},
    {"transformers.grouped_mm_fallback.default", GroupedMmFallback, false},
    {"aten.einsum.default", Einsum},
    {"aten.tensordot.default", TensordotOp},
    {"aten.inner.default", Inner},
    {"aten.outer.default", Outer},
    {"aten.vdot.default", Vdot},
    {"aten.linalg_vecdot.default", VecDot},
    {"aten.kron.default", Kron},
    {"aten.addbmm.default", AddBmm},
    {"aten.addr.default", AddR},
    {"aten.linalg_cross.default", LinalgCross},
    {"aten.cross.default", Cross},
    {"aten.linalg_multi_dot.default", MultiDot},
    {"aten.linalg_matrix_power.default", MatrixPower},
    {"aten.bilinear.default", Bilinear},
    {"aten.linalg_vander.default", LinalgVander},
    {"aten.vander.default", Vander},
    {"slipway.complex_cumprod.default", ComplexCumprod, false},
};

}  // namespace

absl::Span<const DecomposeRow> ProductDecompositions() { return kProductRows; }

}  // namespace slipway::passes
