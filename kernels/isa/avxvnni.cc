// Instruction set "avxvnni": AVX2 with sums of four products of bytes (AVX-VNNI): the loops of dot_body.h alone; for all others this processor has what
// avx2.cc is compiled for.
#if defined(__x86_64__)
#include <cstdint>

#include <immintrin.h>

#include "kernels/isa/dot.h"
#include "kernels/isa/isa.h"

#define SLIPWAY_ISA_BYTES 32

namespace slipway::kernels {
namespace {

#include "kernels/isa/vectors.h"

#include "kernels/isa/dot_body.h"

}  // namespace

extern const DotIsa kDotAvxVnni;
const DotIsa kDotAvxVnni = {"avxvnni", {kByteWay, kNibbleWay}, DotRowBytes, PrepareRow, DotProduct, Extremes, QuantizeRow};

}  // namespace slipway::kernels
#endif
