// Writes an ONNX file from a skeleton and weights by reference: sizes and field headers are computed, so no Protobuf
// message ever holds a weight and the bytes go file to file.
#ifndef SLIPWAY_EXPORTERS_ONNX_WIRE_H_
#define SLIPWAY_EXPORTERS_ONNX_WIRE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "exporters/onnx/export.h"
#include "ir/tensor.h"
#include "onnx/onnx_pb.h"

namespace slipway::exporters::onnx_out {

// How a tensor lies in the file where it does not lie as the program says: with other dims, elements in another order
// or repeated (`sizes` and `strides` in the tensor's storage, where they are not the tensor's own), integers of 8 bits
// each plus `add`; and of those that take 4 bits there (`nibbles`) two in a byte, the first one low; a byte begins anew
// with each row of `row` elements (0: they all follow each other). Made while it is written.
struct StoredForm {
  ir::DType dtype = ir::DType::kUnknown;  // as the file states it
  std::vector<int64_t> dims;
  bool nibbles = false;
  int add = 0;
  int64_t row = 0;
  std::vector<int64_t> sizes = {}, strides = {};
  std::string_view suffix = "";           // of the initializer's name
  std::vector<ir::TensorRef> parts = {};  // not empty: the elements of these instead, one behind the other
};

struct WeightRef {
  std::string name;  // of the initializer
  ir::TensorRef tensor;
  std::optional<StoredForm> form;  // nullopt: the tensor as it is

  ir::DType dtype() const { return form ? form->dtype : tensor.dtype; }
  const std::vector<int64_t>& dims() const { return form ? form->dims : tensor.sizes; }
  uint64_t nbytes() const;  // in the file
  // What is written, one behind the other.
  absl::Span<const ir::TensorRef> parts() const {
    return form && !form->parts.empty() ? absl::MakeConstSpan(form->parts) : absl::MakeConstSpan(&tensor, 1);
  }
};

// Writes `model` plus `weights` as initializers to `path`; above the limit, or by option, their bytes go to
// `path`.data, page-aligned. Returns the bytes written in all files.
absl::StatusOr<uint64_t> WriteModel(onnx::ModelProto& model, const std::vector<WeightRef>& weights,
                                    const std::string& path, const OnnxOptions& options);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_WIRE_H_
