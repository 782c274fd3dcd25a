// Writes an ONNX file from a skeleton and weights by reference: sizes and field headers are computed, so no Protobuf
// message ever holds a weight and the bytes go file to file.
#ifndef SLIPWAY_EXPORTERS_ONNX_WIRE_H_
#define SLIPWAY_EXPORTERS_ONNX_WIRE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "exporters/onnx/export.h"
#include "ir/tensor.h"
#include "onnx/onnx_pb.h"

namespace slipway::exporters::onnx_out {

struct WeightRef {
  std::string name;     // of the initializer
  ir::TensorRef tensor;
};

// Writes `model` plus `weights` as initializers to `path`; above the limit, or by option, their bytes go to
// `path`.data, page-aligned. Returns the bytes written in all files.
absl::StatusOr<uint64_t> WriteModel(onnx::ModelProto& model, const std::vector<WeightRef>& weights,
                                    const std::string& path, const OnnxOptions& options);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_WIRE_H_
