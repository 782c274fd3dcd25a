// Named tensors from a shared library that gives them one by one (include/slipway/dlpack_producer.h).
#ifndef SLIPWAY_IMPORTERS_DLPACK_LIBRARY_H_
#define SLIPWAY_IMPORTERS_DLPACK_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "ir/tensor_set.h"

namespace slipway::importers {

// Loads the library, which runs its code, and takes all its tensors. Those that lie in the same memory (tied weights,
// views) share a storage. The library stays loaded: its deleters are called later.
//
// Errors: NotFound for a file that there is not; InvalidArgument for one that cannot be loaded or has no
// slipway_dlpack_next, for a failure that it reports and names that repeat; those of FromDlpack() with the tensor's
// name.
absl::StatusOr<ir::TensorSet> ReadDlpackLibrary(const std::string& path);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_DLPACK_LIBRARY_H_
