// Element types as others number them: DLPack in the C interfaces of models and plugins, c10::ScalarType in torch's
// loader.
#ifndef SLIPWAY_KERNELS_DTYPE_CODES_H_
#define SLIPWAY_KERNELS_DTYPE_CODES_H_

#include <optional>

#include "kernels/tensor.h"
#include "slipway/dlpack.h"

namespace slipway::kernels {

inline DLDataType DlpackTypeOf(DType t) {
  const ElementType& row = Info(t);
  return {static_cast<uint8_t>(row.dlpack), static_cast<uint8_t>(row.bits), 1};
}
inline std::optional<DType> FromDlpackType(DLDataType d) {
  for (int t = 0; t < kDTypes; ++t)
    if (const DLDataType have = DlpackTypeOf(static_cast<DType>(t));
        have.code == d.code && have.bits == d.bits && d.lanes == 1)
      return static_cast<DType>(t);
  return std::nullopt;
}
inline int32_t ScalarTypeOf(DType t) { return Info(t).c10; }
inline std::optional<DType> FromScalarType(int32_t s) {
  for (int t = 0; t < kDTypes; ++t)
    if (Info(static_cast<DType>(t)).c10 == s) return static_cast<DType>(t);
  return std::nullopt;
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_DTYPE_CODES_H_
