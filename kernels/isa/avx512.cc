// Instruction set "avx512": body.h for AVX-512 (F, VL, BW, DQ).
#if defined(__x86_64__)
#define SLIPWAY_ISA_NAME "avx512"
#define SLIPWAY_ISA_TABLE kIsaAvx512
#define SLIPWAY_DOT_TABLE kDotAvx512
#define SLIPWAY_ISA_BYTES 64
#define SLIPWAY_ISA_ROWS 12
#include "kernels/isa/body.h"
#endif
