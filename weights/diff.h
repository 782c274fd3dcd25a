// What two sets of named tensors have in common: `slipway diff`.
#ifndef SLIPWAY_WEIGHTS_DIFF_H_
#define SLIPWAY_WEIGHTS_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/tensor_set.h"

namespace slipway::weights {

struct DiffOptions {
  std::string a, b;      // what the two are called
  double tolerance = 0;  // floating-point elements this close to each other are equal; not negative
  // tensors of different floating-point types are equal where the wider, rounded to the narrower, is
  bool by_value = false;
};

// One name whose tensors are not equal.
struct DiffRow {
  enum Kind { kOnlyInA, kOnlyInB, kType, kValues };
  std::string name;
  Kind kind = kValues;
  std::string a, b;  // dtype and shape, "f32[4,8]"; "" where there is no such tensor
  // the type that values were compared in; kType: where there is one for both
  ir::DType compared_as = ir::DType::kUnknown;
  int64_t elements = 0;  // all of them, and those that differ
  int64_t unequal = 0;
  int64_t one_nan = 0;  // of `unequal`: those where exactly one is NaN
  double max_abs = 0;   // the largest difference of the other ones, as numbers
};

struct DiffReport {
  std::vector<DiffRow> rows;  // by name
  int64_t compared = 0;       // names in both
  int64_t equal = 0;          // of those, with equal tensors
  int64_t bytes = 0;          // of values that were read, of both together
};

// Compares names, dtypes, shapes and, where sizes agree and dtypes are the same or floating-point ones, values:
// floating-point and complex elements as f64 numbers (NaN equals NaN, 0 equals -0), all others bit by bit. Tensors are
// gone through a piece at a time. Errors are those of tensors that are not valid or cannot be read.
absl::StatusOr<DiffReport> Diff(ir::TensorSet a, ir::TensorSet b, const DiffOptions& options);

// The table, and one object of schemas/diff.schema.json.
std::string ToTable(const DiffReport& report, const DiffOptions& options);
// `graph`: the JSON of differences beside the tensors; "" for files that have no graphs.
std::string ToJson(const DiffReport& report, const DiffOptions& options, std::string_view graph = {});

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_DIFF_H_
