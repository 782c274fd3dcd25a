// Rows in and out of the compute types. Dense halves and bytes go through the instruction set's loops; rounding to a
// dtype is a conversion there and back, so that it is the rounding of memory.
#include "kernels/convert.h"

#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

template <typename T, typename Narrow>
void Round(T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = Convert<T>(Convert<Narrow>(x[i]));
}

// Dense rows of f32 rounded to `as`, by the instruction set's loops.
void RoundRow(float* x, int64_t n, DType as) {
  constexpr int64_t kPart = 256;
  uint16_t narrow[kPart];
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t m = n - i < kPart ? n - i : kPart;
    BestIsa().elementwise.convert_from_f32(x + i, narrow, as, m);
    BestIsa().elementwise.convert_to_f32(narrow, as, x + i, m);
  }
}

}  // namespace

template <typename T>
void LoadRow(const void* from, DType dtype, int64_t stride, int64_t n, DType as, T* to) {
  if (n <= 0) return;
  if constexpr (std::is_same_v<T, float>) {
    const bool half = IsHalf(dtype) && stride == 1;
    if (half) BestIsa().elementwise.convert_to_f32(from, dtype, to, n);
    if (half && (as == dtype || as == DType::kF32)) return;
    if (dtype == DType::kF32 && IsHalf(as)) {
      const float* p = static_cast<const float*>(from);
      if (stride == 1)
        std::memcpy(to, p, static_cast<size_t>(n) * sizeof(float));
      else
        for (int64_t i = 0; i < n; ++i) to[i] = p[i * stride];
      return RoundRow(to, n, as);
    }
    if (half) return RoundRow(to, n, as);
    // All of these have every number of a byte and of float8_e4m3fn.
    if ((dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kF8E4M3FN) && stride == 1 &&
        (as == dtype || as == DType::kF32 || IsHalf(as)))
      return BestIsa().elementwise.convert_to_f32(from, dtype, to, n);
  }
  if (dtype == DType::kBool) {  // whatever byte is there
    const uint8_t* p = static_cast<const uint8_t*>(from);
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(p[i * stride] != 0);
    return;
  }
  WithAnyType(dtype, [&]<typename S>() {
    const S* p = static_cast<const S*>(from);
    if (as == DType::kBool)
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(Convert<bool>(p[i * stride]));
    else
      for (int64_t i = 0; i < n; ++i) to[i] = Convert<T>(p[i * stride]);
  });
  if (dtype == as) return;
  switch (as) {  // what the compute type holds but the dtype does not
    case DType::kF16: return Round<T, F16>(to, n);
    case DType::kBF16: return Round<T, BF16>(to, n);
    case DType::kU8: return Round<T, uint8_t>(to, n);
    case DType::kI8: return Round<T, int8_t>(to, n);
    case DType::kI16: return Round<T, int16_t>(to, n);
    case DType::kI32: return Round<T, int32_t>(to, n);
    case DType::kU16: return Round<T, uint16_t>(to, n);
    case DType::kU32: return Round<T, uint32_t>(to, n);
    default: return;
  }
}

template <typename T>
void StoreRow(const T* from, int64_t n, void* to, DType dtype, int64_t stride) {
  if constexpr (std::is_same_v<T, float>)
    if ((IsHalf(dtype) || dtype == DType::kU8 || dtype == DType::kI8) && stride == 1)
      return BestIsa().elementwise.convert_from_f32(from, to, dtype, n);
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
