// Convolutions, products, pools and norms.
#include <algorithm>
#include <limits>
#include <string>

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {
namespace {

// Kernel, strides, dilations and pads of a window over `dims` dims.
struct Window {
  Ints kernel, strides, dilations, begins, ends;
  bool symmetric() const { return begins == ends; }
};

std::optional<Window> WindowOf(Call& c, Value* x, Ints kernel) {
  const size_t dims = kernel.size();
  Window w{std::move(kernel), Ints(dims, 1), Ints(dims, 1), Ints(dims, 0), Ints(dims, 0)};
  if (const auto s = c.integers("strides")) w.strides = *s;
  if (const auto d = c.integers("dilations")) w.dilations = *d;
  if (w.strides.size() != dims || w.dilations.size() != dims) {
    c.Wrong("strides or dilations of another rank");
    return std::nullopt;
  }
  const std::string automatic = c.text("auto_pad", "NOTSET");
  if (automatic == "NOTSET") {
    if (const auto pads = c.integers("pads")) {
      if (pads->size() != 2 * dims) {
        c.Wrong("pads of another rank");
        return std::nullopt;
      }
      w.begins.assign(pads->begin(), pads->begin() + static_cast<int64_t>(dims));
      w.ends.assign(pads->begin() + static_cast<int64_t>(dims), pads->end());
    }
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t d = 0; d < dims; ++d) {
      const auto size = x->sizes()[d + 2].constant();
      if (!size) {
        c.Refuse("with auto_pad of a dynamic dim");
        return std::nullopt;
      }
      const int64_t out = (*size + w.strides[d] - 1) / w.strides[d];
      const int64_t all =
          std::max<int64_t>((out - 1) * w.strides[d] + (w.kernel[d] - 1) * w.dilations[d] + 1 - *size, 0);
      w.begins[d] = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      w.ends[d] = all - w.begins[d];
    }
  } else if (automatic != "VALID") {
    c.Wrong("an unknown auto_pad");
    return std::nullopt;
  }
  return w;
}

// The input with the window's pads around it, whose pads are none then.
Value* Padded(Call& c, Value* x, Window* w, double value) {
  Ints pads;
  for (size_t d = w->begins.size(); d-- > 0;) pads.push_back(w->begins[d]), pads.push_back(w->ends[d]);
  std::fill(w->begins.begin(), w->begins.end(), 0);
  std::fill(w->ends.begin(), w->ends.end(), 0);
  return c.b.Call("aten.constant_pad_nd.default", {x, Arg(pads), value});
}

// The sizes of a weight behind its first two.
std::optional<Ints> KernelOf(Call& c, Value* weight) {
  Ints kernel;
  for (int d = 2; d < weight->rank(); ++d) {
    const auto size = weight->sizes()[static_cast<size_t>(d)].constant();
    if (!size) {
      c.Refuse("with a weight of dynamic sizes");
      return std::nullopt;
    }
    kernel.push_back(*size);
  }
  if (kernel.empty()) c.Wrong("a weight of less than three dims");
  return kernel.empty() ? std::nullopt : std::optional<Ints>(kernel);
}

Value* Bias(Call& c, size_t i) { return c.opt_in(i); }

void Conv(Call& c) {
  Value *x = c.in(0), *weight = c.in(1), *bias = Bias(c, 2);
  const auto kernel = KernelOf(c, weight);
  if (!kernel || x->rank() != weight->rank()) return c.Wrong("an input of another rank than the weight");
  auto w = WindowOf(c, x, *kernel);
  if (!w) return;
  if (!w->symmetric()) x = Padded(c, x, &*w, 0);
  c.Give(c.b.Call("aten.convolution.default",
                  {x, weight, bias ? Arg(bias) : Arg(), Arg(w->strides), Arg(w->begins), Arg(w->dilations), false,
                   Arg(Ints(kernel->size(), 0)), c.integer("group", 1)}));
}

void ConvTranspose(Call& c) {
  Value *x = c.in(0), *weight = c.in(1), *bias = Bias(c, 2);
  const auto kernel = KernelOf(c, weight);
  if (!kernel || x->rank() != weight->rank()) return c.Wrong("an input of another rank than the weight");
  const size_t dims = kernel->size();
  Window w{*kernel, Ints(dims, 1), Ints(dims, 1), Ints(dims, 0), Ints(dims, 0)};
  if (const auto s = c.integers("strides")) w.strides = *s;
  if (const auto d = c.integers("dilations")) w.dilations = *d;
  Ints more(dims, 0);
  if (const auto m = c.integers("output_padding")) more = *m;
  if (w.strides.size() != dims || w.dilations.size() != dims || more.size() != dims)
    return c.Wrong("strides, dilations or output_padding of another rank");
  const std::string automatic = c.text("auto_pad", "NOTSET");
  const auto shape = c.integers("output_shape");
  if (shape || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t d = 0; d < dims; ++d) {
      const auto size = x->sizes()[d + 2].constant();
      if (!size) return c.Refuse("with an output shape and dynamic dims");
      const size_t at = shape && shape->size() == dims + 2 ? d + 2 : d;
      if (shape && at >= shape->size()) return c.Wrong("an output_shape of another rank");
      const int64_t out = shape ? (*shape)[at] : *size * w.strides[d];
      const int64_t all = w.strides[d] * (*size - 1) + more[d] + (w.kernel[d] - 1) * w.dilations[d] + 1 - out;
      w.begins[d] = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      w.ends[d] = all - w.begins[d];
    }
  } else if (const auto pads = c.integers("pads"); pads && automatic == "NOTSET") {
    if (pads->size() != 2 * dims) return c.Wrong("pads of another rank");
    w.begins.assign(pads->begin(), pads->begin() + static_cast<int64_t>(dims));
    w.ends.assign(pads->begin() + static_cast<int64_t>(dims), pads->end());
  }
  // Pads take away from the result. The most that both sides have in common is ATen's padding; the rest is cut off, or
  // added where it is negative.
  Ints common(dims, 0), rest;
  bool cut = false;
  for (size_t d = 0; d < dims; ++d) {
    common[d] = std::max<int64_t>(std::min(w.begins[d], w.ends[d]), 0);
    cut = cut || w.begins[d] != common[d] || w.ends[d] != common[d];
  }
  for (size_t d = dims; d-- > 0;) rest.push_back(common[d] - w.begins[d]), rest.push_back(common[d] - w.ends[d]);
  Value* out = c.b.Call("aten.convolution.default", {x, weight, bias ? Arg(bias) : Arg(), Arg(w.strides), Arg(common),
                                                     Arg(w.dilations), true, Arg(more), c.integer("group", 1)});
  c.Give(cut ? c.b.Call("aten.constant_pad_nd.default", {out, Arg(rest), 0.0}) : out);
}

void MatMul(Call& c) { c.Give(c.b.Call("aten.matmul.default", {c.in(0), c.in(1)})); }

void Gemm(Call& c) {
  Value *a = c.in(0), *b = c.in(1), *bias = c.opt_in(2);
  if (a->rank() != 2 || b->rank() != 2) return c.Wrong("operands that are no matrices");
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  if (c.integer("transA", 0) != 0) a = c.b.Call("aten.t.default", {a});
  const bool transposed = c.integer("transB", 0) != 0;
  if (transposed && alpha == 1 && beta == 1 && (!bias || bias->rank() == 1))
    return c.Give(c.b.Call("aten.linear.default", {a, b, bias ? Arg(bias) : Arg()}));
  Value* out = c.b.Call("aten.mm.default", {a, transposed ? c.b.Call("aten.t.default", {b}) : b});
  if (alpha != 1) out = c.b.Call("aten.mul.Scalar", {out, alpha});
  if (bias && beta != 0)
    out = c.b.Call("aten.add.Tensor", {out, beta == 1 ? bias : c.b.Call("aten.mul.Scalar", {bias, beta})});
  c.Give(c.b.Cast(out, a->dtype()));
}

void Einsum(Call& c) { c.Give(c.b.Call("aten.einsum.default", {c.text("equation", ""), Arg(c.ins())})); }

// ---- Norms

void BatchNorm(Call& c) {
  if (c.integer("training_mode", 0) != 0 || c.wants(1)) return c.Refuse("in training mode");
  if (c.opset < 9 && c.integer("spatial", 1) == 0) return c.Refuse("with statistics of each position");
  c.Give(c.b.Call("aten.batch_norm.default",
                  {c.in(0), c.in(1), c.in(2), c.in(3), c.in(4), false, 0.1, c.real("epsilon", 1e-5), false}));
}

void InstanceNorm(Call& c) {
  c.Give(c.b.Call("aten.instance_norm.default",
                  {c.in(0), c.in(1), c.in(2), Arg(), Arg(), true, 0.1, c.real("epsilon", 1e-5), false}));
}

void LayerNorm(Call& c) {
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", -1), x->rank());
  if (c.wants(1) || c.wants(2)) return c.Refuse("with mean and deviation as results");
  if (!c.ok()) return;
  SymInts shape;
  for (int d = static_cast<int>(axis); d < x->rank(); ++d) shape.push_back(c.b.Size(x, d));
  Value *scale = c.in(1), *bias = c.opt_in(2);
  const auto same = [&](Value* v) { return v->rank() == static_cast<int>(shape.size()); };
  if (same(scale) && (!bias || same(bias)))
    return c.Give(
        c.b.Call("aten.layer_norm.default", {x, Arg(shape), scale, bias ? Arg(bias) : Arg(), c.real("epsilon", 1e-5)}));
  Value* out = c.b.Call("aten.layer_norm.default", {x, Arg(shape), Arg(), Arg(), c.real("epsilon", 1e-5)});
  out = c.b.Call("aten.mul.Tensor", {out, scale});
  c.Give(bias ? c.b.Call("aten.add.Tensor", {out, bias}) : out);
}

void RmsNorm(Call& c) {
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", -1), x->rank());
  if (!c.ok()) return;
  SymInts shape;
  for (int d = static_cast<int>(axis); d < x->rank(); ++d) shape.push_back(c.b.Size(x, d));
  c.Give(c.b.Call("aten.mul.Tensor",
                  {c.b.Call("aten.rms_norm.default", {x, Arg(shape), Arg(), c.real("epsilon", 1e-5)}), c.in(1)}));
}

// Scale and bias were of groups before opset 21 and are of channels since.
void GroupNorm(Call& c) {
  if (c.opset < 21) return c.Refuse("before opset 21");
  c.Give(c.b.Call("aten.group_norm.default",
                  {c.in(0), c.integer("num_groups", 1), c.in(1), c.in(2), c.real("epsilon", 1e-5), false}));
}

void LpNorm(Call& c) {
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", -1), x->rank()), p = c.integer("p", 2);
  if (!c.ok()) return;
  if (p != 1 && p != 2) return c.Wrong("a norm other than 1 and 2");
  Value* sum = p == 1 ? c.b.Call("aten.abs.default", {x}) : c.b.Call("aten.mul.Tensor", {x, x});
  sum = c.b.Call("aten.sum.dim_IntList", {sum, Arg(Ints{axis}), true});
  c.Give(c.b.Call("aten.div.Tensor", {x, p == 1 ? sum : c.b.Call("aten.sqrt.default", {sum})}));
}

// ---- Pools

void MaxPool(Call& c) {
  Value* x = c.in(0);
  const auto kernel = c.integers("kernel_shape");
  if (!kernel || kernel->empty() || kernel->size() > 3 || x->rank() != static_cast<int>(kernel->size()) + 2)
    return c.Wrong("a kernel_shape of another rank");
  if (c.wants(1)) return c.Refuse("with indices as a result");
  auto w = WindowOf(c, x, *kernel);
  if (!w) return;
  bool wide = !w->symmetric();
  for (size_t d = 0; d < kernel->size(); ++d) wide = wide || 2 * w->begins[d] > (*kernel)[d];
  if (wide) {
    if (!ir::IsFloating(x->dtype())) return c.Refuse("of integers with pads that differ");
    x = Padded(c, x, &*w, -std::numeric_limits<double>::infinity());
  }
  const std::string op = "aten.max_pool" + std::to_string(kernel->size()) + "d.default";
  c.Give(c.b.Call(
      op, {x, Arg(w->kernel), Arg(w->strides), Arg(w->begins), Arg(w->dilations), c.integer("ceil_mode", 0) != 0}));
}

void AveragePool(Call& c) {
  Value* x = c.in(0);
  const auto kernel = c.integers("kernel_shape");
  if (!kernel || kernel->empty() || kernel->size() > 3 || x->rank() != static_cast<int>(kernel->size()) + 2)
    return c.Wrong("a kernel_shape of another rank");
  auto w = WindowOf(c, x, *kernel);
  if (!w) return;
  for (int64_t d : w->dilations)
    if (d != 1) return c.Refuse("with dilations");
  const bool count = c.integer("count_include_pad", 0) != 0;
  bool wide = !w->symmetric();
  for (size_t d = 0; d < kernel->size(); ++d) wide = wide || 2 * w->begins[d] > (*kernel)[d];
  if (wide && !count) return c.Refuse("with pads that differ and are not counted");
  if (wide) x = Padded(c, x, &*w, 0);
  const std::string op = "aten.avg_pool" + std::to_string(kernel->size()) + "d.default";
  c.Give(c.b.Call(op, {x, Arg(w->kernel), Arg(w->strides), Arg(w->begins), c.integer("ceil_mode", 0) != 0, count}));
}

Ints Spatial(Value* x) {
  Ints dims;
  for (int d = 2; d < x->rank(); ++d) dims.push_back(d);
  return dims;
}
void GlobalAveragePool(Call& c) {
  Value* x = c.in(0);
  c.Give(x->rank() < 3 ? x : c.b.Call("aten.mean.dim", {x, Arg(Spatial(x)), true}));
}
void GlobalMaxPool(Call& c) {
  Value* x = c.in(0);
  c.Give(x->rank() < 3 ? x : c.b.Call("aten.amax.default", {x, Arg(Spatial(x)), true}));
}

constexpr Row kRows[] = {
    {"AveragePool", AveragePool},
    {"BatchNormalization", BatchNorm, 7},
    {"Conv", Conv},
    {"ConvTranspose", ConvTranspose},
    {"Einsum", Einsum},
    {"Gemm", Gemm, 7},
    {"GlobalAveragePool", GlobalAveragePool},
    {"GlobalMaxPool", GlobalMaxPool},
    {"GroupNormalization", GroupNorm},
    {"InstanceNormalization", InstanceNorm, 6},
    {"LayerNormalization", LayerNorm},
    {"LpNormalization", LpNorm},
    {"MatMul", MatMul},
    {"MaxPool", MaxPool},
    {"RMSNormalization", RmsNorm},
};

}  // namespace

absl::Span<const Row> NnRows() { return kRows; }

}  // namespace slipway::importers::onnx_in
