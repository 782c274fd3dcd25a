// Creation operators.
#include "exporters/onnx/lower_util.h"

namespace slipway::exporters::onnx_out {

absl::Span<const Row> CreationRows() { return {}; }

}  // namespace slipway::exporters::onnx_out
