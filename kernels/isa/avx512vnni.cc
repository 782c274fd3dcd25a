// Instruction set "avx512vnni": AVX-512 with sums of four int8 products (VNNI). All other micro-kernels are those of
// avx512.cc.
#if defined(__x86_64__)
#define SLIPWAY_ISA_NAME "avx512vnni"
#define SLIPWAY_INT8_GEMM_TABLE kInt8GemmAvx512Vnni
#define SLIPWAY_INT8_CONV_TABLE kInt8ConvAvx512Vnni
#define SLIPWAY_ISA_BYTES 64
#include "kernels/isa/int8_gemm_isa.inc.h"
#endif
