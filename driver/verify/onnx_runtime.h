// ONNX models, run by onnxruntime in an installed Python: a process of its own, with a limit of time, since slipway
// links with neither.
#ifndef SLIPWAY_DRIVER_VERIFY_ONNX_RUNTIME_H_
#define SLIPWAY_DRIVER_VERIFY_ONNX_RUNTIME_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/tensor.h"

namespace slipway::driver {

using Tensors = std::vector<ir::TensorRef>;

struct OnnxRuntimeOptions {
  std::string python;            // the interpreter; "": python3 or python of PATH, or venv/bin/python beside the binary
  double timeout_seconds = 600;  // for loading and all runs
  int threads = 0;               // 0: as onnxruntime has it
  bool optimize = true;          // by its own optimizations of graphs
  bool exact = false;            // values to observe have the names asked for, and no family of names
  bool lenient = false;          // outputs that are no tensors of numbers are of unknown type, and no error
};

struct OnnxRuns {
  std::string version;                // of onnxruntime
  int64_t opset = 0;                  // that the model declares; 0 where it does not
  std::vector<std::string> outputs;   // their names
  std::vector<std::string> observed;  // of the values asked for, those that the model makes
  std::vector<std::string> made;      // these, and outputs of such names, in the order of the model's nodes
  // Of each set of inputs: the outputs, then the observed values, of unknown type where they are no tensors.
  // InvalidArgument with onnxruntime's text where it refused.
  std::vector<absl::StatusOr<Tensors>> results;
};

// The interpreters that are tried where none is named: those of PATH, then the environment that scripts/setup.sh makes
// beside the binary.
std::vector<std::string> UsualPythons();

// Loads the model once and runs it on each set of inputs, in the order of the model's inputs. `observe`: values that
// the main graph's nodes make are given besides where they have these names, or one with .1, .2 … behind it, as slipway
// names what it makes of one node; only those that something else than their own kind reads. Null: the file is loaded
// as it is.
//
// Errors: Unimplemented (SW6002) where there is no Python with onnxruntime and numpy, and where onnxruntime has no
// kernel for a node; InvalidArgument for a model that it does not load; ResourceExhausted over the limit of time;
// Internal where the process died otherwise.
absl::StatusOr<OnnxRuns> RunOnnx(const std::string& model, absl::Span<const Tensors> sets,
                                 const OnnxRuntimeOptions& options, const std::vector<std::string>* observe = nullptr);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_VERIFY_ONNX_RUNTIME_H_
