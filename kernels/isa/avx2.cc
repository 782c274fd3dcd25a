// Instruction set "avx2": isa.inc.h for AVX2 with FMA and F16C.
#if defined(__x86_64__)
#define SLIPWAY_ISA_NAME "avx2"
#define SLIPWAY_ISA_TABLE kIsaAvx2
#define SLIPWAY_INT8_GEMM_TABLE kInt8GemmAvx2
#define SLIPWAY_INT8_CONV_TABLE kInt8ConvAvx2
#define SLIPWAY_ISA_BYTES 32
#define SLIPWAY_ISA_ROWS 6
#include "kernels/isa/isa.inc.h"
#endif
