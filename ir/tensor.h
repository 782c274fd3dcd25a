// Tensors by reference. A TensorRef says where the numbers are (a storage, an offset, sizes, strides, a dtype) and
// never
// holds them: importing a checkpoint of any size touches headers only. Tied weights share one Storage object.
#ifndef SLIPWAY_IR_TENSOR_H_
#define SLIPWAY_IR_TENSOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/byte_source.h"
#include "ir/dtype.h"

namespace slipway::ir {

// Values made from a rule instead of bytes, so that a repro fits in one text file.
struct Splat {
  double value;
};
struct Random {
  uint64_t seed;
};  // standard normal for floats, 0..9 for integers; SplitMix64 (Steele et al. 2014)

// The bytes behind tensors. Immutable once made; shared between the tensors that alias it.
struct Storage {
  // Bytes of a file or of memory, or a rule.
  std::variant<io::Bytes, Splat, Random> bytes;
  uint64_t size = 0;  // bytes; for rules: of the tensor they fill
  // Of all the bytes, where the container they came in states it: writers need not read them then.
  std::optional<uint32_t> crc32;
  // Of bytes that are integers of one tensor: what none is less and greater than, where whoever made them knows.
  std::optional<std::pair<int64_t, int64_t>> bounds;
};

struct TensorRef {
  std::shared_ptr<const Storage> storage;
  DType dtype = DType::kUnknown;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // elements
  int64_t offset = 0;            // bytes into the storage

  int64_t numel() const;
  int64_t nbytes() const { return (numel() * BitSize(dtype) + 7) / 8; }  // of the dense, contiguous tensor
  bool is_contiguous() const;
};

// Strides of a dense row-major tensor.
std::vector<int64_t> ContiguousStrides(absl::Span<const int64_t> sizes);

// Checks that every element a reference can address lies in its storage (overflow-safe).
absl::Status Validate(const TensorRef& t);

// A contiguous tensor over owned bytes. `bytes` must have exactly the tensor's size.
TensorRef OwnedTensor(DType dtype, std::vector<int64_t> sizes, std::string bytes);

// The tensor's dense row-major bytes, for tensors small enough to hold (`limit` bytes; larger is ResourceExhausted).
absl::StatusOr<std::string> ReadDense(const TensorRef& t, uint64_t limit = uint64_t{1} << 30);

// A tensor's elements as doubles, which hold integers up to 2^53 exactly. Unimplemented for other than floats of 16 to
// 64 bits, uint8, int8 to int64 and bool.
absl::StatusOr<std::vector<double>> ReadNumbers(const TensorRef& t);

// The storage's bytes if they are in memory or mapped; empty span for rules.
absl::Span<const uint8_t> MappedBytes(const Storage& s);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_TENSOR_H_
