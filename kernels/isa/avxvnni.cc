// Instruction set "avxvnni": AVX2 with sums of four products of bytes (AVX-VNNI). Its other loops are those of avx2.cc.
#if defined(__x86_64__)
#define SLIPWAY_ISA_NAME "avxvnni"
#define SLIPWAY_DOT_TABLE kDotAvxVnni
#define SLIPWAY_ISA_BYTES 32
#include "kernels/isa/dot_set.h"
#endif
