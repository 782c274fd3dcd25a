// Instruction set "avx512": isa.inc.h for AVX-512 (F, VL, BW, DQ).
#if defined(__x86_64__)
#define SLIPWAY_ISA_NAME "avx512"
#define SLIPWAY_ISA_TABLE kIsaAvx512
#define SLIPWAY_INT8_GEMM_TABLE kInt8GemmAvx512
#define SLIPWAY_INT8_CONV_TABLE kInt8ConvAvx512
#define SLIPWAY_ISA_BYTES 64
#define SLIPWAY_ISA_ROWS 12
#include "kernels/isa/isa.inc.h"
#endif
