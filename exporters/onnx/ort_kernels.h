// Which element types ONNX Runtime's CPU provider can run an operator in (schemas/ort_kernels.txt), so that the emitter
// can cast around operators whose type has no kernel.
#ifndef SLIPWAY_EXPORTERS_ONNX_ORT_KERNELS_H_
#define SLIPWAY_EXPORTERS_ONNX_ORT_KERNELS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/dtype.h"

namespace slipway::exporters::onnx_out {

// Types assigned to an operator's type parameters ("T" -> f32).
using TypeAssignment = std::vector<std::pair<std::string, ir::DType>>;

// True when some CPU kernel of `op` whose version range covers `since_version` accepts every assigned type. Operators
// the table does not list (function bodies are expanded, so they need no kernel) count as runnable: `listed` tells.
bool HasKernel(std::string_view op, int since_version, const TypeAssignment& types, bool* listed);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_ORT_KERNELS_H_
