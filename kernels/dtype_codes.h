// Element types as others number them: DLPack in the C interfaces of models and plugins, c10::ScalarType in torch's
// loader.
#ifndef SLIPWAY_KERNELS_DTYPE_CODES_H_
#define SLIPWAY_KERNELS_DTYPE_CODES_H_

#include <iterator>
#include <optional>

#include "kernels/tensor.h"
#include "slipway/dlpack.h"

namespace slipway::kernels {

struct DTypeCodes {
  DLDataType dlpack;
  int32_t scalar_type;
};
// By DType.
inline constexpr DTypeCodes kDTypeCodes[] = {
    {{kDLBool, 8, 1}, 11},
    {{kDLUInt, 8, 1}, 0},
    {{kDLInt, 8, 1}, 1},
    {{kDLInt, 16, 1}, 2},
    {{kDLInt, 32, 1}, 3},
    {{kDLInt, 64, 1}, 4},
    {{kDLFloat, 16, 1}, 5},
    {{kDLBfloat, 16, 1}, 15},
    {{kDLFloat, 32, 1}, 6},
    {{kDLFloat, 64, 1}, 7},
    {{kDLUInt, 16, 1}, 27},
    {{kDLUInt, 32, 1}, 28},
    {{kDLFloat8_e4m3fn, 8, 1}, 24},
    {{kDLFloat8_e5m2, 8, 1}, 23},
    {{kDLFloat8_e4m3fnuz, 8, 1}, 26},
    {{kDLFloat8_e5m2fnuz, 8, 1}, 25},
};
static_assert(std::size(kDTypeCodes) == kDTypes);

inline DLDataType DlpackTypeOf(DType t) { return kDTypeCodes[static_cast<int>(t)].dlpack; }
inline std::optional<DType> FromDlpackType(DLDataType d) {
  for (int t = 0; t < kDTypes; ++t) {
    const DLDataType& have = kDTypeCodes[t].dlpack;
    if (have.code == d.code && have.bits == d.bits && d.lanes == 1) return static_cast<DType>(t);
  }
  return std::nullopt;
}
inline int32_t ScalarTypeOf(DType t) { return kDTypeCodes[static_cast<int>(t)].scalar_type; }
inline std::optional<DType> FromScalarType(int32_t s) {
  for (int t = 0; t < kDTypes; ++t)
    if (kDTypeCodes[t].scalar_type == s) return static_cast<DType>(t);
  return std::nullopt;
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_DTYPE_CODES_H_
