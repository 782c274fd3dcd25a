// com.microsoft's operators of floats, which ONNX Runtime's optimizers write.
#include <cmath>
#include <string>

#include "base/text.h"
#include "importers/onnx/lowering.h"
#include "importers/onnx/lowerings/quantization.h"

namespace slipway::importers::onnx_in {
namespace {

Value* WithBias(Call& c, Value* x, size_t i) {
  Value* bias = c.opt_in(i);
  return bias ? c.b.Call("aten.add.Tensor", {x, bias}) : x;
}

void MicrosoftGelu(Call& c) { c.Give(c.b.Call("aten.gelu.default", {c.in(0)})); }
void BiasGelu(Call& c) { c.Give(c.b.Call("aten.gelu.default", {WithBias(c, c.in(0), 1)})); }
void FastGelu(Call& c) { c.Give(c.b.Call("aten.gelu.default", {WithBias(c, c.in(0), 1), "tanh"})); }
void QuickGelu(Call& c) {
  Value* x = c.in(0);
  Value* gate = c.b.Call("aten.sigmoid.default", {c.b.Call("aten.mul.Scalar", {x, c.real("alpha", 1.702)})});
  c.Give(c.b.Call("aten.mul.Tensor", {x, gate}));
}

// An activation by its name, with the parameters that fused operators state.
Value* Activated(Call& c, Value* y, const std::vector<double>& parameters) {
  const std::string name = c.text("activation", "");
  const auto parameter = [&](size_t i, double otherwise) { return i < parameters.size() ? parameters[i] : otherwise; };
  if (name.empty()) return y;
  if (name == "Relu") return c.b.Call("aten.relu.default", {y});
  if (name == "Sigmoid") return c.b.Call("aten.sigmoid.default", {y});
  if (name == "Tanh") return c.b.Call("aten.tanh.default", {y});
  if (name == "LeakyRelu") return c.b.Call("aten.leaky_relu.default", {y, parameter(0, 0.01)});
  if (name == "Clip") return c.b.Call("aten.clamp.default", {y, parameter(0, -INFINITY), parameter(1, INFINITY)});
  if (name == "HardSigmoid") {
    y = c.b.Call("aten.add.Scalar", {c.b.Call("aten.mul.Scalar", {y, parameter(0, 0.2)}), parameter(1, 0.5)});
    return c.b.Call("aten.clamp.default", {y, 0.0, 1.0});
  }
  c.Refuse(text::StrCat("with activation ", name));
  return y;
}

void FusedConv(Call& c) {
  c.Ignore("activation_params");
  Value* y = Convolve(c, c.in(0), c.in(1), c.opt_in(2));
  if (!y) return;
  y = WithBias(c, y, 3);
  c.Give(Activated(c, y, c.reals("activation_params").value_or(std::vector<double>())));
}

void FusedGemm(Call& c) {
  Value *a = c.in(0), *b = c.in(1), *bias = c.opt_in(2);
  if (a->rank() != 2 || b->rank() != 2) return c.Wrong("operands that are no matrices");
  if (c.integer("transA", 0) != 0) a = c.b.Call("aten.t.default", {a});
  if (c.integer("transB", 0) != 0) b = c.b.Call("aten.t.default", {b});
  Value* y = c.b.Call("aten.mm.default", {a, b});
  if (const double alpha = c.real("alpha", 1); alpha != 1) y = c.b.Call("aten.mul.Scalar", {y, alpha});
  if (const double beta = c.real("beta", 1); bias && beta != 0)
    y = c.b.Call("aten.add.Tensor", {y, beta == 1 ? bias : c.b.Call("aten.mul.Scalar", {bias, beta})});
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta"})
    if (c.has_attribute(name)) parameters.push_back(c.real(name, 0));
  c.Give(Activated(c, y, parameters));
}

void FusedMatMul(Call& c) {
  if (c.integer("transBatchA", 0) != 0 || c.integer("transBatchB", 0) != 0)
    return c.Refuse("with transBatchA or transBatchB");
  Value *a = c.in(0), *b = c.in(1);
  if (c.integer("transA", 0) != 0 && a->rank() > 1) a = c.b.Call("aten.transpose.int", {a, -2, -1});
  if (c.integer("transB", 0) != 0 && b->rank() > 1) b = c.b.Call("aten.transpose.int", {b, -2, -1});
  Value* y = c.b.Call("aten.matmul.default", {a, b});
  const double alpha = c.real("alpha", 1);
  c.Give(alpha == 1 ? y : c.b.Call("aten.mul.Scalar", {y, alpha}));
}

// ---- Norms

Value* Normalized(Call& c, Value* x, Value* scale, Value* bias, double epsilon, bool mean) {
  const SymInts shape = {c.b.Size(x, -1)};
  if (mean) return c.b.Call("aten.layer_norm.default", {x, Arg(shape), scale, bias ? Arg(bias) : Arg(), epsilon});
  return c.b.Call("aten.rms_norm.default", {x, Arg(shape), scale, epsilon});
}

// The sum of input, skip and bias, normalized; the sum is the fourth result.
template <bool mean>
void SkipNorm(Call& c) {
  Value* x = c.b.Call("aten.add.Tensor", {c.in(0), c.in(1)});
  x = WithBias(c, x, mean ? 4 : 3);
  if (c.wants(1) || c.wants(2)) return c.Refuse("with mean and deviation as results");
  if (!c.ok()) return;
  c.Give(0, Normalized(c, x, c.in(2), mean ? c.opt_in(3) : nullptr, c.real("epsilon", 1e-5), mean));
  if (c.wants(3)) c.Give(3, x);
}

void EmbedLayerNorm(Call& c) {
  c.Ignore("mask_index_type");
  Value *ids = c.in(0), *segments = c.opt_in(1);
  Value* x = c.b.Call("aten.embedding.default", {c.in(2), ids});
  if (c.has(8)) {
    x = c.b.Call("aten.add.Tensor", {x, c.b.Call("aten.embedding.default", {c.in(3), c.in(8)})});
  } else {
    x = c.b.Call("aten.add.Tensor", {x, c.b.Call("aten.slice.Tensor", {c.in(3), 0, 0, Arg(c.b.Size(ids, 1)), 1})});
  }
  if (segments && c.has(4))
    x = c.b.Call("aten.add.Tensor", {x, c.b.Call("aten.embedding.default", {c.in(4), segments})});
  if (!c.ok()) return;
  c.Give(0, Normalized(c, x, c.in(5), c.in(6), c.real("epsilon", 1e-12), true));
  if (c.wants(1)) {  // how many elements of each row count
    Value* mask = c.opt_in(7);
    c.Give(1, mask ? c.b.Cast(c.b.Call("aten.sum.dim_IntList", {mask, Arg(Ints{1})}), DType::kInt32)
                   : c.b.Full({c.b.Size(ids, 0)}, Arg(int64_t{0}), DType::kInt32));
  }
  if (c.wants(2)) c.Give(2, x);
}

constexpr Row kMicrosoftRows[] = {
    {"BiasGelu", BiasGelu},
    {"EmbedLayerNormalization", EmbedLayerNorm},
    {"FastGelu", FastGelu},
    {"FusedConv", FusedConv},
    {"FusedGemm", FusedGemm},
    {"FusedMatMul", FusedMatMul},
    {"Gelu", MicrosoftGelu},
    {"QuickGelu", QuickGelu},
    {"SkipLayerNormalization", SkipNorm<true>},
    {"SkipSimplifiedLayerNormalization", SkipNorm<false>},
};

}  // namespace

absl::Span<const Row> MicrosoftRows() { return kMicrosoftRows; }

}  // namespace slipway::importers::onnx_in
