// Instruction set "neon": isa.inc.h for Arm's 64-bit processors, which all have these vectors (NEON) and conversions of
// f16.
#if defined(__aarch64__)
#define SLIPWAY_ISA_NAME "neon"
#define SLIPWAY_ISA_TABLE kIsaNeon
#define SLIPWAY_INT8_GEMM_TABLE kInt8GemmNeon
#define SLIPWAY_INT8_CONV_TABLE kInt8ConvNeon
#define SLIPWAY_ISA_BYTES 16
#define SLIPWAY_ISA_ROWS 12
#include "kernels/isa/isa.inc.h"
#endif
