// ir::Program -> the JSON of an exported program, schema 8.x.
#ifndef SLIPWAY_EXPORTERS_PT2_PROGRAM_H_
#define SLIPWAY_EXPORTERS_PT2_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "ir/graph.h"

namespace slipway::exporters {

// The oldest torch that shall read the file: later readers ignore what they do not know, earlier ones do not.
enum class TorchTarget { k26, k29 };

// The program without its weights. Unimplemented, naming all of a kind, for what the schema (or the target's part of
// it)
// cannot say: operators of slipway's own, sub-byte element types, custom objects.
absl::StatusOr<std::string> ProgramToJson(const ir::Program& program, TorchTarget target);

// The pytrees of a call, as torch writes them, for programs that state none: a flat tuple of arguments; one result, or
// a flat tuple of them.
std::string PlainInputSpec(const ir::Program& program);
std::string PlainOutputSpec(const ir::Program& program);

// A TensorMeta of known sizes (payload tables). `offset` is in elements.
void WriteTensorMeta(json::Writer& out, ir::DType dtype, const std::vector<int64_t>& sizes,
                     const std::vector<int64_t>& strides, int64_t offset, bool requires_grad);

// Unimplemented where the schema has no number for the type.
absl::Status CheckDType(ir::DType dtype, TorchTarget target);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_PT2_PROGRAM_H_
