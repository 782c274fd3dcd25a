// Stands for ONNX's version converter, which takes a fifth of the time that ONNX takes to compile. Only the inliner
// refers to it, for models whose functions want another opset than they; of the inliner, schemas use the class that
// renames values. Nothing comes here.
#include <stdexcept>

#include "onnx/version_converter/convert.h"

namespace onnx::version_conversion {

ModelProto ConvertVersion(const ModelProto&, int) {
  throw std::logic_error("ONNX's version converter is not part of slipway");
}

}  // namespace onnx::version_conversion
