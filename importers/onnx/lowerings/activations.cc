// Activations and normalizations of one tensor.
#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {
namespace {

#define UNARY(fn, op) \
  void fn(Call& c) { c.Give(c.b.Call(op, {c.in(0)})); }
UNARY(Relu, "aten.relu.default")
UNARY(Sigmoid, "aten.sigmoid.default")
UNARY(Tanh, "aten.tanh.default")
UNARY(Softplus, "aten.softplus.default")
UNARY(Mish, "aten.mish.default")
UNARY(HardSwish, "aten.hardswish.default")
#undef UNARY

void LeakyRelu(Call& c) { c.Give(c.b.Call("aten.leaky_relu.default", {c.in(0), c.real("alpha", 0.01)})); }
void Elu(Call& c) { c.Give(c.b.Call("aten.elu.default", {c.in(0), c.real("alpha", 1.0)})); }
void Celu(Call& c) { c.Give(c.b.Call("aten.celu.default", {c.in(0), c.real("alpha", 1.0)})); }

void Selu(Call& c) {
  constexpr double kAlpha = 1.67326319217681884765625, kGamma = 1.05070102214813232421875;
  c.Give(c.b.Call("aten.elu.default", {c.in(0), c.real("alpha", kAlpha), c.real("gamma", kGamma)}));
}

void ThresholdedRelu(Call& c) { c.Give(c.b.Call("aten.threshold.default", {c.in(0), c.real("alpha", 1.0), 0.0})); }

void HardSigmoid(Call& c) {
  Value* x = c.b.Call("aten.mul.Scalar", {c.in(0), c.real("alpha", 0.2)});
  x = c.b.Call("aten.add.Scalar", {x, c.real("beta", 0.5)});
  c.Give(c.b.Call("aten.clamp.default", {x, 0.0, 1.0}));
}

void Gelu(Call& c) { c.Give(c.b.Call("aten.gelu.default", {c.in(0), c.text("approximate", "none")})); }

void Swish(Call& c) {
  Value* x = c.in(0);
  const double alpha = c.real("alpha", 1.0);
  if (alpha == 1) return c.Give(c.b.Call("aten.silu.default", {x}));
  c.Give(c.b.Call("aten.mul.Tensor", {x, c.b.Call("aten.sigmoid.default", {c.b.Call("aten.mul.Scalar", {x, alpha})})}));
}

void Softsign(Call& c) {
  Value* x = c.in(0);
  c.Give(c.b.Call("aten.div.Tensor", {x, c.b.Call("aten.add.Scalar", {c.b.Call("aten.abs.default", {x}), 1.0})}));
}

void Shrink(Call& c) {
  Value* x = c.in(0);
  const double lambd = c.real("lambd", 0.5), bias = c.real("bias", 0);
  Value* low = c.b.Call("aten.lt.Scalar", {x, -lambd});
  Value* high = c.b.Call("aten.gt.Scalar", {x, lambd});
  Value* zero = c.Constant(0, x->dtype());
  Value* out = c.b.Call("aten.where.self", {high, c.b.Call("aten.sub.Scalar", {x, bias}), zero});
  c.Give(c.b.Call("aten.where.self", {low, c.b.Call("aten.add.Scalar", {x, bias}), out}));
}

// The slope is broadcast to the input from the right; ATen's has one for each channel, the second dim.
void PRelu(Call& c) {
  Value *x = c.in(0), *slope = c.in(1);
  Value* negative = c.b.Call("aten.mul.Tensor", {x, slope});
  c.Give(c.b.Call("aten.where.self", {c.b.Call("aten.ge.Scalar", {x, 0.0}), x, negative}));
}

// Before opset 13 the tensor was taken as a matrix: all dims from the axis on are one.
template <bool log>
void Softmax(Call& c) {
  Value* x = c.in(0);
  const char* op = log ? "aten.log_softmax.int" : "aten.softmax.int";
  const int64_t axis = c.axis(c.integer("axis", c.opset < 13 ? 1 : -1), x->rank());
  if (c.opset >= 13 || axis == x->rank() - 1) return c.Give(c.b.Call(op, {x, axis}));
  if (!c.ok()) return;
  Value* matrix = c.b.Call("aten.flatten.using_ints", {x, axis, -1});
  c.Give(c.b.Call("aten.reshape.default", {c.b.Call(op, {matrix, axis}), Arg(c.b.SizesOf(x))}));
}

void Hardmax(Call& c) {
  Value* x = c.in(0);
  if (c.opset < 13) return c.Refuse("before opset 13");
  const int64_t axis = c.axis(c.integer("axis", -1), x->rank());
  if (!c.ok()) return;
  Value* at = c.b.Call("aten.argmax.default", {x, axis, true});
  c.Give(c.b.Call("aten.scatter.value", {c.b.Full(c.b.SizesOf(x), Arg(0.0), x->dtype()), axis, at, 1.0}));
}

constexpr Row kActivationRows[] = {
    {"Celu", Celu},
    {"Elu", Elu},
    {"Gelu", Gelu},
    {"HardSigmoid", HardSigmoid},
    {"HardSwish", HardSwish},
    {"Hardmax", Hardmax, 1, nullptr, Always},
    {"LeakyRelu", LeakyRelu},
    {"LogSoftmax", Softmax<true>},
    {"Mish", Mish},
    {"PRelu", PRelu, 7},
    {"Relu", Relu},
    {"Selu", Selu},
    {"Shrink", Shrink},
    {"Sigmoid", Sigmoid},
    {"Softmax", Softmax<false>},
    {"Softplus", Softplus},
    {"Softsign", Softsign},
    {"Swish", Swish},
    {"Tanh", Tanh},
    {"ThresholdedRelu", ThresholdedRelu},
};

}  // namespace

absl::Span<const Row> ActivationRows() { return kActivationRows; }

}  // namespace slipway::importers::onnx_in
