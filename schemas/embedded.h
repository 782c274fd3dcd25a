// The data files of schemas/, embedded by embed.S: text the op table and the exporters parse once at start. Every view
// lives as long as the process; lines end with '\n', and lines that begin with '#' are comments (the first says what
// made the file).
#ifndef SLIPWAY_SCHEMAS_EMBEDDED_H_
#define SLIPWAY_SCHEMAS_EMBEDDED_H_

#include <cstddef>
#include <string_view>

extern "C" {
extern const char slipway_embedded_ops[];
extern const char slipway_embedded_ops_end[];
extern const char slipway_embedded_ops_extra[];
extern const char slipway_embedded_ops_extra_end[];
extern const char slipway_embedded_op_traits[];
extern const char slipway_embedded_op_traits_end[];
extern const char slipway_embedded_op_numbers[];
extern const char slipway_embedded_op_numbers_end[];
extern const char slipway_embedded_ort_kernels[];
extern const char slipway_embedded_ort_kernels_end[];
extern const char slipway_embedded_transformers_names[];
extern const char slipway_embedded_transformers_names_end[];
}

namespace slipway::schemas {

namespace internal {
inline std::string_view Between(const char* begin, const char* end) {
  return std::string_view(begin, static_cast<size_t>(end - begin));
}
}  // namespace internal

// schemas/ops.txt: every operator overload torch registers, one a line, sorted by name:
//   aten.add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
inline std::string_view OpSchemas() { return internal::Between(slipway_embedded_ops, slipway_embedded_ops_end); }

// schemas/ops_extra.txt: the same for operators torch does not register; those named without an overload
// (_operator.add, torch.sym_int) are written as programs write their targets.
inline std::string_view OpSchemasExtra() {
  return internal::Between(slipway_embedded_ops_extra, slipway_embedded_ops_extra_end);
}

// schemas/op_traits.txt: what passes ask of operators beside their declarations, one a line, sorted by name:
//   aten.dropout random(p,train) identity-when-idle(input)
inline std::string_view OpTraitLines() {
  return internal::Between(slipway_embedded_op_traits, slipway_embedded_op_traits_end);
}

// schemas/op_numbers.txt: what the numbers among arguments are, by argument and operators:
//   bound start,length narrow narrow_copy
inline std::string_view OpNumberLines() {
  return internal::Between(slipway_embedded_op_numbers, slipway_embedded_op_numbers_end);
}

// schemas/ort_kernels.txt: which element types onnxruntime's CPU provider has a kernel for, one kernel a line:
//   Gather<TAB>13-<TAB>T:f32,i64;Tind:i32,i64
// with the opset versions it serves (nothing after '-': no end). Lines of one operator are alternatives.
inline std::string_view OrtKernels() {
  return internal::Between(slipway_embedded_ort_kernels, slipway_embedded_ort_kernels_end);
}

// schemas/transformers_names.txt: what transformers calls the tensors of checkpoints, by model class
// (scripts/gen_transformers_names.py, weights/transformers_names.h).
inline std::string_view TransformersNames() {
  return internal::Between(slipway_embedded_transformers_names, slipway_embedded_transformers_names_end);
}

}  // namespace slipway::schemas

#endif  // SLIPWAY_SCHEMAS_EMBEDDED_H_
