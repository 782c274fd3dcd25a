// Tensors of DLPack as tensor references: the memory of another library, used where it lies and given back through its
// deleter.
#ifndef SLIPWAY_IMPORTERS_DLPACK_DLPACK_H_
#define SLIPWAY_IMPORTERS_DLPACK_DLPACK_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dtype.h"
#include "ir/tensor.h"
#include "slipway/dlpack.h"

namespace slipway::importers {

// Takes a tensor in the memory of the host; nothing is copied. The reference's storage is what the tensor can address,
// from its first element on. `tensor` (not null) is taken whatever comes of it: its deleter, if it has one, is called
// once, before this returns where the tensor is refused, else by the last owner of the storage.
//
// Lanes become elements of the last dimension.
//
// Errors: Unimplemented for another major version (of which nothing but the deleter is touched), other devices, types
// that slipway has no name for, negative strides, padded or strided parts of bytes; InvalidArgument for what makes no
// sense.
absl::StatusOr<ir::TensorRef> FromDlpack(DLManagedTensorVersioned* tensor);
absl::StatusOr<ir::TensorRef> FromDlpack(DLManagedTensor* tensor);

// Puts tensors in memory whose bytes overlap on one storage, so that tied weights stay tied; those of files stay.
void ShareStorages(const std::vector<ir::TensorRef*>& tensors);

// Types by their DLPack codes, lanes aside; nullopt where the other side has none.
std::optional<ir::DType> DTypeFromDlpack(DLDataType type);
std::optional<DLDataType> DlpackType(ir::DType type);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_DLPACK_DLPACK_H_
