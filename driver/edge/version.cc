// The version itself comes from the file VERSION through the build.
#include "driver/edge/version.h"

#include "base/text.h"
#include "exporters/onnx/export.h"
#include "ir/ops/op_table.h"

namespace slipway::driver {

std::string VersionText() {
  return text::StrCat("slipway ", SLIPWAY_VERSION, " (ONNX opset ", exporters::kMinOpset, " … ", exporters::kMaxOpset,
                      ", PT2 schema 7.3 … 8.20, torch ", ir::OpTableTorchVersion(), " operators)");
}

}  // namespace slipway::driver
