// Instruction set "bf16": NEON with sums of two bf16 products (BFDOT, FEAT_BF16): GEMM and convolutions with twice as
// many multiplications per step as f32. All other micro-kernels are i8mm's.
#if defined(__aarch64__)
#define SLIPWAY_ISA_NAME "bf16"
#define SLIPWAY_BF16_GEMM_TABLE kBf16GemmArm
#define SLIPWAY_BF16_CONV_TABLE kBf16ConvArm
#define SLIPWAY_ISA_BYTES 16
#include "kernels/isa/bf16_isa.inc.h"
#endif
