// Convolutions, products, pools and norms.
#include <algorithm>
#include <limits>
#include <string>

#include "importers/onnx/lowering.h"
#include "importers/onnx/lowerings/quantization.h"

namespace slipway::importers::onnx_in {
namespace {

constexpr int64_t kMostOfWindow = int64_t{1} << 31;  // of its size, strides and dilations

// Kernel, strides, dilations and pads of a window over `dims` dims.
struct Window {
  Ints kernel, strides, dilations, begins, ends;
  bool dynamic = false;  // auto_pad of a dim whose size the pads depend on
  bool upper = false;    // of what is odd, the end gets more
  bool symmetric() const { return begins == ends && !dynamic; }
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
  for (const Ints* sizes : {&w.kernel, &w.strides, &w.dilations})
    if (std::any_of(sizes->begin(), sizes->end(), [](int64_t n) { return n < 1 || n > kMostOfWindow; })) {
      c.Wrong("a window whose size, strides or dilations are out of range");
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
    w.upper = automatic == "SAME_UPPER";
    for (size_t d = 0; d < dims; ++d) {
      const int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
      const auto size = x->sizes()[d + 2].constant();
      if (!size && w.strides[d] == 1) {
        w.begins[d] = automatic == "SAME_UPPER" ? (reach - 1) / 2 : reach - 1 - (reach - 1) / 2;
        w.ends[d] = reach - 1 - w.begins[d];
        continue;
      }
      if (!size) {
        w.dynamic = true;
        continue;
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
  SymInts pads;
  for (size_t d = w->begins.size(); d-- > 0;) {
    if (!w->dynamic || x->sizes()[d + 2].constant() || w->strides[d] == 1) {
      pads.emplace_back(w->begins[d]), pads.emplace_back(w->ends[d]);
      continue;
    }
    // (ceil(size / stride) - 1) * stride + reach - size, which is not negative where windows overlap or touch.
    const int64_t stride = w->strides[d], reach = (w->kernel[d] - 1) * w->dilations[d] + 1;
    if (reach < stride) c.Refuse("with auto_pad of a dynamic dim and gaps between windows");
    const IntOrValue size = c.b.Size(x, static_cast<int>(d) + 2);
    const IntOrValue last = c.b.Mul(c.b.Sub(c.b.FloorDiv(c.b.Add(size, stride - 1), stride), 1), stride);
    const IntOrValue all = c.b.Sub(c.b.Add(last, reach), size);
    const IntOrValue less = c.b.FloorDiv(all, 2), more = c.b.Sub(all, less);
    pads.push_back(w->upper ? less : more), pads.push_back(w->upper ? more : less);
  }
  w->dynamic = false;
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
  if (const auto stated = c.integers("kernel_shape"); stated && *stated != kernel)
    c.Wrong("a kernel_shape that is not the weight's");
  return kernel.empty() ? std::nullopt : std::optional<Ints>(kernel);
}

void Conv(Call& c) {
  if (Value* y = Convolve(c, c.in(0), c.in(1), c.opt_in(2))) c.Give(y);
}

void ConvTranspose(Call& c) {
  Value *x = c.in(0), *weight = c.in(1), *bias = c.opt_in(2);
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
      // A shape larger than what the input reaches is filled up behind.
      w.begins[d] = all < 0 ? 0 : automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
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
  c.Ignore("momentum"), c.Ignore("spatial");
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
  c.Ignore("stash_type");  // of statistics, which are of f32 or wider
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", -1), x->rank());
  if (!c.ok()) return;
  SymInts shape;
  Ints dims;
  for (int d = static_cast<int>(axis); d < x->rank(); ++d) shape.push_back(c.b.Size(x, d)), dims.push_back(d);
  Value *scale = c.in(1), *bias = c.opt_in(2);
  if (c.wants(1) || c.wants(2)) {
    Value* wide = c.b.Cast(x, c.dtype("stash_type", DType::kFloat32));
    Value* variance = c.b.Call("aten.var.correction", {wide, Arg(dims)}, {{"correction", 0}, {"keepdim", true}});
    c.Give(1, c.b.Call("aten.mean.dim", {wide, Arg(dims), true}));
    c.Give(2, c.b.Call("aten.rsqrt.default", {c.b.Call("aten.add.Scalar", {variance, c.real("epsilon", 1e-5)})}));
  }
  const auto same = [&](Value* v) { return v->rank() == static_cast<int>(shape.size()); };
  if (same(scale) && (!bias || same(bias)))
    return c.Give(
        c.b.Call("aten.layer_norm.default", {x, Arg(shape), scale, bias ? Arg(bias) : Arg(), c.real("epsilon", 1e-5)}));
  Value* out = c.b.Call("aten.layer_norm.default", {x, Arg(shape), Arg(), Arg(), c.real("epsilon", 1e-5)});
  out = c.b.Call("aten.mul.Tensor", {out, scale});
  c.Give(bias ? c.b.Call("aten.add.Tensor", {out, bias}) : out);
}

void RmsNorm(Call& c) {
  c.Ignore("stash_type");  // of statistics, which are of f32 or wider
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
  c.Ignore("stash_type");  // of statistics, which are of f32 or wider
  Value *x = c.in(0), *scale = c.in(1), *bias = c.in(2);
  const int64_t groups = c.integer("num_groups", 1);
  if (c.opset < 21 && c.ok()) {
    const auto channels = x->rank() > 1 ? x->sizes()[1].constant() : std::nullopt;
    if (!channels || groups < 1 || *channels % groups != 0)
      return c.Wrong("channels that are no multiple of the groups");
    for (Value** v : {&scale, &bias}) *v = c.b.Call("aten.repeat_interleave.self_int", {*v, *channels / groups, 0});
  }
  c.Give(c.b.Call("aten.group_norm.default", {x, groups, scale, bias, c.real("epsilon", 1e-5), false}));
}

void LpNorm(Call& c) {
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", -1), x->rank()), p = c.integer("p", 2);
  if (!c.ok()) return;
  if (p != 1 && p != 2) return c.Wrong("a norm other than 1 and 2");
  Value* sum = p == 1 ? c.b.Call("aten.abs.default", {x}) : c.b.Call("aten.mul.Tensor", {x, x});
  sum = c.b.Call("aten.sum.dim_IntList", {sum, Arg(Ints{axis}), true});
  if (p == 2) sum = c.b.Call("aten.sqrt.default", {sum});
  // What is all zeros stays so.
  Value* zero = c.b.Call("aten.eq.Scalar", {sum, 0.0});
  sum = c.b.Call("aten.where.self", {zero, c.Constant(1, x->dtype()), sum});
  c.Give(c.b.Call("aten.div.Tensor", {x, sum}));
}

// ---- Pools

// What begins every pool: the input and its window.
std::optional<Window> PoolWindow(Call& c, Value* x) {
  const auto kernel = c.integers("kernel_shape");
  if (!kernel || kernel->empty() || kernel->size() > 3 || x->rank() != static_cast<int>(kernel->size()) + 2) {
    c.Wrong("a kernel_shape of another rank");
    return std::nullopt;
  }
  return WindowOf(c, x, *kernel);
}
// Whether ATen's pools cannot pad as the window does.
bool PadsOtherwise(const Window& w) {
  bool wide = !w.symmetric();
  for (size_t d = 0; d < w.kernel.size(); ++d) wide = wide || 2 * w.begins[d] > w.kernel[d];
  return wide;
}
std::string PoolName(const char* kind, const Window& w) { return kind + std::to_string(w.kernel.size()) + "d.default"; }

// ATen's indices are of one image of one channel; ONNX's are of the whole tensor, and with storage_order 1 count the
// first spatial dim fastest.
Value* IndicesOfTensor(Call& c, Value* at, Value* x, const Value* out) {
  const int rank = x->rank();
  if (c.integer("storage_order", 0) != 0) {
    Value *rest = at, *sum = nullptr;
    IntOrValue step = 1;
    Values places(static_cast<size_t>(rank), nullptr);
    for (int d = rank; d-- > 2;) {
      const Arg size(c.b.Size(x, d));
      places[static_cast<size_t>(d)] = c.b.Call("aten.remainder.Scalar", {rest, size});
      rest = c.b.Call("aten.div.Scalar_mode", {rest, size}, {{"rounding_mode", "floor"}});
    }
    for (int d = 2; d < rank; ++d) {
      Value* part = c.b.Call("aten.mul.Scalar", {places[static_cast<size_t>(d)], Arg(step)});
      sum = sum ? c.b.Call("aten.add.Tensor", {sum, part}) : part;
      step = c.b.Mul(step, c.b.Size(x, d));
    }
    at = sum;
  }
  IntOrValue image = 1;
  for (int d = 2; d < rank; ++d) image = c.b.Mul(image, c.b.Size(x, d));
  const IntOrValue channels = c.b.Size(x, 1), all = c.b.Mul(c.b.Size(x, 0), channels);
  Value* first = c.b.Call("aten.mul.Scalar",
                          {c.b.Call("aten.arange.default", {Arg(all)}, {{"dtype", Arg(DType::kInt64)}}), Arg(image)});
  SymInts shape(static_cast<size_t>(out->rank()), IntOrValue(1));
  shape[0] = c.b.Size(x, 0), shape[1] = channels;
  return c.b.Call("aten.add.Tensor", {at, c.b.Call("aten.reshape.default", {first, Arg(shape)})});
}

void MaxPool(Call& c) {
  Value* x = c.in(0);
  auto w = PoolWindow(c, x);
  if (!w) return;
  const bool ceil = c.integer("ceil_mode", 0) != 0;
  c.Ignore("storage_order");  // of indices
  if (c.wants(1)) {
    if (PadsOtherwise(*w) || !ir::IsFloating(x->dtype()) || w->kernel.size() > 2)
      return c.Refuse("with indices as a result and pads that differ, of integers or in three dims");
    Value* image = w->kernel.size() == 1 ? c.b.Call("aten.unsqueeze.default", {x, 2}) : x;
    const auto two = [&](Ints v, int64_t one) { return v.size() == 1 ? Ints{one, v[0]} : v; };
    Values out = c.b.CallMulti("aten.max_pool2d_with_indices.default",
                               {image, Arg(two(w->kernel, 1)), Arg(two(w->strides, 1)), Arg(two(w->begins, 0)),
                                Arg(two(w->dilations, 1)), ceil});
    if (!c.ok()) return;
    for (Value*& v : out) v = image == x ? v : c.b.Call("aten.squeeze.dims", {v, Arg(Ints{2})});
    c.Give(0, out[0]);
    return c.Give(1, IndicesOfTensor(c, out[1], x, out[0]));
  }
  if (PadsOtherwise(*w)) {
    if (!ir::IsFloating(x->dtype())) return c.Refuse("of integers with pads that differ");
    x = Padded(c, x, &*w, -std::numeric_limits<double>::infinity());
  }
  c.Give(c.b.Call(PoolName("aten.max_pool", *w),
                  {x, Arg(w->kernel), Arg(w->strides), Arg(w->begins), Arg(w->dilations), ceil}));
}

// The sum over windows, by a convolution of ones on each channel: what has dilations, or pads that ATen's pools do not
// know. `counted`: the elements a window has.
Value* SumOfWindows(Call& c, Value* x, const Window& w) {
  Window own = w;
  if (!own.symmetric()) x = Padded(c, x, &own, 0);
  const auto channels = x->sizes()[1].constant();
  if (!channels) {
    c.Refuse("with dilations or pads that differ, of a dynamic number of channels");
    return x;
  }
  SymInts shape = {IntOrValue(*channels), IntOrValue(1)};
  for (int64_t k : w.kernel) shape.emplace_back(k);
  return c.b.Call("aten.convolution.default",
                  {x, c.b.Full(shape, Arg(1.0), x->dtype()), Arg(), Arg(own.strides), Arg(own.begins),
                   Arg(own.dilations), false, Arg(Ints(w.kernel.size(), 0)), *channels});
}

void AveragePool(Call& c) {
  if (Value* y = AveragePoolOf(c, c.in(0))) c.Give(y);
}

// The p-norm of each window.
void LpPool(Call& c) {
  Value* x = c.in(0);
  const double p = static_cast<double>(c.integer("p", 2));
  auto w = PoolWindow(c, x);
  if (!w) return;
  if (c.integer("ceil_mode", 0) != 0) return c.Refuse("with ceil_mode");
  Value* powers = c.b.Call("aten.pow.Tensor_Scalar", {c.b.Call("aten.abs.default", {x}), p});
  c.Give(c.b.Call("aten.pow.Tensor_Scalar", {SumOfWindows(c, powers, *w), 1 / p}));
}
void GlobalLpPool(Call& c) {
  Value* x = c.in(0);
  const double p = static_cast<double>(c.integer("p", 2));
  Ints dims;
  for (int d = 2; d < x->rank(); ++d) dims.push_back(d);
  if (dims.empty()) return c.Wrong("an input without spatial dims");
  Value* powers = c.b.Call("aten.pow.Tensor_Scalar", {c.b.Call("aten.abs.default", {x}), p});
  c.Give(c.b.Call("aten.pow.Tensor_Scalar", {c.b.Call("aten.sum.dim_IntList", {powers, Arg(dims), true}), 1 / p}));
}

// Each element over a power of the sum of squares around it, along channels.
void Lrn(Call& c) {
  Value* x = c.in(0);
  const int64_t size = c.integer("size", 1);
  if (x->rank() < 2 || size < 1 || size > (1 << 20)) return c.Wrong("no channels, or a size below 1");
  Value* squares = c.b.Call("aten.mul.Tensor", {x, x});
  Ints pads(2 * static_cast<size_t>(x->rank() - 1), 0);
  pads[pads.size() - 2] = (size - 1) / 2, pads[pads.size() - 1] = size / 2;
  Value* padded = c.b.Call("aten.constant_pad_nd.default", {squares, Arg(pads), 0.0});
  Value* windows = c.b.Call("aten.unfold.default", {padded, 1, size, 1});
  Value* sum = c.b.Call("aten.sum.dim_IntList", {windows, Arg(Ints{-1})});
  sum = c.b.Call("aten.mul.Scalar", {sum, c.real("alpha", 1e-4) / static_cast<double>(size)});
  sum = c.b.Call("aten.add.Scalar", {sum, c.real("bias", 1)});
  c.Give(c.b.Call("aten.div.Tensor", {x, c.b.Call("aten.pow.Tensor_Scalar", {sum, c.real("beta", 0.75)})}));
}

void MaxUnpool(Call& c) {
  Value *x = c.in(0), *at = c.in(1);
  const auto w = PoolWindow(c, x);
  if (!w) return;
  SymInts sizes;
  if (c.has(2)) {
    sizes = c.ints(2, "a shape");
  } else {
    sizes = {c.b.Size(x, 0), c.b.Size(x, 1)};
    for (size_t d = 0; d < w->kernel.size(); ++d)
      sizes.push_back(c.b.Add(c.b.Mul(c.b.Sub(c.b.Size(x, static_cast<int>(d) + 2), 1), w->strides[d]),
                              w->kernel[d] - w->begins[d] - w->ends[d]));
  }
  if (sizes.size() != static_cast<size_t>(x->rank())) return c.Wrong("a shape of another rank");
  // Places count in the tensor without a shape, of which the result may be a larger form.
  SymInts tight = sizes;
  for (size_t d = 0; d < w->kernel.size(); ++d)
    tight[d + 2] = c.b.Add(c.b.Mul(c.b.Sub(c.b.Size(x, static_cast<int>(d) + 2), 1), w->strides[d]),
                           w->kernel[d] - w->begins[d] - w->ends[d]);
  IntOrValue all = 1;
  for (const IntOrValue& s : tight) all = c.b.Mul(all, s);
  Value* flat = c.b.Full({all}, Arg(0.0), x->dtype());
  const auto line = [&](Value* v) { return c.b.Call("aten.reshape.default", {v, Arg(Ints{-1})}); };
  Value* out = c.b.Call("aten.scatter.src", {flat, 0, line(at), line(x)});
  out = c.b.Call("aten.reshape.default", {out, Arg(tight)});
  SymInts pads;
  bool more = false;
  for (size_t d = sizes.size(); d-- > 0;) {
    pads.emplace_back(0), pads.push_back(c.b.Sub(sizes[d], tight[d]));
    more = more || !(pads.back() == IntOrValue(0));
  }
  c.Give(more ? c.b.Call("aten.constant_pad_nd.default", {out, Arg(pads), 0.0}) : out);
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

// ---- Losses

// Of log-probabilities; what a class's weight or an ignored target leaves out does not count for the mean.
Value* NllLoss(Call& c, Value* x, size_t target, size_t weight) {
  const std::string how = c.text("reduction", "mean");
  const int64_t reduction = how == "none" ? 0 : how == "mean" ? 1 : how == "sum" ? 2 : -1;
  if (reduction < 0) c.Wrong("an unknown reduction");
  Value* w = c.opt_in(weight);
  return c.b.Call("aten.nll_loss_nd.default", {x, c.b.Cast(c.in(target), DType::kInt64), w ? Arg(w) : Arg(), reduction,
                                               c.integer("ignore_index", -100)});
}
void NegativeLogLikelihoodLoss(Call& c) { c.Give(NllLoss(c, c.in(0), 1, 2)); }
void SoftmaxCrossEntropyLoss(Call& c) {
  Value* log = c.b.Call("aten.log_softmax.int", {c.in(0), 1});
  c.Give(0, NllLoss(c, log, 1, 2));
  if (c.wants(1)) c.Give(1, log);
}

// The sums of columns of patches at their places in an image.
void Col2Im(Call& c) {
  Value* x = c.in(0);
  const SymInts image = c.ints(1, "a shape");
  const Ints block = c.constants(2, "a block's shape");
  if (image.size() != 2 || block.size() != 2) return c.Refuse("of other than two dims");
  const Ints dilations = c.integers("dilations").value_or(Ints{1, 1}),
             strides = c.integers("strides").value_or(Ints{1, 1}), pads = c.integers("pads").value_or(Ints{0, 0, 0, 0});
  if (dilations.size() != 2 || strides.size() != 2 || pads.size() != 4) return c.Wrong("attributes of other dims");
  if (pads[0] != pads[2] || pads[1] != pads[3]) return c.Refuse("with pads that differ");
  c.Give(c.b.Call("aten.col2im.default",
                  {x, Arg(image), Arg(block), Arg(dilations), Arg(Ints{pads[0], pads[1]}), Arg(strides)}));
}

void Det(Call& c) { c.Give(c.b.Call("aten.linalg_det.default", {c.in(0)})); }

// Norms that give their statistics, too, or are of more than the last dim.
bool IsOfSeveralDims(Call& c) {
  const int64_t axis = c.integer("axis", -1);
  return c.wants(1) || c.wants(2) || (axis != -1 && axis != c.in(0)->rank() - 1);
}
bool IsScaled(Call& c) { return c.real("alpha", 1) != 1 || (c.has(2) && c.real("beta", 1) != 1); }

constexpr Row kNnRows[] = {
    {"AveragePool", AveragePool},
    {"BatchNormalization", BatchNorm, 7},
    {"Col2Im", Col2Im},
    {"Conv", Conv},
    {"ConvTranspose", ConvTranspose},
    {"Det", Det, 1, nullptr, Always},
    {"Einsum", Einsum, 1, nullptr, Always},
    {"Gemm", Gemm, 7, nullptr, IsScaled},
    {"GlobalAveragePool", GlobalAveragePool},
    {"GlobalLpPool", GlobalLpPool, 2},
    {"GlobalMaxPool", GlobalMaxPool},
    {"GroupNormalization", GroupNorm},
    {"InstanceNormalization", InstanceNorm, 6},
    {"LayerNormalization", LayerNorm, 1, nullptr, IsOfSeveralDims},
    {"LRN", Lrn, 1, nullptr, Always},
    {"LpNormalization", LpNorm, 1, nullptr, Always},
    {"LpPool", LpPool, 2, nullptr, Always},
    {"MatMul", MatMul},
    {"MaxPool", MaxPool},
    {"MaxUnpool", MaxUnpool, 1, nullptr, Always},
    {"NegativeLogLikelihoodLoss", NegativeLogLikelihoodLoss, 1, nullptr, Always},
    {"RMSNormalization", RmsNorm},
    {"SoftmaxCrossEntropyLoss", SoftmaxCrossEntropyLoss, 1, nullptr, Always},
};

}  // namespace

Value* Convolve(Call& c, Value* x, Value* weight, Value* bias) {
  const auto kernel = KernelOf(c, weight);
  if (!kernel || x->rank() != weight->rank()) {
    c.Wrong("an input of another rank than the weight");
    return nullptr;
  }
  auto w = WindowOf(c, x, *kernel);
  if (!w) return nullptr;
  if (!w->symmetric()) x = Padded(c, x, &*w, 0);
  return c.b.Call("aten.convolution.default",
                  {x, weight, bias ? Arg(bias) : Arg(), Arg(w->strides), Arg(w->begins), Arg(w->dilations), false,
                   Arg(Ints(kernel->size(), 0)), c.integer("group", 1)});
}

Value* AveragePoolOf(Call& c, Value* x) {
  auto w = PoolWindow(c, x);
  if (!w) return nullptr;
  const bool count = c.integer("count_include_pad", 0) != 0, ceil = c.integer("ceil_mode", 0) != 0;
  const bool dilated = std::any_of(w->dilations.begin(), w->dilations.end(), [](int64_t d) { return d != 1; });
  if (!dilated && PadsOtherwise(*w) && count && !ceil) x = Padded(c, x, &*w, 0);
  if (dilated || PadsOtherwise(*w)) {
    if (ceil) {
      // As many more elements behind as the last window lacks; none of them is counted.
      for (size_t d = 0; d < w->kernel.size(); ++d) {
        const auto size = x->sizes()[d + 2].constant();
        if (!size) {
          c.Refuse("with dilations or pads that differ, ceil_mode and dynamic dims");
          return nullptr;
        }
        const int64_t reach = (w->kernel[d] - 1) * w->dilations[d] + 1;
        const int64_t over = (*size + w->begins[d] + w->ends[d] - reach) % w->strides[d];
        if (over > 0) {
          c.Refuse("with dilations or pads that differ, and windows that reach over the end");
          return nullptr;
        }
      }
    }
    Value* sum = SumOfWindows(c, x, *w);
    Value* ones = c.b.Full(c.b.SizesOf(x), Arg(1.0), x->dtype());
    int64_t whole = 1;
    for (int64_t k : w->kernel) whole *= k;
    return (count ? c.b.Call("aten.div.Scalar", {sum, static_cast<double>(whole)})
                  : c.b.Call("aten.div.Tensor", {sum, SumOfWindows(c, ones, *w)}));
  }
  return c.b.Call(PoolName("aten.avg_pool", *w), {x, Arg(w->kernel), Arg(w->strides), Arg(w->begins), ceil, count});
}

absl::Span<const Row> NnRows() { return kNnRows; }

}  // namespace slipway::importers::onnx_in
