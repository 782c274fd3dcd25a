// Shape functions: layers of neural networks, losses, spectra and quantization.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {
namespace {

// Lists with one entry per spatial dimension; a single entry stands for all.
Sizes PerDim(InferContext& c, std::string_view name, int n) {
  Sizes out = c.ToSizes(c.sym_ints(name, n));
  if (out.size() == 1 && n > 1) out.resize(n, out[0]);
  if (static_cast<int>(out.size()) != n) {
    c.Fail(text::StrCat("argument '", name, "' has ", out.size(), " entries, not ", n));
    out.assign(n, 1);
  }
  return out;
}
bool Positive(InferContext& c, const Sizes& s, std::string_view what) {
  for (Sym x : s)
    if (ProvablyLess(x, 1)) {
      c.Fail(text::StrCat(what, " is not positive"));
      return false;
    }
  return true;
}
// Elements of a dimension that windows of k (dilated by d, padded by p on both sides, s apart) cover.
Sym Windows(Sym in, Sym k, Sym s, Sym p, Sym d) { return FloorDiv(in + 2 * p - d * (k - 1) - 1, s) + 1; }

// --- Convolution -------------------------------------------------------------------------------------------------

struct Conv {
  Value *x, *w, *bias;
  int n;  // spatial dimensions
  bool batched;
};
bool ReadConv(InferContext& c, Conv& k) {
  k.x = Self(c);
  k.w = TensorAt(c, 1);
  k.bias = c.opt_tensor("bias");
  k.n = k.w->rank() - 2;
  k.batched = k.x->rank() == k.w->rank();
  if (k.n < 1 || (!k.batched && k.x->rank() != k.n + 1)) {
    c.Fail(text::StrCat("ranks ", k.x->rank(), " and ", k.w->rank(), " are no convolution"));
    return false;
  }
  NeedSameDType(c, {k.x, k.w, k.bias});
  return c.ok();
}
Sym Channels(const Conv& k) { return k.x->sizes()[k.x->rank() - k.n - 1]; }
Sym Groups(InferContext& c) {
  Sym groups = c.node().op().ArgIndex("groups") >= 0 ? ExprOf(c.sym("groups")) : Sym(1);
  if (ProvablyLess(groups, 1)) c.Fail("the number of groups is not positive");
  return groups;
}
void OutConv(InferContext& c, const Conv& k, Sym channels, const Sizes& spatial) {
  Sizes out;
  if (k.bias) NeedSameSizes(c, k.bias->sizes(), {channels}, "the bias and the channels of the result");
  if (k.batched) out.push_back(k.x->sizes()[0]);
  out.push_back(channels);
  for (Sym s : spatial) c.RequireAtLeast(s, 1);
  out.insert(out.end(), spatial.begin(), spatial.end());
  c.Out(k.x->dtype(), out);
}
void OutForward(InferContext& c, const Conv& k, const Sizes& padding) {
  Sizes stride = PerDim(c, "stride", k.n), dilation = PerDim(c, "dilation", k.n), out;
  if (!c.ok() || !Positive(c, stride, "a stride") || !Positive(c, dilation, "a dilation")) return;
  NeedNotNegative(c, padding, "a padding");
  for (int i = 0; i < k.n; ++i) {
    out.push_back(
        Windows(k.x->sizes()[k.x->rank() - k.n + i], k.w->sizes()[2 + i], stride[i], padding[i], dilation[i]));
    if (ProvablyLess(out.back(), 1)) return c.Fail("the kernel is larger than the input");
  }
  OutConv(c, k, k.w->sizes()[0], out);
}
void CheckForward(InferContext& c, const Conv& k) {
  const Sym groups = Groups(c);
  c.RequireEqual(Channels(k), k.w->sizes()[1] * groups, "channels of the input and the weight");
  c.RequireEqual(Mod(k.w->sizes()[0], groups), 0, "channels of the result that the groups do not divide");
}
void OutTransposed(InferContext& c, const Conv& k) {
  Sizes stride = PerDim(c, "stride", k.n), dilation = PerDim(c, "dilation", k.n), padding = PerDim(c, "padding", k.n),
        extra = PerDim(c, "output_padding", k.n), out;
  if (!Positive(c, stride, "a stride") || !Positive(c, dilation, "a dilation")) return;
  NeedNotNegative(c, padding, "a padding");
  NeedNotNegative(c, extra, "an output padding");
  c.RequireEqual(Channels(k), k.w->sizes()[0], "channels of the input and the weight");
  c.RequireEqual(Mod(Channels(k), Groups(c)), 0, "channels of the input that the groups do not divide");
  for (int i = 0; i < k.n; ++i)
    out.push_back((k.x->sizes()[k.x->rank() - k.n + i] - 1) * stride[i] - 2 * padding[i] +
                  dilation[i] * (k.w->sizes()[2 + i] - 1) + extra[i] + 1);
  OutConv(c, k, k.w->sizes()[1] * Groups(c), out);
}
void ConvForward(InferContext& c) {
  Conv k;
  if (!ReadConv(c, k)) return;
  // A depthwise convolution takes its groups from the channels.
  if (c.node().op().base != "_conv_depthwise2d" && c.node().op().base != "conv_depthwise3d") CheckForward(c, k);
  OutForward(c, k, PerDim(c, "padding", k.n));
}
void ConvTranspose(InferContext& c) {
  Conv k;
  if (ReadConv(c, k)) OutTransposed(c, k);
}
void Convolution(InferContext& c) {
  Conv k;
  if (!ReadConv(c, k)) return;
  if (c.b("transposed")) return OutTransposed(c, k);
  CheckForward(c, k);
  OutForward(c, k, PerDim(c, "padding", k.n));
}
void ConvPadding(InferContext& c) {  // "valid" or "same"
  Conv k;
  if (!ReadConv(c, k)) return;
  CheckForward(c, k);
  std::string padding = c.str("padding");
  if (padding == "valid") return OutForward(c, k, Sizes(k.n, 0));
  if (padding != "same") return c.Fail(text::StrCat("padding '", padding, "'"));
  for (Sym stride : PerDim(c, "stride", k.n)) c.RequireEqual(stride, 1, "the stride of padding 'same'");
  if (!Positive(c, PerDim(c, "dilation", k.n), "a dilation")) return;
  OutConv(c, k, k.w->sizes()[0], Sizes(k.x->sizes().end() - k.n, k.x->sizes().end()));
}
void ConvTbc(InferContext& c) {
  Value *x = Self(c), *w = TensorAt(c, 1);
  NeedRank(c, x, 3);
  NeedRank(c, w, 3);
  NeedSameDType(c, {x, w, c.tensor("bias")});
  NeedSameSizes(c, c.tensor("bias")->sizes(), {w->sizes()[2]}, "the bias and the channels of the result");
  c.RequireEqual(x->sizes()[2], w->sizes()[1], "channels of the input and the weight");
  c.Out(x->dtype(), {x->sizes()[0] + 2 * c.i("pad") + 1 - w->sizes()[0], x->sizes()[1], w->sizes()[2]});
}

// --- Pooling -----------------------------------------------------------------------------------------------------

// Windows, the last one possibly over the edge but not beginning in the right padding.
Sym PoolWindows(Sym in, Sym k, Sym s, Sym p, Sym d, bool ceil_mode) {
  if (!ceil_mode) return Windows(in, k, s, p, d);
  Sym reach = in + 2 * p - d * (k - 1) - 1 + s - 1, limit = in + p + s - 1;
  Sym all = FloorDiv(reach, s) + 1, inside = FloorDiv(limit, s);
  return ProvablyLessEqual(reach + s, limit) ? all : SmallerOf(all, inside);
}
void OutPool(InferContext& c, int n, bool with_indices) {
  Value* x = Self(c);
  if (x->rank() != n + 1 && x->rank() != n + 2) return c.Fail(text::StrCat("rank ", x->rank()));
  Sizes kernel = PerDim(c, "kernel_size", n), padding = PerDim(c, "padding", n);
  Sizes stride = c.ToSizes(c.sym_ints("stride"));
  stride = stride.empty() ? kernel : PerDim(c, "stride", n);
  Sizes dilation = c.node().op().ArgIndex("dilation") >= 0 ? PerDim(c, "dilation", n) : Sizes(n, 1);
  if (!Positive(c, stride, "a stride") || !Positive(c, kernel, "a kernel size") || !Positive(c, dilation, "a dilation"))
    return;
  NeedNotNegative(c, padding, "a padding");
  bool ceil_mode = c.b("ceil_mode");
  Sizes out = x->sizes();
  for (int i = 0; i < n; ++i) {
    Sym& s = out[x->rank() - n + i];
    if (ProvablyLess(dilation[i] * (kernel[i] - 1) + 1, 2 * padding[i]))
      return c.Fail("the padding is more than half of the kernel");
    s = PoolWindows(s, kernel[i], stride[i], padding[i], dilation[i], ceil_mode);
    if (ProvablyLess(s, 1)) return c.Fail("the kernel is larger than the input");
    c.RequireAtLeast(s, 1);
  }
  c.Out(x->dtype(), out);
  if (with_indices) c.Out(DType::kInt64, out);
}
template <int kDims, bool kIndices>
void Pool(InferContext& c) {
  OutPool(c, kDims, kIndices);
}
// The last n dimensions become output_size.
template <int kDims, bool kIndices>
void ResizeTo(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != kDims + 1 && x->rank() != kDims + 2) return c.Fail(text::StrCat("rank ", x->rank()));
  Sizes size = PerDim(c, "output_size", kDims), out = x->sizes();
  for (int i = 0; i < kDims; ++i) out[x->rank() - kDims + i] = size[i];
  c.Out(x->dtype(), out);
  if (kIndices) c.Out(DType::kInt64, out);
}
void LikeSecond(InferContext& c) {
  Value* x = TensorAt(c, 1);
  c.Out(x->dtype(), x->sizes());
}
void Im2Col(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != 3 && x->rank() != 4) return c.Fail(text::StrCat("rank ", x->rank()));
  Sizes k = PerDim(c, "kernel_size", 2), d = PerDim(c, "dilation", 2), p = PerDim(c, "padding", 2),
        s = PerDim(c, "stride", 2);
  if (!Positive(c, s, "a stride") || !Positive(c, k, "a kernel size") || !Positive(c, d, "a dilation")) return;
  NeedNotNegative(c, p, "a padding");
  Sym blocks = 1;
  for (int i = 0; i < 2; ++i) {
    const Sym along = Windows(x->sizes()[x->rank() - 2 + i], k[i], s[i], p[i], d[i]);
    if (ProvablyLess(along, 1)) return c.Fail("the kernel is larger than the input");
    blocks = blocks * along;
  }
  Sizes out(x->sizes().begin(), x->sizes().end() - 3);
  out.push_back(x->sizes()[x->rank() - 3] * k[0] * k[1]);
  out.push_back(blocks);
  c.Out(x->dtype(), out);
}
void Col2Im(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != 2 && x->rank() != 3) return c.Fail(text::StrCat("rank ", x->rank()));
  Sizes k = PerDim(c, "kernel_size", 2), size = PerDim(c, "output_size", 2);
  const Sizes d = PerDim(c, "dilation", 2), p = PerDim(c, "padding", 2), s = PerDim(c, "stride", 2);
  if (!Positive(c, k, "a kernel size") || !Positive(c, d, "a dilation") || !Positive(c, s, "a stride")) return;
  NeedNotNegative(c, p, "a padding");
  Sym blocks = 1;
  for (int i = 0; i < 2; ++i) {
    const Sym along = Windows(size[i], k[i], s[i], p[i], d[i]);
    if (ProvablyLess(along, 1)) return c.Fail("the kernel is larger than the result");
    blocks = blocks * along;
  }
  c.RequireEqual(x->sizes().back(), blocks, "blocks");
  c.RequireEqual(Mod(x->sizes()[x->rank() - 2], k[0] * k[1]), 0, "a number of rows that the kernel does not divide");
  Sizes out(x->sizes().begin(), x->sizes().end() - 2);
  out.push_back(FloorDiv(x->sizes()[x->rank() - 2], k[0] * k[1]));
  out.insert(out.end(), size.begin(), size.end());
  c.Out(x->dtype(), out);
}

// --- Resampling --------------------------------------------------------------------------------------------------

template <int kDims>
void Upsample(InferContext& c) {  // to output_size, or by scale_factors
  Value* x = Self(c);
  if (x->rank() != kDims + 2) return c.Fail(text::StrCat("rank ", x->rank()));
  if (c.has("output_size")) return ResizeTo<kDims, false>(c);
  std::vector<double> scales = c.floats("scale_factors");
  if (static_cast<int>(scales.size()) != kDims) return c.Fail("neither a size nor as many factors as dimensions");
  // All but this one multiply by a whole factor in integers.
  bool by_float = c.node().op().base == "upsample_bicubic2d";
  Sizes out = x->sizes();
  for (int i = 0; i < kDims; ++i) {
    Sym& s = out[2 + i];
    double f = scales[i];
    if (!(f > 0) || f > 1e9) return c.Fail("a scale factor is not positive");
    if (std::floor(f) == f && (s.is_constant() || !by_float)) {
      s = s * static_cast<int64_t>(f);
    } else if (auto k = s.constant()) {
      s = static_cast<int64_t>(static_cast<double>(*k) * f);
    } else {
      auto as_float = c.syms().Make(SymKind::kToFloat, {s});
      auto scaled = as_float.ok() ? c.syms().Make(SymKind::kMul, {c.syms().Float(f), *as_float}) : as_float;
      auto whole = scaled.ok() ? c.syms().Make(SymKind::kTruncToInt, {*scaled}) : scaled;
      if (!whole.ok()) return c.SetStatus(whole.status());
      s = *whole;
    }
  }
  c.Out(x->dtype(), out);
}
void GridSample(InferContext& c) {
  Value *x = Self(c), *grid = TensorAt(c, 1);
  if (x->rank() < 4 || grid->rank() != x->rank()) return c.Fail("the grid does not fit the input's rank");
  NeedSameDType(c, {x, grid});
  c.RequireEqual(x->sizes()[0], grid->sizes()[0], "batches of the input and the grid");
  c.RequireEqual(grid->sizes().back(), x->rank() - 2, "coordinates of a point of the grid");
  Sizes out = {x->sizes()[0], x->sizes()[1]};
  out.insert(out.end(), grid->sizes().begin() + 1, grid->sizes().end() - 1);
  c.Out(x->dtype(), out);
}
void AffineGrid(InferContext& c) {
  Sizes size = c.ToSizes(c.sym_ints("size"));
  if (size.size() < 4) return c.Fail("a grid of fewer than 2 dimensions");
  Value* theta = Self(c);
  if (theta->rank() != 3) return c.Fail(text::StrCat("matrices of rank ", theta->rank()));
  if (!c.RequireEqual(theta->sizes()[0], size[0], "matrices and grids")) return;
  Sizes out = {size[0]};
  out.insert(out.end(), size.begin() + 2, size.end());
  out.push_back(static_cast<int64_t>(size.size()) - 2);
  c.Out(Self(c)->dtype(), out);
}

// --- Normalization -----------------------------------------------------------------------------------------------

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

// --- Attention and recurrence ------------------------------------------------------------------------------------

Sizes AttentionSizes(InferContext& c) {
  Value *q = Self(c), *k = TensorAt(c, 1), *v = TensorAt(c, 2);
  if (q->rank() < 2 || k->rank() < 2 || v->rank() < 2) {
    c.Fail("query, key and value have fewer than 2 dimensions");
    return {1, 1};
  }
  if (k->dtype() != q->dtype() || v->dtype() != q->dtype()) c.Fail("query, key and value have different dtypes");
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
void Attention(InferContext& c) { c.Out(Self(c)->dtype(), AttentionSizes(c)); }
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

// --- Losses and distances ----------------------------------------------------------------------------------------

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

// --- Spectra -----------------------------------------------------------------------------------------------------

enum class Spectrum { kComplex, kHalf, kReal };  // complex to complex, to the half spectrum, to real numbers

DType SpectrumDType(DType t, Spectrum kind) {
  t = FloatOf(t);
  return kind == Spectrum::kReal ? ToReal(t) : ToComplex(t);
}
// The transform's last dimension is halved or doubled.
Sym SpectrumSize(Sym in, std::optional<Sym> given, Spectrum kind) {
  switch (kind) {
    case Spectrum::kComplex: return given.value_or(in);
    case Spectrum::kHalf: return FloorDiv(given.value_or(in), 2) + 1;
    case Spectrum::kReal: return given.value_or(2 * (in - 1));
  }
  return in;
}
template <Spectrum kKind>
void Fft(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  if (x->rank() == 0) return c.Fail("transform of a 0-d tensor");
  auto n = c.opt_sym("n");
  Sym size = SpectrumSize(x->sizes()[dim], n ? std::optional<Sym>(ExprOf(*n)) : std::nullopt, kKind);
  c.Out(SpectrumDType(x->dtype(), kKind), WithDim(x->sizes(), dim, size));
}
template <Spectrum kKind>
void FftN(InferContext& c) {
  Value* x = Self(c);
  auto sizes = c.opt_sym_ints("s");
  std::vector<int> dims;
  if (c.has("dim")) {
    dims = c.dims("dim", x->rank(), /*empty_is_all=*/false);
  } else {
    int n = sizes ? static_cast<int>(sizes->size()) : x->rank();
    if (n > x->rank()) return c.Fail("more sizes than dimensions");
    for (int d = x->rank() - n; d < x->rank(); ++d) dims.push_back(d);
  }
  if (sizes && sizes->size() != dims.size()) return c.Fail("sizes and dims differ in number");
  Sizes out = x->sizes();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= x->rank()) return c.Fail("transform of a 0-d tensor");
    std::optional<Sym> given;
    if (sizes && !((*sizes)[i] == IntOrValue(-1))) given = ExprOf((*sizes)[i]);
    out[dims[i]] = SpectrumSize(out[dims[i]], given, i + 1 == dims.size() ? kKind : Spectrum::kComplex);
  }
  c.Out(SpectrumDType(x->dtype(), kKind), out);
}
void FftR2C(InferContext& c) {
  Value* x = Self(c);
  std::vector<int> dims = c.dims("dim", x->rank(), false);
  if (dims.empty() || x->rank() == 0) return c.Fail("no dimension to transform");
  Sizes out = x->sizes();
  if (c.b("onesided")) out[dims.back()] = FloorDiv(out[dims.back()], 2) + 1;
  c.Out(ToComplex(x->dtype()), out);
}
void FftC2R(InferContext& c) {
  Value* x = Self(c);
  std::vector<int> dims = c.dims("dim", x->rank(), false);
  if (dims.empty() || x->rank() == 0) return c.Fail("no dimension to transform");
  c.Out(ToReal(x->dtype()), WithDim(x->sizes(), dims.back(), ExprOf(c.sym("last_dim_size"))));
}
void FftFreq(InferContext& c) {
  int64_t n = c.i("n");
  if (n < 0) return c.Fail("a negative size");
  bool half = c.node().op().base == "fft_rfftfreq";
  c.Out(c.dtype("dtype").value_or(DType::kFloat32), {half ? n / 2 + 1 : n});
}
void Stft(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != 1 && x->rank() != 2) return c.Fail(text::StrCat("rank ", x->rank()));
  int64_t n_fft = c.i("n_fft");
  int64_t hop = c.opt_i("hop_length").value_or(n_fft / 4);
  Value* window = c.opt_tensor("window");
  if (n_fft <= 0 || n_fft > 1 << 28 || hop <= 0) return c.Fail("n_fft or hop_length is not positive");
  if (c.has("align_to_window") && c.b("align_to_window")) return c.Unsupported("align_to_window");
  bool complex = IsComplex(x->dtype()) || (window && IsComplex(window->dtype()));
  bool onesided = c.has("onesided") ? c.b("onesided") : !complex;
  bool centered = c.node().op().ArgIndex("center") >= 0 && c.b("center");
  Sym length = x->sizes().back() + (centered ? 2 * (n_fft / 2) : 0);
  Sizes out(x->sizes().begin(), x->sizes().end() - 1);
  out.push_back(onesided ? n_fft / 2 + 1 : n_fft);
  out.push_back(FloorDiv(length - n_fft, hop) + 1);
  bool as_complex = c.has("return_complex") ? c.b("return_complex") : complex;
  if (!as_complex) out.push_back(2);
  c.Out(as_complex ? ToComplex(x->dtype()) : ToReal(x->dtype()), out);
}
void Istft(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != 2 && x->rank() != 3) return c.Fail(text::StrCat("rank ", x->rank()));
  int64_t n_fft = c.i("n_fft");
  int64_t hop = c.opt_i("hop_length").value_or(n_fft / 4);
  if (n_fft <= 0 || n_fft > 1 << 28 || hop <= 0) return c.Fail("n_fft or hop_length is not positive");
  auto length = c.opt_i("length");
  Sym n = length ? Sym(*length) : (x->sizes().back() - 1) * hop + n_fft - (c.b("center") ? 2 * (n_fft / 2) : 0);
  Sizes out(x->sizes().begin(), x->sizes().end() - 2);
  out.push_back(n);
  c.Out(c.b("return_complex") ? x->dtype() : ToReal(x->dtype()), out);
}

// --- Quantization ------------------------------------------------------------------------------------------------

template <DType kDefault>
void CastToFirstOf(InferContext& c, std::initializer_list<const char*> names) {
  DType t = kDefault;
  for (const char* name : names) {
    if (c.node().op().ArgIndex(name) < 0) continue;
    if (auto given = c.dtype(name)) {
      t = *given;
      break;
    }
  }
  c.Out(t, Self(c)->sizes());
}
void Quantize(InferContext& c) { CastToFirstOf<DType::kInt8>(c, {"output_dtype", "float8_dtype", "dtype"}); }
// The dtype of the result is out_dtype or output_dtype; "dtype" and "input_dtype" are of the quantized values.
void Dequantize(InferContext& c) { CastToFirstOf<DType::kFloat32>(c, {"out_dtype", "output_dtype"}); }
void TensorParameters(InferContext& c) {
  c.Out(DType::kFloat64, {1});
  c.Out(DType::kInt64, {1});
}
void TokenParameters(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() == 0) return c.Fail("a 0-d tensor has no tokens");
  Sizes out = WithDim(x->sizes(), x->rank() - 1, 1);
  c.Out(DType::kFloat64, out);
  c.Out(DType::kInt64, out);
}
// One size per block; dimensions that are one block go, or stay as 1.
Sizes BlockSizes(InferContext& c, Value* x, bool keep) {
  Sizes blocks = c.ToSizes(c.sym_ints("block_size")), out;
  if (static_cast<int>(blocks.size()) != x->rank()) {
    c.Fail("block_size does not fit the rank");
    return out;
  }
  for (int d = 0; d < x->rank(); ++d) {
    Sym size = x->sizes()[d], block = blocks[d];
    if (block.is(-1) || ProvablyEqual(block, size)) block = size;
    if (ProvablyLess(block, 1) && !(block == size)) {
      c.Fail("a block size is not positive");
      return out;
    }
    if (block == size && !block.is(1)) {
      if (keep) out.push_back(1);
    } else {
      out.push_back(block.is(1) ? size : FloorDiv(size, block));
    }
  }
  return out;
}
void QuantizeRows(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() == 0) return c.Fail("a tensor without rows");
  Sizes rows(x->sizes().begin(), x->sizes().end());
  c.Out(DType::kInt8, rows);
  rows.back() = 1;
  c.Out(DType::kFloat32, rows);
  c.Out(DType::kInt8, rows);
}
void BlockParameters(InferContext& c) {
  Value* x = Self(c);
  Sizes out = BlockSizes(c, x, c.b("keepdim"));
  c.Out(c.dtype("scale_dtype").value_or(x->dtype()), out);
  c.Out(c.dtype("zero_point_dtype").value_or(DType::kInt32), out);
}
void BlockScale(InferContext& c) {
  c.Out(c.dtype("scale_dtype").value_or(DType::kFloat32), BlockSizes(c, Self(c), true));
}

// --- Filters over time (torchaudio): the results are what the tensors that they are written to become ---------------

void Lfilter(InferContext& c) {
  Value *x = Self(c), *a = TensorAt(c, 1), *y = TensorAt(c, 2);
  NeedRank(c, x, 3);
  NeedRank(c, a, 2);
  NeedRank(c, y, 3);
  NeedDType(c, x, IsFloating, "of floats");
  NeedSameDType(c, {x, a, y});
  if (!c.ok()) return;
  c.RequireEqual(a->sizes()[0], x->sizes()[1], "channels");
  NeedSameSizes(c, y->sizes(), {x->sizes()[0], x->sizes()[1], x->sizes()[2] + a->sizes()[1] - 1},
                "the result and the input");
  c.Out(y->dtype(), y->sizes());
}
void Overdrive(InferContext& c) {
  Value *x = Self(c), *temp = TensorAt(c, 1), *in = TensorAt(c, 2), *out = TensorAt(c, 3), *y = TensorAt(c, 4);
  NeedRank(c, x, 2);
  NeedDType(c, x, IsFloating, "of floats");
  NeedSameDType(c, {x, temp, in, out, y});
  if (!c.ok()) return;
  for (Value* v : {temp, y}) NeedSameSizes(c, v->sizes(), x->sizes(), "a waveform and the input");
  for (Value* v : {in, out})
    NeedSameSizes(c, v->sizes(), {x->sizes()[0]}, "what is left of the step before and the channels");
  for (Value* v : {in, out, y}) c.Out(v->dtype(), v->sizes());
}

constexpr ShapeFamily kFamilies[] = {
    {ConvForward, "conv1d conv2d conv3d"},
    {ConvPadding, "conv1d.padding conv2d.padding conv3d.padding _convolution_mode"},
    {ConvTranspose, "conv_transpose1d conv_transpose2d.input conv_transpose3d.input"},
    {Convolution, "convolution _convolution _convolution.deprecated convolution_overrideable"},
    {ConvForward, "_conv_depthwise2d conv_depthwise3d thnn_conv2d slow_conv3d"},
    {ConvTbc, "conv_tbc"},
    {Pool<1, false>, "max_pool1d avg_pool1d"},
    {Pool<2, false>, "max_pool2d avg_pool2d"},
    {Pool<3, false>, "max_pool3d avg_pool3d"},
    {Pool<1, true>, "max_pool1d_with_indices"},
    {Pool<2, true>, "max_pool2d_with_indices"},
    {Pool<3, true>, "max_pool3d_with_indices"},
    {ResizeTo<1, false>, "adaptive_avg_pool1d"},
    {ResizeTo<2, false>, "adaptive_avg_pool2d _adaptive_avg_pool2d max_unpool2d"},
    {ResizeTo<3, false>, "adaptive_avg_pool3d _adaptive_avg_pool3d max_unpool3d"},
    {ResizeTo<1, true>, "adaptive_max_pool1d"},
    {ResizeTo<2, true>, "adaptive_max_pool2d fractional_max_pool2d"},
    {ResizeTo<3, true>, "adaptive_max_pool3d fractional_max_pool3d"},
    {LikeSecond,
     "max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward "
     "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward"},
    {Im2Col, "im2col"},
    {Col2Im, "col2im"},
    {Upsample<1>,
     "upsample_nearest1d upsample_nearest1d.vec _upsample_nearest_exact1d _upsample_nearest_exact1d.vec "
     "upsample_linear1d "
     "upsample_linear1d.vec"},
    {Upsample<2>,
     "upsample_nearest2d upsample_nearest2d.vec _upsample_nearest_exact2d _upsample_nearest_exact2d.vec "
     "upsample_bilinear2d upsample_bilinear2d.vec upsample_bicubic2d upsample_bicubic2d.vec _upsample_bilinear2d_aa "
     "_upsample_bilinear2d_aa.vec _upsample_bicubic2d_aa _upsample_bicubic2d_aa.vec _upsample_lanczos2d_aa "
     "_upsample_lanczos2d_aa.vec"},
    {Upsample<3>,
     "upsample_nearest3d upsample_nearest3d.vec _upsample_nearest_exact3d _upsample_nearest_exact3d.vec "
     "upsample_trilinear3d upsample_trilinear3d.vec"},
    {GridSample, "grid_sampler grid_sampler_2d grid_sampler_3d _grid_sampler_2d_cpu_fallback"},
    {AffineGrid, "affine_grid_generator"},
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
    {AttentionWithWeights, "_scaled_dot_product_attention_math"},
    {AttentionWithLogSum, "_scaled_dot_product_flash_attention_for_cpu"},
    {EfficientAttention, "_scaled_dot_product_efficient_attention"},
    {Recurrent<2>, "lstm.input lstm.data"},
    {Recurrent<1>, "gru.input gru.data rnn_tanh.input rnn_tanh.data rnn_relu.input rnn_relu.data"},
    {LstmCell, "lstm_cell"},
    {Lfilter, "/torchaudio._lfilter_core_loop.default /torchaudio._lfilter_core_loop_functional.default"},
    {Overdrive, "/torchaudio._overdrive_core_loop.default /torchaudio._overdrive_core_loop_functional.default"},
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
    {Fft<Spectrum::kComplex>, "fft_fft fft_ifft"},
    {Fft<Spectrum::kHalf>, "fft_rfft fft_ihfft"},
    {Fft<Spectrum::kReal>, "fft_irfft fft_hfft"},
    {FftN<Spectrum::kComplex>, "fft_fftn fft_ifftn fft_fft2 fft_ifft2"},
    {FftN<Spectrum::kHalf>, "fft_rfftn fft_rfft2 fft_ihfftn fft_ihfft2"},
    {FftN<Spectrum::kReal>, "fft_irfftn fft_irfft2 fft_hfftn fft_hfft2"},
    {SameAsSelf, "fft_fftshift fft_ifftshift _fft_c2c"},
    {FftR2C, "_fft_r2c"},
    {FftC2R, "_fft_c2r"},
    {FftFreq, "fft_fftfreq fft_rfftfreq"},
    {Stft, "stft stft.center"},
    {Istft, "istft"},
    {Quantize,
     "/quantized_decomposed.quantize_per_tensor.default /quantized_decomposed.quantize_per_tensor.tensor "
     "/quantized_decomposed.quantize_per_tensor.tensor2 /quantized_decomposed.quantize_per_channel.default "
     "/quantized_decomposed.quantize_per_channel_group.default /quantized_decomposed.quantize_per_token.default "
     "/quantized_decomposed.convert_element_type.no_fuse /torchao.quantize_affine.default "
     "/torchao.quantize_affine_float8_non_decomposed.default /slipway.quantize.default /slipway.dequantize.default"},
    {Dequantize,
     "/quantized_decomposed.dequantize_per_tensor.default /quantized_decomposed.dequantize_per_tensor.tensor "
     "/quantized_decomposed.dequantize_per_tensor.tensor2 /quantized_decomposed.dequantize_per_channel.default "
     "/quantized_decomposed.dequantize_per_channel_group.default /quantized_decomposed.dequantize_per_token.default "
     "/torchao.dequantize_affine.default /torchao.dequantize_affine_float8_non_decomposed.default"},
    {SameAsSelf, "/quantized_decomposed.fake_quant_per_channel.default"},
    {TensorParameters,
     "/quantized_decomposed.choose_qparams.tensor /quantized_decomposed.choose_qparams_symmetric.tensor"},
    {TokenParameters,
     "/quantized_decomposed.choose_qparams_per_token.default "
     "/quantized_decomposed.choose_qparams_per_token_asymmetric.default "
     "/quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default"},
    {BlockParameters, "/torchao.choose_qparams_affine.default"},
    {QuantizeRows, "/slipway.quantize_rows.default"},
    {BlockScale, "/torchao.choose_scale_float8.default"},
};

}  // namespace

absl::Span<const ShapeRow> NnShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kFamilies);
  return rows;
}

}  // namespace slipway::ir
