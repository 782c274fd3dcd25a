// Decompositions: losses and distances.
#include <cmath>
#include <limits>

#include "base/text.h"
#include "passes/decompositions/util.h"
#include "passes/float_constants.h"

namespace slipway::passes {
namespace {

void ReturnLoss(Decomposer& d, Value* loss) { d.Return(d.ReduceLoss(loss, d.i("reduction"))); }

// ---- Elementwise losses

Value* Difference(Decomposer& d) { return d.Sub(d.in("self"), d.in("target")); }

void MseLoss(Decomposer& d) {
  Value* x = Difference(d);
  ReturnLoss(d, d.Mul(x, x));
}
void L1Loss(Decomposer& d) { ReturnLoss(d, d.Unary("abs", Difference(d))); }
void SmoothL1Loss(Decomposer& d) {
  Value* z = d.Unary("abs", Difference(d));
  double beta = d.f("beta");
  if (beta == 0) return ReturnLoss(d, z);
  Value* quadratic = d.Div(d.Mul(d.Mul(z, z), 0.5), beta);
  ReturnLoss(d, d.Where(d.Cmp("lt", z, beta), quadratic, d.Sub(z, 0.5 * beta)));
}
void HuberLoss(Decomposer& d) {
  Value* z = d.Unary("abs", Difference(d));
  double delta = d.f("delta");
  Value* quadratic = d.Mul(d.Mul(z, z), 0.5);
  ReturnLoss(d, d.Where(d.Cmp("le", z, delta), quadratic, d.Mul(d.Sub(z, 0.5 * delta), delta)));
}
void KlDiv(Decomposer& d) {
  Value *x = d.in("self"), *t = d.in("target");
  if (d.flag("log_target")) return ReturnLoss(d, d.Mul(d.Unary("exp", t), d.Sub(t, x)));
  ReturnLoss(d, d.Sub(d.b.Call("aten.xlogy.Tensor", {t, t}), d.Mul(t, x)));
}
void BinaryCrossEntropy(Decomposer& d) {
  Value *x = d.in("self"), *t = d.in("target"), *w = d.opt_in("weight");
  // Logarithms are bounded from below as torch bounds them, so that 0 and 1 give finite losses.
  Value* log_x = ClampMin(d, d.Unary("log", x), -100);
  Value* log_rest = ClampMin(d, d.Unary("log1p", d.Unary("neg", x)), -100);
  Value* loss = d.Sub(d.Mul(d.Sub(t, 1), log_rest), d.Mul(t, log_x));
  ReturnLoss(d, w ? d.Mul(loss, w) : loss);
}
void BinaryCrossEntropyWithLogits(Decomposer& d) {
  Value *x = d.in("self"), *t = d.in("target"), *w = d.opt_in("weight"), *pos = d.opt_in("pos_weight");
  Value* log_sigmoid = d.Unary("log_sigmoid", x);
  if (pos) log_sigmoid = d.Mul(d.Add(d.Mul(d.Sub(pos, 1), t), 1), log_sigmoid);
  Value* loss = d.Sub(d.Mul(d.Rsub(t, 1), x), log_sigmoid);
  ReturnLoss(d, w ? d.Mul(loss, w) : loss);
}
void PoissonNllLoss(Decomposer& d) {
  Value *x = d.in("input"), *t = d.in("target");
  Value* loss = d.flag("log_input") ? d.Sub(d.Unary("exp", x), d.Mul(t, x))
                                    : d.Sub(x, d.Mul(t, d.Unary("log", d.Add(x, d.f("eps")))));
  if (d.flag("full")) {
    // Stirling's approximation of log(t!), for t above 1.
    Value* half_log = d.Mul(d.Unary("log", d.Mul(t, 2 * M_PI)), 0.5);
    Value* stirling = d.Add(d.Sub(d.Mul(t, d.Unary("log", t)), t), half_log);
    loss = d.Add(loss, d.Where(d.Cmp("le", t, 1), 0, stirling));
  }
  ReturnLoss(d, loss);
}
void SoftMarginLoss(Decomposer& d) {
  Value* x = d.Mul(d.Unary("neg", d.in("target")), d.in("self"));
  ReturnLoss(d, d.Unary("log1p", d.Unary("exp", x)));
}
void HingeEmbeddingLoss(Decomposer& d) {
  Value *x = d.in("self"), *t = d.in("target");
  Value* apart = ClampMin(d, d.Rsub(x, d.f("margin")), 0);
  Value* loss = d.Add(d.Where(d.Cmp("ne", t, 1), apart, 0), d.Where(d.Cmp("ne", t, -1), x, 0));
  ReturnLoss(d, loss);
}
void MarginRankingLoss(Decomposer& d) {
  Value* x = d.Mul(d.Unary("neg", d.in("target")), d.Sub(d.in("input1"), d.in("input2")));
  ReturnLoss(d, ClampMin(d, d.Add(x, d.f("margin")), 0));
}

// ---- Distances between vectors

// |x - y + eps|_p along the last dim.
Value* PairwiseDistance(Decomposer& d, Value* x, Value* y, double p, double eps, bool keepdim) {
  Value* z = d.Add(d.Sub(x, y), eps);
  return NormOver(d, z, p, {std::max(z->rank() - 1, 0)}, keepdim);
}
void PairwiseDistanceOp(Decomposer& d) {
  d.Return(PairwiseDistance(d, d.in("x1"), d.in("x2"), d.f("p"), d.f("eps"), d.flag("keepdim")));
}
void TripletMarginLoss(Decomposer& d) {
  Value *a = d.in("anchor"), *pos = d.in("positive"), *neg = d.in("negative");
  double p = d.f("p"), eps = d.f("eps");
  Value* near = PairwiseDistance(d, a, pos, p, eps, false);
  Value* far = PairwiseDistance(d, a, neg, p, eps, false);
  if (d.flag("swap")) far = d.b.Call("aten.minimum.default", {far, PairwiseDistance(d, pos, neg, p, eps, false)});
  ReturnLoss(d, ClampMin(d, d.Sub(d.Add(near, d.f("margin")), far), 0));
}
void CosineEmbeddingLoss(Decomposer& d) {
  Value *x = d.in("input1"), *y = d.in("input2"), *t = d.in("target");
  constexpr double kEpsilon = 1e-12;
  int dim = t->rank();
  Value* product = d.Sum(d.Mul(x, y), {dim});
  Value* x2 = d.Add(d.Sum(d.Mul(x, x), {dim}), kEpsilon);
  Value* y2 = d.Add(d.Sum(d.Mul(y, y), {dim}), kEpsilon);
  Value* cosine = d.Div(product, d.Unary("sqrt", d.Mul(x2, y2)));
  Value* same = d.Where(d.Cmp("eq", t, 1), d.Rsub(cosine, 1), 0);
  Value* other = d.Where(d.Cmp("eq", t, -1), ClampMin(d, d.Sub(cosine, d.f("margin")), 0), 0);
  ReturnLoss(d, d.Add(same, other));
}
void CosineSimilarity(Decomposer& d) {
  Values xs = d.b.CallMulti("aten.broadcast_tensors.default", {Values{d.in("x1"), d.in("x2")}});
  DType t = d.compute_dtype();
  Value *x = d.b.Cast(xs[0], t), *y = d.b.Cast(xs[1], t);
  int dim = d.dim("dim", x->rank());
  auto unit = [&](Value* v) { return d.Div(v, ClampMin(d, NormOver(d, v, 2, {dim}, true), d.f("eps"))); };
  d.Return(d.Sum(d.Mul(unit(x), unit(y)), {dim}));
}

// The norm along the last dim, also of no elements.
Value* DistanceNorm(Decomposer& d, Value* z, double p) {
  int last = z->rank() - 1;
  if (z->sizes()[last].constant() == 0) {
    SymInts sizes = d.b.SizesOf(z);
    sizes.pop_back();
    return d.b.Full(sizes, 0.0, z->dtype());
  }
  return NormOver(d, z, p, {last}, false);
}
void Cdist(Decomposer& d) {
  Value *x = d.in("x1"), *y = d.in("x2");
  double p = d.f("p");
  int64_t mode = d.opt_i("compute_mode").value_or(0);
  if (x->rank() < 2 || y->rank() < 2) return d.Fail("operands of rank below 2");
  auto rows = x->sizes()[x->rank() - 2].constant(), others = y->sizes()[y->rank() - 2].constant();
  auto width = x->sizes()[x->rank() - 1].constant();
  // torch expands |a - b|^2 into a product where that is faster; the same choice gives the same roundings.
  bool many = rows && others && (*rows > 25 || *others > 25);
  if (p == 2 && (mode == 1 || (mode == 0 && many)) && width != 0) {
    auto square = [&](Value* v) { return d.Sum(d.Mul(v, v), {v->rank() - 1}, true); };
    Value *x2 = square(x), *y2 = square(y);
    Value* left = Cat(d, {d.Mul(x, -2), x2, d.b.Call("aten.ones_like.default", {x2})}, -1);
    Value* right = Cat(d, {y, d.b.Call("aten.ones_like.default", {y2}), y2}, -1);
    return d.Return(d.Unary("sqrt", ClampMin(d, Matmul(d, left, Transpose(d, right, -2, -1)), 0)));
  }
  d.Return(DistanceNorm(d, d.Sub(Unsqueeze(d, x, -2), Unsqueeze(d, y, -3)), p));
}
void EuclideanDist(Decomposer& d) { d.Return(d.b.Call("aten.cdist.default", {d.in("x1"), d.in("x2"), 2.0, 1})); }
// Distances of the pairs of rows i < j.
void Pdist(Decomposer& d) {
  Value* x = d.in("self");
  IntOrValue n = d.b.Size(x, 0);
  Value* before = d.Cmp("lt", Unsqueeze(d, Iota(d, n), 1), Unsqueeze(d, Iota(d, n), 0));
  Value* pairs = d.b.Call("aten.nonzero.default", {before});
  auto row = [&](int i) { return d.b.Call("aten.index_select.default", {x, 0, Select(d, pairs, 1, i)}); };
  d.Return(DistanceNorm(d, d.Sub(row(0), row(1)), d.f("p")));
}

// ---- Classification

// The class dim of (C), (N, C) or (N, C, …).
int ClassDim(Value* x) { return x->rank() == 1 ? 0 : 1; }

struct Nll {
  Value *loss, *total_weight;
};

// Negative log likelihood of class indices, reduced; the weight of the classes met is what "mean" divides by.
Nll NllLoss(Decomposer& d, Value* x, Value* target, Value* weight, int64_t reduction) {
  ir::Builder& b = d.b;
  int c = ClassDim(x);
  if (x->rank() == 0 || target->rank() != (x->rank() == 1 ? 0 : x->rank() - 1)) {
    // A single sample may have its class in a vector of one element.
    if (x->rank() != 1 || target->rank() != 1) return d.Fail("the target has another rank than the input"), Nll{x, x};
    target = Reshape(d, target, {});
  }
  Value* counted = d.Cmp("ne", target, Arg(d.sym("ignore_index")));
  Value* index = b.Cast(d.Where(counted, target, 0), DType::kInt64);
  Value* picked = d.Unary("neg", Squeeze(d, b.Call("aten.gather.default", {x, c, Unsqueeze(d, index, c)}), c));
  Value* each;
  if (weight) {
    // Indexing by a 0-d tensor takes it as one of one element.
    Value* flat = b.Call("aten.index_select.default", {weight, 0, Reshape(d, index, {-1})});
    Value* w = Reshape(d, flat, b.SizesOf(index));
    picked = d.Mul(picked, w);
    each = d.Where(counted, w, 0);
  } else {
    each = b.Cast(counted, x->dtype());
  }
  Value* loss = d.Where(counted, picked, 0);
  Value* total = b.Call("aten.sum.default", {each});
  switch (reduction) {
    case 0: return {loss, b.ScalarTensor(0.0, x->dtype())};
    case 1: return {d.Div(b.Call("aten.sum.default", {loss}), total), total};
    case 2: return {b.Call("aten.sum.default", {loss}), total};
    default: return d.Fail(text::StrCat("unknown reduction ", reduction)), Nll{x, x};
  }
}
void NllLossOp(Decomposer& d) {
  Nll r = NllLoss(d, d.in("self"), d.tensor("target"), d.opt_in("weight"), d.i("reduction"));
  d.Return(Values{r.loss, r.total_weight});
}

void CrossEntropyLoss(Decomposer& d) {
  ir::Builder& b = d.b;
  Value *x = d.in("self"), *target = d.tensor("target"), *weight = d.opt_in("weight");
  int64_t reduction = d.i("reduction");
  double smoothing = d.f("label_smoothing");
  if (x->rank() == 0) return d.Fail("a 0-d input");
  int c = ClassDim(x);
  Value* logs = b.Call("aten.log_softmax.int", {x, c});
  Arg classes(b.Size(x, c));
  Value* each = weight ? Along(d, weight, c, x->rank()) : nullptr;
  auto total = [&](Value* v) { return b.Call("aten.sum.default", {v}); };

  if (ir::IsFloating(target->dtype())) {
    // Probabilities of the classes.
    target = d.in("target");
    if (smoothing > 0)
      target = d.Add(d.Mul(target, 1 - smoothing), d.Div(b.ScalarTensor(smoothing, x->dtype()), classes));
    Value* loss = d.Unary("neg", d.Mul(logs, target));
    if (each) loss = d.Mul(loss, each);
    if (reduction == 0) return d.Return(d.Sum(loss, {c}));
    if (reduction == 2) return d.Return(total(loss));
    if (reduction != 1) return d.Fail(text::StrCat("unknown reduction ", reduction));
    IntOrValue samples = 1;
    for (int k = 0; k < x->rank(); ++k)
      if (k != c) samples = b.Mul(samples, b.Size(x, k));
    return d.Return(d.Div(total(loss), Arg(samples)));
  }

  Nll nll = NllLoss(d, logs, target, weight, reduction);
  if (smoothing == 0) return d.Return(nll.loss);
  // The share of the loss that is spread over all classes evenly.
  Value* smooth = d.Unary("neg", d.Sum(each ? d.Mul(logs, each) : logs, {c}));
  Value* ignored = d.Cmp("eq", target, Arg(d.sym("ignore_index")));
  if (ignored->rank() != smooth->rank()) ignored = Reshape(d, ignored, {});
  smooth = d.Where(ignored, 0, smooth);
  if (reduction == 1) smooth = d.Div(total(smooth), nll.total_weight);
  if (reduction == 2) smooth = total(smooth);
  Value* share = d.Div(b.ScalarTensor(smoothing, x->dtype()), classes);
  d.Return(d.Add(d.Mul(nll.loss, 1 - smoothing), d.Mul(smooth, share)));
}

// torch computes this one in pieces of the batch, and gradients beside the loss, which are unused in an exported
// program.
void LinearCrossEntropy(Decomposer& d, std::string_view reduction, double smoothing) {
  if (smoothing != 0) return d.Unsupported("label smoothing");
  if (reduction != "none" && reduction != "mean" && reduction != "sum") return d.Fail("unknown reduction");
  Value *bias = d.opt_in("linear_bias"), *weight = d.opt_in("weight");
  Value* logits = d.b.Call("aten.linear.default", {d.in("input"), d.in("linear_weight"), bias ? Arg(bias) : Arg()});
  Value* logs = d.b.Call("aten.log_softmax.int", {logits, 1});
  Nll nll = NllLoss(d, logs, d.tensor("target"), weight, reduction == "none" ? 0 : reduction == "mean" ? 1 : 2);
  Values results(d.node().outputs().size(), nullptr);
  results[0] = nll.loss;
  d.Return(std::move(results));
}
void LinearCrossEntropyReduced(Decomposer& d) { LinearCrossEntropy(d, d.str("reduction"), d.f("label_smoothing")); }
void LinearCrossEntropyEach(Decomposer& d) { LinearCrossEntropy(d, "none", 0); }

// The input with a batch dim.
Value* Batched(Decomposer& d, Value* x) { return x->rank() == 1 ? Unsqueeze(d, x, 0) : x; }

// Per-sample losses (N), reduced; "none" has the declared shape, which for one sample may be 0-d.
void ReturnPerSample(Decomposer& d, Value* loss, int64_t reduction) {
  Value* r = d.ReduceLoss(loss, reduction);
  d.Return(r->rank() == d.out_type().rank() ? r : Reshape(d, r, d.out_type().rank() ? SymInts{-1} : SymInts{}));
}
void MultiMarginLoss(Decomposer& d) {
  ir::Builder& b = d.b;
  Value *x = Batched(d, d.in("self")), *target = d.tensor("target"), *weight = d.opt_in("weight");
  ir::Scalar p = d.scalar("p");
  if (x->rank() == 0) x = Reshape(d, x, {1, 1});
  if (x->rank() != 2 || target->rank() > 1) return d.Fail("operands of wrong rank");
  if (!p.is_constant() || (p.d != 1 && p.d != 2)) return d.Fail("p is neither 1 nor 2");
  Value* index = b.Cast(Reshape(d, target, {-1}), DType::kInt64);
  Value* own = b.Call("aten.gather.default", {x, 1, Unsqueeze(d, index, 1)});
  Value* z = ClampMin(d, d.Add(d.Sub(x, own), d.node().Get("margin")), 0);
  if (p.d == 2) z = d.Mul(z, z);
  if (weight) z = d.Mul(z, Unsqueeze(d, b.Call("aten.index_select.default", {weight, 0, index}), 1));
  Value* classes = Iota(d, b.Size(x, 1));
  z = d.Where(d.Cmp("eq", Unsqueeze(d, index, 1), classes), 0, z);
  ReturnPerSample(d, d.Mean(z, {1}), d.i("reduction"));
}
void MultilabelMarginLoss(Decomposer& d) {
  ir::Builder& b = d.b;
  Value *x = Batched(d, d.in("self")), *target = Batched(d, d.tensor("target"));
  if (x->rank() == 0) x = Reshape(d, x, {1, 1});
  if (target->rank() == 0) target = Reshape(d, target, {1, 1});
  if (x->rank() != 2 || target->rank() != 2) return d.Fail("operands of wrong rank");
  // The labels are those before the first negative one.
  Value* label = b.Cast(target, DType::kInt64);
  Value* ends = b.Call("aten.cumsum.default", {b.Cast(d.Cmp("lt", label, 0), DType::kInt64), 1});
  Value* valid = d.Cmp("eq", ends, 0);
  Value* index = ClampMin(d, label, 0);
  // Dims: sample, label, class.
  Value* is = And(d, d.Cmp("eq", Unsqueeze(d, index, 2), Iota(d, b.Size(x, 1))), Unsqueeze(d, valid, 2));
  Value* is_target = b.Call("aten.any.dim", {is, 1});
  Value* own = b.Call("aten.gather.default", {x, 1, index});
  Value* z = ClampMin(d, d.Add(d.Sub(Unsqueeze(d, x, 1), Unsqueeze(d, own, 2)), 1), 0);
  z = d.Where(And(d, Unsqueeze(d, valid, 2), Not(d, Unsqueeze(d, is_target, 1))), z, 0);
  Value* loss = d.Div(d.Sum(z, {1, 2}), Arg(b.Size(x, 1)));
  ReturnPerSample(d, loss, d.i("reduction"));
  if (d.node().outputs().size() > 1) {
    SymInts sizes = b.SizesOf(d.tensor("target"));
    d.Return(Values{d.results()[0], Reshape(d, b.Cast(is_target, d.out_type(1).dtype), sizes)});
  }
}

constexpr DecomposeRow kLossRows[] = {
    {"aten.mse_loss.default", MseLoss},
    {"aten.l1_loss.default", L1Loss},
    {"aten.smooth_l1_loss.default", SmoothL1Loss},
    {"aten.huber_loss.default", HuberLoss},
    {"aten.kl_div.default", KlDiv},
    {"aten.binary_cross_entropy.default", BinaryCrossEntropy},
    {"aten.binary_cross_entropy_with_logits.default", BinaryCrossEntropyWithLogits},
    {"aten.poisson_nll_loss.default", PoissonNllLoss},
    {"aten.soft_margin_loss.default", SoftMarginLoss},
    {"aten.hinge_embedding_loss.default", HingeEmbeddingLoss},
    {"aten.margin_ranking_loss.default", MarginRankingLoss},
    {"aten.pairwise_distance.default", PairwiseDistanceOp},
    {"aten.triplet_margin_loss.default", TripletMarginLoss},
    {"aten.cosine_embedding_loss.default", CosineEmbeddingLoss},
    {"aten.cosine_similarity.default", CosineSimilarity},
    {"aten.cdist.default", Cdist},
    {"aten._euclidean_dist.default", EuclideanDist},
    {"aten.pdist.default", Pdist},
    {"aten.nll_loss.default", NllLossOp},
    {"aten.nll_loss2d.default", NllLossOp},
    {"aten.nll_loss_nd.default", NllLossOp},
    {"aten.nll_loss_forward.default", NllLossOp},
    {"aten.nll_loss2d_forward.default", NllLossOp},
    {"aten.cross_entropy_loss.default", CrossEntropyLoss},
    {"torch_nn._linear_cross_entropy_batch_chunked.default", LinearCrossEntropyReduced},
    {"torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default", LinearCrossEntropyEach},
    {"aten.multi_margin_loss.default", MultiMarginLoss},
    {"aten.multilabel_margin_loss.default", MultilabelMarginLoss},
    {"aten.multilabel_margin_loss_forward.default", MultilabelMarginLoss},
};

}  // namespace

absl::Span<const DecomposeRow> LossDecompositions() { return kLossRows; }

}  // namespace slipway::passes
