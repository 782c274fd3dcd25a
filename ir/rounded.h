// Numbers of a program as an element type holds them: rules that state what torch computes in f16 and bf16 ask which
// number it takes.
#ifndef SLIPWAY_IR_ROUNDED_H_
#define SLIPWAY_IR_ROUNDED_H_

#include "base/floats.h"
#include "ir/dtype.h"

namespace slipway::ir {

// The number rounded to f16 or bf16; for other types the number itself.
inline double Rounded(double number, DType t) {
  if (t == DType::kBFloat16) return static_cast<double>(float{BF16(static_cast<float>(number))});
  if (t == DType::kFloat16) return static_cast<double>(float{F16(static_cast<float>(number))});
  return number;
}

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_ROUNDED_H_
