// What the printer and the parser of the text form must agree on.
#ifndef SLIPWAY_IR_TEXT_INTERNAL_H_
#define SLIPWAY_IR_TEXT_INTERNAL_H_

#include <string_view>

#include "ir/graph.h"

namespace slipway::ir::text_form {

inline constexpr std::string_view kHeader = "slipway.ir 1";

// Indexed by the enumerations they name.
inline constexpr std::string_view kLayouts[] = {"unknown_layout", "sparse_coo", "sparse_csr", "sparse_csc",
                                                "sparse_bsr",     "sparse_bsc", "mkldnn",     "strided"};
inline constexpr std::string_view kMemoryFormats[] = {"unknown_format", "contiguous_format", "channels_last",
                                                      "channels_last_3d", "preserve_format"};
inline constexpr std::string_view kInputKinds[] = {"user",       "parameter", "buffer",  "tensor_constant",
                                                   "custom_obj", "token",     "constant"};
inline constexpr std::string_view kOutputKinds[] = {"user",
                                                    "loss",
                                                    "buffer_mutation",
                                                    "parameter_mutation",
                                                    "gradient_to_parameter",
                                                    "gradient_to_user_input",
                                                    "user_input_mutation",
                                                    "token"};
inline constexpr std::string_view kForms[] = {"as_exported", "functional"};

inline bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}
// Whether a name needs no quotes behind its sigil.
inline bool IsPlainName(std::string_view s) {
  if (s.empty()) return false;
  for (char c : s)
    if (!IsNameChar(c)) return false;
  return true;
}
// Whether a word needs no quotes where a word stands alone.
inline bool IsPlainWord(std::string_view s) {
  return IsPlainName(s) && !(s[0] >= '0' && s[0] <= '9') && s[0] != '.' && s != "_" && s != "return";
}

// The reading of a list of values that has no constant in it: symbolic integers, or values.
inline bool ReadsAsSymInts(const Values& vs) {
  for (const Value* v : vs)
    if (!v) return false;
  return !vs.empty() && vs[0]->type().kind == Type::kSymInt;
}

// Strides of a dense row-major tensor, which the text leaves out.
inline Sizes DenseStrides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  Sym step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    if (!sizes[i].is(0)) step = step * sizes[i];
  }
  return strides;
}

}  // namespace slipway::ir::text_form

#endif  // SLIPWAY_IR_TEXT_INTERNAL_H_
