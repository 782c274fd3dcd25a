// Layers: linear maps, convolutions, normalizations, softmax, embedding.
#include <algorithm>
#include <cmath>
#include <limits>

#include "exporters/onnx/lowerings/data.h"
#include "exporters/onnx/lowerings/util.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::IntOrValue;

// alpha * (a @ b) + beta * bias of matrices; b may be transposed.
V Gemm(LoweringContext& c, V a, V b, bool transposed, V bias, double alpha = 1, double beta = 1) {
  std::vector<V> in = {a, b};
  if (bias) in.push_back(bias);
  Attrs attrs;
  if (transposed) attrs.push_back({"transB", int64_t{1}});
  if (alpha != 1) attrs.push_back({"alpha", alpha});
  if (beta != 1) attrs.push_back({"beta", beta});
  return c.e.Op("Gemm", in, std::move(attrs), a.dtype, 2);
}

// x @ weight.T + bias: Gemm where x is a matrix, else MatMul with the transposed weight, which is what runtimes and
// their tools look for (fusions of Add with a norm or an activation, quantizers).
void Linear(LoweringContext& c) {
  V x = c.in("input"), b = c.opt_in("bias");
  ir::Value* weight = c.tensor("weight");
  if (!c.ok()) return;
  if (weight->rank() != 2) {
    V y = c.e.MatMul(x, c.value(weight));
    return c.Return(b ? c.e.Add(y, b) : y);
  }
  const bool kept = ir::IsLowPrecision(x.dtype) && c.e.shared()->keep_halves;
  if (x.rank == 2 && (x.dtype == DType::kFloat32 || x.dtype == DType::kFloat64 || kept)) {
    V turned = c.turned(weight, {1, 0});
    return c.Return(Gemm(c, x, turned ? turned : c.value(weight), !turned, b));
  }
  V y = c.e.MatMul(x, c.transposed(weight, {1, 0}));
  c.Return(b ? c.e.Add(y, b) : y);
}

// x @ y. Sums of nothing are zeros: the runtime is not trusted to clear them (ONNX Runtime's FusedMatMul of batches
// leaves what the memory held, 1.31).
V Product(LoweringContext& c, std::string_view x_name, std::string_view y_name) {
  const ir::Value* x = c.tensor(x_name);
  auto product = [&] { return c.e.MatMul(c.in(x_name), c.in(y_name)); };
  if (!c.ok() || x->rank() == 0 || x->sizes().back().constant() != 0) return product();
  auto sizes = c.out_type().StaticSizes();
  V shape = sizes ? c.e.I64(*sizes) : c.e.Shape(product());
  return c.e.Expand(c.e.Number(0, c.compute_dtype()), shape, c.out_rank());
}

template <Str a, Str b>
void MatMul(LoweringContext& c) {
  c.Return(Product(c, a, b));
}

// beta * self + alpha * (a @ b)
template <Str a_name, Str b_name>
void AddMatMul(LoweringContext& c) {
  DType t = c.compute_dtype();
  V a = c.in(a_name), b = c.in(b_name), s = c.in("self");
  ir::Scalar beta = c.scalar("beta"), alpha = c.scalar("alpha");
  if (a.rank == 2 && b.rank == 2 && (t == DType::kFloat32 || t == DType::kFloat64) && a.dtype == t &&
      beta.is_constant() && alpha.is_constant() && static_cast<float>(alpha.d) == alpha.d &&
      static_cast<float>(beta.d) == beta.d && s.rank <= 2 && beta.d != 0)
    return c.Return(Gemm(c, a, b, false, s, alpha.d, beta.d));
  V y = Product(c, a_name, b_name);
  auto is = [](const ir::Scalar& x, double v) { return x.is_constant() && x.d == v; };
  if (!is(alpha, 1)) y = c.e.Mul(y, c.number(alpha, t));
  if (is(beta, 0)) {  // torch then ignores self, NaN included; its shape still broadcasts
    return c.Return(y.rank == c.out_rank() ? y : c.e.Expand(y, c.shape_of(c.tensor("self")), c.out_rank()));
  }
  if (!is(beta, 1)) s = c.e.Mul(s, c.number(beta, t));
  c.Return(c.e.Add(s, y));
}

void Softmax(LoweringContext& c) {
  DType t = c.compute_dtype();
  V x = c.e.Cast(c.in("self"), t);
  if (x.rank == 0) return c.Return(c.e.Div(x, x));  // 1, or NaN of NaN and infinity
  c.Return(c.e.Op("Softmax", {x}, {{"axis", int64_t{c.dim("dim", x.rank)}}}));
}
void LogSoftmax(LoweringContext& c) {
  DType t = c.compute_dtype();
  V x = c.e.Cast(c.in("self"), t);
  if (x.rank == 0) return c.Return(c.e.Sub(x, x));
  const Attrs attrs = {{"axis", int64_t{c.dim("dim", x.rank)}}};
  V y = c.e.Op("LogSoftmax", {x}, attrs);
  // ONNX Runtime's kernel of f64 loses NaN (1.31), which its Softmax keeps.
  if (x.dtype == DType::kFloat64 && MayBeNan(c, c.tensor("self")))
    y = c.e.Add(y, c.e.Mul(c.e.Op("Softmax", {x}, attrs), c.e.Number(0, x.dtype)));
  c.Return(y);
}

void LayerNorm(LoweringContext& c) {
  V x = c.in("input"), w = c.opt_in("weight"), b = c.opt_in("bias");
  ir::SymInts shape = c.sym_ints("normalized_shape");
  int axis = x.rank - static_cast<int>(shape.size());
  double eps = c.f("eps");
  if (!w) {
    for (const IntOrValue& i : shape)
      if (i.value) return c.Unsupported("a symbolic normalized_shape without weight");
    Ints dims;
    int64_t n = 1;
    for (const IntOrValue& i : shape) dims.push_back(i.constant), n *= i.constant;
    w = c.e.Expand(c.e.Number(1, x.dtype), c.e.I64(dims), static_cast<int>(dims.size()));
  }
  std::vector<V> in = {x, w};
  if (b) in.push_back(b);
  V y = c.e.Op("LayerNormalization", in, {{"axis", int64_t{axis}}, {"epsilon", eps}});
  if (c.node().outputs().size() == 1) return c.Return(y);
  // native_layer_norm also gives mean and 1/std.
  Ints axes;
  for (int d = axis; d < x.rank; ++d) axes.push_back(d);
  V mean = c.e.Reduce("ReduceMean", x, axes, true);
  V centered = c.e.Sub(x, mean);
  V var = c.e.Reduce("ReduceMean", c.e.Mul(centered, centered), axes, true);
  V rstd = c.e.Op("Reciprocal", {c.e.Op("Sqrt", {c.e.Add(var, c.e.Number(eps, x.dtype))})});
  c.Return({y, mean, rstd});
}

void RmsNorm(LoweringContext& c) {
  V x = c.in("input"), w = c.opt_in("weight");
  int n = static_cast<int>(c.sym_ints("normalized_shape").size());
  double eps = c.opt_f("eps").value_or(c.out_dtype() == DType::kFloat64 ? std::numeric_limits<double>::epsilon()
                                                                        : std::numeric_limits<float>::epsilon());
  // Of f64 the operator's first stage would be f32.
  if (c.e.opset() >= 23 && x.dtype == DType::kFloat32) {
    const auto size = n == 1 && x.rank > 0 ? c.tensor("input")->sizes().back().constant() : std::nullopt;
    const V scale = w      ? c.e.Cast(w, x.dtype)
                    : size ? c.e.Numbers(std::vector<double>(static_cast<size_t>(*size), 1.0), x.dtype, {*size})
                           : V{};
    if (scale)
      return c.Return(c.e.Op("RMSNormalization", {x, scale}, {{"axis", int64_t{x.rank - n}}, {"epsilon", eps}}));
  }
  Ints axes;
  for (int d = x.rank - n; d < x.rank; ++d) axes.push_back(d);
  // Written as ONNX Runtime looks for it: Pow, ReduceMean, Add, Sqrt, Div.
  V ms = c.e.Reduce("ReduceMean", c.e.Pow(x, c.e.Number(2, x.dtype)), axes, true);
  V y = c.e.Div(x, c.e.Op("Sqrt", {c.e.Add(ms, c.e.Number(eps, x.dtype))}));
  c.Return(w ? c.e.Mul(y, w) : y);
}

// Per-channel affine shaped to broadcast along dim 1.
V Channel(LoweringContext& c, V v, int rank) {
  Ints axes;
  for (int d = 1; d < rank - 1; ++d) axes.push_back(d);
  return c.e.Unsqueeze(v, axes);
}

V Filled(LoweringContext& c, V like, double value) {
  return c.e.Expand(c.e.Number(value, like.dtype), c.e.Shape(like), like.rank);
}

// Inference: the running statistics. Training: the batch's own, as torch computes them.
void BatchNorm(LoweringContext& c) {
  V x = c.in("input"), w = c.opt_in("weight"), b = c.opt_in("bias");
  V mean = c.opt_in("running_mean"), var = c.opt_in("running_var");
  bool training = c.b("training") || !mean;
  double eps = c.f("eps");
  DType t = x.dtype;
  if (training) {
    Ints axes;
    for (int d = 0; d < x.rank; ++d)
      if (d != 1) axes.push_back(d);
    mean = c.e.Reduce("ReduceMean", x, axes, true);
    V centered = c.e.Sub(x, mean);
    var = c.e.Reduce("ReduceMean", c.e.Mul(centered, centered), axes, true);
    V y = c.e.Div(centered, c.e.Op("Sqrt", {c.e.Add(var, c.e.Number(eps, t))}));
    if (w) y = c.e.Mul(y, Channel(c, w, x.rank));
    if (b) y = c.e.Add(y, Channel(c, b, x.rank));
    return c.Return(y);
  }
  mean = c.e.Cast(mean, t), var = c.e.Cast(var, t);
  if (!w) w = Filled(c, mean, 1);
  if (!b) b = Filled(c, mean, 0);
  w = c.e.Cast(w, t), b = c.e.Cast(b, t);
  if (x.rank < 2) return c.Unsupported("an input of rank below 2");
  c.Return(c.e.Op("BatchNormalization", {x, w, b, mean, var}, {{"epsilon", eps}}));
}

void GroupNorm(LoweringContext& c) {
  // (N, C, *) -> (N, groups, C/groups * rest), normalized over the last.
  V x = c.in("input"), w = c.opt_in("weight"), b = c.opt_in("bias");
  int64_t groups = c.i("num_groups");
  DType t = x.dtype;
  for (ir::Sym size : c.out_type().sizes)
    if (size.constant() == 0) return c.Return(x);
  if (t == DType::kFloat32) {
    const double eps = c.f("eps");
    const auto channels = c.tensor("input")->sizes()[1].constant();
    // The operator of opset 21 is a function of single operators to onnxruntime, which takes twice as long as the form
    // below.
    if (c.e.form() == OnnxForm::kPortable && c.e.opset() >= 21 && (channels || (w && b))) {
      const auto filled = [&](double v) {
        return c.e.Numbers(std::vector<double>(static_cast<size_t>(*channels), v), t, {*channels});
      };
      return c.Return(c.e.Op("GroupNormalization", {x, w ? w : filled(1), b ? b : filled(0)},
                             {{"num_groups", groups}, {"epsilon", eps}}));
    }
    // A group is an instance's channel. Runtimes have a kernel for that, which the same in single operators is not as
    // fast as.
    const auto filled = [&](double v) {
      return c.e.Numbers(std::vector<double>(static_cast<size_t>(groups), v), t, {groups});
    };
    V y = c.e.Op("InstanceNormalization", {c.e.Reshape(x, c.e.I64({0, groups, -1}), 3), filled(1), filled(0)},
                 {{"epsilon", eps}});
    y = c.e.Reshape(y, c.shape_of(c.tensor("input")), x.rank);
    if (w) y = c.e.Mul(y, Channel(c, w, x.rank));
    return c.Return(b ? c.e.Add(y, Channel(c, b, x.rank)) : y);
  }
  V flat = c.e.Reshape(x, c.e.I64({0, groups, -1}), 3);
  V mean = c.e.Reduce("ReduceMean", flat, {2}, true);
  V centered = c.e.Sub(flat, mean);
  V var = c.e.Reduce("ReduceMean", c.e.Mul(centered, centered), {2}, true);
  V y = c.e.Div(centered, c.e.Op("Sqrt", {c.e.Add(var, c.e.Number(c.f("eps"), t))}));
  y = c.e.Reshape(y, c.shape_of(c.tensor("input")), x.rank);
  if (w) y = c.e.Mul(y, Channel(c, w, x.rank));
  if (b) y = c.e.Add(y, Channel(c, b, x.rank));
  c.Return(y);
}
void InstanceNorm(LoweringContext& c) {
  V x = c.in("input"), w = c.opt_in("weight"), b = c.opt_in("bias");
  double eps = c.f("eps");
  V mean = c.opt_in("running_mean"), var = c.opt_in("running_var");
  if (c.b("use_input_stats")) {
    Ints axes;
    std::vector<int> dims;
    for (int d = 2; d < x.rank; ++d) axes.push_back(d), dims.push_back(d);
    ir::Value* input = c.tensor("input");
    const auto channels = x.rank >= 3 ? input->sizes()[1].constant() : std::nullopt;
    if (x.dtype == DType::kFloat32 && x.rank >= 3 && (channels || (w && b)) && !MayBeMeanOfNothing(c, input, dims)) {
      const auto filled = [&](double v) {
        return c.e.Numbers(std::vector<double>(static_cast<size_t>(*channels), v), x.dtype, {*channels});
      };
      return c.Return(c.e.Op("InstanceNormalization", {x, w ? w : filled(1), b ? b : filled(0)}, {{"epsilon", eps}}));
    }
    mean = c.e.Reduce("ReduceMean", x, axes, true);
    V centered = c.e.Sub(x, mean);
    var = c.e.Reduce("ReduceMean", c.e.Mul(centered, centered), axes, true);
  } else {
    if (!mean || !var) return c.Fail("no running statistics");
    mean = Channel(c, mean, x.rank);
    var = Channel(c, var, x.rank);
  }
  V y = c.e.Div(c.e.Sub(x, mean), c.e.Op("Sqrt", {c.e.Add(var, c.e.Number(eps, x.dtype))}));
  if (w) y = c.e.Mul(y, Channel(c, w, x.rank));
  if (b) y = c.e.Add(y, Channel(c, b, x.rank));
  c.Return(y);
}

void Embedding(LoweringContext& c) {
  V w = c.raw(c.tensor("weight")), index = c.in("indices");
  if (index.dtype != DType::kInt64 && index.dtype != DType::kInt32) index = c.e.Cast(index, DType::kInt64);
  c.Return(c.e.Gather(w, index, 0));
}

// ---- Convolution

struct ConvArgs {
  int spatial = 0;
  Ints stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
  std::string auto_pad;  // "same" or empty
};

// Convolution of integers, which ONNX's operators do not take: exact, as a sum of products of matrices over the
// positions of the kernel. x is batched.
V IntegerConv(LoweringContext& c, V x, V w, V b, const ConvArgs& a, const Ints& kernel, const Ints& begin,
              const Ints& end) {
  constexpr int64_t kMaxPositions = 1024;
  int64_t positions = 1;
  for (int64_t k : kernel)
    if (__builtin_mul_overflow(positions, k, &positions) || positions > kMaxPositions || positions < 1) {
      c.Unsupported("an integer kernel of so many positions");
      return x;
    }
  const DType t = x.dtype;
  const int n = a.spatial;
  x = c.e.Cast(x, DType::kInt64), w = c.e.Cast(w, DType::kInt64);
  Ints pads(2 * x.rank, 0), stride = a.stride;
  for (int d = 0; d < n; ++d) pads[2 + d] = begin[d], pads[x.rank + 2 + d] = end[d];
  if (a.transposed) {
    // The ordinary convolution of the input with zeros between its elements, under the reversed kernel.
    for (int d = 0; d < n; ++d) {
      const int axis = 2 + d;
      if (const int64_t s = a.stride[d]; s > 1) {
        std::vector<V> apart;
        for (int k = 0; k < x.rank; ++k)
          apart.push_back(k == axis ? c.e.Mul(c.e.Dim(x, k), c.e.I64({s})) : c.e.Dim(x, k));
        V wide = c.e.Unsqueeze(x, {axis + 1});
        Ints zeros(2 * wide.rank, 0);
        zeros[wide.rank + axis + 1] = s - 1;
        wide = c.e.Op("Pad", {wide, c.e.I64(zeros), c.e.Integer(0, DType::kInt64)}, {});
        x = c.e.Slice(c.e.Reshape(wide, c.e.Concat(apart, 0), x.rank, true), {0}, {1 - s}, {axis});
      }
      const int64_t reach = a.dilation[d] * (kernel[d] - 1);
      pads[axis] = reach - begin[d];
      pads[x.rank + axis] = reach - end[d] + a.output_padding[d];
      stride[d] = 1;
    }
  }
  x = c.e.Op("Pad", {x, c.e.I64(pads), c.e.Integer(0, DType::kInt64)}, {});
  // Products of (groups, outputs, inputs of a group) and (batch, groups, inputs of a group, places).
  const int64_t groups = a.groups;
  V channels = c.e.Div(c.e.Dim(x, 1), c.e.I64({groups}));
  V sum, sizes;
  Ints at(n, 0);
  for (int64_t p = 0; p < positions; ++p) {
    Ints starts, ends, axes, steps;
    V taken_w = w;
    for (int d = 0; d < n; ++d) {
      const int64_t reach = a.dilation[d] * (kernel[d] - 1), offset = at[d] * a.dilation[d];
      starts.push_back(offset);
      ends.push_back(offset == reach ? std::numeric_limits<int64_t>::max() : offset - reach);
      axes.push_back(2 + d), steps.push_back(stride[d]);
    }
    for (int d = n - 1; d >= 0; --d)
      taken_w = c.e.Gather(taken_w, c.e.I64Scalar(a.transposed ? kernel[d] - 1 - at[d] : at[d]), 2 + d);
    V part = c.e.Slice(x, starts, ends, axes, steps);
    if (!sizes) sizes = c.e.Op("Shape", {part}, {{"start", int64_t{2}}}, DType::kInt64, 1);
    // Inputs and outputs of a group: the weight is (outputs, inputs / groups), transposed (inputs, outputs / groups).
    V area = c.e.Op("ReduceProd", {sizes}, {{"keepdims", int64_t{1}}}, DType::kInt64, 1);
    V columns = c.e.Reshape(part, c.e.Concat({c.e.Dim(x, 0), c.e.I64({groups}), channels, area}, 0), 4, true);
    V matrix = a.transposed
                   ? c.e.Transpose(c.e.Reshape(taken_w, c.e.Concat({c.e.I64({groups}), channels, c.e.I64({-1})}, 0), 3),
                                   {0, 2, 1})
                   : c.e.Reshape(taken_w, c.e.Concat({c.e.I64({groups, -1}), channels}, 0), 3);
    V product = c.e.MatMul(matrix, columns);
    sum = sum ? c.e.Add(sum, product) : product;
    for (int d = n - 1; d >= 0 && ++at[d] == kernel[d]; --d) at[d] = 0;
  }
  V outputs = a.transposed ? c.e.Mul(c.e.Dim(w, 1), c.e.I64({groups})) : c.e.Dim(w, 0);
  V y = c.e.Reshape(sum, c.e.Concat({c.e.Dim(x, 0), outputs, sizes}, 0), x.rank, true);
  if (b) y = c.e.Add(y, Channel(c, c.e.Cast(b, DType::kInt64), x.rank));
  return c.e.Cast(y, t);
}

// What the convolution's input is with zeros around it, where that is what pads it: begins and ends of the dims behind
// the first two. Null for others.
ir::Value* PaddedByZeros(ir::Value* v, Ints* begin, Ints* end) {
  const ir::Node* n = v->producer();
  if (!n || n->op_name() != "aten.constant_pad_nd.default") return nullptr;
  ir::ArgReader args(*n);
  const ir::Scalar value = args.scalar("value");
  const ir::SymInts pad = args.sym_ints("pad");
  const auto dims = static_cast<size_t>(v->rank() - 2);
  if (!value.is_constant() || value.kind == ir::Scalar::kComplex || value.d != 0 || pad.size() % 2 != 0 ||
      pad.size() > 2 * dims)
    return nullptr;
  begin->assign(dims, 0), end->assign(dims, 0);
  for (size_t k = 0; k < pad.size(); ++k) {
    if (pad[k].value || pad[k].constant < 0) return nullptr;
    (*(k % 2 == 0 ? begin : end))[dims - 1 - k / 2] = pad[k].constant;
  }
  return args.tensor("self");
}

void Conv(LoweringContext& c, const char* input_name, ConvArgs a) {
  ir::Value* input = c.tensor(input_name);
  Ints zeros_before, zeros_behind;
  if (!a.transposed && c.e.shared()->from_onnx && input->rank() == c.tensor("weight")->rank())
    if (ir::Value* inner = PaddedByZeros(input, &zeros_before, &zeros_behind)) input = inner;
  V x = c.value(input), w = c.in("weight"), b = c.opt_in("bias");
  ir::Value* wv = c.tensor("weight");
  a.spatial = w.rank - 2;
  auto fit = [&](Ints& v) {
    if (v.size() == 1) v.resize(a.spatial, v[0]);
  };
  fit(a.stride), fit(a.padding), fit(a.dilation), fit(a.output_padding);
  if (!c.ok()) return;
  for (const Ints* v : {&a.stride, &a.dilation})
    if (v->size() != static_cast<size_t>(a.spatial)) return c.Fail("a stride or dilation of the wrong length");
  bool unbatched = x.rank == a.spatial + 1;
  if (unbatched) x = c.e.Unsqueeze(x, {0});
  Ints kernel;  // complete where all sizes are known; ONNX else reads them off the weight
  for (int d = 0; d < a.spatial; ++d)
    if (auto k = wv->sizes()[d + 2].constant()) kernel.push_back(*k);
  const bool known = kernel.size() == static_cast<size_t>(a.spatial);
  if (!known && a.auto_pad == "same") return c.Unsupported("padding 'same' with a kernel of symbolic size");
  Ints begin(a.spatial, 0), end(a.spatial, 0);
  for (int d = 0; d < a.spatial; ++d) {
    if (a.auto_pad == "same") {
      int64_t total = a.dilation[d] * (kernel[d] - 1);  // torch puts the odd one at the end
      begin[d] = total / 2;
      end[d] = total - total / 2;
    } else if (!a.padding.empty()) {
      begin[d] = end[d] = a.padding[d];
    }
    if (input != c.tensor(input_name)) begin[d] += zeros_before[d], end[d] += zeros_behind[d];
  }
  V y;
  if (!ir::IsFloating(x.dtype)) {
    if (!known) return c.Unsupported("an integer kernel of symbolic size");
    y = IntegerConv(c, x, w, b, a, kernel, begin, end);
    return c.Return(unbatched ? c.e.Squeeze(y, {0}) : y);
  }
  Ints pads = begin;
  pads.insert(pads.end(), end.begin(), end.end());
  Attrs attrs = {{"strides", a.stride}, {"dilations", a.dilation}, {"group", a.groups}};
  if (known) attrs.push_back({"kernel_shape", kernel});
  if (a.transposed) {
    // ONNX wants an output padding below the stride (torch, below the stride or the dilation). What is more of it is
    // less padding at the end, and past that zeros, to which only the bias is added.
    Ints beyond(2 * x.rank, 0);
    bool any = false;
    for (int d = 0; d < a.spatial; ++d) {
      int64_t more = std::max<int64_t>(a.output_padding[d] - (a.stride[d] - 1), 0);
      a.output_padding[d] -= more;
      const int64_t taken = std::min(more, pads[a.spatial + d]);
      pads[a.spatial + d] -= taken;
      beyond[x.rank + 2 + d] = more - taken;
      any |= more > taken;
    }
    attrs.push_back({"pads", pads});
    attrs.push_back({"output_padding", a.output_padding});
    y = c.e.Op("ConvTranspose", b && !any ? std::vector<V>{x, w, b} : std::vector<V>{x, w}, attrs);
    if (any) {
      y = c.e.Op("Pad", {y, c.e.I64(beyond), c.e.Number(0, y.dtype)}, {});
      if (b) y = c.e.Add(y, Channel(c, b, y.rank));
    }
  } else {
    attrs.push_back({"pads", pads});
    y = c.e.Op("Conv", b ? std::vector<V>{x, w, b} : std::vector<V>{x, w}, attrs);
  }
  if (unbatched) y = c.e.Squeeze(y, {0});
  c.Return(y);
}
void ConvNd(LoweringContext& c) {
  ConvArgs a;
  int n = c.tensor("weight")->rank() - 2;
  a.stride = c.ints("stride", n), a.padding = c.ints("padding", n), a.dilation = c.ints("dilation", n);
  a.groups = c.i("groups");
  Conv(c, "input", a);
}
void ConvPadding(LoweringContext& c) {
  ConvArgs a;
  int n = c.tensor("weight")->rank() - 2;
  a.stride = c.ints("stride", n), a.dilation = c.ints("dilation", n);
  a.groups = c.i("groups");
  std::string p = c.str("padding");
  if (p == "same")
    a.auto_pad = "same";
  else if (p != "valid")
    return c.Fail("padding '" + p + "'");
  Conv(c, "input", a);
}
void ConvOrTranspose(LoweringContext& c, bool transposed) {
  ConvArgs a;
  int n = c.tensor("weight")->rank() - 2;
  a.stride = c.ints("stride", n), a.padding = c.ints("padding", n), a.dilation = c.ints("dilation", n);
  a.output_padding = c.ints("output_padding", n);
  a.groups = c.i("groups");
  a.transposed = transposed;
  Conv(c, "input", a);
}
void ConvTranspose(LoweringContext& c) { ConvOrTranspose(c, true); }
void Convolution(LoweringContext& c) { ConvOrTranspose(c, c.b("transposed")); }

// Evaluation mode only: dropout does nothing. In training mode it is random, which no file can reproduce.
void Dropout(LoweringContext& c) {
  if (c.b("train") && c.f("p") != 0) return c.Unsupported("dropout in training mode (call model.eval() before export)");
  c.Return(c.in("input"));
}

// clang-format off
constexpr Row kNnRows[] = {
    {"aten.linear.default", Linear, kUnlessKept},
    {"aten.matmul.default", MatMul<"self", "other">}, {"aten.mm.default", MatMul<"self", "mat2">},
    {"aten.bmm.default", MatMul<"self", "mat2">}, {"aten.mv.default", MatMul<"self", "vec">},
    {"aten.dot.default", MatMul<"self", "tensor">},
    {"aten.addmm.default", AddMatMul<"mat1", "mat2">, kUnlessKept},
    {"aten.addmv.default", AddMatMul<"mat", "vec">, true},
    {"aten.baddbmm.default", AddMatMul<"batch1", "batch2">, true},
    {"aten.softmax.int", Softmax}, {"aten._softmax.default", Softmax},
    {"aten.log_softmax.int", LogSoftmax}, {"aten._log_softmax.default", LogSoftmax},
    {"aten.special_softmax.int", Softmax}, {"aten.special_log_softmax.int", LogSoftmax},
    {"aten.layer_norm.default", LayerNorm, kUnlessKept}, {"aten.native_layer_norm.default", LayerNorm, kUnlessKept},
    {"aten.rms_norm.default", RmsNorm, true},
    {"aten.batch_norm.default", BatchNorm, kUnlessKept},
    {"aten.group_norm.default", GroupNorm, true}, {"aten.instance_norm.default", InstanceNorm, kUnlessKept},
    {"aten.embedding.default", Embedding},
    {"aten.conv1d.default", ConvNd}, {"aten.conv2d.default", ConvNd}, {"aten.conv3d.default", ConvNd},
    {"aten.conv1d.padding", ConvPadding}, {"aten.conv2d.padding", ConvPadding}, {"aten.conv3d.padding", ConvPadding},
    {"aten.conv_transpose1d.default", ConvTranspose}, {"aten.conv_transpose2d.input", ConvTranspose},
    {"aten.conv_transpose3d.input", ConvTranspose}, {"aten.convolution.default", Convolution},
    {"aten.dropout.default", Dropout}, {"aten.alpha_dropout.default", Dropout},
    {"aten.feature_dropout.default", Dropout}, {"aten.feature_alpha_dropout.default", Dropout},
};
// clang-format on

}  // namespace

absl::Span<const Row> NnRows() { return kNnRows; }

}  // namespace slipway::exporters::onnx_out
