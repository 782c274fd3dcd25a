// An instruction set that differs from another in nothing but the loops of dot_body.h: avxvnni.cc and avx512vnni.cc
// include this file once, with SLIPWAY_ISA_NAME, SLIPWAY_DOT_TABLE and SLIPWAY_ISA_BYTES (of a vector).
#include <cstdint>

#include <immintrin.h>

#include "kernels/isa/dot.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

#include "kernels/isa/vectors.h"

#include "kernels/isa/dot_body.h"

#include "kernels/isa/digits_body.h"  // calls what is in dot_body.h

}  // namespace

extern const DotIsa SLIPWAY_DOT_TABLE;
const DotIsa SLIPWAY_DOT_TABLE = {
    SLIPWAY_ISA_NAME, {kByteWay, kNibbleWay}, DotRowBytes, PrepareRow, DotProduct, Extremes, QuantizeRow, SplitRow,
    DigitProduct};

}  // namespace slipway::kernels
