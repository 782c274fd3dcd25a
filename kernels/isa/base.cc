// Instruction set "v2": isa.inc.h for every x86-64-v2 processor (SSE4.2), and for architectures without a file of their
// own.
#if !defined(__aarch64__)
#define SLIPWAY_ISA_NAME "v2"
#define SLIPWAY_ISA_TABLE kIsaBase
#define SLIPWAY_INT8_GEMM_TABLE kInt8GemmBase
#define SLIPWAY_INT8_CONV_TABLE kInt8ConvBase
#define SLIPWAY_ISA_BYTES 16
#define SLIPWAY_ISA_ROWS 6
#include "kernels/isa/isa.inc.h"
#endif
