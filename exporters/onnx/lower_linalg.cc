// Linalg operators.
#include "exporters/onnx/lower_util.h"

namespace slipway::exporters::onnx_out {

absl::Span<const Row> LinalgRows() { return {}; }

}  // namespace slipway::exporters::onnx_out
