// .onnx files, to be looked at, compared and reduced: nodes are not understood (onnx_model/onnx_graph.h).
#ifndef SLIPWAY_IMPORTERS_ONNX_ONNX_H_
#define SLIPWAY_IMPORTERS_ONNX_ONNX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/mapped_file.h"
#include "ir/graph.h"

namespace slipway::importers {

// Whether the whole file is a Protobuf message with the fields of a model, a graph among them.
bool LooksLikeOnnx(const io::MappedFile& file);

struct OnnxModel {
  std::unique_ptr<ir::Program> program;  // types as declared and as ONNX infers them
  // files of weights, by what the model calls them: bytes that it uses of them
  std::map<std::string, uint64_t> external;
};

// Weights stay ranges of the file, and of files in its folder where the model says that they lie there: such a file is
// found below the folder of `file`, symbolic links not followed out of it.
//
// Errors: InvalidArgument for a file that is no model, contradicts itself, or names a file outside of its folder;
// Unimplemented for 2 GB and more in one file, which Protobuf has no messages for, and as ToProgram(); those of opening
// files.
absl::StatusOr<OnnxModel> ReadOnnx(const std::shared_ptr<io::MappedFile>& file);

// What a program in ATen's operators does not say of its model.
struct OnnxNotes {
  std::map<std::string, std::string> metadata;  // as the model states it
  std::vector<std::string> narrow;              // inputs and results of elements of 4 and 2 bits, each with both types
};

// The model in ATen's operators (to_aten.h), functions inlined. Inputs that `constants` has by name are no inputs, but
// initializers; `written` is as of OnnxToAten(). Errors as of both; InvalidArgument for constants that no input is
// called as, or that do not fit theirs.
absl::StatusOr<std::unique_ptr<ir::Program>> ReadOnnxProgram(const std::shared_ptr<io::MappedFile>& file,
                                                             const std::map<std::string, ir::TensorRef>& constants = {},
                                                             int written = 0, OnnxNotes* notes = nullptr);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_ONNX_ONNX_H_
