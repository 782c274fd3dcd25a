// Instruction set "avx512bf16": AVX-512 with sums of two bf16 products (BF16): GEMM and convolutions with twice as many
// multiplications per step as f32. All other micro-kernels are avx512vnni's.
#if defined(__x86_64__)
// GCC 12's intrinsics begin with vectors that are not set (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#define SLIPWAY_ISA_NAME "avx512bf16"
#define SLIPWAY_BF16_GEMM_TABLE kBf16GemmAvx512
#define SLIPWAY_BF16_CONV_TABLE kBf16ConvAvx512Bf16
#define SLIPWAY_ISA_BYTES 64
#include "kernels/isa/bf16_isa.inc.h"
#endif
