// What candidates of a minification are run on: the inputs of the original where they are still inputs, the values that
// it computed
// where it was cut, and made-up ones where sizes have changed or nothing could be computed.
#ifndef SLIPWAY_DRIVER_MINIFY_DATA_H_
#define SLIPWAY_DRIVER_MINIFY_DATA_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text.h"
#include "driver/verify/onnx_runtime.h"
#include "ir/graph.h"
#include "ir/tensor.h"
#include "minifier/edit.h"

namespace slipway::driver {

class MinifyData {
 public:
  // Inputs come from a file of input.0 … (as `slipway run` takes it), else from the program's samples, else they are
  // made up. With `record` the program is run once on them and the values of its nodes are kept, where that takes less
  // than 1 GiB.
  // Errors only for the file: what cannot be run is made up.
  // ONNX models are run by onnxruntime, as they are written; where it refuses one, as far as it gets.
  static absl::StatusOr<MinifyData> Make(const ir::Program& original, const std::string& inputs, bool record,
                                         const OnnxRuntimeOptions& runtime);

  // The values of symbols in the original's inputs.
  const text::Map<int64_t>& symbols() const { return symbols_; }
  // One for each user input of a candidate, in order.
  std::vector<ir::TensorRef> InputsOf(const ir::Program& candidate, const minifier::StandIns& names) const;
  // A line about where the numbers come from.
  const std::string& origin() const { return origin_; }
  // The types of what was recorded, for values whose types the program does not know.
  void StateTypes(ir::Program& p) const;

 private:
  text::Map<ir::TensorRef> values_;  // by the name of the original's value
  text::Map<int64_t> symbols_;
  std::string origin_;
};

// The inputs of a program that are given when it is called, in order.
std::vector<const ir::Value*> UserInputs(const ir::Program& p);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_MINIFY_DATA_H_
