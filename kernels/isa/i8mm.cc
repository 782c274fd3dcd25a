// Instruction set "i8mm": NEON with sums of four products of unsigned by signed bytes, too (USDOT, FEAT_I8MM). All
// other micro-kernels are those of neon.cc.
#if defined(__aarch64__)
#define SLIPWAY_ISA_NAME "i8mm"
#define SLIPWAY_INT8_GEMM_TABLE kInt8GemmI8mm
#define SLIPWAY_INT8_CONV_TABLE kInt8ConvI8mm
#define SLIPWAY_ISA_BYTES 16
#include "kernels/isa/int8_gemm_isa.inc.h"
#endif
