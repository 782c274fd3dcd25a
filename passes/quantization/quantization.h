// Quantized tensors as passes and targets see them. A program has one representation of them, whatever wrote it:
//
//   slipway.quantize(input, scale, zero_point, block_size, arithmetic, dtype, quant_min, quant_max)
//     = clamp(round(arithmetic(input) · arithmetic(1 / scale)) + arithmetic(zero_point), quant_min, quant_max) as dtype
//   slipway.dequantize(input, scale, zero_point, block_size, arithmetic, dtype, scale_dtype, …)
//     = (arithmetic(input) - arithmetic(zero_point)) · scale as dtype
//   torchao.choose_qparams_affine, as torchao defines it, where scales are made of activations
//
// `arithmetic` is the dtype that every step is computed in and rounded to, as in torch: the reciprocal in the scale's
// own dtype first, rounding to even. dequantize multiplies in the wider of `arithmetic` and the scale's dtype
// (torch.promote_types), rounds to that, then to `dtype`; a scale is rounded to `scale_dtype` before, where one is
// given. With zero_point_domain "float" the zero point is added after the scale: (q - (quant_min + quant_max + 1) / 2)
// · scale + zero_point.
//
// `block_size` has an entry for each dim of input: how many neighbours share a scale, -1 all of the dim. scale and
// zero_point have one element a block, row by row, in any shape; a zero_point of one element is for all blocks.
// Integers of fewer than 8 bits lie one in a byte: quant_min and quant_max of dequantize say, where they are given,
// between which numbers all integers are (recognize-quantization has looked; writers pack them by it and check again).
// input may be of float8, then without a zero point.
//
// slipway.quantized_linear(input, weight, scale, zero_point, bias, block_size, …) is linear with a dequantized matrix,
// for targets that have one operator for both: weight [n, k], scale [n or 1, k / block_size]. With `activations`, which
// only relax-activations gives, the program rounded its input to that type, and the target may do it in its own way or
// not at all.
//
// slipway.quantized_embedding(weight, scale, zero_point, indices, block_size, …) is the rows of such a matrix that the
// indices name: only they are dequantized. A matrix may have readers of both kinds (a tied head).
//
// slipway.quantized_attention(query, key, key_scale, value, value_scale, …) is scaled_dot_product_attention with
// dequantized keys and values: int8 or float8, each row with a scale of f32, [..., keys, 1].
#ifndef SLIPWAY_PASSES_QUANTIZATION_QUANTIZATION_H_
#define SLIPWAY_PASSES_QUANTIZATION_QUANTIZATION_H_

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops/op_table.h"

namespace slipway::passes {

// The arguments of slipway.dequantize.
struct Dequantized {
  ir::Value *input = nullptr, *scale = nullptr, *zero_point = nullptr;  // zero_point may be null
  ir::Ints block_size;
  ir::DType arithmetic = ir::DType::kFloat32, dtype = ir::DType::kFloat32;
  std::optional<ir::DType> scale_dtype;
  std::optional<std::pair<int64_t, int64_t>> range;  // quant_min, quant_max
  bool float_zero_point = false;

  // What products with the scale are rounded to before `dtype`.
  ir::DType product_dtype() const { return ir::PromoteTypes(arithmetic, scale_dtype.value_or(scale->dtype())); }
};
// Of the node that makes `v`; nullopt where it is another operator.
std::optional<Dequantized> ReadDequantized(const ir::Value* v);
// The matrix of a slipway.quantized_linear or slipway.quantized_embedding.
std::optional<Dequantized> ReadMatrix(const ir::Node& n);
ir::Value* Emit(ir::Builder& b, const Dequantized& d);
// slipway.quantized_linear; scale and zero_point are [n or 1, groups].
ir::Value* EmitLinear(ir::Builder& b, const Dequantized& d, ir::Value* input, ir::Value* bias);
// The rows of a matrix that the indices name: slipway.quantized_embedding. Scales as above.
ir::Value* EmitRows(ir::Builder& b, const Dequantized& d, ir::Value* indices);

// slipway.quantize of f32, in f32, with one scale and one zero point, which are numbers. `inverse` is what elements are
// multiplied with.
struct NumberedQuantize {
  ir::Value *input = nullptr, *scale = nullptr, *zero_point = nullptr;
  float scale_f32 = 0, inverse = 0;
  int64_t zero = 0;
  ir::DType dtype = ir::DType::kUInt8;
  int64_t low = 0, high = 0;
  bool IsAllOfType() const { return dtype == ir::DType::kUInt8 ? low <= 0 && high >= 255 : low <= -128 && high >= 127; }
  // The integer that a number becomes.
  int64_t Of(double number) const;
};
// Of the node that makes `v`; nullopt where it is another operator or its numbers are not known.
std::optional<NumberedQuantize> ReadNumberedQuantize(const ir::Value* v);
// The number that all elements of a value are, where it is filled with one; behind views.
std::optional<double> FilledNumber(const ir::Value* v);
// Whether v = (q - q's zero) · q's scale, in f32, of integers of its type.
bool Undoes(const Dequantized& v, const NumberedQuantize& q);

// A value that is rows of a quantized table, in steps behind its look-up, and the look-up in the dequantized table that
// has taken its place (hoist_lookups.cc).
struct HoistedLookup {
  ir::Value *rows, *made;
};
absl::StatusOr<std::vector<HoistedLookup>> HoistLookups(ir::Graph& g);
// Undoes those whose table is no slipway.dequantize. The nodes behind `rows` are still there.
void LowerLookups(ir::Graph& g, absl::Span<const HoistedLookup> hoisted);

// Which argument of a product with a matrix is the matrix: [columns, rows] as linear's weight, [rows, columns] as
// others'; "" for other operators and for tensors of other ranks.
std::string_view MatrixOf(const ir::Node& n);

// A weight, or views and conversions of one, or a tensor filled with a number: what a file stores and no input changes.
bool IsStored(const ir::Value* v);
// The tensor of a weight of the program, null for other values and for weights without values.
const ir::TensorRef* StoredTensor(const ir::Value* v);
// The least and the greatest of the integers that a stored value is made of; of 8 bits and more than 15 apart, those of
// their dtype. nullopt where they cannot be told.
std::optional<std::pair<int64_t, int64_t>> StoredRange(const ir::Value* v);

// The number that a tensor of one element is: filled, or stored.
std::optional<double> StoredNumber(const ir::Value* v);
// Whether blocks are all of each dim: one scale for the tensor.
bool IsOneBlock(const ir::Ints& block_size);

// What a view or conversion is of.
inline ir::Value* FirstArgument(const ir::Node& n) { return n.Get(n.op().args[0].name).value(); }
// The only user of v; null where there are several, or v is an output.
inline ir::Node* OnlyUser(const ir::Value* v) {
  return v->users().size() == 1 && !v->graph()->IsOutput(v) ? v->users()[0] : nullptr;
}
// The source of a conversion to another dtype; null for other values.
ir::Value* CastSource(const ir::Value* v);
// A view with the same elements in the same order.
bool IsReshape(const ir::Node& n);
// The node that makes v, where it is one of `op`; null for others.
inline const ir::Node* Producer(const ir::Value* v, std::string_view op) {
  const ir::Node* n = v ? v->producer() : nullptr;
  return n && n->op_name() == op ? n : nullptr;
}
// v = permute(source, order), however it is spelled; a null source for other values.
struct Permuted {
  ir::Value* source = nullptr;
  std::vector<int> order;
};
Permuted ReadPermutation(const ir::Value* v);
// The matrix that v is the transpose of; null for other values.
ir::Value* TransposedSource(const ir::Value* v);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_QUANTIZATION_QUANTIZATION_H_
