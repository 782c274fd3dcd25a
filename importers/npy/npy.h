// NumPy's files: .npy, one array, and .npz, a zip of them.
#ifndef SLIPWAY_IMPORTERS_NPY_NPY_H_
#define SLIPWAY_IMPORTERS_NPY_NPY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/mapped_file.h"
#include "ir/tensor_set.h"

namespace slipway::importers {

// Whether a file begins as .npy does.
bool LooksLikeNpy(absl::Span<const uint8_t> file);
// Whether a file is a zip archive of .npy files alone.
bool LooksLikeNpz(const std::shared_ptr<io::MappedFile>& file);

// The array of a .npy file under the name "array"; those of a .npz file under the names of its members, without ".npy".
// Data stays in the file where it is neither deflated nor in the other byte order. Arrays of types that torch has not
// (objects, texts, records, raw bytes) are TensorSet::unreadable. InvalidArgument for a malformed header, and for data
// that is not of the shape's size.
absl::StatusOr<ir::TensorSet> ReadNpy(const std::shared_ptr<io::MappedFile>& file);
absl::StatusOr<ir::TensorSet> ReadNpz(const std::shared_ptr<io::MappedFile>& file);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_NPY_NPY_H_
