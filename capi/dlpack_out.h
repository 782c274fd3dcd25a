// Tensor references as DLPack tensors.
#ifndef SLIPWAY_CAPI_DLPACK_OUT_H_
#define SLIPWAY_CAPI_DLPACK_OUT_H_

#include "absl/status/statusor.h"
#include "ir/tensor.h"
#include "slipway/dlpack.h"

namespace slipway::capi {

// A view of the tensor's bytes that keeps its storage, flagged read-only; where they are not in memory, or not aligned
// to their elements' size, a dense copy that nobody else has, flagged so. Unimplemented for types that DLPack has no
// code for.
absl::StatusOr<DLManagedTensorVersioned*> ToDlpack(const ir::TensorRef& t);

// Always such a copy.
absl::StatusOr<DLManagedTensor*> ToUnversionedDlpack(const ir::TensorRef& t);

}  // namespace slipway::capi

#endif  // SLIPWAY_CAPI_DLPACK_OUT_H_
