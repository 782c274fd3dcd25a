// Instruction set "avx512vnni": AVX-512 with sums of four products of bytes (VNNI): the loops of dot_body.h alone; for all others this processor has what
// avx512.cc is compiled for.
#if defined(__x86_64__)
#include <cstdint>

#include <immintrin.h>

#include "kernels/isa/dot.h"
#include "kernels/isa/isa.h"

#define SLIPWAY_ISA_BYTES 64

namespace slipway::kernels {
namespace {

#include "kernels/isa/vectors.h"

#include "kernels/isa/dot_body.h"

}  // namespace

extern const DotIsa kDotAvx512Vnni;
const DotIsa kDotAvx512Vnni = {"avx512vnni", {kByteWay, kNibbleWay}, DotRowBytes, PrepareRow, DotProduct, Extremes, QuantizeRow};

}  // namespace slipway::kernels
#endif
