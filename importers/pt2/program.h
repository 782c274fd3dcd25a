// From the JSON of one exported program (schema 7.x of torch 2.5, 8.x since) to an ir::Program without weights.
#ifndef SLIPWAY_IMPORTERS_PT2_PROGRAM_H_
#define SLIPWAY_IMPORTERS_PT2_PROGRAM_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "importers/json.h"
#include "ir/graph.h"

namespace slipway::importers {

// `where` names the archive member in errors.
absl::StatusOr<std::unique_ptr<ir::Program>> ParseProgram(std::string_view json, const std::string& where);

// torch's device of tensors that have types and no values. Graphs on it are read as graphs of the CPU.
inline constexpr std::string_view kMetaDevice = "meta";

// A TensorMeta with only integers (payload configs): dtype, sizes, strides, storage offset in elements.
struct PayloadMeta {
  ir::DType dtype = ir::DType::kUnknown;
  std::vector<int64_t> sizes, strides;
  int64_t storage_offset = 0;
  bool on_meta = false;  // of the device that has no values
};
absl::StatusOr<PayloadMeta> ParsePayloadMeta(const json::Value& tensor_meta);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_PT2_PROGRAM_H_
