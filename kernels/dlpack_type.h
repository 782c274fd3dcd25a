// Element types as DLPack numbers them: what the C interfaces of a model and of plugins say.
#ifndef SLIPWAY_KERNELS_DLPACK_TYPE_H_
#define SLIPWAY_KERNELS_DLPACK_TYPE_H_

#include <iterator>
#include <optional>

#include "kernels/tensor.h"
#include "slipway/dlpack.h"

namespace slipway::kernels {

inline constexpr DLDataType kDlpackTypes[] = {
    {kDLBool, 8, 1},          {kDLUInt, 8, 1},        {kDLInt, 8, 1},             {kDLInt, 16, 1},
    {kDLInt, 32, 1},          {kDLInt, 64, 1},        {kDLFloat, 16, 1},          {kDLBfloat, 16, 1},
    {kDLFloat, 32, 1},        {kDLFloat, 64, 1},      {kDLUInt, 16, 1},           {kDLUInt, 32, 1},
    {kDLFloat8_e4m3fn, 8, 1}, {kDLFloat8_e5m2, 8, 1}, {kDLFloat8_e4m3fnuz, 8, 1}, {kDLFloat8_e5m2fnuz, 8, 1}};
static_assert(std::size(kDlpackTypes) == kDTypes);

inline DLDataType DlpackTypeOf(DType t) { return kDlpackTypes[static_cast<int>(t)]; }
inline std::optional<DType> FromDlpackType(DLDataType d) {
  for (int t = 0; t < kDTypes; ++t)
    if (kDlpackTypes[t].code == d.code && kDlpackTypes[t].bits == d.bits && d.lanes == 1) return static_cast<DType>(t);
  return std::nullopt;
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_DLPACK_TYPE_H_
