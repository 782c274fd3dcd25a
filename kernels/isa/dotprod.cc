// Instruction set "dotprod": NEON with sums of four products of signed bytes (SDOT, FEAT_DotProd). All other
// micro-kernels are those of neon.cc.
#if defined(__aarch64__)
#define SLIPWAY_ISA_NAME "dotprod"
#define SLIPWAY_INT8_GEMM_TABLE kInt8GemmDotProd
#define SLIPWAY_INT8_CONV_TABLE kInt8ConvDotProd
#define SLIPWAY_ISA_BYTES 16
#include "kernels/isa/int8_gemm_isa.inc.h"
#endif
