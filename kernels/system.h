// What kernels ask of the operating system. The bodies for POSIX systems are in posix/system.cc, so that all else
// compiles without their headers.
#ifndef SLIPWAY_KERNELS_SYSTEM_H_
#define SLIPWAY_KERNELS_SYSTEM_H_

#include <cstddef>
#include <cstdint>

namespace slipway::kernels {

// The number of this process: another one in a child after a fork.
int64_t ProcessId();

// How many processors this process may run on; at least 1.
int UsableProcessors();

// Asks the system to save the registers of matrix tiles (AMX) of this process's threads. False where it does not.
bool RequestTiles();

// Instructions for sums of four int8 products that Arm's 64-bit processors may have: of signed bytes (SDOT), and of
// unsigned by signed ones (USDOT), too; and for sums of two products of bf16 (BFDOT) besides. False on others.
bool HasArmDotProducts();
bool HasArmMixedDotProducts();
bool HasArmBf16DotProducts();

// Memory at a multiple of `alignment`, a power of two; null where there is none. FreeAligned() gives it back.
void* AllocateAligned(size_t alignment, size_t bytes);
void FreeAligned(void* memory);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_SYSTEM_H_
