// Quantized operators in the float form that any runtime runs: the arithmetic of torchao and of torch's pt2e
// (torchao/quantization/quant_primitives.py, torch/ao/quantization/fx/_decomposed.py), step by step in the same types.
#include <limits>

#include "base/text.h"
#include "exporters/onnx/lower_util.h"

namespace slipway::exporters::onnx_out {
namespace {

// The value range of an integer dtype, overridden by the arguments.
std::pair<double, double> Range(LoweringContext& c, DType t) {
  double lo = 0, hi = 255;
  switch (t) {
    case DType::kInt8: lo = -128, hi = 127; break;
    case DType::kInt16: lo = -32768, hi = 32767; break;
    case DType::kInt32: lo = -2147483648.0, hi = 2147483647.0; break;
    case DType::kUInt8: break;
    case DType::kUInt16: hi = 65535; break;
    default:
      if (!c.has("quant_min") || !c.has("quant_max")) c.Unsupported(text::StrCat("quantization to ", ir::Name(t)));
  }
  if (c.has("quant_min")) lo = c.scalar("quant_min").d;
  if (c.has("quant_max")) hi = c.scalar("quant_max").d;
  return {lo, hi};
}

// A scalar or one-element tensor argument as a V of `t`.
V Param(LoweringContext& c, const char* name, DType t) {
  ir::Value* v = c.node().Get(name).value();
  if (v && v->type().is_tensor()) return c.e.Cast(c.value(v), t);
  return c.number(c.scalar(name), t);
}

// ---- quantized_decomposed.*

V AlongAxis(LoweringContext& c, V v, int rank) {
  int axis = c.dim("axis", rank);
  Ints shape(rank, 1);
  shape[axis] = -1;
  return c.e.Reshape(v, c.e.I64(shape), rank);
}
void QuantizeCommon(LoweringContext& c, V x, V scale, V zero, DType to) {
  auto [lo, hi] = Range(c, to);
  if (!c.ok()) return;
  // clamp(round(x * (1 / scale)) + zero_point): the product with the reciprocal, as torch computes it.
  V inv = c.e.Op("Reciprocal", {scale});
  V q = c.e.Add(c.e.Op("Round", {c.e.Mul(x, inv)}), zero);
  q = c.e.Min(c.e.Max(q, c.e.Number(lo, x.dtype)), c.e.Number(hi, x.dtype));
  c.Return(c.e.Cast(q, to));
}
void QuantizePerTensor(LoweringContext& c) {
  V x = c.e.Cast(c.in("input"), DType::kFloat32);
  QuantizeCommon(c, x, Param(c, "scale", DType::kFloat32), Param(c, "zero_point", DType::kFloat32), c.out_dtype());
}
void QuantizePerChannel(LoweringContext& c) {
  V x = c.e.Cast(c.in("input"), DType::kFloat32);
  V scale = AlongAxis(c, c.e.Cast(c.in("scales"), DType::kFloat32), x.rank);
  V zero = AlongAxis(c, c.e.Cast(c.in("zero_points"), DType::kFloat32), x.rank);
  QuantizeCommon(c, x, scale, zero, c.out_dtype());
}
void DequantizePerTensor(LoweringContext& c) {
  DType t = c.compute_dtype();
  V x = c.e.Cast(c.in("input"), DType::kFloat32);
  V y = c.e.Mul(c.e.Sub(x, Param(c, "zero_point", DType::kFloat32)), Param(c, "scale", DType::kFloat32));
  c.Return(c.e.Cast(y, t));
}
void DequantizePerChannel(LoweringContext& c) {
  V x = c.e.Cast(c.in("input"), DType::kFloat32);
  V scale = AlongAxis(c, c.e.Cast(c.in("scales"), DType::kFloat32), x.rank);
  V y = x;
  if (c.has("zero_points")) y = c.e.Sub(y, AlongAxis(c, c.e.Cast(c.in("zero_points"), DType::kFloat32), x.rank));
  c.Return(c.e.Cast(c.e.Mul(y, scale), c.compute_dtype()));
}

// ---- torchao.*_affine: one scale a block of `block_size` (-1: the whole dim).

struct Blocks {
  V shape;         // each blocked dim split in (blocks, block)
  Ints axes;       // the block positions in that shape
  int rank = 0;    // of the split shape
  V scale_shape;   // the scale's shape: blocks, with 1 at the block positions
};
Blocks SplitBlocks(LoweringContext& c, const char* input) {
  ir::Value* x = c.tensor(input);
  V v = c.raw(x);
  Ints block = c.ints("block_size");
  Blocks b;
  if (block.size() != static_cast<size_t>(x->rank())) {
    c.Fail("block_size does not fit the tensor's rank");
    return b;
  }
  std::vector<V> shape, scales;
  for (int d = 0; d < x->rank(); ++d) {
    auto size = x->sizes()[d].constant();
    int64_t k = block[d];
    if (k == -1 || (size && k == *size)) {
      // One block: reduced as it is.
      shape.push_back(size ? c.e.I64({*size}) : c.e.Dim(v, d));
      scales.push_back(c.e.I64({1}));
      b.axes.push_back(b.rank++);
    } else if (k == 1) {
      shape.push_back(size ? c.e.I64({*size}) : c.e.Dim(v, d));
      scales.push_back(shape.back());
      ++b.rank;
    } else if (!size) {
      c.Unsupported("a block along a symbolic size");
      return b;
    } else {
      if (k <= 0 || *size % k) {
        c.Fail(text::StrCat("a block of ", k, " in a dim of ", *size));
        return b;
      }
      shape.push_back(c.e.I64({*size / k, k}));
      scales.push_back(c.e.I64({*size / k, 1}));
      b.axes.push_back(b.rank + 1);
      b.rank += 2;
    }
  }
  b.shape = c.e.Concat(shape, 0);
  b.scale_shape = c.e.Concat(scales, 0);
  return b;
}

void DequantizeAffine(LoweringContext& c) {
  Blocks b = SplitBlocks(c, "input");
  if (!c.ok()) return;
  // (q - zero_point) in int32, times the scale in the output's type.
  DType t = c.compute_dtype();
  V q = c.e.Cast(c.e.Reshape(c.in("input"), b.shape, b.rank), t);
  V scale = c.e.Cast(c.e.Reshape(c.in("scale"), b.scale_shape, b.rank), t);
  if (c.has("zero_point")) q = c.e.Sub(q, c.e.Cast(c.e.Reshape(c.in("zero_point"), b.scale_shape, b.rank), t));
  V y = c.e.Mul(q, scale);
  c.Return(c.e.Reshape(y, c.shape_of(c.tensor("input")), c.out_rank()));
}
// Rounds an f32 intermediate to the type torch keeps it in.
V RoundTo(LoweringContext& c, V v, DType t) { return ir::IsLowPrecision(t) ? c.e.Cast(c.e.Cast(v, t), v.dtype) : v; }

void QuantizeAffine(LoweringContext& c) {
  Blocks b = SplitBlocks(c, "input");
  auto [lo, hi] = Range(c, c.out_dtype());
  if (!c.ok()) return;
  V x = c.e.Reshape(c.in("input"), b.shape, b.rank);
  V scale = c.e.Cast(c.e.Reshape(c.in("scale"), b.scale_shape, b.rank), x.dtype);
  // Input and scale of the same low-precision type: both steps round to it.
  DType kept = ir::PromoteTypes(c.tensor("input")->dtype(), c.tensor("scale")->dtype());
  V inverse = RoundTo(c, c.e.Op("Reciprocal", {scale}), c.tensor("scale")->dtype());
  V q = c.e.Op("Round", {RoundTo(c, c.e.Mul(x, inverse), kept)});
  if (c.has("zero_point")) q = c.e.Add(q, c.e.Cast(c.e.Reshape(c.in("zero_point"), b.scale_shape, b.rank), x.dtype));
  q = c.e.Min(c.e.Max(q, c.e.Number(lo, x.dtype)), c.e.Number(hi, x.dtype));
  c.Return(c.e.Cast(c.e.Reshape(q, c.shape_of(c.tensor("input")), c.out_rank()), c.out_dtype()));
}
void ChooseQparams(LoweringContext& c) {
  Blocks b = SplitBlocks(c, "input");
  const ir::Arg& target = c.node().Get("target_dtype");
  DType to = target.get<DType>() ? *target.get<DType>() : DType::kInt8;
  auto [lo, hi] = Range(c, to);
  std::string mapping = c.str("mapping_type");
  if (!c.ok()) return;
  V x = c.e.Reshape(c.in("input"), b.shape, b.rank);
  DType t = x.dtype;
  auto num = [&](double v) { return c.e.Number(v, t); };
  V min = b.axes.empty() ? x : c.e.Reduce("ReduceMin", x, b.axes, true);
  V max = b.axes.empty() ? x : c.e.Reduce("ReduceMax", x, b.axes, true);
  min = c.e.Min(min, num(0)), max = c.e.Max(max, num(0));
  // eps: the input dtype's machine epsilon unless given.
  const ir::Arg& given = c.node().Get("eps");
  double eps = given.get<double>() ? *given.get<double>()
               : c.tensor("input")->dtype() == DType::kBFloat16 ? 0.0078125
               : c.tensor("input")->dtype() == DType::kFloat16 ? 0.0009765625
                                                               : std::numeric_limits<float>::epsilon();
  const DType own = c.tensor("input")->dtype();  // the scale's arithmetic runs in the input's type
  V scale, zero;
  if (mapping == "SYMMETRIC") {
    V reach = c.e.Max(c.e.Op("Neg", {min}), max);
    scale = RoundTo(c, c.e.Div(reach, num((hi - lo) / 2)), own);
    scale = c.e.Max(scale, num(eps));
    zero = c.e.Mul(c.e.Cast(c.e.Greater(scale, num(-1)), t), num(static_cast<double>(static_cast<int64_t>((hi + lo + 1) / 2))));
  } else if (mapping == "ASYMMETRIC") {
    scale = c.e.Max(RoundTo(c, c.e.Div(RoundTo(c, c.e.Sub(max, min), own), num(hi - lo)), own), num(eps));
    zero = c.e.Sub(num(lo), c.e.Op("Round", {RoundTo(c, c.e.Div(min, scale), own)}));
    zero = c.e.Min(c.e.Max(zero, num(lo)), num(hi));
  } else {
    return c.Unsupported("mapping type " + mapping);
  }
  std::vector<V> out = {scale, zero};
  for (int i = 0; i < 2; ++i) {
    const ir::Type& type = c.out_type(i);
    std::vector<V> dims;
    if (auto s = type.StaticSizes()) {
      out[i] = c.e.Reshape(out[i], c.e.I64(*s), type.rank(), true);
    } else if (type.rank() == 0) {
      out[i] = c.e.Reshape(out[i], Ints{});
    } else {
      // The block positions go (keepdim false) or the blocks' own dims stay in order.
      int unknown = 0;
      Ints shape;
      for (const ir::Sym& s : type.sizes) shape.push_back(s.constant().value_or(-1)), unknown += !s.is_constant();
      if (unknown > 1) {
        if (static_cast<int>(b.axes.size()) + type.rank() == b.rank) {
          out[i] = c.e.Squeeze(out[i], Ints(b.axes.begin(), b.axes.end()));
        } else if (type.rank() != b.rank) {
          return c.Unsupported("block scales of two symbolic sizes");
        }
      } else {
        out[i] = c.e.Reshape(out[i], c.e.I64(shape), type.rank());
      }
    }
    out[i] = c.e.Cast(out[i], type.dtype);
  }
  c.Return(out);
}

// int8 x int8 -> int32.
void IntMm(LoweringContext& c) {
  c.Return(c.e.Op("MatMulInteger", {c.in("self"), c.in("mat2")}, {}, DType::kInt32, 2));
}

constexpr Row kRows[] = {
    {"quantized_decomposed.quantize_per_tensor.default", QuantizePerTensor, true},
    {"quantized_decomposed.quantize_per_tensor.tensor", QuantizePerTensor, true},
    {"quantized_decomposed.quantize_per_tensor.tensor2", QuantizePerTensor, true},
    {"quantized_decomposed.dequantize_per_tensor.default", DequantizePerTensor, true},
    {"quantized_decomposed.dequantize_per_tensor.tensor", DequantizePerTensor, true},
    {"quantized_decomposed.dequantize_per_tensor.tensor2", DequantizePerTensor, true},
    {"quantized_decomposed.quantize_per_channel.default", QuantizePerChannel, true},
    {"quantized_decomposed.dequantize_per_channel.default", DequantizePerChannel, true},
    {"torchao.dequantize_affine.default", DequantizeAffine, true},
    {"torchao.quantize_affine.default", QuantizeAffine, true},
    {"torchao.choose_qparams_affine.default", ChooseQparams, true},
    {"aten._int_mm.default", IntMm},
};

}  // namespace

absl::Span<const Row> QuantRows() { return kRows; }

}  // namespace slipway::exporters::onnx_out
