// Quantized tensors: the operators of torchao and of torch's pt2e as slipway.quantize and slipway.dequantize (the names
// that recognize-quantization starts from), and those in ATen, step by step in the dtypes that quantization.h states,
// for targets without an operator of their own.
//
// The arithmetic of the named operators is that of torchao 0.18 (torchao/quantization/quant_primitives.py) and torch
// 2.13 (torch/ao/quantization/fx/_decomposed.py).
#include "base/text.h"
#include "passes/decompositions/util.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

// ---- to the one representation

// A dim that is one block as -1, others as numbers.
ir::Ints BlockSizes(Decomposer& d, const Value* x) {
  ir::Ints out;
  const SymInts given = d.sym_ints("block_size");
  if (given.size() != static_cast<size_t>(x->rank())) {
    d.Fail("block_size does not fit the tensor's rank");
    return out;
  }
  for (int i = 0; i < x->rank(); ++i) {
    const ir::Sym block = ir::ExprOf(given[i]), size = x->sizes()[i];
    const auto known = block.constant();
    if (known == -1 || (ProvablyEqual(block, size) && known != 1)) {
      out.push_back(-1);
    } else if (known && *known > 0) {
      out.push_back(*known);
    } else {
      d.Unsupported("a block of a symbolic size that is not its dim's");
    }
  }
  return out;
}

Value* Number(Decomposer& d, const ir::Scalar& s, DType dtype) {
  if (s.value) return s.value->type().is_tensor() ? s.value : d.b.ScalarTensor(s.value, dtype);
  return d.b.ScalarTensor(ir::IsFloating(dtype) ? Arg(s.d) : Arg(s.i), dtype);
}
// What v of one element is a wider copy of, where that is of `t`; else v.
Value* Unwidened(Value* v, DType t) {
  Value* source = v->type().StaticNumel() == 1 ? CastSource(v) : nullptr;
  if (!source || source->dtype() != t) return v;
  while (source->producer() && IsReshape(*source->producer())) source = FirstArgument(*source->producer());
  return source;
}
// A zero point in the dtype of the integers where it is a number that fits, or made in that dtype.
Value* ZeroPoint(Decomposer& d, DType integers) {
  const ir::Scalar s = d.scalar("zero_point");
  if (s.value && s.value->type().is_tensor()) return Unwidened(s.value, integers);
  if (!s.value && s.i == 0) return nullptr;
  const auto [low, high] = integers == DType::kUInt8 ? std::pair(0, 255) : std::pair(-128, 127);
  const bool fits = (integers == DType::kInt8 || integers == DType::kUInt8) && s.i >= low && s.i <= high;
  return Number(d, s, fits ? integers : DType::kInt64);
}

// The range of an integer dtype, narrowed by the arguments.
struct IntegerRange {
  double low = 0, high = 255;
};
IntegerRange QuantRange(Decomposer& d, DType t) {
  IntegerRange r;
  switch (t) {
    case DType::kInt8: r = {-128, 127}; break;
    case DType::kInt16: r = {-32768, 32767}; break;
    case DType::kInt32: r = {-2147483648.0, 2147483647.0}; break;
    case DType::kUInt8: break;
    case DType::kUInt16: r = {0, 65535}; break;
    default:
      if (!d.has("quant_min") || !d.has("quant_max")) d.Unsupported(text::StrCat("quantization to ", ir::Name(t)));
  }
  for (auto [name, bound] : {std::pair("quant_min", &r.low), {"quant_max", &r.high}}) {
    if (!d.has(name)) continue;
    const ir::Scalar s = d.scalar(name);
    if (!s.is_constant()) d.Unsupported(text::StrCat(name, " is not known"));
    *bound = s.d;
  }
  return r;
}

void ReturnQuantized(Decomposer& d, Value* scale, Value* zero, ir::Ints block, DType arithmetic) {
  const DType to = d.out_type().dtype;
  const IntegerRange r = QuantRange(d, to);
  if (d.ok())
    d.Return(d.b.Call("slipway.quantize.default", {d.in("input"), scale, zero, std::move(block), arithmetic, to,
                                                   static_cast<int64_t>(r.low), static_cast<int64_t>(r.high)}));
}
void ReturnDequantized(Decomposer& d, Value* scale, Value* zero, ir::Ints block, DType arithmetic) {
  if (!d.ok()) return;
  Dequantized q;
  q.input = d.in("input"), q.scale = scale, q.zero_point = zero;
  q.block_size = std::move(block);
  q.arithmetic = arithmetic, q.dtype = d.out_type().dtype;
  if (d.ok()) d.Return(Emit(d.b, q));
}

// The scale is a number of Python (kept as f64, so that its reciprocal is) or a tensor: of an f32 the reciprocal in
// f64, rounded to f32, is that in f32.
void QuantizePerTensor(Decomposer& d) {
  Value* zero = ZeroPoint(d, d.out_type().dtype);
  Value* scale = Unwidened(Number(d, d.scalar("scale"), DType::kFloat64), DType::kFloat32);
  ReturnQuantized(d, scale, zero, ir::Ints(d.in("input")->rank(), -1), DType::kFloat32);
}
void DequantizePerTensor(Decomposer& d) {
  const Value* x = d.in("input");
  Value* scale = Number(d, d.scalar("scale"), DType::kFloat32);
  if (d.ok()) scale = d.b.Cast(Unwidened(scale, DType::kFloat32), DType::kFloat32);
  ReturnDequantized(d, scale, ZeroPoint(d, x->dtype()), ir::Ints(x->rank(), -1), DType::kFloat32);
}
ir::Ints AlongAxis(Decomposer& d, int rank) {
  ir::Ints block(rank, -1);
  const int axis = d.dim("axis", rank);
  if (axis < rank) block[axis] = 1;
  return block;
}
void QuantizePerChannel(Decomposer& d) {
  ReturnQuantized(d, d.in("scales"), d.in("zero_points"), AlongAxis(d, d.in("input")->rank()), DType::kFloat32);
}
void DequantizePerChannel(Decomposer& d) {
  ReturnDequantized(d, d.in("scales"), d.opt_in("zero_points"), AlongAxis(d, d.in("input")->rank()), DType::kFloat32);
}
void DequantizePerChannelGroup(Decomposer& d) {
  const Value* x = d.in("input");
  if (x->rank() != 2) return d.Fail("a matrix is asked for");
  ReturnDequantized(d, d.in("scales"), d.opt_in("zero_points"), {1, d.i("group_size")}, DType::kFloat32);
}

// Whether pt2e takes parameters from activations of this type.
bool IsObserved(DType t) { return t == DType::kFloat32 || ir::IsLowPrecision(t); }

// Scale and zero point of a whole tensor as pt2e chooses them: the range in the dtype of x, the rest in f32, since eps
// is a tensor of f32 (determine_qparams in torch/ao/quantization/utils.py).
template <bool symmetric>
void ChooseTensorQparams(Decomposer& d) {
  Value* x = d.in("input");
  const int64_t low = d.i("quant_min"), high = d.i("quant_max");
  const auto eps = static_cast<double>(static_cast<float>(d.f("eps")));
  const auto to = d.dtype("dtype");
  if (!d.ok()) return;
  if (!IsObserved(x->dtype()) || low >= high) return d.Unsupported("activations of this type or range");
  // Of f32 it is what choose_qparams_affine computes, for which targets have a form of their own.
  if (x->dtype() == DType::kFloat32 && to && (!symmetric || (low + high + 1) / 2 == (to == DType::kUInt8 ? 128 : 0)) &&
      ((to == DType::kUInt8 && low >= 0 && high <= 255) || (to == DType::kInt8 && low >= -128 && high <= 127))) {
    const Values made = d.b.CallMulti("torchao.choose_qparams_affine.default",
                                      {x, symmetric ? "SYMMETRIC" : "ASYMMETRIC", d.b.SizesOf(x), *to, low, high, eps},
                                      {{"scale_dtype", DType::kFloat32}, {"zero_point_dtype", *to}, {"keepdim", true}});
    if (!d.b.ok()) return;
    return d.Return({d.b.Cast(Reshape(d, made[0], {1}), d.out_type(0).dtype),
                     d.b.Cast(Reshape(d, made[1], {1}), d.out_type(1).dtype)});
  }
  const std::vector<int> axes = AllDims(x->rank());
  auto extreme = [&](const char* op) {
    return axes.empty() ? x : d.b.Call(op, {x, ir::Ints(axes.begin(), axes.end())});
  };
  Value* least = d.b.Call("aten.clamp_max.default", {extreme("aten.amin.default"), 0});
  Value* most = d.b.Call("aten.clamp_min.default", {extreme("aten.amax.default"), 0});
  const auto steps = static_cast<double>(high - low);
  Value* scale = symmetric ? d.Div(d.b.Call("aten.maximum.default", {d.Unary("neg", least), most}), steps / 2)
                           : d.Div(d.Sub(most, least), steps);
  scale = ClampMin(d, d.b.Cast(scale, DType::kFloat32), eps);
  Value* zero;
  if (symmetric) {
    zero = d.b.Full({}, to == DType::kUInt8 ? 128 : 0, DType::kInt64);
  } else {
    zero = d.Rsub(d.Unary("round", d.Div(d.b.Cast(least, DType::kFloat32), scale)), low);
    zero = d.b.Call("aten.clamp.default", {zero, low, high});
  }
  d.Return(
      {d.b.Cast(Reshape(d, scale, {1}), d.out_type(0).dtype), d.b.Cast(Reshape(d, zero, {1}), d.out_type(1).dtype)});
}

// ---- by tokens: a scale for each row

// The dtype of a scale that choose_qparams_per_token has made, which is that of its arithmetic whatever the program
// declares (f64); nullopt where something else has made it.
std::optional<DType> TokenScaleType(Value* scale) {
  const ir::Node* made = Producer(scale, "quantized_decomposed.choose_qparams_per_token.default");
  if (!made || made->output(0) != scale) return std::nullopt;
  const DType own = made->Get("input").value()->dtype();
  return own == DType::kFloat16 ? DType::kFloat32 : own;
}
ir::Ints Rows(const Value* x) {
  ir::Ints block(static_cast<size_t>(x->rank()), 1);
  if (!block.empty()) block.back() = -1;
  return block;
}
// clamp(round(x / scale + zero)): rounded behind the zero point, which slipway.quantize has not.
Value* RoundedAfterZero(Decomposer& d, Value* x, Value* scale, Value* zero) {
  Value* y = d.Unary("round", d.Add(d.Mul(x, d.Unary("reciprocal", scale)), zero));
  return d.b.Cast(d.b.Call("aten.clamp.default", {y, d.i("quant_min"), d.i("quant_max")}), d.out_type().dtype);
}
void QuantizePerToken(Decomposer& d) {
  Value *x = d.in("input"), *scale = d.in("scales"), *zero = d.in("zero_points");
  if (!d.ok()) return;
  if (const auto own = TokenScaleType(scale); own && zero->producer() == scale->producer())  // the zero point is 0
    return ReturnQuantized(d, scale, nullptr, Rows(x), *own);
  d.Return(RoundedAfterZero(d, x, scale, zero));
}
void DequantizePerToken(Decomposer& d) {
  Dequantized q;
  q.input = d.in("input"), q.scale = d.in("scales"), q.zero_point = d.in("zero_points");
  if (!d.ok()) return;
  q.block_size = Rows(q.input), q.dtype = d.out_type().dtype;
  if (const auto own = TokenScaleType(q.scale); own && q.zero_point->producer() == q.scale->producer())
    q.zero_point = nullptr, q.arithmetic = *own, q.scale_dtype = *own;
  d.Return(Emit(d.b, q));
}

void QuantizePerChannelGroup(Decomposer& d) {
  Value *x = d.in("input"), *scale = d.in("scales"), *zero = d.in("zero_points");
  const int64_t group = d.i("group_size");
  if (!d.ok()) return;
  const auto columns = x->rank() == 2 ? x->sizes()[1].constant() : std::nullopt;
  if (!columns || group < 2 || *columns % group != 0) return d.Unsupported("groups that do not divide the rows");
  Value* y = RoundedAfterZero(d, Reshape(d, x, {-1, group}), Reshape(d, scale, {-1, 1}), Reshape(d, zero, {-1, 1}));
  d.Return(Reshape(d, y, d.b.SizesOf(x)));
}

void ConvertElementType(Decomposer& d) { d.Return(d.b.Cast(d.in("input"), d.out_type().dtype)); }

// ---- torchao's

void QuantizeAffine(Decomposer& d) {
  Value *x = d.in("input"), *scale = d.in("scale");
  ReturnQuantized(d, scale, d.opt_in("zero_point"), BlockSizes(d, x), ir::PromoteTypes(x->dtype(), scale->dtype()));
}
void DequantizeAffine(Decomposer& d) {
  ReturnDequantized(d, d.in("scale"), d.opt_in("zero_point"), BlockSizes(d, d.in("input")), d.out_type().dtype);
}
void DequantizeFloat8(Decomposer& d) {
  Value *x = d.in("tensor"), *scale = d.in("scale");
  Dequantized q;
  q.input = x, q.scale = scale, q.dtype = d.out_type().dtype;
  if (scale->rank() != x->rank()) return d.Unsupported("a scale of another rank");
  for (int i = 0; i < x->rank(); ++i) {
    const auto size = x->sizes()[i].constant(), scales = scale->sizes()[i].constant();
    if (scales == 1) {
      q.block_size.push_back(-1);
    } else if (ProvablyEqual(x->sizes()[i], scale->sizes()[i])) {
      q.block_size.push_back(1);
    } else if (size && scales && *scales > 0 && *size % *scales == 0) {
      q.block_size.push_back(*size / *scales);
    } else {
      return d.Unsupported("scales of a symbolic size");
    }
  }
  d.Return(Emit(d.b, q));
}

// A product of float8: the scale of the second matrix goes into it, where it is a dequantized one if it is stored; that
// of the first behind the product, whose terms are then exact.
void ScaledMm(Decomposer& d) {
  auto wide = [&](Value* v) { return d.b.Cast(v, DType::kFloat32); };
  Value* matrix = d.Mul(wide(d.in("mat2")), d.in("scale_b"));
  Value* y = d.Mul(d.b.Call("aten.mm.default", {wide(d.in("self")), matrix}), d.in("scale_a"));
  if (Value* bias = d.opt_in("bias")) y = d.Add(y, wide(bias));
  const DType t = d.out_type().dtype;
  if (Value* scale = d.opt_in("scale_result"); scale && ir::BitSize(t) == 8) y = d.Mul(y, scale);
  d.Return(d.b.Cast(y, t));
}

// ---- to ATen

// The dims of a tensor, those that are several blocks as two.
struct QuantBlocks {
  SymInts sizes, scale;   // of the tensor, and of a value for each block: 1 where the block lies
  SymInts kept;           // the number of blocks of each dim
  std::vector<int> axes;  // where the blocks lie
  bool split = false;
};
QuantBlocks SplitBlocks(Decomposer& d, Value* x, const ir::Ints& block) {
  QuantBlocks b;
  if (block.size() != static_cast<size_t>(x->rank())) {
    d.Fail("block_size does not fit the tensor's rank");
    return b;
  }
  for (int i = 0; i < x->rank(); ++i) {
    const IntOrValue size = d.b.Size(x, i);
    const auto known = x->sizes()[i].constant();
    if (block[i] == -1 || (known == block[i] && block[i] != 1)) {
      b.axes.push_back(static_cast<int>(b.sizes.size()));
      b.sizes.push_back(size), b.scale.push_back(1), b.kept.push_back(1);
    } else if (block[i] == 1) {
      b.sizes.push_back(size), b.scale.push_back(size), b.kept.push_back(size);
    } else if (block[i] < 1 || (known && *known % block[i] != 0)) {
      d.Fail(text::StrCat("a block of ", block[i], " in a dim of ", x->sizes()[i].ToString()));
      return b;
    } else {
      const IntOrValue blocks = d.b.FloorDiv(size, block[i]);
      b.axes.push_back(static_cast<int>(b.sizes.size()) + 1);
      b.sizes.insert(b.sizes.end(), {blocks, block[i]});
      b.scale.insert(b.scale.end(), {blocks, 1});
      b.kept.push_back(blocks);
      b.split = true;
    }
  }
  return b;
}
Value* Split(Decomposer& d, Value* x, const QuantBlocks& b) { return b.split ? Reshape(d, x, b.sizes) : x; }
Value* Joined(Decomposer& d, Value* y, Value* x, const QuantBlocks& b) {
  return b.split ? Reshape(d, y, d.b.SizesOf(x)) : y;
}
Value* OfBlocks(Decomposer& d, Value* v, const QuantBlocks& b) {
  const bool one = v->type().StaticNumel() == 1;
  if (one && v->rank() == 0) return v;
  return Reshape(d, v, one ? SymInts(b.scale.size(), 1) : b.scale);
}

void Quantize(Decomposer& d) {
  Value *x = d.in("input"), *scale = d.in("scale"), *zero = d.opt_in("zero_point");
  const DType arithmetic = d.dtype("arithmetic").value_or(DType::kFloat32), to = d.out_type().dtype;
  if (!ir::IsIntegral(to)) return d.Unsupported(text::StrCat("quantization to ", ir::Name(to)));
  if (const auto q = ReadNumberedQuantize(d.node().output())) {  // numbers in place of tensors of one element
    Value* y = d.Unary("round", d.Mul(x, static_cast<double>(q->inverse)));
    if (q->zero != 0) y = d.Add(y, static_cast<double>(q->zero));
    return d.Return(d.b.Cast(d.b.Call("aten.clamp.default", {y, q->low, q->high}), to));
  }
  const QuantBlocks b = SplitBlocks(d, x, d.ints("block_size"));
  if (!d.ok()) return;
  Value* inverse = d.b.Cast(OfBlocks(d, d.Unary("reciprocal", scale), b), arithmetic);
  Value* y = d.Unary("round", d.Mul(d.b.Cast(Split(d, x, b), arithmetic), inverse));
  if (zero) y = d.Add(y, d.b.Cast(OfBlocks(d, zero, b), arithmetic));
  y = d.b.Call("aten.clamp.default", {y, d.i("quant_min"), d.i("quant_max")});
  d.Return(Joined(d, d.b.Cast(y, to), x, b));
}

void Dequantize(Decomposer& d) {
  const auto q = ReadDequantized(d.node().output());
  if (!q) return d.Fail("the arguments do not agree");
  const DType wide = q->product_dtype();
  const auto scale_number = FilledNumber(q->scale), zero_number = q->zero_point ? FilledNumber(q->zero_point) : 0.0;
  if (scale_number && zero_number && wide == DType::kFloat32 && q->arithmetic == DType::kFloat32 && !q->scale_dtype &&
      !q->float_zero_point && ir::IsIntegral(q->input->dtype())) {
    Value* y = d.b.Cast(q->input, wide);
    if (*zero_number != 0) y = d.Sub(y, *zero_number);
    return d.Return(d.b.Cast(d.Mul(y, *scale_number), q->dtype));
  }
  const QuantBlocks b = SplitBlocks(d, q->input, q->block_size);
  if (!d.ok()) return;
  Value* y = d.b.Cast(Split(d, q->input, b), q->arithmetic);
  if (q->float_zero_point) {
    if (!q->range) return d.Unsupported("a zero point of floats without a range");
    y = d.Sub(y, static_cast<double>((q->range->first + q->range->second + 1) / 2));
  } else if (q->zero_point) {
    y = d.Sub(y, d.b.Cast(OfBlocks(d, q->zero_point, b), q->arithmetic));
  }
  Value* scale = q->scale_dtype ? d.b.Cast(q->scale, *q->scale_dtype) : q->scale;
  y = d.Mul(d.b.Cast(y, wide), d.b.Cast(OfBlocks(d, scale, b), wide));
  if (q->float_zero_point && q->zero_point) y = d.Add(y, d.b.Cast(OfBlocks(d, q->zero_point, b), wide));
  d.Return(Joined(d, d.b.Cast(y, q->dtype), q->input, b));
}

void QuantizedLinear(Decomposer& d) {
  Value *x = d.in("input"), *bias = d.opt_in("bias");
  const auto matrix = ReadMatrix(d.node());
  if (!matrix) return d.Fail("the arguments do not agree");
  d.Return(d.b.Call("aten.linear.default", {x, d.b.Cast(Emit(d.b, *matrix), x->dtype()), bias}));
}

// Attention to all keys and values, dequantized in the query's dtype.
void QuantizedAttention(Decomposer& d) {
  auto dequantized = [&](std::string_view codes, std::string_view scale) {
    Dequantized q;
    q.input = d.tensor(codes), q.scale = d.tensor(scale), q.dtype = d.tensor("query")->dtype();
    q.block_size.assign(static_cast<size_t>(q.input->rank()), 1);
    if (!q.block_size.empty()) q.block_size.back() = -1;
    return Emit(d.b, q);
  };
  Value *key = dequantized("key", "key_scale"), *value = dequantized("value", "value_scale");
  d.Return(d.b.Call("aten.scaled_dot_product_attention.default",
                    {d.tensor("query"), key, value, d.opt_tensor("attn_mask"), 0.0, d.flag("is_causal"),
                     d.node().Get("scale"), d.flag("enable_gqa")}));
}

// The rows of integers, scales and zero points, and these dequantized.
void QuantizedEmbedding(Decomposer& d) {
  Value* indices = d.in("indices");
  auto rows = ReadMatrix(d.node());
  if (!rows) return d.Fail("the arguments do not agree");
  const bool shared = rows->block_size[0] == -1;
  auto of = [&](Value* v) { return d.b.Call("aten.embedding.default", {v, indices}); };
  rows->input = of(rows->input);
  if (!shared) rows->scale = of(rows->scale);
  if (!shared && rows->zero_point) rows->zero_point = of(rows->zero_point);
  ir::Ints block(static_cast<size_t>(indices->rank()), shared ? -1 : 1);
  block.push_back(rows->block_size[1]);
  rows->block_size = std::move(block);
  if (d.ok()) d.Return(Emit(d.b, *rows));
}

// Scales and zero points of activations, each step in their own dtype; `eps` bounds the scale from below.
void ChooseQparams(Decomposer& d) {
  Value* input = d.in("input");
  const QuantBlocks b = SplitBlocks(d, input, BlockSizes(d, input));
  const IntegerRange r = QuantRange(d, d.dtype("target_dtype").value_or(DType::kInt8));
  const std::string mapping = d.str("mapping_type");
  const DType own = input->dtype();
  const double eps = d.opt_f("eps").value_or(own == DType::kFloat16   ? 0x1p-14
                                             : own == DType::kFloat64 ? 0x1p-1022
                                                                      : 0x1p-126);
  if (!d.ok()) return;
  Value* x = Split(d, input, b);
  auto extreme = [&](const char* op) {
    return b.axes.empty() ? x : d.b.Call(op, {x, ir::Ints(b.axes.begin(), b.axes.end()), true});
  };
  Value* least = d.b.Call("aten.clamp_max.default", {extreme("aten.amin.default"), 0});
  Value* most = d.b.Call("aten.clamp_min.default", {extreme("aten.amax.default"), 0});
  Value *scale, *zero;
  if (mapping == "ASYMMETRIC") {
    scale = ClampMin(d, d.Div(d.Sub(most, least), r.high - r.low), eps);
    zero = d.Rsub(d.Unary("round", d.Div(least, scale)), r.low);
    zero = d.b.Call("aten.clamp.default", {zero, r.low, r.high});
  } else if (mapping == "SYMMETRIC" || mapping == "SYMMETRIC_NO_CLIPPING_ERR") {
    if (mapping == "SYMMETRIC") {
      scale = d.Div(d.b.Call("aten.maximum.default", {d.Unary("neg", least), most}), (r.high - r.low) / 2);
    } else {
      Value *down = d.Div(least, r.low), *up = d.Div(most, r.high);
      scale = d.Where(d.Cmp("gt", down, up), down, up);
    }
    scale = ClampMin(d, scale, eps);
    zero = d.b.Call("aten.full_like.default",
                    {scale, static_cast<double>(static_cast<int64_t>((r.high + r.low + 1) / 2))});
  } else {
    return d.Unsupported(text::StrCat("mapping type ", mapping));
  }
  // One size a dim, or none where a block lies.
  SymInts sizes = b.kept;
  if (!d.flag("keepdim")) {
    sizes.clear();
    for (size_t i = 0, axis = 0; i < b.scale.size(); ++i) {
      if (axis < b.axes.size() && b.axes[axis] == static_cast<int>(i))
        ++axis;
      else
        sizes.push_back(b.scale[i]);
    }
  }
  d.Return({d.b.Cast(Reshape(d, scale, sizes), d.out_type(0).dtype),
            d.b.Cast(Reshape(d, zero, sizes), d.out_type(1).dtype)});
}

// Of each row, in the dtype of x; of f16 the division is in f32.
void ChooseTokenQparams(Decomposer& d) {
  Value* x = d.in("input");
  if (!d.ok()) return;
  if (!IsObserved(x->dtype()) || x->rank() == 0 || d.dtype("dtype") != DType::kInt8)
    return d.Unsupported("tokens of this type");
  Value* scale = d.b.Call("aten.amax.default", {d.Unary("abs", x), ir::Ints{-1}, true});
  if (x->dtype() == DType::kFloat16) scale = d.b.Cast(scale, DType::kFloat32);
  scale = d.Div(ClampMin(d, scale, 1e-5), 127.0);
  Value* zero = d.b.Call("aten.full_like.default", {scale, 0.0});
  d.Return({d.b.Cast(scale, d.out_type(0).dtype), d.b.Cast(zero, d.out_type(1).dtype)});
}
void ChooseAsymmetricTokenQparams(Decomposer& d) {
  constexpr double kLow = -128, kHigh = 127;
  Value* x = d.in("input");
  if (!d.ok()) return;
  if (!IsObserved(x->dtype()) || x->rank() == 0) return d.Unsupported("tokens of this type");
  auto extreme = [&](const char* op) { return d.b.Call(op, {x, ir::Ints{-1}, true}); };
  Value* least = d.b.Call("aten.clamp_max.default", {extreme("aten.amin.default"), 0});
  Value* most = d.b.Call("aten.clamp_min.default", {extreme("aten.amax.default"), 0});
  Value* scale = ClampMin(d, d.Div(d.Sub(most, least), kHigh - kLow), 0x1p-23);
  Value *below = d.Div(least, scale), *above = d.Div(most, scale);
  Value* nearer = d.Cmp("gt", d.Add(d.Add(below, kLow), d.Add(above, kHigh)), 0);
  Value* zero = d.Where(nearer, d.Rsub(below, kLow), d.Rsub(above, kHigh));
  zero = d.Unary("round", d.b.Call("aten.clamp.default", {zero, kLow, kHigh}));
  d.Return({d.b.Cast(scale, d.out_type(0).dtype), d.b.Cast(zero, d.out_type(1).dtype)});
}

// The greatest number of a float8 type; 0 for others.
double GreatestOf(DType t) { return t == DType::kFloat8E4M3FN ? 448 : t == DType::kFloat8E5M2 ? 57344 : 0; }

// The greatest magnitude of each block over the greatest number of the type, in the input's dtype, then f32.
void ChooseScaleFloat8(Decomposer& d) {
  Value* input = d.in("tensor");
  const QuantBlocks b = SplitBlocks(d, input, BlockSizes(d, input));
  const double greatest = GreatestOf(d.dtype("float8_dtype").value_or(DType::kFloat8E4M3FN));
  const auto low = d.opt_f("hp_value_lb"), high = d.opt_f("hp_value_ub");
  if (!d.ok()) return;
  if (greatest == 0 || d.dtype("scale_dtype").value_or(DType::kFloat32) != DType::kFloat32)
    return d.Unsupported("scales of this type");
  Value* x = d.Unary("abs", Split(d, input, b));
  if (!b.axes.empty()) x = d.b.Call("aten.amax.default", {x, ir::Ints(b.axes.begin(), b.axes.end()), true});
  if (low) x = d.b.Call("aten.clamp_min.default", {x, *low});
  if (high) x = d.b.Call("aten.clamp_max.default", {x, *high});
  d.Return(d.b.Cast(Reshape(d, d.Div(x, greatest), b.kept), DType::kFloat32));
}

// Saturated, in f32.
void QuantizeFloat8(Decomposer& d) {
  Value *x = d.in("tensor"), *scale = d.in("scale");
  const DType to = d.out_type().dtype;
  const double greatest = GreatestOf(to);
  bool fits = greatest > 0 && (scale->type().StaticNumel() == 1 || scale->rank() == x->rank());
  for (int i = 0; fits && scale->type().StaticNumel() != 1 && i < x->rank(); ++i)
    fits = scale->sizes()[i].is(1) || ProvablyEqual(scale->sizes()[i], x->sizes()[i]);
  if (!fits) return d.Unsupported("scales of blocks");
  Value* y = d.Div(d.b.Cast(x, DType::kFloat32), scale);
  d.Return(d.b.Cast(d.b.Call("aten.clamp.default", {y, -greatest, greatest}), to));
}

void QuantizeRows(Decomposer& d) {
  Value* x = d.in("input");
  const int64_t low = d.i("quant_min"), high = d.i("quant_max");
  const DType to = d.out_type().dtype;
  const ir::Ints block = Rows(x);
  SymInts sizes(block.begin(), block.end());
  if (!d.ok()) return;
  sizes.back() = d.b.Size(x, x->rank() - 1);
  Values made = d.b.CallMulti("torchao.choose_qparams_affine.default",
                              {x, d.flag("asymmetric") ? "ASYMMETRIC" : "SYMMETRIC", sizes, to, low, high, d.f("eps")},
                              {{"scale_dtype", DType::kFloat32}, {"zero_point_dtype", to}, {"keepdim", true}});
  if (!d.b.ok()) return;
  Value* q = d.b.Call("slipway.quantize.default", {x, made[0], made[1], block, DType::kFloat32, to, low, high});
  d.Return({q, made[0], made[1]});
}

// One scale a column: exact sums, then the scales. Several: a product of floats, whose sums round.
void IntegerLinear(Decomposer& d) {
  Value *x = d.in("input"), *scale = d.in("input_scale"), *w = d.in("weight"), *bias = d.opt_in("bias");
  Value *zero = d.opt_in("input_zero_point"), *w_zero = d.opt_in("zero_point");
  const int64_t block = d.i("block_size");
  if (!d.ok()) return;
  Value* y;
  if (block == -1) {
    auto integers = [&](Value* v, Value* less) {
      v = d.b.Cast(v, DType::kInt32);
      return less ? d.Sub(v, d.b.Cast(less, DType::kInt32)) : v;
    };
    y = Matmul(d, integers(x, zero), Transpose(d, integers(w, w_zero), 0, 1));
    y = d.Mul(d.b.Cast(y, DType::kFloat32), scale);
    if (auto rounded = d.dtype("rounded")) y = d.b.Cast(y, *rounded);
    y = d.Mul(y, Reshape(d, d.in("scale"), {-1}));
    if (bias) y = d.Add(y, bias);
  } else {
    Value* floats = d.b.Cast(x, DType::kFloat32);
    if (zero) floats = d.Sub(floats, d.b.Cast(zero, DType::kFloat32));
    Dequantized m;
    m.input = w, m.scale = d.in("scale"), m.zero_point = w_zero, m.block_size = {1, block};
    y = d.b.Call("aten.linear.default", {d.Mul(floats, scale), Emit(d.b, m), bias});
  }
  d.Return(y);
}

constexpr DecomposeRow kNamed[] = {
    {"quantized_decomposed.choose_qparams.tensor", ChooseTensorQparams<false>, false},
    {"quantized_decomposed.choose_qparams_symmetric.tensor", ChooseTensorQparams<true>, false},
    {"quantized_decomposed.quantize_per_tensor.default", QuantizePerTensor, false},
    {"quantized_decomposed.quantize_per_tensor.tensor", QuantizePerTensor, false},
    {"quantized_decomposed.quantize_per_tensor.tensor2", QuantizePerTensor, false},
    {"quantized_decomposed.dequantize_per_tensor.default", DequantizePerTensor, false},
    {"quantized_decomposed.dequantize_per_tensor.tensor", DequantizePerTensor, false},
    {"quantized_decomposed.dequantize_per_tensor.tensor2", DequantizePerTensor, false},
    {"quantized_decomposed.quantize_per_channel.default", QuantizePerChannel, false},
    {"quantized_decomposed.dequantize_per_channel.default", DequantizePerChannel, false},
    {"quantized_decomposed.dequantize_per_channel_group.default", DequantizePerChannelGroup, false},
    {"quantized_decomposed.quantize_per_channel_group.default", QuantizePerChannelGroup, false},
    {"quantized_decomposed.quantize_per_token.default", QuantizePerToken, false},
    {"quantized_decomposed.dequantize_per_token.default", DequantizePerToken, false},
    {"quantized_decomposed.convert_element_type.no_fuse", ConvertElementType, false},
    {"torchao.quantize_affine.default", QuantizeAffine, false},
    {"torchao.dequantize_affine.default", DequantizeAffine, false},
    {"torchao.dequantize_affine_float8_non_decomposed.default", DequantizeFloat8, false},
    {"aten._scaled_mm.default", ScaledMm, false},
};
constexpr DecomposeRow kInAten[] = {
    {"slipway.quantize.default", Quantize, false},
    {"slipway.dequantize.default", Dequantize, false},
    {"slipway.quantized_linear.default", QuantizedLinear, false},
    {"slipway.quantized_attention.default", QuantizedAttention, false},
    {"slipway.quantized_embedding.default", QuantizedEmbedding, false},
    {"slipway.integer_linear.default", IntegerLinear, false},
    {"slipway.quantize_rows.default", QuantizeRows, false},
    {"quantized_decomposed.choose_qparams_per_token.default", ChooseTokenQparams, false},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric.default", ChooseAsymmetricTokenQparams, false},
    {"quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default", ChooseAsymmetricTokenQparams, false},
    {"torchao.choose_qparams_affine.default", ChooseQparams, false},
    {"torchao.choose_scale_float8.default", ChooseScaleFloat8, false},
    {"torchao.quantize_affine_float8_non_decomposed.default", QuantizeFloat8, false},
};

}  // namespace

absl::Span<const DecomposeRow> QuantizedForms() { return kNamed; }
absl::Span<const DecomposeRow> QuantDecompositions() { return kInAten; }

}  // namespace slipway::passes
