// Instruction set "avx512vnni": AVX-512 with sums of four products of bytes (VNNI). Its other loops are those of
// avx512.cc.
#if defined(__x86_64__)
#define SLIPWAY_ISA_NAME "avx512vnni"
#define SLIPWAY_DOT_TABLE kDotAvx512Vnni
#define SLIPWAY_ISA_BYTES 64
#include "kernels/isa/dot_set.h"
#endif
