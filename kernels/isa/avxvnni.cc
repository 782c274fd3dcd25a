// Instruction set "avxvnni": AVX2 with sums of four int8 products (AVX-VNNI). All other micro-kernels are those of
// avx2.cc.
#if defined(__x86_64__)
#define SLIPWAY_ISA_NAME "avxvnni"
#define SLIPWAY_INT8_GEMM_TABLE kInt8GemmAvxVnni
#define SLIPWAY_INT8_CONV_TABLE kInt8ConvAvxVnni
#define SLIPWAY_ISA_BYTES 32
#include "kernels/isa/int8_gemm_isa.inc.h"
#endif
