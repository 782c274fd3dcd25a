// Quant operators.
#include "exporters/onnx/lower_util.h"

namespace slipway::exporters::onnx_out {

absl::Span<const Row> QuantRows() { return {}; }

}  // namespace slipway::exporters::onnx_out
