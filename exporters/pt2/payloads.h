// How tensors come to lie in a file: which runs of bytes are written, and where each tensor begins in its run. Tensors
// that overlap in a storage stay aliases of one run; bytes that no tensor addresses are left behind.
#ifndef SLIPWAY_EXPORTERS_PT2_PAYLOADS_H_
#define SLIPWAY_EXPORTERS_PT2_PAYLOADS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/byte_source.h"
#include "ir/tensor.h"

namespace slipway::exporters {

struct NamedTensor {
  std::string name;
  ir::TensorRef tensor;
  bool is_parameter = false;
  bool requires_grad = false;
};

// A run of elements of one type.
struct Payload {
  io::Bytes bytes;
  std::optional<uint32_t> crc32;  // where it is known without reading
  ir::DType dtype = ir::DType::kUnknown;
};

struct PlacedTensors {
  std::vector<Payload> payloads;  // in the order of their first tensors
  struct Place {
    size_t payload = 0;
    int64_t offset = 0;  // elements
  };
  std::vector<Place> places;  // parallel to the tensors
};

// As torch does it, a storage seen as two types is written twice. Errors: Unimplemented for sub-byte types;
// ResourceExhausted for values made by a rule that do not fit in memory.
absl::StatusOr<PlacedTensors> PlaceTensors(const std::vector<NamedTensor>& tensors);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_PT2_PAYLOADS_H_
