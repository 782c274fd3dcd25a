// Instruction set "avx2": body.h for AVX2 with FMA and F16C.
#if defined(__x86_64__)
#define SLIPWAY_ISA_NAME "avx2"
#define SLIPWAY_ISA_TABLE kIsaAvx2
#define SLIPWAY_DOT_TABLE kDotAvx2
#define SLIPWAY_ISA_BYTES 32
#define SLIPWAY_ISA_ROWS 6
#include "kernels/isa/body.h"
#endif
