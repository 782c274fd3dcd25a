// The intrinsics of the instruction set that a source is compiled for, which take longest to read of all headers of
// micro-kernels: cmake/InstructionSets.cmake precompiles this one for each set.
#ifndef SLIPWAY_KERNELS_ISA_INTRINSICS_H_
#define SLIPWAY_KERNELS_ISA_INTRINSICS_H_

#include <cstdint>

#if defined(__F16C__) || defined(__SSE4_1__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#endif  // SLIPWAY_KERNELS_ISA_INTRINSICS_H_
