// Shape functions: normalization, attention, recurrent layers, losses and distances.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {

namespace {

// The input of an operator that has an argument of one number a channel, which is the second dimension.
Value* OfChannels(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() < 2) c.Fail(text::StrCat("rank ", x->rank()));
  std::initializer_list<std::string_view> groups = {"num_groups", "group"};
  for (std::string_view name : groups) {
    if (c.node().op().ArgIndex(name) < 0) continue;
    const int64_t n = c.i(name);
    if (n <= 0) c.Fail("the number of groups is not positive");
    c.RequireEqual(Mod(x->sizes()[1], n), 0, "channels that the groups do not divide");
  }
  for (std::string_view name : {"weight", "bias", "running_mean", "running_var"}) {
    Value* v = c.node().op().ArgIndex(name) >= 0 ? c.opt_tensor(name) : nullptr;
    if (!v) continue;
    if (v->rank() != 1) c.Fail(text::StrCat("argument '", name, "' has rank ", v->rank(), ", not 1"));
    NeedParameterDType(c, x, {v});
    c.RequireEqual(v->sizes()[0], x->sizes()[1], text::StrCat("argument '", name, "' and the channels"));
  }
  return x;
}

void NormOfChannels(InferContext& c) {
  Value* x = OfChannels(c);
  c.Out(x->dtype(), x->sizes());
}

// native_batch_norm and its kin: the statistics are there in training only.
void BatchNormStats(InferContext& c) {
  Value* x = OfChannels(c);
  const OpDef& op = c.node().op();
  bool update = op.base.starts_with("_batch_norm");  // these return a reserve as well
  bool training = op.ArgIndex("training") >= 0 ? c.b("training") : op.base.starts_with("_batch_norm_with_update");
  Sizes stats = training ? Sizes{x->sizes()[1]} : Sizes{0};
  c.Out(x->dtype(), x->sizes());
  c.Out(x->dtype(), stats);
  c.Out(x->dtype(), stats);
  if (update) c.Out(DType::kUInt8, {0});
}

void BatchNormFunctional(InferContext& c) {  // with the new running statistics
  Value *mean = TensorAt(c, 3), *var = TensorAt(c, 4);
  BatchNormStats(c);
  c.Out(mean->dtype(), mean->sizes());
  c.Out(var->dtype(), var->sizes());
}

// Sizes with the normalized dimensions as 1.
Sizes StatSizes(InferContext& c, Value* x) {
  Sizes normalized = c.ToSizes(c.sym_ints("normalized_shape")), out = x->sizes();
  size_t n = normalized.size();
  if (n == 0) c.Fail("no normalized dimension");
  if (n > out.size()) {
    c.Fail("more normalized dimensions than there are");
    return out;
  }
  NeedSameSizes(c, normalized, Sizes(out.end() - static_cast<std::ptrdiff_t>(n), out.end()), "normalized_shape");
  for (std::string_view name : {"weight", "bias"}) {
    Value* v = c.node().op().ArgIndex(name) >= 0 ? c.opt_tensor(name) : nullptr;
    if (v) NeedSameSizes(c, v->sizes(), normalized, text::StrCat("argument '", name, "'"));
  }
  std::fill(out.end() - static_cast<std::ptrdiff_t>(n), out.end(), Sym(1));
  return out;
}

void LayerNorm(InferContext& c) {
  Value* x = Self(c);
  StatSizes(c, x);
  NeedParameterDType(c, x, {c.opt_tensor("weight"), c.opt_tensor("bias")});
  SameAsSelf(c);
}

void RmsNorm(InferContext& c) {
  StatSizes(c, Self(c));
  SameAsSelf(c);
}

void NativeLayerNorm(InferContext& c) {
  Value* x = Self(c);
  Sizes stats = StatSizes(c, x);
  NeedParameterDType(c, x, {c.opt_tensor("weight"), c.opt_tensor("bias")});
  c.Out(x->dtype(), x->sizes());
  c.Out(x->dtype(), stats);
  c.Out(x->dtype(), stats);
}

void FusedRmsNorm(InferContext& c) {
  Value* x = Self(c);
  c.Out(x->dtype(), x->sizes());
  c.Out(IsLowPrecision(x->dtype()) ? DType::kFloat32 : x->dtype(), StatSizes(c, x));
}

void NativeGroupNorm(InferContext& c) {
  Value* x = OfChannels(c);
  Sizes stats = {ExprOf(c.sym("N")), c.i("group")};
  c.Out(x->dtype(), x->sizes());
  c.Out(x->dtype(), stats);
  c.Out(x->dtype(), stats);
}

Sizes AttentionSizes(InferContext& c, Value* k, Value* v) {
  Value* q = Self(c);
  if (q->rank() < 2 || k->rank() < 2 || v->rank() < 2) {
    c.Fail("query, key and value have fewer than 2 dimensions");
    return {1, 1};
  }
  const OpDef& op = c.node().op();
  const Sym keys = k->sizes()[k->rank() - 2];
  c.RequireEqual(q->sizes().back(), k->sizes().back(), "features of the query and the key");
  c.RequireEqual(keys, v->sizes()[v->rank() - 2], "lengths of key and value");
  Sizes out(q->sizes().begin(), q->sizes().end() - 2);
  if (op.ArgIndex("enable_gqa") < 0 || !c.b("enable_gqa")) {
    for (Value* t : {k, v}) out = c.Broadcast(out, Sizes(t->sizes().begin(), t->sizes().end() - 2));
  } else {
    NeedRankAtLeast(c, q, 3);
    for (Value* t : {k, v}) {
      NeedRank(c, t, q->rank());
      const Sym heads = t->sizes()[t->rank() - 3];
      if (heads.is(0)) c.Fail("a key or value of no heads");
      c.RequireEqual(Mod(out.back(), heads), 0, "heads that do not divide");
    }
  }
  if (Value* mask = op.ArgIndex("attn_mask") >= 0 ? c.opt_tensor("attn_mask") : nullptr) {
    Sizes scores = out;
    scores.push_back(q->sizes()[q->rank() - 2]);
    scores.push_back(keys);
    NeedExpands(c, mask->sizes(), scores, "the mask");
  }
  out.push_back(q->sizes()[q->rank() - 2]);
  out.push_back(v->sizes().back());
  return out;
}

Sizes AttentionSizes(InferContext& c) {
  Value *q = Self(c), *k = TensorAt(c, 1), *v = TensorAt(c, 2);
  if (k->dtype() != q->dtype() || v->dtype() != q->dtype()) c.Fail("query, key and value have different dtypes");
  return AttentionSizes(c, k, v);
}

void Attention(InferContext& c) { c.Out(Self(c)->dtype(), AttentionSizes(c)); }
// Keys and values are int8 or float8; each row of them has a scale.
void QuantizedAttention(InferContext& c) {
  Value *k = TensorAt(c, 1), *k_scale = TensorAt(c, 2), *v = TensorAt(c, 3), *v_scale = TensorAt(c, 4);
  for (const auto& [codes, scale] : {std::pair(k, k_scale), {v, v_scale}}) {
    if (codes->rank() == 0 || scale->rank() != codes->rank() || scale->dtype() != DType::kFloat32)
      return c.Fail("scales are f32, one for each row of keys and values");
    for (int d = 0; d + 1 < codes->rank(); ++d)
      c.RequireEqual(scale->sizes()[d], codes->sizes()[d], "rows and their scales");
    c.RequireEqual(scale->sizes().back(), 1, "scales of a row");
  }
  c.Out(Self(c)->dtype(), AttentionSizes(c, k, v));
}
void AttentionWithWeights(InferContext& c) {
  Sizes out = AttentionSizes(c), weights = out;
  Value* k = TensorAt(c, 1);
  if (!c.ok()) return;
  weights.back() = k->sizes()[k->rank() - 2];
  c.Out(Self(c)->dtype(), out);
  c.Out(Self(c)->dtype(), weights);
}

void AttentionWithLogSum(InferContext& c) {
  Sizes out = AttentionSizes(c), sums = out;
  sums.pop_back();
  c.Out(Self(c)->dtype(), out);
  c.Out(DType::kFloat32, sums);
}

void EfficientAttention(InferContext& c) {
  Sizes out = AttentionSizes(c), sums = out;
  sums.pop_back();
  sums.back() = c.b("compute_log_sumexp") ? CeilDiv(sums.back(), 32) * 32 : Sym(0);
  c.Out(Self(c)->dtype(), out);
  c.Out(DType::kFloat32, sums);
  c.Out(DType::kInt64, {});
  c.Out(DType::kInt64, {});
}

// The states and weights of layers, each of one or two directions: what follows from the features of the input and of
// the states.
void CheckLayers(InferContext& c, Value* x, const Values& states) {
  const std::string_view base = c.node().op().base;
  const int64_t gates = base == "lstm" ? 4 : base == "gru" ? 3 : 1, layers = c.i("num_layers");
  const int64_t directions = c.b("bidirectional") ? 2 : 1;
  const bool biases = c.b("has_biases"), packed = c.node().op().overload == "data";
  if (layers < 1 || layers > 1 << 16) return c.Fail("the number of layers is out of range");
  const Sym out = states[0]->sizes().back(), hidden = states.back()->sizes().back();
  const Values params = c.tensors("params");
  const size_t plain = 2 + (biases ? 2 : 0);
  const bool projected = base == "lstm" && params.size() == (plain + 1) * static_cast<size_t>(layers * directions);
  if (!projected) c.RequireEqual(out, hidden, "sizes of the states");
  for (Value* s : states) {
    NeedRank(c, s, packed ? 3 : x->rank());
    c.RequireEqual(s->sizes()[0], layers * directions, "states and layers");
    if (!packed && x->rank() == 3)
      c.RequireEqual(s->sizes()[1], x->sizes()[c.b("batch_first") ? 0 : 1], "batches of the states and the input");
  }
  const size_t each = plain + (projected ? 1 : 0);
  if (params.size() != each * static_cast<size_t>(layers * directions))
    return c.Fail(text::StrCat(params.size(), " weights"));
  for (size_t k = 0; k < params.size(); ++k) {
    if (!params[k]) return c.Fail("a weight is missing");
    NeedSameDType(c, {x, params[k]});
    const Sym in = k / each < static_cast<size_t>(directions) ? x->sizes().back() : out * directions;
    const size_t which = k % each;
    Sizes wanted = which == 0   ? Sizes{gates * hidden, in}
                   : which == 1 ? Sizes{gates * hidden, out}
                                : Sizes{gates * hidden};
    if (projected && which + 1 == each) wanted = {out, hidden};
    NeedSameSizes(c, params[k]->sizes(), wanted, text::StrCat("weight ", k));
  }
}

// lstm, gru, rnn over whole sequences: outputs, then final states of the initial ones' types.
template <int kStates>
void Recurrent(InferContext& c) {
  Value* x = Self(c);
  Values states = c.tensors("hx");
  if (static_cast<int>(states.size()) < kStates || x->rank() < 2) return c.Fail("bad ranks");
  for (Value* s : states) {
    if (!s || s->rank() < 2) return c.Fail("a state has fewer than 2 dimensions");
    NeedSameDType(c, {x, s});
  }
  if (static_cast<int>(states.size()) != kStates) return c.Fail("too many states");
  CheckLayers(c, x, states);
  Sizes out = x->sizes();
  out.back() = states[0]->sizes().back() * (c.b("bidirectional") ? 2 : 1);
  c.Out(x->dtype(), out);
  for (int i = 0; i < kStates; ++i) c.Out(states[i]->dtype(), states[i]->sizes());
}

template <int kGates>
void CheckCell(InferContext& c, Value* h) {
  Value* x = Self(c);
  NeedRankAtLeast(c, x, 1);
  NeedRank(c, h, x->rank());
  const Sym hidden = h->sizes().back();
  NeedSameSizes(c, WithDim(x->sizes(), x->rank() - 1, hidden), h->sizes(), "sizes of the state");
  NeedSameSizes(c, c.tensor("w_ih")->sizes(), {kGates * hidden, x->sizes().back()}, "argument 'w_ih'");
  NeedSameSizes(c, c.tensor("w_hh")->sizes(), {kGates * hidden, hidden}, "argument 'w_hh'");
  for (std::string_view name : {"b_ih", "b_hh"})
    if (Value* b = c.opt_tensor(name))
      NeedSameSizes(c, b->sizes(), {kGates * hidden}, text::StrCat("argument '", name, "'"));
  NeedSameDType(c, {x, h, c.tensor("w_ih"), c.tensor("w_hh"), c.opt_tensor("b_ih"), c.opt_tensor("b_hh")});
}

template <int kGates>
void Cell(InferContext& c) {
  Value* h = TensorAt(c, 1);
  CheckCell<kGates>(c, h);
  c.Out(h->dtype(), h->sizes());
}

void LstmCell(InferContext& c) {
  Values states = c.tensors("hx");
  if (states.size() != 2 || !states[0] || !states[1]) return c.Fail("two states are needed");
  CheckCell<4>(c, states[0]);
  NeedSameDType(c, {states[0], states[1]});
  NeedSameSizes(c, states[0]->sizes(), states[1]->sizes(), "sizes of the two states");
  for (Value* s : states) c.Out(s->dtype(), s->sizes());
}

// `full` where the loss is not reduced, else one number.
void OutLoss(InferContext& c, DType t, const Sizes& full) { c.Out(t, c.i("reduction") == 0 ? full : Sizes{}); }
void LossBroadcast(InferContext& c) {  // elementwise over the first two
  Operands o = OperandsAt(c, {0, 1});
  OutLoss(c, c.ResultType(o.tensors), c.Broadcast(o.shapes));
}

void LossBroadcastFloat(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  OutLoss(c, c.FloatResultType(o.tensors), c.Broadcast(o.shapes));
}

void LossBroadcastReal(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  OutLoss(c, ToReal(c.ResultType(o.tensors)), c.Broadcast(o.shapes));
}

void LossBroadcastThree(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1, 2});
  OutLoss(c, c.FloatResultType(o.tensors), c.Broadcast(o.shapes));
}

void LossLikeSelf(InferContext& c) { OutLoss(c, Self(c)->dtype(), Self(c)->sizes()); }
// Classes of each element of the target: the input has a dimension for them, the second, or the first of a vector.
void LossPerTarget(InferContext& c) {
  Sizes x = Self(c)->sizes();
  const Sizes& target = TensorAt(c, 1)->sizes();
  if (x.size() == target.size() + 1) {
    x.erase(x.begin() + (x.size() == 1 ? 0 : 1));
    NeedSameSizes(c, x, target, "the sizes of the target");
  }
  OutLoss(c, Self(c)->dtype(), target);
}

void CosineEmbedding(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  OutLoss(c, c.FloatResultType(o.tensors), TensorAt(c, 2)->sizes());
}

void CrossEntropy(InferContext& c) {
  Value *x = Self(c), *target = TensorAt(c, 1);
  if (!IsFloating(target->dtype())) return LossPerTarget(c);
  // Probabilities of the classes: all but the class dimension remains.
  NeedSameSizes(c, x->sizes(), target->sizes(), "the sizes of the target");
  Sizes out = x->sizes();
  if (out.empty()) return c.Fail("no class dimension");
  out.erase(out.begin() + (out.size() == 1 ? 0 : 1));
  OutLoss(c, x->dtype(), out);
}

void NllForward(InferContext& c) {
  LossPerTarget(c);
  c.Out(Self(c)->dtype(), {});
}

void LossPerRow(InferContext& c) {  // multi_margin_loss and its kin: one number per row
  Value* x = Self(c);
  Sizes out = x->sizes();
  if (!out.empty()) out.pop_back();
  OutLoss(c, x->dtype(), out);
}

void MultilabelForward(InferContext& c) {
  LossPerRow(c);
  c.Out(Self(c)->dtype(), TensorAt(c, 1)->sizes());
}

void TripletMargin(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1, 2});
  Sizes s = c.Broadcast(o.shapes);
  if (s.empty()) return c.Fail("0-d tensors have no distance");
  s.pop_back();
  OutLoss(c, ToReal(c.FloatResultType(o.tensors)), s);
}

void CtcLoss(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() < 2) return OutLoss(c, x->dtype(), {});
  OutLoss(c, x->dtype(), x->rank() == 3 ? Sizes{x->sizes()[1]} : Sizes{});
}

void PairwiseDistance(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  Sizes s = c.Broadcast(o.shapes);
  if (s.empty()) return c.Fail("0-d tensors have no distance");
  s.pop_back();
  if (c.b("keepdim")) s.push_back(1);
  c.Out(ToReal(c.FloatResultType(o.tensors)), s);
}

void CosineSimilarity(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  Sizes s = c.Broadcast(o.shapes);
  c.Out(c.ResultType(o.tensors), c.Reduce(s, {c.dim("dim", static_cast<int>(s.size()))}, false));
}

void CDist(InferContext& c) {
  Value *a = Self(c), *b = TensorAt(c, 1);
  if (a->rank() < 2 || b->rank() < 2) return c.Fail("fewer than 2 dimensions");
  auto batch = [](Value* v) { return Sizes(v->sizes().begin(), v->sizes().end() - 2); };
  Sizes out = c.Broadcast(batch(a), batch(b));
  out.push_back(a->sizes()[a->rank() - 2]);
  out.push_back(b->sizes()[b->rank() - 2]);
  c.Out(a->dtype(), out);
}

void PDist(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != 2) return c.Fail(text::StrCat("rank ", x->rank()));
  Sym n = x->sizes()[0];
  c.Out(x->dtype(), {FloorDiv(n * (n - 1), 2)});
}

void Glu(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  if (x->rank() == 0) return c.Fail("glu of a 0-d tensor");
  c.RequireEqual(Mod(x->sizes()[dim], 2), 0, "a size that is not even");
  c.Out(x->dtype(), WithDim(x->sizes(), dim, FloorDiv(x->sizes()[dim], 2)));
}

void DropoutBackward(InferContext& c) {  // grad * mask * scale
  Operands o = OperandsAt(c, {0, 1});
  c.Out(c.FloatResultType(o.tensors), c.Broadcast(o.shapes));
}

constexpr ShapeFamily kNnFamilies[] = {
    {LayerNorm, "layer_norm"},
    {RmsNorm, "rms_norm"},
    {SameAsSelf, "batch_norm_elemt"},
    {NormOfChannels, "group_norm batch_norm instance_norm"},
    {BatchNormStats,
     "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit.no_stats "
     "_native_batch_norm_legit_no_training "
     "_batch_norm_with_update _batch_norm_no_update"},
    {BatchNormFunctional, "_native_batch_norm_legit_functional _batch_norm_with_update_functional"},
    {NativeLayerNorm, "native_layer_norm"},
    {NativeGroupNorm, "native_group_norm"},
    {FusedRmsNorm, "_fused_rms_norm"},
    {Attention, "scaled_dot_product_attention"},
    {QuantizedAttention, "/slipway.quantized_attention.default"},
    {AttentionWithWeights, "_scaled_dot_product_attention_math"},
    {AttentionWithLogSum, "_scaled_dot_product_flash_attention_for_cpu"},
    {EfficientAttention, "_scaled_dot_product_efficient_attention"},
    {Recurrent<2>, "lstm.input lstm.data"},
    {Recurrent<1>, "gru.input gru.data rnn_tanh.input rnn_tanh.data rnn_relu.input rnn_relu.data"},
    {LstmCell, "lstm_cell"},
    {Cell<3>, "gru_cell"},
    {Cell<1>, "rnn_tanh_cell rnn_relu_cell"},
    {LossBroadcast, "mse_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits"},
    {LossBroadcastFloat, "kl_div poisson_nll_loss"},
    {LossBroadcastReal, "l1_loss"},
    {LossBroadcastThree, "margin_ranking_loss"},
    {LossLikeSelf, "binary_cross_entropy soft_margin_loss hinge_embedding_loss"},
    {LossPerTarget, "nll_loss nll_loss_nd nll_loss2d"},
    {NllForward, "nll_loss_forward nll_loss2d_forward"},
    {CrossEntropy, "cross_entropy_loss"},
    {CosineEmbedding, "cosine_embedding_loss"},
    {LossPerRow, "multi_margin_loss multilabel_margin_loss"},
    {MultilabelForward, "multilabel_margin_loss_forward"},
    {TripletMargin, "triplet_margin_loss"},
    {CtcLoss, "ctc_loss.Tensor ctc_loss.IntList"},
    {PairwiseDistance, "pairwise_distance"},
    {CosineSimilarity, "cosine_similarity"},
    {CDist, "cdist _cdist_forward _euclidean_dist"},
    {PDist, "pdist _pdist_forward"},
    {Glu, "glu"},
    {DropoutBackward, "native_dropout_backward"},
    {SameAsSelf, "fft_fftshift fft_ifftshift _fft_c2c"},
    {SameAsSelf, "/quantized_decomposed.fake_quant_per_channel.default"},
};

}  // namespace

absl::Span<const ShapeRow> NnShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kNnFamilies);
  return rows;
}

}  // namespace slipway::ir
