// Decompositions: pieces of networks - attention kernels by their own names, activations, gradients of softmax, dropout
// and pooling.
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "ir/rounded.h"
#include "passes/decompositions/util.h"
#include "passes/float_constants.h"

namespace slipway::passes {
namespace {

// In evaluation the slope is the middle of its range; in training it is drawn at random.
void RRelu(Decomposer& d) {
  if (d.flag("training")) return d.Unsupported("random slopes of training mode (call model.eval() before export)");
  ir::Scalar lower = d.scalar("lower"), upper = d.scalar("upper");
  if (!lower.is_constant() || !upper.is_constant()) return d.Unsupported("symbolic bounds");
  Value* y = d.b.Call("aten.leaky_relu.default", {d.in("self"), (lower.d + upper.d) / 2});
  d.Return(d.node().outputs().size() > 1 ? Values{y, d.tensor("noise")} : Values{y});
}

// Softmax whose rows of nothing but -inf give zeros.
void SafeSoftmax(Decomposer& d) {
  Value* x = d.b.Cast(d.in("self"), d.compute_dtype());
  int64_t dim = d.i("dim");
  Value* y = d.b.Call("aten.softmax.int", {x, dim});
  if (x->rank() == 0) return d.Return(d.Where(d.Cmp("eq", x, -kInf), 0.0, y));
  Value* none = d.b.Call("aten.all.dim", {d.Cmp("eq", x, -kInf), dim, true});
  d.Return(d.Where(none, 0.0, y));
}
void SoftmaxBackward(Decomposer& d) {
  Value *g = d.in("grad_output"), *y = d.in("output");
  int dim = d.dim("dim", y->rank());
  Value* gy = d.Mul(g, y);
  d.Return(d.Sub(gy, d.Mul(y, y->rank() ? d.Sum(gy, {dim}, true) : gy)));
}
void LogSoftmaxBackward(Decomposer& d) {
  Value *g = d.in("grad_output"), *y = d.in("output");
  int dim = d.dim("dim", y->rank());
  d.Return(d.Sub(g, d.Mul(d.Unary("exp", y), y->rank() ? d.Sum(g, {dim}, true) : g)));
}

void NativeDropout(Decomposer& d) {
  Value* x = d.tensor("input");
  bool train = !d.has("train") || d.flag("train");
  if (train && d.f("p") != 0) return d.Unsupported("dropout in training mode (call model.eval() before export)");
  d.Return(Values{x, d.b.Full(d.b.SizesOf(x), true, DType::kBool)});
}
void NativeDropoutBackward(Decomposer& d) {
  Value* g = d.in("grad_output");
  d.Return(d.Mul(g, d.Mul(d.b.Cast(d.tensor("mask"), g->dtype()), d.f("scale"))));
}

// Each gradient goes to the position its maximum came from.
void MaxPool2dBackward(Decomposer& d) {
  ir::Builder& b = d.b;
  Value *g = d.in("grad_output"), *x = d.tensor("self"), *index = d.tensor("indices");
  int n = x->rank();
  if (n < 3 || g->rank() != n || index->rank() != n) return d.Fail("operands of wrong rank");
  auto flat = [&](Value* v) {
    SymInts sizes = b.SizesOf(v);
    IntOrValue area = b.Mul(sizes[n - 2], sizes[n - 1]);
    sizes.resize(n - 2);
    sizes.push_back(area);
    return sizes;
  };
  Value* zeros = b.Full(flat(x), 0.0, g->dtype());
  Value* sum = b.Call("aten.scatter_add.default", {zeros, -1, Reshape(d, index, flat(index)), Reshape(d, g, flat(g))});
  d.Return(Reshape(d, sum, b.SizesOf(x)));
}

// Rounds to what a quantized tensor could hold. The scale and the zero point are numbers, tensors of one element, or of
// one for each index along an axis; torch multiplies with the inverse of the scale in f32.
void FakeQuantize(Decomposer& d) {
  Value* x = d.in("self");
  auto parameter = [&](std::string_view name) -> Value* {
    Value* v = d.node().Get(name).value();
    if (!v || !v->type().is_tensor()) return d.b.ScalarTensor(d.node().Get(name), x->dtype());
    v = d.b.Cast(v, x->dtype());
    if (Declares(d, "axis")) return Along(d, v, d.dim("axis", x->rank()), x->rank());
    return v->rank() == 0 ? v : Reshape(d, v, SymInts{});
  };
  if (Declares(d, "axis") && x->rank() == 0) return d.Fail("channels of a 0-d tensor");
  Value *scale = parameter("scale"), *zero = parameter("zero_point");
  Value* level = d.Add(d.Unary("round", d.Mul(x, d.Unary("reciprocal", scale))), zero);
  Value* held = d.b.Call("aten.clamp.default", {level, d.i("quant_min"), d.i("quant_max")});
  Value* y = d.Mul(d.Sub(held, zero), scale);
  if (d.node().outputs().size() < 2) return d.Return(y);
  Value* within = And(d, d.Cmp("ge", level, d.i("quant_min")), d.Cmp("le", level, d.i("quant_max")));
  d.Return(Values{y, within});
}

// Attention by the name of one of its kernels. The results beside the output serve its gradient; only their absence of
// users makes this the same program.
void Attention(Decomposer& d) {
  auto given = [&](std::string_view name) { return Declares(d, name) ? d.node().Get(name) : Arg(); };
  Value *q = d.tensor("query"), *k = d.tensor("key"), *v = d.tensor("value");
  Arg mask = Declares(d, "attn_mask") ? given("attn_mask") : given("attn_bias");
  ir::Type type = ir::Type::Tensor(q->dtype(), d.out_type().sizes);
  Value* y = d.b.CallTyped("aten.scaled_dot_product_attention.default",
                           {q, k, v, mask, d.f("dropout_p"), d.flag("is_causal"), given("scale"),
                            Declares(d, "enable_gqa") && d.flag("enable_gqa")},
                           {}, {type})[0];
  Values out(d.node().outputs().size(), nullptr);
  out[0] = y;
  d.Return(out);
}

// ---- Activations and elementwise functions, for targets that have none of their own

void LogSigmoid(Decomposer& d) {
  Value* x = d.in("self");
  Value* tail = d.Unary("log1p", d.Unary("exp", d.Unary("neg", d.Unary("abs", x))));
  d.Return(d.Sub(d.b.Call("aten.clamp.default", {x, Arg(), 0}), tail));
}
template <bool kHard>
void Shrink(Decomposer& d) {
  Value* x = d.in("self");
  // Of f16 and bf16 torch's hardshrink rounds the bound, softshrink takes it in f32.
  const double lambda = kHard ? ir::Rounded(d.f("lambd"), d.node().output(0)->dtype()) : d.f("lambd");
  Value* inside = d.Cmp("le", d.Unary("abs", x), lambda);
  if (kHard) return d.Return(d.Where(inside, 0.0, x));
  // NaN is not inside and stays.
  d.Return(d.Where(inside, 0.0, d.Sub(x, d.Mul(d.Unary("sign", x), lambda))));
}
void Threshold(Decomposer& d) {
  Value* x = d.in("self");
  d.Return(d.Where(d.Cmp("le", x, d.node().Get("threshold")), d.node().Get("value"), x));
}
void PRelu(Decomposer& d) {
  Value *x = d.in("self"), *w = d.in("weight");
  if (w->rank() > 1) return d.Unsupported("a weight of more than one dim");
  if (w->rank() == 1 && x->rank() < 2) w = Reshape(d, w, {});
  if (w->rank() == 1) w = Along(d, w, 1, x->rank());
  d.Return(d.Where(d.Cmp("gt", x, 0), x, d.Mul(x, w)));
}
void Sinc(Decomposer& d) {
  Value* x = d.Mul(d.b.Cast(d.in("self"), d.compute_dtype()), 3.14159265358979323846);
  d.Return(d.Where(d.Cmp("eq", x, 0), 1.0, d.Div(d.Unary("sin", x), x)));
}
template <bool kRadians>
void Angle(Decomposer& d) {
  Value* x = d.b.Cast(d.in("self"), d.compute_dtype());
  d.Return(d.Mul(x, kRadians ? 0.017453292519943295769 : 57.295779513082320877));
}
template <bool kPositive>
void IsInfinite(Decomposer& d) {
  d.Return(d.Cmp("eq", d.in("self"), kPositive ? kInf : -kInf));
}
// log(exp(x) + exp(y)), or of powers of 2: the larger one plus the logarithm of one plus a fraction.
template <bool kBase2>
void LogAddExp(Decomposer& d) {
  Value *x = d.b.Cast(d.in("self"), d.compute_dtype()), *y = d.b.Cast(d.in("other"), d.compute_dtype());
  Value* gap = d.Unary("neg", d.Unary("abs", d.Sub(x, y)));
  Value* tail = d.Unary("log1p", d.Unary(kBase2 ? "exp2" : "exp", gap));
  if (kBase2) tail = d.Mul(tail, 1.4426950408889634074);
  Value* most = d.b.Call("aten.maximum.default", {x, y});
  // Equal infinities have no gap.
  d.Return(d.Where(And(d, d.Cmp("eq", x, y), d.Unary("isinf", x)), x, d.Add(most, tail)));
}
void LogSumExp(Decomposer& d) {
  Value* x = d.b.Cast(d.in("self"), d.compute_dtype());
  std::vector<int> dims = d.dims("dim", x->rank());
  const bool keep = d.flag("keepdim");
  if (x->rank() == 0) return d.Return(x);
  ir::Ints over(dims.begin(), dims.end());
  Value* most = d.b.Call("aten.amax.default", {x, over, true});
  most = d.Where(d.Unary("isinf", most), 0.0, most);
  Value* sum = d.Unary("log", d.Sum(d.Unary("exp", d.Sub(x, most)), dims, keep));
  if (!keep) most = d.b.Call("aten.squeeze.dims", {most, over});
  d.Return(d.Add(sum, most));
}
void AMinMax(Decomposer& d) {
  Value* x = d.in("self");
  ir::Ints over;
  if (auto dim = d.opt_i("dim"); dim && x->rank() > 0) over = {*dim};
  d.Return(Values{d.b.Call("aten.amin.default", {x, over, d.flag("keepdim")}),
                  d.b.Call("aten.amax.default", {x, over, d.flag("keepdim")})});
}
void CountNonzero(Decomposer& d) {
  Value* x = d.Cmp("ne", d.in("self"), 0);
  std::vector<int> dims = AllDims(x->rank());
  if (d.has("dim")) {
    dims.clear();
    for (int64_t k : d.ints("dim")) dims.push_back(d.WrapDim(k, x->rank()));
    if (dims.empty()) dims = AllDims(x->rank());
  }
  d.Return(d.Sum(x, x->rank() ? dims : std::vector<int>{}));
}

// ---- Normalizations and attention

// (x - mean) / sqrt(variance + eps) over `dims`, which stay as 1 in the statistics.
Value* Normalized(Decomposer& d, Value* x, const std::vector<int>& dims, Arg eps) {
  Value* centered = d.Sub(x, d.Mean(x, dims, true));
  Value* variance = d.Mean(d.Mul(centered, centered), dims, true);
  return d.Mul(centered, d.Unary("rsqrt", d.Add(variance, std::move(eps))));
}
// Times a weight and plus a bias per channel, where given.
Value* PerChannel(Decomposer& d, Value* y, int channel_dim) {
  if (Value* w = d.opt_in("weight")) y = d.Mul(y, Along(d, w, channel_dim, y->rank()));
  if (Value* b = d.opt_in("bias")) y = d.Add(y, Along(d, b, channel_dim, y->rank()));
  return y;
}
void EvalBatchNorm(Decomposer& d) {
  Value* x = d.in("input");
  if (x->rank() < 2) return d.Fail("an input of less than 2 dims");
  Value *mean = d.opt_in("running_mean"), *variance = d.opt_in("running_var");
  if (d.flag("training")) return d.Return(PerChannel(d, Normalized(d, x, DimsBut(x->rank(), 1), d.f("eps")), 1));
  if (!mean || !variance) return d.Fail("no running statistics");
  Value* scale = Along(d, d.Unary("rsqrt", d.Add(variance, d.f("eps"))), 1, x->rank());
  d.Return(PerChannel(d, d.Mul(d.Sub(x, Along(d, mean, 1, x->rank())), scale), 1));
}
void PlainGroupNorm(Decomposer& d) {
  Value* x = d.in("input");
  const int64_t groups = d.i("num_groups");
  if (x->rank() < 2 || groups <= 0) return d.Fail("an input of less than 2 dims, or no group");
  if (x->type().StaticNumel() == 0) return d.Return(x);  // of which a reshape cannot tell the size of a group
  if (groups == 1) {                                     // as the image lies
    std::vector<int> dims(static_cast<size_t>(x->rank()) - 1);
    std::iota(dims.begin(), dims.end(), 1);
    return d.Return(PerChannel(d, Normalized(d, x, dims, d.f("eps")), 1));
  }
  SymInts sizes = d.b.SizesOf(x);
  Value* y = Reshape(d, x, {sizes[0], IntOrValue(groups), IntOrValue(-1)});
  d.Return(PerChannel(d, Reshape(d, Normalized(d, y, {2}, d.f("eps")), sizes), 1));
}
void InstanceNorm(Decomposer& d) {
  Value* x = d.in("input");
  if (!d.flag("use_input_stats")) {  // the same statistics for every sample: a batch norm
    Value *mean = d.opt_in("running_mean"), *variance = d.opt_in("running_var");
    if (!mean || !variance) return d.Unsupported("neither the input's statistics nor running ones");
    return d.Return(
        d.b.CallTyped("aten.batch_norm.default",
                      {x, d.opt_in("weight"), d.opt_in("bias"), mean, variance, false, 0.0, d.f("eps"), false}, {},
                      {ir::Type::Tensor(x->dtype(), x->sizes())})[0]);
  }
  if (x->rank() < 3) return d.Fail("an input of less than 3 dims");
  std::vector<int> dims = AllDims(x->rank());
  dims.erase(dims.begin(), dims.begin() + 2);
  d.Return(PerChannel(d, Normalized(d, x, dims, d.f("eps")), 1));
}
void RmsNorm(Decomposer& d) {
  Value* x = d.in("input");
  std::vector<int> dims = AllDims(x->rank());
  const size_t n = d.sym_ints("normalized_shape").size();
  if (n > dims.size()) return d.Fail("normalized_shape does not fit");
  dims.erase(dims.begin(), dims.end() - static_cast<int64_t>(n));
  // torch's default is the machine epsilon of what it computes in.
  const double eps = d.has("eps") ? d.f("eps") : d.compute_dtype() == DType::kFloat64 ? 0x1p-52 : 0x1p-23;
  Value* y = d.Mul(x, d.Unary("rsqrt", d.Add(d.Mean(d.Mul(x, x), dims, true), eps)));
  if (Value* w = d.opt_in("weight")) y = d.Mul(y, w);
  d.Return(y);
}
// softmax(q kᵀ · scale + mask) v. Rows that may look nowhere give zeros, as in torch.
void PlainAttention(Decomposer& d) {
  Value *q = d.in("query"), *k = d.in("key"), *v = d.in("value");
  if (d.f("dropout_p") != 0) return d.Unsupported("dropout");
  const int n = q->rank();
  if (n < 2 || k->rank() != n || v->rank() != n) return d.Unsupported("operands of different rank");
  if (d.flag("enable_gqa")) {
    if (n < 3) return d.Fail("heads are missing");
    // Each of the fewer heads serves as many queries' heads in a row. torch has checked that they are multiples.
    auto known = q->sizes()[n - 3].constant(), fewer = k->sizes()[n - 3].constant();
    if (known && fewer && (*fewer == 0 || *known % *fewer != 0)) return d.Fail("the numbers of heads are no multiples");
    const IntOrValue heads = d.b.Size(q, n - 3), times = d.b.FloorDiv(heads, d.b.Size(k, n - 3));
    for (Value** t : {&k, &v}) {
      SymInts sizes = d.b.SizesOf(*t), spread = sizes;
      spread.insert(spread.begin() + (n - 2), times);
      sizes[n - 3] = heads;
      *t = Reshape(d, Expand(d, Unsqueeze(d, *t, n - 2), std::move(spread)), std::move(sizes));
    }
  }
  Value* score = nullptr;
  Value* turned = Transpose(d, k, n - 2, n - 1);
  if (d.has("scale")) {
    score = d.Mul(Matmul(d, q, turned), d.f("scale"));
  } else {
    auto width = q->sizes()[n - 1].constant();
    if (width && *width <= 0) return d.Unsupported("heads of no width");
    score = Matmul(d, q, turned);
    if (width)
      score = d.Mul(score, 1 / std::sqrt(static_cast<double>(*width)));
    else
      score = d.Mul(score, d.Unary("rsqrt", d.b.ScalarTensor(Arg(d.b.Size(q, n - 1)), score->dtype())));
  }
  if (d.flag("is_causal")) {
    Value* ones = d.b.Full({d.b.Size(q, n - 2), d.b.Size(k, n - 2)}, true, DType::kBool);
    score = d.Where(d.b.Call("aten.tril.default", {ones}), score, -kInf);
  }
  if (Value* mask = d.opt_tensor("attn_mask"))
    score = mask->dtype() == DType::kBool ? d.Where(mask, score, -kInf) : d.Add(score, d.b.Cast(mask, score->dtype()));
  d.Return(Matmul(d, d.b.Call("aten._safe_softmax.default", {score, -1}), v));
}
// Each element `repeats` times: a dim of that size, expanded, behind it.
void RepeatInterleave(Decomposer& d) {
  Value* x = d.tensor("self");
  const IntOrValue times = d.sym("repeats");
  if (!d.has("dim")) x = Reshape(d, x, {-1});
  const int dim = d.has("dim") ? d.dim("dim", x->rank()) : 0;
  SymInts sizes = d.b.SizesOf(x), spread = sizes;
  if (x->rank() == 0) return d.Unsupported("a 0-d tensor");
  spread.insert(spread.begin() + dim + 1, times);
  sizes[dim] = d.b.Mul(sizes[dim], times);
  d.Return(Reshape(d, Expand(d, Unsqueeze(d, x, dim + 1), spread), sizes));
}

// Pixels' places from -1 to 1, at the middles of the outer ones or at their outer edges, through a matrix for each
// image.
void AffineGrid(Decomposer& d) {
  Value* theta = d.in("theta");
  const SymInts size = d.sym_ints("size");
  const int n = static_cast<int>(size.size()) - 2;
  const bool align = d.flag("align_corners");
  if (!d.ok()) return;
  if ((n != 2 && n != 3) || theta->rank() != 3) return d.Fail("neither images nor volumes");
  const DType t = theta->dtype();
  auto number = [&](IntOrValue v) { return d.b.ScalarTensor(Arg(v), t); };
  // x first: the last dim of the image.
  Values columns;
  SymInts sizes(size.begin() + 2, size.end());
  for (int k = 0; k < n; ++k) {
    const IntOrValue length = sizes[n - 1 - k];
    const IntOrValue last = d.b.Sub(length, 1);
    Value* place = d.Sub(d.Mul(d.b.Cast(Iota(d, length), t), 2), number(last));
    place = d.Div(place, align ? ClampMin(d, number(last), 1) : number(length));
    SymInts lie(n, 1);
    lie[n - 1 - k] = length;
    columns.push_back(Expand(d, Reshape(d, place, std::move(lie)), sizes));
  }
  columns.push_back(d.b.Full(sizes, 1, t));
  Value* grid = Reshape(d, Stack(d, std::move(columns), n), {-1, n + 1});  // [places, n + 1]
  SymInts out = {size[0]};
  out.insert(out.end(), sizes.begin(), sizes.end());
  out.push_back(n);
  d.Return(Reshape(d, Matmul(d, Unsqueeze(d, grid, 0), Transpose(d, theta, 1, 2)), std::move(out)));
}

constexpr DecomposeRow kNnRows[] = {
    {"aten.affine_grid_generator.default", AffineGrid},
    {"aten.log_sigmoid.default", LogSigmoid},
    {"aten.softshrink.default", Shrink<false>},
    {"aten.hardshrink.default", Shrink<true>},
    {"aten.threshold.default", Threshold},
    {"aten.prelu.default", PRelu},
    {"aten.sinc.default", Sinc},
    {"aten.special_sinc.default", Sinc},
    {"aten.deg2rad.default", Angle<true>},
    {"aten.rad2deg.default", Angle<false>},
    {"aten.isposinf.default", IsInfinite<true>},
    {"aten.isneginf.default", IsInfinite<false>},
    {"aten.logaddexp.default", LogAddExp<false>},
    {"aten.logaddexp2.default", LogAddExp<true>},
    {"aten.logsumexp.default", LogSumExp},
    {"aten.aminmax.default", AMinMax},
    {"aten.count_nonzero.default", CountNonzero, false},
    {"aten.count_nonzero.dim_IntList", CountNonzero, false},
    {"aten.batch_norm.default", EvalBatchNorm},
    {"aten.group_norm.default", PlainGroupNorm},
    {"aten.instance_norm.default", InstanceNorm},
    {"aten.rms_norm.default", RmsNorm},
    {"aten.scaled_dot_product_attention.default", PlainAttention},
    {"aten.repeat_interleave.self_int", RepeatInterleave, false},
    {"aten.rrelu.default", RRelu},
    {"aten.rrelu_with_noise_functional.default", RRelu},
    {"aten._safe_softmax.default", SafeSoftmax},
    {"aten._softmax_backward_data.default", SoftmaxBackward},
    {"aten._log_softmax_backward_data.default", LogSoftmaxBackward},
    {"aten.native_dropout.default", NativeDropout, false},
    {"aten.native_dropout_backward.default", NativeDropoutBackward},
    {"aten.max_pool2d_with_indices_backward.default", MaxPool2dBackward},
    {"aten.fake_quantize_per_tensor_affine.default", FakeQuantize},
    {"aten.fake_quantize_per_tensor_affine.tensor_qparams", FakeQuantize},
    {"aten.fake_quantize_per_tensor_affine_cachemask.default", FakeQuantize},
    {"aten.fake_quantize_per_channel_affine.default", FakeQuantize},
    {"aten.fake_quantize_per_channel_affine_cachemask.default", FakeQuantize},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", Attention, false},
    {"aten._scaled_dot_product_flash_attention.default", Attention, false},
    {"aten._scaled_dot_product_efficient_attention.default", Attention, false},
    {"aten._scaled_dot_product_cudnn_attention.default", Attention, false},
    {"aten._scaled_dot_product_fused_attention_overrideable.default", Attention, false},
    {"aten._scaled_dot_product_attention_math.default", Attention, false},
};

}  // namespace

absl::Span<const DecomposeRow> NnDecompositions() { return kNnRows; }

}  // namespace slipway::passes
