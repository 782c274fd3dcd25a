// Quantized operators by the arithmetic of torchao and of torch's pt2e, step by step in the same types.
#include <limits>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/rules.h"

namespace slipway::planner {
namespace {

ir::Scalar Real64(double v) {
  ir::Scalar s;
  s.kind = ir::Scalar::kFloat;
  s.d = v;
  return s;
}

// The value range of an integer dtype, overridden by the arguments.
std::pair<double, double> Range(PlanContext& c, DType t) {
  double low = 0, high = 255;
  switch (t) {
    case DType::kInt8:
      low = -128, high = 127;
      break;
    case DType::kInt16:
      low = -32768, high = 32767;
      break;
    case DType::kInt32:
      low = -2147483648.0, high = 2147483647.0;
      break;
    case DType::kUInt8:
      break;
    default:
      if (!c.has("quant_min") || !c.has("quant_max")) c.Unsupported(text::StrCat("quantization to ", ir::Name(t)));
  }
  if (c.has("quant_min")) low = c.scalar("quant_min").d;
  if (c.has("quant_max")) high = c.scalar("quant_max").d;
  return {low, high};
}

// Formulas over tensors of one shape, in f32 unless said.
struct Formula {
  PlanContext& c;
  Operand Do(std::string_view kernel, std::vector<Operand> in, DType t = DType::kFloat32) {
    Dims sizes;  // of the operands that are no single number; those of 1 are expanded
    for (const Operand& x : in) {
      if (static_cast<int>(sizes.size()) < x.rank()) sizes = x.sizes;
      for (int d = 0; d < x.rank() && x.rank() == static_cast<int>(sizes.size()); ++d)
        if (sizes[d].is(1)) sizes[d] = x.sizes[d];
    }
    return c.Map(kernel, std::move(in), c.Temp(t, sizes), t);
  }
  Operand Number(double v) { return c.number(Real64(v)); }
  // Rounded to the type torch keeps it in.
  Operand Kept(const Operand& x, DType t) { return ir::IsLowPrecision(t) ? c.Cast(c.Cast(x, t), x.dtype) : x; }
  Operand Within(const Operand& x, double low, double high, DType t = DType::kFloat32) {
    return Do("minimum", {Do("maximum", {x, Number(low)}, t), Number(high)}, t);
  }
};

// ---- quantized_decomposed.*

Operand Param(PlanContext& c, const char* name) {
  Operand x = c.in(name);
  x = x.rank() > 0 ? c.Reshape(x, {}) : x;
  return c.Cast(x, DType::kFloat32);
}
Operand AlongAxis(PlanContext& c, const char* name, int rank) {
  Operand x = c.Cast(c.in(name), DType::kFloat32);
  const int axis = c.dim("axis", rank);
  Dims sizes(rank, 1);
  sizes[axis] = x.numel();
  return c.Reshape(x, sizes);
}
// clamp(round(x * (1 / scale)) + zero_point): the product with the reciprocal, as torch computes it.
void Quantize(PlanContext& c, const Operand& scale, const Operand& zero) {
  auto [low, high] = Range(c, c.out_dtype());
  Operand x = c.Cast(c.in("input"), DType::kFloat32);
  if (!c.ok()) return;
  Formula f{c};
  Operand q = f.Do("round", {f.Do("mul", {x, f.Do("reciprocal", {scale})})});
  c.Return(c.Cast(f.Within(f.Do("add", {q, zero}), low, high), c.out_dtype()));
}
void QuantizePerTensor(PlanContext& c) { Quantize(c, Param(c, "scale"), Param(c, "zero_point")); }
void QuantizePerChannel(PlanContext& c) {
  const int rank = c.in("input").rank();
  Quantize(c, AlongAxis(c, "scales", rank), AlongAxis(c, "zero_points", rank));
}
void DequantizePerTensor(PlanContext& c) {
  Operand x = c.Cast(c.in("input"), DType::kFloat32), scale = Param(c, "scale"), zero = Param(c, "zero_point");
  if (!c.ok()) return;
  Formula f{c};
  c.Return(c.Cast(f.Do("mul", {f.Do("sub", {x, zero}), scale}), c.out_dtype()));
}
void DequantizePerChannel(PlanContext& c) {
  Operand x = c.Cast(c.in("input"), DType::kFloat32), scale = AlongAxis(c, "scales", x.rank());
  if (!c.ok()) return;
  Formula f{c};
  if (c.has("zero_points")) x = f.Do("sub", {x, AlongAxis(c, "zero_points", x.rank())});
  c.Return(c.Cast(f.Do("mul", {x, scale}), c.out_dtype()));
}

// ---- torchao.*_affine: one scale a block of `block_size` (-1: the whole dim).

struct Blocks {
  Dims sizes;             // each blocked dim split in (blocks, block)
  Dims scale;             // the scale's sizes among them: 1 at the block positions
  std::vector<int> axes;  // the block positions
};
Blocks SplitBlocks(PlanContext& c, const Operand& x) {
  const Dims block = c.ns("block_size");
  Blocks b;
  if (static_cast<int>(block.size()) != x.rank()) c.Fail("block_size does not fit the tensor's rank");
  for (int d = 0; d < x.rank() && c.ok(); ++d) {
    const Dim size = x.sizes[d], k = block[d];
    if (k.is(-1) || KnownEqual(k, size)) {  // one block
      b.axes.push_back(static_cast<int>(b.sizes.size()));
      b.sizes.push_back(size), b.scale.push_back(1);
    } else if (k.is(1)) {
      b.sizes.push_back(size), b.scale.push_back(size);
    } else if (!k.constant() || *k.constant() <= 0) {
      c.Unsupported("blocks of a size that is not known");
    } else {
      const Dim blocks = ir::FloorDiv(size, k);
      c.RequireEqual(blocks * k, size, "a block does not divide its dim");
      b.axes.push_back(static_cast<int>(b.sizes.size()) + 1);
      b.sizes.push_back(blocks), b.scale.push_back(blocks);
      b.sizes.push_back(k), b.scale.push_back(1);
    }
  }
  return b;
}
void DequantizeAffine(PlanContext& c) {
  Operand x = c.in("input"), scale = c.in("scale"), zero = c.opt_in("zero_point");
  const Blocks b = SplitBlocks(c, x);
  if (!c.ok()) return;
  // (q - zero_point) in int32, times the scale in the output's type.
  const DType t = c.out_dtype(), wide = ir::IsLowPrecision(t) ? DType::kFloat32 : t;
  Formula f{c};
  Operand q = c.Cast(c.Reshape(x, b.sizes), wide);
  if (zero) q = f.Do("sub", {q, c.Cast(c.Reshape(zero, b.scale), wide)}, wide);
  Operand y = f.Do("mul", {q, c.Cast(c.Reshape(f.Kept(c.Cast(scale, wide), t), b.scale), wide)}, wide);
  if (c.ok()) c.Return(c.Reshape(c.Cast(y, t), x.sizes));
}
void QuantizeAffine(PlanContext& c) {
  Operand x = c.in("input"), scale = c.in("scale"), zero = c.opt_in("zero_point");
  const Blocks b = SplitBlocks(c, x);
  auto [low, high] = Range(c, c.out_dtype());
  if (!c.ok()) return;
  Formula f{c};
  // Input and scale of the same low-precision type: both steps round to it.
  const DType kept = ir::PromoteTypes(x.dtype, scale.dtype);
  Operand inverse = f.Kept(f.Do("reciprocal", {c.Cast(c.Reshape(scale, b.scale), DType::kFloat32)}), scale.dtype);
  Operand q = f.Do("round", {f.Kept(f.Do("mul", {c.Cast(c.Reshape(x, b.sizes), DType::kFloat32), inverse}), kept)});
  if (zero) q = f.Do("add", {q, c.Cast(c.Reshape(zero, b.scale), DType::kFloat32)});
  q = f.Within(q, low, high);
  if (c.ok()) c.Return(c.Reshape(c.Cast(q, c.out_dtype()), x.sizes));
}
void ChooseQparams(PlanContext& c) {
  Operand input = c.in("input");
  const Blocks b = SplitBlocks(c, input);
  const ir::Arg& target = c.node().Get("target_dtype");
  const DType to = target.get<DType>() ? *target.get<DType>() : DType::kInt8, own = input.dtype;
  auto [low, high] = Range(c, to);
  const std::string mapping = c.str("mapping_type");
  if (!c.ok()) return;
  c.RequireLessEqual(1, input.numel(), "of a tensor without elements");
  Formula f{c};
  Operand x = c.Cast(c.Reshape(input, b.sizes), DType::kFloat32);
  auto extreme = [&](std::string_view kernel) {
    Operand out = c.Temp(DType::kFloat32, b.scale), rest = out;
    for (size_t k = b.axes.size(); k-- > 0;) rest = Drop(rest, b.axes[k]);
    c.Emit(kernel, {MoveToLast(x, b.axes)}, {rest}, DType::kFloat32, {static_cast<int64_t>(b.axes.size())});
    return out;
  };
  Operand least = f.Do("minimum", {extreme("amin"), f.Number(0)}), most = f.Do("maximum", {extreme("amax"), f.Number(0)});
  // The input dtype's machine epsilon unless given.
  const ir::Arg& given = c.node().Get("eps");
  const double eps = given.get<double>() ? *given.get<double>() : own == DType::kBFloat16 ? 0.0078125
                     : own == DType::kFloat16                                            ? 0.0009765625
                                                                                         : std::numeric_limits<float>::epsilon();
  Operand scale, zero;
  if (mapping == "SYMMETRIC") {
    Operand reach = f.Do("maximum", {f.Do("neg", {least}), most});
    scale = f.Do("maximum", {f.Kept(f.Do("div", {reach, f.Number((high - low) / 2)}), own), f.Number(eps)});
    zero = c.Full(b.scale, Real64(static_cast<double>(static_cast<int64_t>((high + low + 1) / 2))), DType::kFloat32);
  } else if (mapping == "ASYMMETRIC") {
    Operand reach = f.Kept(f.Do("sub", {most, least}), own);
    scale = f.Do("maximum", {f.Kept(f.Do("div", {reach, f.Number(high - low)}), own), f.Number(eps)});
    zero = f.Do("sub", {f.Number(low), f.Do("round", {f.Kept(f.Do("div", {least, scale}), own)})});
    zero = f.Within(zero, low, high);
  } else {
    return c.Unsupported(text::StrCat("mapping type ", mapping));
  }
  if (c.ok()) c.Return({c.Cast(c.Reshape(scale, c.out_sizes(0)), c.out_dtype(0)), c.Cast(c.Reshape(zero, c.out_sizes(1)), c.out_dtype(1))});
}
// int8 · int8 in int32.
void IntMm(PlanContext& c) {
  Operand x = c.in("self"), y = c.in("mat2"), out = c.Result();
  c.Emit("matmul", {x, y}, {out}, DType::kInt32);
  c.Return(out);
}

constexpr PlanFamily kFamilies[] = {
    {QuantizePerTensor, "round",
     "/quantized_decomposed.quantize_per_tensor.default /quantized_decomposed.quantize_per_tensor.tensor "
     "/quantized_decomposed.quantize_per_tensor.tensor2"},
    {DequantizePerTensor, "mul",
     "/quantized_decomposed.dequantize_per_tensor.default /quantized_decomposed.dequantize_per_tensor.tensor "
     "/quantized_decomposed.dequantize_per_tensor.tensor2"},
    {QuantizePerChannel, "round", "/quantized_decomposed.quantize_per_channel.default"},
    {DequantizePerChannel, "mul", "/quantized_decomposed.dequantize_per_channel.default"},
    {DequantizeAffine, "mul", "/torchao.dequantize_affine.default"},
    {QuantizeAffine, "round", "/torchao.quantize_affine.default"},
    {ChooseQparams, "amax", "/torchao.choose_qparams_affine.default"},
    {IntMm, "matmul", "_int_mm"},
};

}  // namespace

absl::Span<const PlanFamily> QuantPlans() { return kFamilies; }

}  // namespace slipway::planner
