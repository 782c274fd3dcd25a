// The passes by the names that people call them by, and the order in which a conversion to ONNX runs them.
#ifndef SLIPWAY_DRIVER_PASSES_H_
#define SLIPWAY_DRIVER_PASSES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "driver/convert.h"
#include "exporters/onnx/export.h"
#include "ir/graph.h"
#include "passes/pass.h"

namespace slipway::driver {

// What passes need besides the program.
struct PassContext {
  exporters::OnnxOptions target;     // legalize: what is legal
  passes::Refusals refusals;         // legalize: why decompositions were not taken
  std::vector<std::string> dropped;  // drop-mutations: the state whose updates are lost
};

// The target that the flags ask for. Unimplemented for an opset that is not written, InvalidArgument for a custom
// operator's spelling.
absl::Status SetTarget(const ConvertOptions& o, exporters::OnnxOptions* target);

struct Pass {
  const char* name;
  bool functional;  // whether it needs the functional form
  absl::Status (*run)(ir::Program& p, PassContext& context);
};

// Each once, in the order of the pipeline.
absl::Span<const Pass> Passes();

// InvalidArgument for a program that is not in the form the pass needs; the pass's own errors; Internal where `verify`
// finds that it broke the program.
absl::Status RunPass(const Pass& pass, ir::Program& p, PassContext& context, bool verify = false);

struct PipelineOptions {
  bool state = false;      // updates of state stay outputs
  bool functions = false;  // outline-blocks
  bool verify_each = false;
};

// All that makes a program ready for ONNX. Internal where `verify_each` finds that a pass broke the program.
absl::Status PrepareForOnnx(ir::Program& p, const PipelineOptions& options, PassContext& context);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_PASSES_H_
