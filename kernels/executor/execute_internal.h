// What the two halves of a run share: binding (bind.cc) and walking the steps (execute.cc).
#ifndef SLIPWAY_KERNELS_EXECUTOR_EXECUTE_INTERNAL_H_
#define SLIPWAY_KERNELS_EXECUTOR_EXECUTE_INTERNAL_H_

#include <cstring>
#include <string>
#include <utility>

#include "kernels/convert.h"
#include "kernels/executor/execute.h"

namespace slipway::kernels {

// Elements: farther than any memory reaches.
inline constexpr int64_t kFar = int64_t{1} << 48;

// Where elements of dense tensors of no elements are said to be.
alignas(kAlignment) inline char nowhere[kAlignment];

inline Error Fail(Error::Kind kind, std::string text) { return {kind, std::move(text), -1}; }

// A 0-d tensor's element.
inline Scalar ReadElement(const void* data, DType dtype, bool real) {
  if (dtype == DType::kBool) {  // whatever byte is there
    const bool x = *static_cast<const uint8_t*>(data) != 0;
    return real ? Scalar::Real(x) : Scalar::Int(x);
  }
  return WithAnyType(dtype, [&]<typename T>() {
    T x;
    std::memcpy(&x, data, sizeof(T));
    return real ? Scalar::Real(Convert<double>(x)) : Scalar::Int(Convert<int64_t>(x));
  });
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_EXECUTOR_EXECUTE_INTERNAL_H_
