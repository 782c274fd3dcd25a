// Shape functions: quantization and its parameters.
#include "ir/ops/shape_rules.h"

namespace slipway::ir {

namespace {

template <DType kDefault>
void CastToFirstOf(InferContext& c, std::initializer_list<const char*> names) {
  DType t = kDefault;
  for (const char* name : names) {
    if (c.node().op().ArgIndex(name) < 0) continue;
    if (auto given = c.dtype(name)) {
      t = *given;
      break;
    }
  }
  c.Out(t, Self(c)->sizes());
}

void Quantize(InferContext& c) { CastToFirstOf<DType::kInt8>(c, {"output_dtype", "float8_dtype", "dtype"}); }
// The dtype of the result is out_dtype or output_dtype; "dtype" and "input_dtype" are of the quantized values.
void Dequantize(InferContext& c) { CastToFirstOf<DType::kFloat32>(c, {"out_dtype", "output_dtype"}); }
void TensorParameters(InferContext& c) {
  c.Out(DType::kFloat64, {1});
  c.Out(DType::kInt64, {1});
}

void TokenParameters(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() == 0) return c.Fail("a 0-d tensor has no tokens");
  Sizes out = WithDim(x->sizes(), x->rank() - 1, 1);
  c.Out(DType::kFloat64, out);
  c.Out(DType::kInt64, out);
}

// One size per block; dimensions that are one block go, or stay as 1.
Sizes BlockSizes(InferContext& c, Value* x, bool keep) {
  Sizes blocks = c.ToSizes(c.sym_ints("block_size")), out;
  if (static_cast<int>(blocks.size()) != x->rank()) {
    c.Fail("block_size does not fit the rank");
    return out;
  }
  for (int d = 0; d < x->rank(); ++d) {
    Sym size = x->sizes()[d], block = blocks[d];
    if (block.is(-1) || ProvablyEqual(block, size)) block = size;
    if (ProvablyLess(block, 1) && !(block == size)) {
      c.Fail("a block size is not positive");
      return out;
    }
    if (block == size && !block.is(1)) {
      if (keep) out.push_back(1);
    } else {
      out.push_back(block.is(1) ? size : FloorDiv(size, block));
    }
  }
  return out;
}

void QuantizeRows(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() == 0) return c.Fail("a tensor without rows");
  const DType integers = c.dtype("dtype").value_or(DType::kInt8);
  Sizes rows(x->sizes().begin(), x->sizes().end());
  c.Out(integers, rows);
  rows.back() = 1;
  c.Out(DType::kFloat32, rows);
  c.Out(integers, rows);
}

void BlockParameters(InferContext& c) {
  Value* x = Self(c);
  Sizes out = BlockSizes(c, x, c.b("keepdim"));
  c.Out(c.dtype("scale_dtype").value_or(x->dtype()), out);
  c.Out(c.dtype("zero_point_dtype").value_or(DType::kInt32), out);
}

void BlockScale(InferContext& c) {
  c.Out(c.dtype("scale_dtype").value_or(DType::kFloat32), BlockSizes(c, Self(c), true));
}

constexpr ShapeFamily kQuantizationFamilies[] = {
    {Quantize,
     "/quantized_decomposed.quantize_per_tensor.default /quantized_decomposed.quantize_per_tensor.tensor "
     "/quantized_decomposed.quantize_per_tensor.tensor2 /quantized_decomposed.quantize_per_channel.default "
     "/quantized_decomposed.quantize_per_channel_group.default /quantized_decomposed.quantize_per_token.default "
     "/quantized_decomposed.convert_element_type.no_fuse /torchao.quantize_affine.default "
     "/torchao.quantize_affine_float8_non_decomposed.default /slipway.quantize.default /slipway.dequantize.default"},
    {Dequantize,
     "/quantized_decomposed.dequantize_per_tensor.default /quantized_decomposed.dequantize_per_tensor.tensor "
     "/quantized_decomposed.dequantize_per_tensor.tensor2 /quantized_decomposed.dequantize_per_channel.default "
     "/quantized_decomposed.dequantize_per_channel_group.default /quantized_decomposed.dequantize_per_token.default "
     "/torchao.dequantize_affine.default /torchao.dequantize_affine_float8_non_decomposed.default"},
    {TensorParameters,
     "/quantized_decomposed.choose_qparams.tensor /quantized_decomposed.choose_qparams_symmetric.tensor"},
    {TokenParameters,
     "/quantized_decomposed.choose_qparams_per_token.default "
     "/quantized_decomposed.choose_qparams_per_token_asymmetric.default "
     "/quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default"},
    {BlockParameters, "/torchao.choose_qparams_affine.default"},
    {QuantizeRows, "/slipway.quantize_rows.default"},
    {BlockScale, "/torchao.choose_scale_float8.default"},
};

}  // namespace

absl::Span<const ShapeRow> QuantizationShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kQuantizationFamilies);
  return rows;
}

}  // namespace slipway::ir
