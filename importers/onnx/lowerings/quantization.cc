// Quantized tensors: QuantizeLinear and its inverse, and the operators on integers that stand for both around an
// operator of floats, which is what they become. Bytes with stored scales are quantized_decomposed's operators, blocks
// torchao's; other types and computed scales are the steps.
//
// QuantizeLinear divides by the scale, quantized_decomposed multiplies by its reciprocal: where a quotient lies within
// a rounding of f32 of the middle between two integers, they may differ by one.
#include <algorithm>
#include <limits>
#include <string>

#include "base/text.h"
#include "importers/onnx/lowering.h"
#include "importers/onnx/lowerings/conversions.h"
#include "importers/onnx/lowerings/quantization.h"
#include "importers/onnx/narrow_types.h"

namespace slipway::importers::onnx_in {
namespace {

struct QuantizedRange {
  int64_t low, high;
};
std::optional<QuantizedRange> RangeOf(DType t) {
  switch (t) {
    case DType::kInt2: return QuantizedRange{-2, 1};
    case DType::kUInt2: return QuantizedRange{0, 3};
    case DType::kInt4: return QuantizedRange{-8, 7};
    case DType::kUInt4: return QuantizedRange{0, 15};
    case DType::kInt8: return QuantizedRange{-128, 127};
    case DType::kUInt8: return QuantizedRange{0, 255};
    case DType::kInt16: return QuantizedRange{-32768, 32767};
    case DType::kUInt16: return QuantizedRange{0, 65535};
    case DType::kInt32: return QuantizedRange{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    default: return std::nullopt;
  }
}
bool IsByte(DType t) { return t == DType::kInt8 || t == DType::kUInt8; }

// A list of parameters as a tensor that fits x: along its axis, or a block of elements each.
Value* Broadcast(Call& c, Value* v, const Value* x, const Spread& s) {
  const auto axis = static_cast<size_t>(s.axis);
  if (s.block > 0) {
    if (v->rank() != x->rank()) {
      c.Wrong("blocks whose scales are of another rank");
      return v;
    }
    Value* wide = c.b.Call("aten.repeat_interleave.self_int", {v, s.block, s.axis});
    if (!c.ok()) return v;
    const auto size = x->sizes()[axis].constant(), have = wide->sizes()[axis].constant();
    if (!size || !have || *have < *size) {
      c.Refuse("with blocks along a dynamic dim");
      return v;
    }
    return *have == *size ? wide : c.b.Call("aten.slice.Tensor", {wide, s.axis, 0, *size, 1});
  }
  if (v->rank() == 0) return v;
  if (v->rank() == 1 && v->sizes()[0].is(1)) return c.b.Call("aten.reshape.default", {v, Arg(Ints{})});
  if (v->rank() != 1 || s.axis >= x->rank()) {
    c.Wrong(v->rank() != 1 ? "scales of more than one dim" : "a list of scales for a tensor without dims");
    return v;
  }
  Ints shape(static_cast<size_t>(x->rank()), 1);
  shape[axis] = -1;
  return c.b.Call("aten.reshape.default", {v, Arg(shape)});
}

bool IsList(const Value* scale) { return scale->rank() == 1 && !scale->sizes()[0].is(1); }

// Sizes of blocks for torchao, where each dim is whole blocks.
std::optional<Ints> BlockSizes(const Value* x, const Spread& s) {
  Ints block(static_cast<size_t>(x->rank()), 1);
  const auto size = x->sizes()[static_cast<size_t>(s.axis)].constant();
  if (!size || *size % s.block != 0) return std::nullopt;
  block[static_cast<size_t>(s.axis)] = s.block;
  return block;
}

}  // namespace

Value* DequantizeBy(Call& c, Value* q, DType type, Value* scale, Value* zero, Spread s) {
  if (!c.ok()) return q;
  s.axis = s.block > 0 || IsList(scale) ? c.axis(s.axis, q->rank()) : 0;
  if (!c.ok()) return q;
  const auto range = RangeOf(type);
  if (range && IsByte(q->dtype()) && scale->dtype() == DType::kFloat32 && c.IsStored(scale) &&
      (!zero || c.IsStored(zero))) {
    const Arg dtype(q->dtype());
    if (s.block > 0) {
      if (const auto block = BlockSizes(q, s))
        return c.b.Call("torchao.dequantize_affine.default",
                        {q, Arg(*block), scale, zero ? Arg(zero) : Arg(), dtype, range->low, range->high});
    } else if (IsList(scale)) {
      return c.b.Call("quantized_decomposed.dequantize_per_channel.default",
                      {q, scale, zero ? Arg(zero) : Arg(), s.axis, range->low, range->high, dtype});
    } else if (const auto by = c.NumberOf(scale), from = zero ? c.NumberOf(zero) : std::optional<double>(0);
               by && from) {
      return c.b.Call("quantized_decomposed.dequantize_per_tensor.default",
                      {q, *by, static_cast<int64_t>(*from), range->low, range->high, dtype});
    }
  }
  const DType to = scale->dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Value* x = q;
  if (zero) {
    // The difference of integers is exact in 32 bits of floats but for those of 32 bits, which have no zero point.
    x = c.b.Cast(x, to);
    x = c.b.Call("aten.sub.Tensor", {x, c.b.Cast(Broadcast(c, zero, q, s), to)});
  }
  x = c.b.Call("aten.mul.Tensor", {c.b.Cast(x, to), c.b.Cast(Broadcast(c, scale, q, s), to)});
  return c.b.Cast(x, scale->dtype());
}

Value* QuantizeBy(Call& c, Value* x, Value* scale, Value* zero, DType to, Spread s) {
  if (!c.ok()) return x;
  s.axis = s.block > 0 || IsList(scale) ? c.axis(s.axis, x->rank()) : 0;
  if (!c.ok()) return x;
  const auto range = RangeOf(to);
  if (IsByte(ProgramType(to)) && x->dtype() == DType::kFloat32 && scale->dtype() == DType::kFloat32 &&
      c.IsStored(scale) && (!zero || c.IsStored(zero)) && s.block == 0) {
    const Arg dtype(ProgramType(to));
    if (IsList(scale)) {
      Value* zeros = zero ? zero : c.b.Full(c.b.SizesOf(scale), Arg(int64_t{0}), DType::kInt64);
      return c.b.Call("quantized_decomposed.quantize_per_channel.default",
                      {x, scale, zeros, s.axis, range->low, range->high, dtype});
    }
    if (const auto by = c.NumberOf(scale), from = zero ? c.NumberOf(zero) : std::optional<double>(0); by && from)
      return c.b.Call("quantized_decomposed.quantize_per_tensor.default",
                      {x, *by, static_cast<int64_t>(*from), range->low, range->high, dtype});
  }
  const DType wide = x->dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Value* y = c.b.Call("aten.div.Tensor", {c.b.Cast(x, wide), c.b.Cast(Broadcast(c, scale, x, s), wide)});
  if (ir::IsFloating(to)) return Converted(c, y, to);
  if (!range) {
    c.Refuse("to such integers");
    return y;
  }
  y = c.b.Call("aten.round.default", {y});
  if (zero) y = c.b.Call("aten.add.Tensor", {y, c.b.Cast(Broadcast(c, zero, x, s), wide)});
  y = c.b.Call("aten.clamp.default", {y, static_cast<double>(range->low), static_cast<double>(range->high)});
  return c.b.Cast(y, ProgramType(to));
}

Value* DequantizedInput(Call& c, size_t x, size_t scale, size_t zero, Spread s) {
  return DequantizeBy(c, c.in(x), c.onnx_type(x), c.in(scale), c.opt_in(zero), s);
}
void GiveQuantized(Call& c, Value* y, size_t scale, size_t zero, DType otherwise, Spread s) {
  Value* z = c.opt_in(zero);
  c.Give(QuantizeBy(c, y, c.in(scale), z, z ? c.onnx_type(zero) : otherwise, s));
}

namespace {

void QuantizeLinear(Call& c) {
  c.Ignore("saturate"), c.Ignore("output_dtype");
  const DType to = c.has(2) ? c.onnx_type(2) : c.dtype("output_dtype", DType::kUInt8);
  c.Give(QuantizeBy(c, c.in(0), c.in(1), c.opt_in(2), to, {c.integer("axis", 1), c.integer("block_size", 0)}));
}
void DequantizeLinear(Call& c) {
  Value* x = DequantizedInput(c, 0, 1, 2, {c.integer("axis", 1), c.integer("block_size", 0)});
  c.Give(c.b.Cast(x, c.dtype("output_dtype", x->dtype())));
}

// Scale and zero point of a range that has 0 in it, over 256 integers.
void DynamicQuantizeLinear(Call& c) {
  Value* x = c.in(0);
  Value* low = c.b.Call("aten.clamp.default", {c.b.Call("aten.amin.default", {x}), Arg(), 0.0});
  Value* high = c.b.Call("aten.clamp.default", {c.b.Call("aten.amax.default", {x}), 0.0});
  Value* scale = c.b.Call("aten.div.Scalar", {c.b.Call("aten.sub.Tensor", {high, low}), 255.0});
  Value* zero = c.b.Call("aten.neg.default", {c.b.Call("aten.div.Tensor", {low, scale})});
  zero = c.b.Call("aten.clamp.default", {c.b.Call("aten.round.default", {zero}), 0.0, 255.0});
  zero = c.b.Cast(zero, DType::kUInt8);
  c.Give(0, QuantizeBy(c, x, scale, zero, DType::kUInt8, {}));
  c.Give(1, scale);
  c.Give(2, zero);
}

// Integers less their zero point; a list of them is of rows (axis -2) or columns (axis -1).
Value* Centred(Call& c, Value* q, Value* zero, int64_t axis) {
  Value* x = c.b.Cast(q, DType::kInt32);
  if (!zero) return x;
  zero = Broadcast(c, zero, q, {IsList(zero) ? c.axis(axis, q->rank()) : 0, 0});
  return c.b.Call("aten.sub.Tensor", {x, c.b.Cast(zero, DType::kInt32)});
}

void MatMulInteger(Call& c) {
  Value *a = Centred(c, c.in(0), c.opt_in(2), -2), *b = Centred(c, c.in(1), c.opt_in(3), -1);
  if (c.ok()) c.Give(c.b.Call("aten.matmul.default", {a, b}));
}

void QLinearMatMul(Call& c) {
  Value* a = DequantizedInput(c, 0, 1, 2, {-2, 0});
  Value* b = DequantizedInput(c, 3, 4, 5, {-1, 0});
  if (c.ok()) GiveQuantized(c, c.b.Call("aten.matmul.default", {a, b}), 6, 7, DType::kUInt8, {-2, 0});
}

void QLinearConv(Call& c) {
  Value *x = DequantizedInput(c, 0, 1, 2, {1, 0}), *w = DequantizedInput(c, 3, 4, 5, {0, 0});
  Value* bias = nullptr;
  if (c.has(8)) {  // of the scale of both
    Value* by = c.b.Call("aten.mul.Tensor", {c.in(1), c.in(4)});
    if (by->rank() == 1 && by->sizes()[0].is(1)) by = c.b.Call("aten.reshape.default", {by, Arg(Ints{})});
    bias = c.b.Call("aten.mul.Tensor", {c.b.Cast(c.in(8), DType::kFloat32), by});
  }
  if (!c.ok()) return;
  if (Value* y = Convolve(c, x, w, bias)) GiveQuantized(c, y, 6, 7, DType::kUInt8, {1, 0});
}

// f64 holds every sum of products of bytes.
void ConvInteger(Call& c) {
  Value *x = Centred(c, c.in(0), c.opt_in(2), 1), *w = Centred(c, c.in(1), c.opt_in(3), 0);
  if (!c.ok()) return;
  x = c.b.Cast(x, DType::kFloat64), w = c.b.Cast(w, DType::kFloat64);
  if (Value* y = Convolve(c, x, w, nullptr)) c.Give(c.b.Cast(y, DType::kInt32));
}

constexpr Row kQuantizationRows[] = {
    {"ConvInteger", ConvInteger, 1, nullptr, Always},
    {"DequantizeLinear", DequantizeLinear},
    {"DynamicQuantizeLinear", DynamicQuantizeLinear, 1, nullptr, Always},
    {"MatMulInteger", MatMulInteger, 1, nullptr, Always},
    {"QLinearConv", QLinearConv},
    {"QLinearMatMul", QLinearMatMul},
    {"QuantizeLinear", QuantizeLinear},
};

// ---- com.microsoft

template <const char* op>
void QLinearBinary(Call& c) {
  Value *a = DequantizedInput(c, 0, 1, 2, {}), *b = DequantizedInput(c, 3, 4, 5, {});
  if (c.ok()) GiveQuantized(c, c.b.Call(op, {a, b}), 6, 7, DType::kUInt8, {});
}
constexpr char kSumOfBoth[] = "aten.add.Tensor";
constexpr char kProductOfBoth[] = "aten.mul.Tensor";

void QLinearSigmoid(Call& c) {
  Value* x = DequantizedInput(c, 0, 1, 2, {});
  if (c.ok()) GiveQuantized(c, c.b.Call("aten.sigmoid.default", {x}), 3, 4, DType::kUInt8, {});
}
void QLinearLeakyRelu(Call& c) {
  Value* x = DequantizedInput(c, 0, 1, 2, {});
  if (!c.ok()) return;
  GiveQuantized(c, c.b.Call("aten.leaky_relu.default", {x, c.real("alpha", 0.01)}), 3, 4, DType::kUInt8, {});
}
void QLinearSoftmax(Call& c) {
  Value* x = DequantizedInput(c, 0, 1, 2, {});
  const int64_t axis = c.axis(c.integer("axis", -1), x->rank());
  if (c.integer("opset", 13) < 13 && axis != x->rank() - 1) return c.Refuse("of a matrix of several dims");
  if (c.ok()) GiveQuantized(c, c.b.Call("aten.softmax.int", {x, axis}), 3, 4, DType::kUInt8, {});
}
void QLinearGlobalAveragePool(Call& c) {
  Value* x = DequantizedInput(c, 0, 1, 2, {});
  if (c.integer("channels_last", 0) != 0) return c.Refuse("with channels last");
  Ints dims;
  for (int d = 2; d < x->rank(); ++d) dims.push_back(d);
  if (dims.empty()) return c.Wrong("an input without spatial dims");
  if (c.ok()) GiveQuantized(c, c.b.Call("aten.mean.dim", {x, Arg(dims), true}), 3, 4, DType::kUInt8, {});
}
void QLinearAveragePool(Call& c) {
  if (c.integer("channels_last", 0) != 0) return c.Refuse("with channels last");
  Value* x = DequantizedInput(c, 0, 1, 2, {});
  if (Value* y = c.ok() ? AveragePoolOf(c, x) : nullptr) GiveQuantized(c, y, 3, 4, DType::kUInt8, {});
}
// Parameters of the result, then each tensor with its own.
void QLinearConcat(Call& c) {
  Values parts;
  for (size_t i = 2; i + 2 < c.input_count(); i += 3) parts.push_back(DequantizedInput(c, i, i + 1, i + 2, {}));
  if (parts.empty() || !c.ok()) return c.Wrong("no inputs");
  const int64_t axis = c.axis(c.integer("axis", 1), parts[0]->rank());
  if (c.ok()) GiveQuantized(c, c.b.Call("aten.cat.default", {Arg(parts), axis}), 0, 1, DType::kUInt8, {});
}
void QGemm(Call& c) {
  const bool transposed = c.integer("transB", 0) != 0;
  Value *a = DequantizedInput(c, 0, 1, 2, {}), *b = DequantizedInput(c, 3, 4, 5, {transposed ? 0 : 1, 0});
  if (!c.ok()) return;
  if (c.integer("transA", 0) != 0) a = c.b.Call("aten.t.default", {a});
  Value* y = transposed ? c.b.Call("aten.linear.default", {a, b}) : c.b.Call("aten.mm.default", {a, b});
  if (c.has(6))
    y = c.b.Call("aten.add.Tensor",
                 {y, c.b.Call("aten.mul.Tensor",
                              {c.b.Cast(c.in(6), DType::kFloat32), c.b.Call("aten.mul.Tensor", {c.in(1), c.in(4)})})});
  if (const double alpha = c.real("alpha", 1); alpha != 1) y = c.b.Call("aten.mul.Scalar", {y, alpha});
  if (!c.has(7)) return c.Give(y);
  GiveQuantized(c, y, 7, 8, DType::kUInt8, {});
}

// Sums of integers times the scale of both.
Value* Scaled(Call& c, Value* a, Value* a_scale, Value* a_zero, size_t b, size_t b_scale, size_t b_zero, size_t bias) {
  Value* y = c.b.Call("aten.matmul.default", {Centred(c, a, a_zero, -2), Centred(c, c.in(b), c.opt_in(b_zero), -1)});
  y = c.b.Call("aten.mul.Tensor",
               {c.b.Cast(y, DType::kFloat32), c.b.Call("aten.mul.Tensor", {a_scale, c.in(b_scale)})});
  return c.has(bias) ? c.b.Call("aten.add.Tensor", {y, c.in(bias)}) : y;
}
void MatMulIntegerToFloat(Call& c) {
  Value* y = Scaled(c, c.in(0), c.in(2), c.opt_in(4), 1, 3, 5, 6);
  if (c.ok()) c.Give(y);
}
void DynamicQuantizeMatMul(Call& c) {
  Call& quantized = c;
  DynamicQuantizeLinear(quantized);
  if (!c.ok()) return;
  const std::vector<Operand> made = std::move(c.results());
  c.results().clear();
  Value* y = Scaled(c, made[0].tensor, made[1].tensor, made[2].tensor, 1, 2, 3, 4);
  if (c.ok()) c.Give(y);
}

// [n, blocks, bytes] of 4 bits, the low ones first, or of 8, as [n, k].
void MatMulNBits(Call& c) {
  c.Ignore("accuracy_level");  // the least, which floats keep
  const int64_t k = c.integer("K", 0), n = c.integer("N", 0), bits = c.integer("bits", 4),
                block = c.integer("block_size", 0);
  Value *x = c.in(0), *w = c.in(1), *scale = c.in(2), *zero = c.opt_in(3);
  if (c.has(4)) return c.Refuse("with g_idx");
  if (bits != 4 && bits != 8) return c.Refuse(text::StrCat("of ", bits, " bits"));
  if (k < 1 || n < 1 || block < 1 || k > INT32_MAX || n > INT32_MAX) return c.Wrong("no K, N or block_size");
  const int64_t blocks = (k + block - 1) / block, padded = blocks * block;
  // Rows of bytes, the padding behind the last block cut off.
  const auto unpacked = [&](Value* v, int64_t columns) {
    v = c.b.Call("aten.reshape.default", {v, Arg(Ints{n, -1})});
    if (bits == 4) {
      Value* low = c.b.Call("aten.bitwise_and.Scalar", {v, 15});
      Value* high = c.b.Call("aten.bitwise_right_shift.Tensor_Scalar", {v, 4});
      v = c.b.Call("aten.reshape.default",
                   {c.b.Call("aten.stack.default", {Arg(Values{low, high}), -1}), Arg(Ints{n, -1})});
    }
    return v->sizes()[1].is(columns) ? v : c.b.Call("aten.slice.Tensor", {v, 1, 0, columns, 1});
  };
  if (w->dtype() != DType::kUInt8) return c.Wrong("weights that are no bytes");
  if (padded != k) return c.Refuse("of rows that are no whole blocks");
  Value* q = unpacked(w, k);
  scale = c.b.Call("aten.reshape.default", {scale, Arg(Ints{n, blocks})});
  if (!zero)
    zero = c.b.Full({IntOrValue(n), IntOrValue(blocks)}, Arg(int64_t{bits == 4 ? 8 : 128}), DType::kUInt8);
  else if (ir::IsFloating(zero->dtype()))
    return c.Refuse("with zero points that are floats");
  else
    zero = unpacked(zero, blocks);
  if (!c.ok()) return;
  Value* weight = c.b.Call("torchao.dequantize_affine.default",
                           {q, Arg(Ints{1, block}), c.b.Cast(scale, DType::kFloat32), zero, Arg(DType::kUInt8), 0,
                            bits == 4 ? 15 : 255, Arg(DType::kFloat32)});
  weight = c.b.Cast(weight, x->dtype());
  Value* bias = c.opt_in(5);
  c.Give(c.b.Call("aten.linear.default", {x, weight, bias ? Arg(bias) : Arg()}));
}

constexpr Row kMicrosoftQuantization[] = {
    {"DequantizeLinear", DequantizeLinear},
    {"DynamicQuantizeMatMul", DynamicQuantizeMatMul, 1, nullptr, Always},
    {"MatMulIntegerToFloat", MatMulIntegerToFloat, 1, nullptr, Always},
    {"MatMulNBits", MatMulNBits},
    {"QGemm", QGemm},
    {"QLinearAdd", QLinearBinary<kSumOfBoth>},
    {"QLinearAveragePool", QLinearAveragePool},
    {"QLinearConcat", QLinearConcat},
    {"QLinearConv", QLinearConv},
    {"QLinearGlobalAveragePool", QLinearGlobalAveragePool},
    {"QLinearLeakyRelu", QLinearLeakyRelu},
    {"QLinearMul", QLinearBinary<kProductOfBoth>},
    {"QLinearSigmoid", QLinearSigmoid},
    {"QLinearSoftmax", QLinearSoftmax},
    {"QuantizeLinear", QuantizeLinear},
};

}  // namespace

absl::Span<const Row> QuantizationRows() { return kQuantizationRows; }
absl::Span<const Row> MicrosoftQuantizationRows() { return kMicrosoftQuantization; }

}  // namespace slipway::importers::onnx_in
