// See convert.h.
#include "kernels/convert.h"

namespace slipway::kernels {
namespace {

template <typename T, typename Narrow>
void Round(T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = Convert<T>(Convert<Narrow>(x[i]));
}

}  // namespace

template <typename T>
void LoadRow(const void* from, DType dtype, int64_t stride, int64_t n, DType as, T* to) {
  WithAnyType(dtype, [&]<typename S>() {
    const S* p = static_cast<const S*>(from);
    if (as == DType::kBool)
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(Convert<bool>(p[i * stride]));
    else
      for (int64_t i = 0; i < n; ++i) to[i] = Convert<T>(p[i * stride]);
  });
  if (dtype == as) return;
  switch (as) {  // what the compute type holds but the dtype does not
    case DType::kF16:
      return Round<T, F16>(to, n);
    case DType::kBF16:
      return Round<T, BF16>(to, n);
    case DType::kU8:
      return Round<T, uint8_t>(to, n);
    case DType::kI8:
      return Round<T, int8_t>(to, n);
    case DType::kI16:
      return Round<T, int16_t>(to, n);
    case DType::kI32:
      return Round<T, int32_t>(to, n);
    default:
      return;
  }
}

template <typename T>
void StoreRow(const T* from, int64_t n, void* to, DType dtype, int64_t stride) {
  WithAnyType(dtype, [&]<typename S>() {
    S* p = static_cast<S*>(to);
    for (int64_t i = 0; i < n; ++i) p[i * stride] = Convert<S>(from[i]);
  });
}

template void LoadRow(const void*, DType, int64_t, int64_t, DType, float*);
template void LoadRow(const void*, DType, int64_t, int64_t, DType, double*);
template void LoadRow(const void*, DType, int64_t, int64_t, DType, int64_t*);
template void StoreRow(const float*, int64_t, void*, DType, int64_t);
template void StoreRow(const double*, int64_t, void*, DType, int64_t);
template void StoreRow(const int64_t*, int64_t, void*, DType, int64_t);

}  // namespace slipway::kernels
