// Decompositions: pieces of networks - attention kernels by their own names, activations, gradients of softmax, dropout
// and pooling.
#include <limits>

#include "base/text.h"
#include "passes/decompose_util.h"

namespace slipway::passes {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

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

// Rounds to what a quantized tensor could hold. The scale and the zero point are numbers, tensors of one element, or of one
// for each index along an axis; torch multiplies with the inverse of the scale in f32.
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

constexpr DecomposeRow kRows[] = {
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

absl::Span<const DecomposeRow> NnDecompositions() { return kRows; }

}  // namespace slipway::passes
