// Operators the user maps to a node of a custom ONNX domain: `--custom-op mylib::foo=com.acme:Foo`.
#ifndef SLIPWAY_EXPORTERS_ONNX_CUSTOM_OP_H_
#define SLIPWAY_EXPORTERS_ONNX_CUSTOM_OP_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace slipway::exporters {

// The node an operator becomes. Its inputs are the operator's tensors and symbolic numbers in the order of the call (a
// tensor list gives one input each; None between tensors gives an absent input), its attributes the constant arguments
// by name, its outputs the operator's results with the types the program states.
struct CustomOp {
  std::string domain;
  std::string op_type;
};

// By "namespace.name" (every overload) or "namespace.name.overload".
using CustomOps = std::map<std::string, CustomOp, std::less<>>;

// Adds "NAMESPACE::NAME[.OVERLOAD]=DOMAIN:OPTYPE". InvalidArgument says what is wrong with `spec`.
absl::Status AddCustomOp(std::string_view spec, CustomOps* ops);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_ONNX_CUSTOM_OP_H_
