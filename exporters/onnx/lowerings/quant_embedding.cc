// Rows of quantized tables as com.microsoft.GatherBlockQuantized: ONNX has no operator that dequantizes only what it
// looks up.
#include "exporters/onnx/lowerings/quant.h"
#include "exporters/onnx/lowerings/util.h"

namespace slipway::exporters::onnx_out {
namespace {

using passes::Dequantized;

// Four bits in blocks that com.microsoft.GatherBlockQuantized has, which dequantizes the rows that it reads, in f32: a
// rounding afterwards is the program's. Other tables are read as bytes and dequantized in steps. A table that is a
// product's matrix, too, is to be one tensor in the file, so both must want it in the same form.
bool TakesRows(const ir::Node& n) {
  const auto d = passes::ReadMatrix(n);
  const auto type = d ? NibbleType(d->range) : std::nullopt;
  const auto sizes = d ? d->input->type().StaticSizes() : std::nullopt;
  if (!type || !sizes || (*sizes)[0] < 1 || d->float_zero_point || !passes::StoredTensor(d->input) ||
      !passes::IsStored(d->scale) || d->product_dtype() == DType::kFloat64 || d->dtype == DType::kFloat64 ||
      d->scale_dtype || d->scale->sizes()[0].constant() != (*sizes)[0])
    return false;
  const int64_t block = d->block_size[1];
  if (block < 16 || (block & (block - 1)) != 0 || (*sizes)[1] % block != 0) return false;
  return d->zero_point ? HasZeros(*type, *d) : *type == DType::kInt4;
}
template <bool nibbles>  // from opset 21 on, whose type has four bits
bool TakesGather(const ir::Node& n) {
  if (!TakesRows(n)) return false;
  const auto d = passes::ReadMatrix(n);
  for (const ir::Node* user : d->input->users())
    if (user->op_name() != n.op_name() &&
        (user->op_name() != "slipway.quantized_linear.default" || (!nibbles && !FitsMatMulNBits(*user, *d))))
      return false;
  return true;
}
void GatherBlockQuantized(LoweringContext& c) {
  const Dequantized d = *passes::ReadMatrix(c.node());
  const Ints sizes = *d.input->type().StaticSizes();
  const int64_t block = d.block_size[1], groups = sizes[1] / block;
  const bool own = c.e.opset() >= 21;
  const DType type = own ? *NibbleType(d.range) : DType::kUInt8;
  const int add = !own && d.range->first < 0 ? 8 : 0;
  V table = own ? c.graph().StoredWeight(d.input, {type, sizes, true})
                : c.e.Reshape(c.graph().StoredWeight(d.input, {type, {sizes[0], groups, block / 2}, true, add}),
                              Ints{sizes[0], sizes[1] / 2});
  V index = c.in("indices");
  if (index.dtype != DType::kInt64 && index.dtype != DType::kInt32) index = c.e.Cast(index, DType::kInt64);
  std::vector<V> in = {table, index, Parameter(c, d.scale, DType::kFloat32, {sizes[0], groups})};
  if (d.zero_point)
    in.push_back(own ? c.graph().StoredWeight(d.zero_point, {type, {sizes[0], groups}, true})
                     : c.graph().StoredWeight(d.zero_point, {type, {sizes[0], (groups + 1) / 2}, true, add, groups}));
  Attrs attrs = {
      {"gather_axis", int64_t{0}}, {"quantize_axis", int64_t{1}}, {"block_size", block}, {"bits", int64_t{4}}};
  ir::Type rows = c.out_type();
  rows.dtype = DType::kFloat32;
  V y = c.e.Custom("com.microsoft", "GatherBlockQuantized", in, std::move(attrs), {&rows})[0];
  if (ir::IsLowPrecision(d.product_dtype())) y = c.e.Cast(y, d.product_dtype());
  c.Return(c.e.Cast(y, d.dtype));
}

constexpr unsigned kForms = static_cast<unsigned>(OnnxForm::kExact) | static_cast<unsigned>(OnnxForm::kOrt);
constexpr Row kQuantEmbeddingRows[] = {
    {"slipway.quantized_embedding.default", GatherBlockQuantized, false, 21, TakesGather<true>, kMaxOpset, kForms},
    {"slipway.quantized_embedding.default", GatherBlockQuantized, false, 0, TakesGather<false>, 20, kForms},
};

}  // namespace

absl::Span<const Row> QuantEmbeddingRows() { return kQuantEmbeddingRows; }

}  // namespace slipway::exporters::onnx_out
