// Processes, processors, the state of threads and memory on Linux and other POSIX systems.
#include "kernels/system.h"

#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif
#endif

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace slipway::kernels {

int64_t ProcessId() { return getpid(); }

int UsableProcessors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
#endif
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

bool RequestTiles() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

#if defined(__linux__) && defined(__aarch64__)
// HWCAP_ASIMDDP, HWCAP2_I8MM and HWCAP2_BF16; the last two are not in headers of Linux before 5.6.
bool HasArmDotProducts() { return (getauxval(AT_HWCAP) >> 20 & 1) != 0; }
bool HasArmMixedDotProducts() { return HasArmDotProducts() && (getauxval(AT_HWCAP2) >> 13 & 1) != 0; }
bool HasArmBf16DotProducts() { return HasArmMixedDotProducts() && (getauxval(AT_HWCAP2) >> 14 & 1) != 0; }
#else
bool HasArmDotProducts() { return false; }
bool HasArmMixedDotProducts() { return false; }
bool HasArmBf16DotProducts() { return false; }
#endif

void* AllocateAligned(size_t alignment, size_t bytes) {
  if (bytes > SIZE_MAX - alignment) return nullptr;
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void FreeAligned(void* memory) { std::free(memory); }

}  // namespace slipway::kernels
