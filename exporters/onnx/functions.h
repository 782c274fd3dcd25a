// A model's local functions: graphs that are called, as torch.compiler.nested_compile_region leaves them. Bodies that
// come out the same are one function.
#ifndef SLIPWAY_EXPORTERS_ONNX_FUNCTIONS_H_
#define SLIPWAY_EXPORTERS_ONNX_FUNCTIONS_H_

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/onnx/lowering.h"
#include "onnx/onnx_pb.h"

namespace slipway::exporters::onnx_out {

class FunctionLibrary {
 public:
  // The domain of the model's functions.
  static constexpr char kDomain[] = "slipway.functions";

  // The name of the function that computes `g`, lowered like the rest of the model; problems go to the caller's list.
  // `wanted` is what it is called if that is free. Inputs are the graph's, all of them.
  std::string NameOf(LoweringContext& caller, const ir::Graph& g, std::string_view wanted);

  const std::vector<onnx::FunctionProto>& functions() const { return functions_; }
  const std::set<std::string>& domains() const { return domains_; }  // custom domains that bodies use

 private:
  std::map<std::string, std::string> by_content_;
  std::set<std::string> names_, domains_;
  std::vector<onnx::FunctionProto> functions_;
};

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_FUNCTIONS_H_
