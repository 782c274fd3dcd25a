// Convolutions and linear layers of static quantization (PT2E): a program dequantizes an image of bytes and a weight,
// convolves in floats, adds, applies a function and quantizes. With constant scales and zero points all of that is one
// node, slipway.integer_conv, whose sums are of integers (kernels/conv/integer_conv.cc states its arithmetic):
//
//   conv(dequantize(x), dequantize(w), bias)  [+ dequantize(y) | + floats]  [relu, hardswish, …]  [quantize]
//
// A batch norm between bytes, as behind a concatenation, is a depthwise convolution of single pixels with weights of 1.
//
// Then operators that only choose or move elements, between a dequantize and a quantize of the same scale and zero
// point, take the integers. Integers of int8 become uint8 before, larger by 128, where nothing but dequantize reads
// them: the products take unsigned images and signed weights.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

using ir::Node;
using ir::Value;

// Bytes with one scale and zero point, both constant, and the floats that they stand for, in f32.
struct Parameters {
  double scale = 1;  // as the program states it
  int64_t zero_point = 0;
  bool operator==(const Parameters&) const = default;
};
std::optional<Parameters> ReadParameters(const Value* scale, const Value* zero) {
  const auto s = StoredNumber(scale);
  const auto z = zero ? StoredNumber(zero) : std::optional(0.0);
  if (!s || !z || !std::isfinite(*s) || *s <= 0 || *z != std::floor(*z) || std::abs(*z) > 255) return std::nullopt;
  return Parameters{*s, static_cast<int64_t>(*z)};
}

struct QuantizedImage {
  Value* bytes = nullptr;
  Parameters of;
};
std::optional<QuantizedImage> ReadImage(const Value* floats, ir::DType dtype = ir::DType::kUInt8) {
  const auto d = ReadDequantized(floats);
  if (!d || d->input->dtype() != dtype || d->arithmetic != ir::DType::kFloat32 || d->dtype != ir::DType::kFloat32 ||
      d->scale_dtype || d->float_zero_point || !IsOneBlock(d->block_size))
    return std::nullopt;
  const auto of = ReadParameters(d->scale, d->zero_point);
  return of ? std::optional(QuantizedImage{d->input, *of}) : std::nullopt;
}

// slipway.quantize to bytes with one scale.
struct Quantization {
  Value* input = nullptr;
  Parameters of;
  int64_t low = 0, high = 255;
  // What the program multiplies with.
  double multiplier() const { return static_cast<double>(static_cast<float>(1.0 / of.scale)); }
};
std::optional<Quantization> ReadQuantize(const Node& n, ir::DType dtype = ir::DType::kUInt8) {
  if (n.op_name() != "slipway.quantize.default") return std::nullopt;
  ir::ArgReader a(n);
  Quantization q;
  q.input = a.tensor("input"), q.low = a.i("quant_min"), q.high = a.i("quant_max");
  Value *scale = a.tensor("scale"), *zero = a.opt_tensor("zero_point");
  const bool fits = a.ok() && a.dtype("dtype") == dtype && a.dtype("arithmetic") == ir::DType::kFloat32 &&
                    q.input->dtype() == ir::DType::kFloat32 && IsOneBlock(a.ints("block_size"));
  const auto of = fits && a.ok() ? ReadParameters(scale, zero) : std::nullopt;
  // The reciprocal of a scale of f32 is one of f32.
  if (!of || (scale->dtype() != ir::DType::kFloat64 && scale->dtype() != ir::DType::kFloat32)) return std::nullopt;
  q.of = *of;
  const int64_t least = dtype == ir::DType::kUInt8 ? 0 : -128;
  if (q.low < least || q.high > least + 255 || q.low > q.high || q.of.zero_point < least ||
      q.of.zero_point > least + 255)
    return std::nullopt;
  return q;
}

// ---- int8 as uint8

// What a quantize to int8 gives, where only dequantize reads it, becomes uint8.
absl::Status MakeUnsigned(Node* quantize) {
  constexpr int64_t kShift = 128;
  const auto q = ReadQuantize(*quantize, ir::DType::kInt8);
  Value* old = quantize->output();
  if (!q || old->graph()->IsOutput(old)) return absl::OkStatus();
  for (const Node* user : old->users()) {
    const auto image = ReadImage(user->output(), ir::DType::kInt8);
    if (!image || image->bytes != old || image->of.zero_point < -kShift || image->of.zero_point >= kShift)
      return absl::OkStatus();
  }
  ir::Builder b(*old->graph(), quantize, quantize->source());
  const ir::Ints block(static_cast<size_t>(old->rank()), -1);
  const auto zero = [](ir::Builder& to, int64_t z) { return to.ScalarTensor(z + kShift, ir::DType::kUInt8); };
  ir::ArgReader a(*quantize);
  Value* now =
      b.Call("slipway.quantize.default", {q->input, a.tensor("scale"), zero(b, q->of.zero_point), block,
                                          ir::DType::kFloat32, ir::DType::kUInt8, q->low + kShift, q->high + kShift});
  if (!b.ok()) return b.status();
  const std::vector<Node*> users(old->users().begin(), old->users().end());
  for (Node* user : users) {
    auto d = ReadDequantized(user->output());
    ir::Builder at(*old->graph(), user, user->source());
    const int64_t z = ReadImage(user->output(), ir::DType::kInt8)->of.zero_point;
    d->input = now, d->zero_point = zero(at, z), d->range.reset();
    Value* floats = Emit(at, *d);
    if (!at.ok()) return at.status();
    ReplaceNode(user, {floats});
  }
  return absl::OkStatus();
}

// ---- convolutions

// Functions behind the sums: the kernel's name for it, and its bounds, or names of the arguments that are.
struct FusedFunction {
  std::string_view op, activation;
  double min = 0, max = 0;
  std::string_view min_argument, max_argument;
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr FusedFunction kFunctions[] = {
    {"aten.relu.default", "clamp", 0, kInfinity},
    {"aten.relu6.default", "clamp", 0, 6},
    {"aten.hardtanh.default", "clamp", 0, 0, "min_val", "max_val"},
    {"aten.clamp.default", "clamp", -kInfinity, kInfinity, "min", "max"},
    {"aten.clamp_min.default", "clamp", -kInfinity, kInfinity, "min", ""},
    {"aten.clamp_max.default", "clamp", -kInfinity, kInfinity, "", "max"},
    {"aten.silu.default", "silu"},
    {"aten.hardswish.default", "hardswish"},
    {"aten.hardsigmoid.default", "hardsigmoid"},
    {"aten.leaky_relu.default", "leaky_relu", 0, 0, "negative_slope", ""},
};

// The bytes of a weight with a scale a channel, or one, and no zero point.
struct QuantizedWeight {
  Value *bytes = nullptr, *scale = nullptr;
};
std::optional<QuantizedWeight> ReadWeight(const std::optional<Dequantized>& d) {
  if (!d || d->input->dtype() != ir::DType::kInt8 || !IsStored(d->input) || !IsStored(d->scale) ||
      d->scale->dtype() != ir::DType::kFloat32 || d->scale_dtype || d->arithmetic != ir::DType::kFloat32 ||
      d->dtype != ir::DType::kFloat32 || d->float_zero_point || !d->input->type().StaticSizes())
    return std::nullopt;
  if (d->zero_point && StoredRange(d->zero_point) != std::pair<int64_t, int64_t>(0, 0)) return std::nullopt;
  // One scale, or one for each of the first dim.
  const auto scales = d->scale->type().StaticNumel();
  if (scales == 1) return QuantizedWeight{d->input, d->scale};
  bool fits = !d->block_size.empty() && d->block_size[0] == 1 && scales == d->input->sizes()[0].constant();
  for (size_t i = 1; fits && i < d->block_size.size(); ++i)
    fits = d->block_size[i] == -1 || d->block_size[i] == d->input->sizes()[i].constant();
  return fits ? std::optional(QuantizedWeight{d->input, d->scale}) : std::nullopt;
}

struct Layer {
  const Node* norm = nullptr;  // the layer is this batch norm, which has no weight of bytes
  Value *input = nullptr, *bias = nullptr;
  QuantizedWeight weight;
  std::array<int64_t, 2> kernel = {1, 1}, stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
  bool linear = false;
};
std::optional<Layer> ReadNorm(const Node& n) {
  ir::ArgReader a(n);
  Layer l{.norm = &n, .input = a.tensor("input")};
  const bool training = a.b("training");
  if (!a.ok() || training || l.input->rank() != 4 || l.input->dtype() != ir::DType::kFloat32) return std::nullopt;
  const auto channels = l.input->sizes()[1].constant();
  if (!channels || *channels < 2) return std::nullopt;
  l.groups = *channels;
  for (const char* name : {"running_mean", "running_var", "weight", "bias"}) {
    const Value* v = n.Get(name).value();
    const bool is_factor = name == std::string_view("weight") || name == std::string_view("bias");
    if (v ? v->dtype() != ir::DType::kFloat32 || v->type().StaticSizes() != ir::Ints{*channels} : !is_factor)
      return std::nullopt;
  }
  return l;
}

std::optional<Layer> ReadLayer(const Node& n) {
  const std::string_view op = n.op_name();
  if (op == "aten.batch_norm.default") return ReadNorm(n);
  const bool general = op == "aten.convolution.default", linear = op == "slipway.quantized_linear.default";
  if (op != "aten.conv2d.default" && !general && !linear) return std::nullopt;
  Layer l;
  ir::ArgReader a(n);
  l.input = a.tensor("input"), l.bias = a.opt_tensor("bias"), l.linear = linear;
  const Value* floats = linear ? nullptr : a.tensor("weight");
  if (!a.ok() || l.input->dtype() != ir::DType::kFloat32 || (l.bias && l.bias->dtype() != ir::DType::kFloat32))
    return std::nullopt;
  const auto weight = ReadWeight(linear ? ReadMatrix(n) : ReadDequantized(floats));
  if (!weight) return std::nullopt;
  l.weight = *weight;
  if (linear) return l.input->rank() >= 1 ? std::optional(l) : std::nullopt;
  if (floats->rank() != 4 || l.input->rank() != 4 || (general && a.b("transposed"))) return std::nullopt;
  for (auto [name, to] : {std::pair("stride", &l.stride), {"padding", &l.padding}, {"dilation", &l.dilation}}) {
    const ir::Ints numbers = a.ints(name, 2);
    if (!a.ok() || numbers.size() != 2) return std::nullopt;
    std::copy(numbers.begin(), numbers.end(), to->begin());
  }
  const auto groups = ir::ExprOf(a.sym("groups")).constant();
  const ir::Ints sizes = *l.weight.bytes->type().StaticSizes();
  if (!a.ok() || !groups || *groups < 1 || sizes[2] < 1 || sizes[3] < 1) return std::nullopt;
  l.kernel = {sizes[2], sizes[3]}, l.groups = *groups;
  return l;
}

// Whether a is of v's sizes.
bool SameSizes(const Value* a, const Value* v) {
  bool same = a->rank() == v->rank();
  for (int d = 0; same && d < v->rank(); ++d) same = ir::ProvablyEqual(a->sizes()[d], v->sizes()[d]);
  return same;
}

// What follows the sums of a layer, as far as the kernel does it.
struct Tail {
  Value* added = nullptr;  // bytes or floats
  Parameters added_of;
  std::string_view activation = "none";
  double min = 0, max = 0;
  std::optional<Quantization> quantize;
  Node* last = nullptr;  // of what is taken over
};
Tail ReadTail(Node* layer) {
  Tail t;
  t.last = layer;
  while (Node* user = OnlyUser(t.last->output())) {
    const Value* now = t.last->output();
    if (auto q = ReadQuantize(*user)) {
      t.quantize = q, t.last = user;
      return t;
    }
    if (t.activation != "none") return t;
    ir::ArgReader a(*user);
    if (user->op_name() == "aten.add.Tensor" && !t.added) {
      Value *x = a.tensor("self"), *y = a.tensor("other");
      const ir::Scalar alpha = a.scalar("alpha");
      if (!a.ok() || x == y || !alpha.is_constant() || alpha.d != 1) return t;
      Value* other = x == now ? y : x;
      if (!SameSizes(other, now) || other->dtype() != ir::DType::kFloat32 || other->rank() != 4) return t;
      t.added = other;
      if (const auto image = ReadImage(other)) t.added = image->bytes, t.added_of = image->of;
      t.last = user;
      continue;
    }
    const auto* f = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                 [&](const FusedFunction& row) { return row.op == user->op_name(); });
    if (f == std::end(kFunctions) || user->output()->dtype() != ir::DType::kFloat32) return t;
    double bounds[2] = {f->min, f->max};
    for (auto [name, to] : {std::pair(f->min_argument, &bounds[0]), {f->max_argument, &bounds[1]}}) {
      if (name.empty() || !a.has(name)) continue;
      const ir::Scalar number = a.scalar(name);
      if (!number.is_constant() || std::isnan(number.d)) return t;
      *to = number.d;
    }
    if (!a.ok() || user->Get(user->op().args[0].name).value() != now) return t;
    if (f->activation == "clamp" && bounds[0] > bounds[1]) return t;
    t.activation = f->activation, t.min = bounds[0], t.max = bounds[1], t.last = user;
  }
  return t;
}

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The weight [o, c / groups, height, width] as the kernel's matrix [columns, k], of two's complement in uint8.
Value* Arranged(ir::Builder& b, Value* w, const Layer& l) {
  constexpr int64_t kPanel = 16, kQuad = 4;
  const auto sizes = *w->type().StaticSizes();
  const int64_t outs = sizes[0], channels = sizes[1], height = l.kernel[0], width = l.kernel[1];
  Value* bytes = b.Cast(w, ir::DType::kUInt8);
  const auto pad = [&](Value* v, ir::Ints by) {  // by dim, from the last
    return std::all_of(by.begin(), by.end(), [](int64_t n) { return n == 0; })
               ? v
               : b.Call("aten.constant_pad_nd.default", {v, std::move(by), 0});
  };
  const bool depthwise = l.groups > 1 && channels == 1 && outs == l.groups;
  if (depthwise) {
    bytes = b.Call("aten.permute.default", {bytes, ir::Ints{0, 1, 3, 2}});
    bytes = pad(bytes, {0, RoundUp(height, kQuad) - height});
    return b.Call("aten.reshape.default", {bytes, ir::Ints{outs, width * RoundUp(height, kQuad)}});
  }
  bytes = b.Call("aten.permute.default", {bytes, ir::Ints{0, 2, 3, 1}});
  bytes = pad(bytes, {0, RoundUp(channels, kQuad) - channels});
  const int64_t k = height * width * RoundUp(channels, kQuad);
  if (l.groups == 1) return b.Call("aten.reshape.default", {bytes, ir::Ints{outs, k}});
  const int64_t per = outs / l.groups;
  bytes = b.Call("aten.reshape.default", {bytes, ir::Ints{l.groups, per, k}});
  bytes = pad(bytes, {0, 0, 0, RoundUp(per, kPanel) - per});
  return b.Call("aten.reshape.default", {bytes, ir::Ints{l.groups * RoundUp(per, kPanel), k}});
}

// Weights of 1, and the norm's factors and summands, computed as torch does.
void MakeWeights(ir::Builder& b, Layer& l) {
  constexpr ir::DType kF32 = ir::DType::kFloat32;
  ir::ArgReader a(*l.norm);
  Value *weight = a.opt_tensor("weight"), *bias = a.opt_tensor("bias");
  Value* variance = b.Call("aten.add.Tensor", {a.tensor("running_var"), b.ScalarTensor(a.f("eps"), kF32)});
  l.weight.bytes = b.Full({l.groups, 1, 1, 1}, 1, ir::DType::kInt8);
  l.weight.scale = b.Call("aten.rsqrt.default", {variance});
  if (weight) l.weight.scale = b.Call("aten.mul.Tensor", {l.weight.scale, weight});
  Value* less = b.Call("aten.mul.Tensor", {a.tensor("running_mean"), l.weight.scale});
  l.bias = bias ? b.Call("aten.sub.Tensor", {bias, less}) : b.Call("aten.neg.default", {less});
}

absl::Status Form(Node* layer) {
  auto l = ReadLayer(*layer);
  if (!l || layer->output()->dtype() != ir::DType::kFloat32) return absl::OkStatus();
  const auto image = ReadImage(l->input);
  if (!image) return absl::OkStatus();
  if (l->norm) {
    if (!ReadTail(layer).quantize) return absl::OkStatus();  // floats from bytes are an elementwise loop
    ir::Builder constants(*layer->graph(), layer, layer->source());
    MakeWeights(constants, *l);
    if (!constants.ok()) return constants.status();
  }
  const QuantizedWeight* const w = &l->weight;
  const ir::Ints sizes = *w->bytes->type().StaticSizes();
  const int64_t outs = sizes[0],
                terms = std::accumulate(sizes.begin() + 1, sizes.end(), int64_t{1}, std::multiplies<>());
  constexpr int64_t kMaxTerms = 1 << 16;  // of a sum in 32 bits
  if (outs < 1 || outs % l->groups != 0 || terms < 1 || terms > kMaxTerms || image->of.zero_point < 0)
    return absl::OkStatus();
  Tail t = ReadTail(layer);
  if (l->linear && t.added) t = {};
  if (!t.last) t.last = layer;

  ir::Builder b(*layer->graph(), t.last, t.last->source());
  constexpr ir::DType kF32 = ir::DType::kFloat32, kI32 = ir::DType::kInt32;
  Value *x = image->bytes, *bytes = w->bytes;
  ir::SymInts rows;  // of a linear layer's result
  for (int d = 0; l->linear && d + 1 < l->input->rank(); ++d) rows.push_back(b.Size(image->bytes, d));
  rows.push_back(outs);
  if (l->linear) {
    x = b.Call("aten.reshape.default", {x, ir::SymInts{-1, sizes[1], 1, 1}});
    bytes = b.Call("aten.reshape.default", {bytes, ir::Ints{outs, sizes[1], 1, 1}});
  }
  // - zero_point · the sums of the weight
  Value* offset = b.Full({outs}, 0, kI32);
  if (image->of.zero_point != 0) {
    Value* sums = b.Call("aten.sum.dim_IntList", {b.Cast(bytes, kI32), ir::Ints{1, 2, 3}, false}, {{"dtype", kI32}});
    offset = b.Call("aten.mul.Tensor", {sums, b.ScalarTensor(-image->of.zero_point, kI32)});
  }
  Value* scale = b.Call("aten.reshape.default", {w->scale, ir::Ints{-1}});
  if (w->scale->type().StaticNumel() == 1) scale = b.Call("aten.expand.default", {scale, ir::Ints{outs}});
  scale = b.Call("aten.mul.Tensor", {scale, b.ScalarTensor(static_cast<float>(image->of.scale), kF32)});
  const auto ints = [](const std::array<int64_t, 2>& v) { return ir::Ints(v.begin(), v.end()); };
  std::vector<std::pair<std::string_view, ir::Arg>> named;
  if (t.quantize)
    named = {{"multiplier", t.quantize->multiplier()},
             {"zero_point", t.quantize->of.zero_point},
             {"quant_min", t.quantize->low},
             {"quant_max", t.quantize->high}};
  Value* y = b.Call("slipway.integer_conv.default",
                    {x, Arranged(b, bytes, *l), offset, scale, l->bias, t.added, ints(l->kernel), ints(l->stride),
                     ints(l->padding), ints(l->dilation), l->groups, image->of.zero_point, t.added_of.scale,
                     t.added_of.zero_point, std::string(t.activation), t.min, t.max},
                    std::move(named));
  if (l->linear) y = b.Call("aten.reshape.default", {y, rows});
  if (!b.ok()) return b.status();
  ReplaceNode(t.last, {y});
  return absl::OkStatus();
}

// ---- operators that choose elements

// quantize(op(dequantize(x), …)) -> op(x, …)
absl::Status MoveIntegers(Node* quantize) {
  const auto q = ReadQuantize(*quantize);
  Node* op = q ? q->input->producer() : nullptr;
  if (!op || OnlyUser(q->input) != quantize || op->outputs().size() != 1 || !op->op().traits.chooses_elements)
    return absl::OkStatus();
  bool fits = q->low == 0 && q->high == 255;
  const auto integers = [&](Value* v) -> Value* {
    const auto image = ReadImage(v);
    fits = fits && image && image->of == q->of;
    return image ? image->bytes : nullptr;
  };
  ir::Builder b(*quantize->graph(), quantize, quantize->source());
  std::vector<ir::Arg> args;
  for (size_t i = 0; i < op->op().args.size(); ++i) {
    const std::string_view name = op->op().args[i].name;
    ir::Arg a = op->Get(name);
    if (i == 0) {
      if (Value* v = a.value()) {
        a = integers(v);
      } else if (const auto* list = a.get<ir::Values>()) {
        ir::Values bytes;
        for (Value* v : *list) bytes.push_back(integers(v));
        a = std::move(bytes);
      } else {
        fits = false;
      }
    }
    args.push_back(std::move(a));
  }
  if (!fits) return absl::OkStatus();
  Value* y = b.Call(op->op_name(), std::move(args));
  if (!b.ok()) return b.status();
  ReplaceNode(quantize, {y});
  return absl::OkStatus();
}

}  // namespace

absl::Status FormIntegerConvs(ir::Program& p) {
  std::vector<Node*> quantizations, layers;
  for (Node* n : *p.graph) {
    if (n->op_name() == "slipway.quantize.default") quantizations.push_back(n);
  }
  if (quantizations.empty()) return absl::OkStatus();
  for (Node* n : quantizations)
    if (absl::Status s = MakeUnsigned(n); !s.ok()) return s;
  if (absl::Status s = EliminateDeadCode(p); !s.ok()) return s;  // what was of int8 reads what tails are
  quantizations.clear();
  for (Node* n : *p.graph) {
    if (n->op_name() == "slipway.quantize.default") quantizations.push_back(n);
    if (ReadLayer(*n)) layers.push_back(n);
  }
  for (Node* n : quantizations)
    if (absl::Status s = MoveIntegers(n); !s.ok()) return s;
  for (Node* n : layers)
    if (absl::Status s = Form(n); !s.ok()) return s;
  return EliminateDeadCode(p);
}

}  // namespace slipway::passes
