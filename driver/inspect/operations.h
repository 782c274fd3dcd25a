// How much a program's products of matrices and convolutions compute, as far as sizes are known.
#ifndef SLIPWAY_DRIVER_INSPECT_OPERATIONS_H_
#define SLIPWAY_DRIVER_INSPECT_OPERATIONS_H_

#include <optional>

#include "base/text.h"
#include "ir/graph.h"

namespace slipway::driver {

class OperationCounter {
 public:
  explicit OperationCounter(const ir::Program& p);

  // Multiplications and additions of one node of the program: of its products of matrices only, as `run --profile`
  // counts them; 0 for nodes without any. Symbols count as what they were at export; nullopt where that is not known.
  std::optional<double> Of(const ir::Node& n) const;

 private:
  bool onnx_;
  text::Map<int64_t> sizes_;  // of symbols at export
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_INSPECT_OPERATIONS_H_
