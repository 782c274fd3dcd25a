// The table of instruction sets and the choice among them: the last one in the table that the processor has, unless
// SLIPWAY_ISA names an earlier one. An unknown name caps nothing.
#include "kernels/isa/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kernels/isa/bf16_conv.h"
#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/int8_conv.h"
#include "kernels/isa/int8_gemm.h"
#include "kernels/isa/names.h"
#include "kernels/system.h"

namespace slipway::kernels {

#if defined(__aarch64__)
extern const Isa kIsaNeon;
extern const Int8GemmMicrokernels kInt8GemmNeon, kInt8GemmDotProd, kInt8GemmI8mm;
extern const Int8ConvMicrokernels kInt8ConvNeon, kInt8ConvDotProd, kInt8ConvI8mm;
extern const Bf16ConvMicrokernels kBf16ConvArm;
extern const Bf16GemmMicrokernels kBf16GemmArm;
#else
extern const Isa kIsaBase;
extern const Int8GemmMicrokernels kInt8GemmBase;
extern const Int8ConvMicrokernels kInt8ConvBase;
#endif
#if defined(__x86_64__)
extern const Isa kIsaAvx2, kIsaAvx512;
extern const Int8GemmMicrokernels kInt8GemmAvx2, kInt8GemmAvxVnni, kInt8GemmAvx512, kInt8GemmAvx512Vnni, kInt8GemmAmx;
extern const Int8ConvMicrokernels kInt8ConvAvx2, kInt8ConvAvxVnni, kInt8ConvAvx512, kInt8ConvAvx512Vnni;
extern const Bf16ConvMicrokernels kBf16ConvAvx512Bf16;
extern const Bf16GemmMicrokernels kBf16GemmAvx512, kBf16GemmAmx;
#endif

namespace {

#if defined(__x86_64__)
// CPUID leaf 1, ECX bit 29: Clang 16's __builtin_cpu_supports does not know it.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx >> 29 & 1) != 0;
}

// GCC 12's __builtin_cpu_supports does not know it: CPUID leaf 7, subleaf 1, EAX bit 4.
bool HasAvxVnni() {
  unsigned eax, ebx, ecx, edx;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 4 & 1) != 0;
}

// CPUID leaf 7, EDX bits 22, 24 and 25; and the system must save tiles.
bool HasAmx() {
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24, kInt8 = 1u << 25, kAll = kBf16 | kTiles | kInt8;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & kAll) == kAll &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16") && RequestTiles();
}
#endif

// From the oldest to the newest. Sets that add a few instructions share all other micro-kernels with the one they
// extend.

struct Row {
  const char* name;
  const Isa* isa;
  const Int8GemmMicrokernels* int8_gemm;
  const Int8ConvMicrokernels* int8_conv;
  const Bf16ConvMicrokernels* bf16_conv;  // or null
  const Bf16GemmMicrokernels* bf16_gemm;  // or null
  bool (*present)();
};
constexpr Row kRows[] = {
#if defined(__aarch64__)
    {"neon", &kIsaNeon, &kInt8GemmNeon, &kInt8ConvNeon, nullptr, nullptr, [] { return true; }},
    {"dotprod", &kIsaNeon, &kInt8GemmDotProd, &kInt8ConvDotProd, nullptr, nullptr, HasArmDotProducts},
    {"i8mm", &kIsaNeon, &kInt8GemmI8mm, &kInt8ConvI8mm, nullptr, nullptr, HasArmMixedDotProducts},
    {"bf16", &kIsaNeon, &kInt8GemmI8mm, &kInt8ConvI8mm, &kBf16ConvArm, &kBf16GemmArm, HasArmBf16DotProducts},
#else
    {"v2", &kIsaBase, &kInt8GemmBase, &kInt8ConvBase, nullptr, nullptr, [] { return true; }},
#endif
#if defined(__x86_64__)
    {"avx2", &kIsaAvx2, &kInt8GemmAvx2, &kInt8ConvAvx2, nullptr, nullptr,
     [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c(); }},
    {"avxvnni", &kIsaAvx2, &kInt8GemmAvxVnni, &kInt8ConvAvxVnni, nullptr, nullptr, HasAvxVnni},
    {"avx512", &kIsaAvx512, &kInt8GemmAvx512, &kInt8ConvAvx512, nullptr, nullptr,
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("fma") && HasF16c();
     }},
    {"avx512vnni", &kIsaAvx512, &kInt8GemmAvx512Vnni, &kInt8ConvAvx512Vnni, nullptr, nullptr,
     [] { return __builtin_cpu_supports("avx512vnni") != 0; }},
    {"avx512bf16", &kIsaAvx512, &kInt8GemmAvx512Vnni, &kInt8ConvAvx512Vnni, &kBf16ConvAvx512Bf16, &kBf16GemmAvx512,
     [] { return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16"); }},
    {"amx", &kIsaAvx512, &kInt8GemmAmx, &kInt8ConvAvx512Vnni, &kBf16ConvAvx512Bf16, &kBf16GemmAmx, HasAmx},
#endif
};

// A row with its own Isa requires the earlier ones with their own; rows that extend another may be missing between
// them.
const Row& Choose() {
  const char* cap = IsaCap();
  const Row* best = kRows;
  for (const Row& r : kRows) {
    if (r.present())
      best = &r;
    else if (r.isa != best->isa)
      break;
    if (cap != nullptr && std::strcmp(cap, r.name) == 0) break;
  }
  return *best;
}
const Row& Best() {
  static const Row& best = Choose();
  return best;
}
const Row* Find(const char* name) {
  for (const Row& r : kRows)
    if (std::strcmp(name, r.name) == 0) return r.present() ? &r : nullptr;
  return nullptr;
}

}  // namespace

const Isa& BestIsa() { return *Best().isa; }
const char* IsaName(int i) { return i < static_cast<int>(std::size(kRows)) ? kRows[i].name : nullptr; }
bool IsaPresent(int i) { return kRows[i].present(); }
const char* BestIsaName() { return Best().name; }
const Int8GemmMicrokernels& BestInt8Gemm() { return *Best().int8_gemm; }
const Int8ConvMicrokernels& BestInt8Conv() { return *Best().int8_conv; }
const Bf16ConvMicrokernels* BestBf16Conv() { return Best().bf16_conv; }
const Bf16GemmMicrokernels* BestBf16Gemm() { return Best().bf16_gemm; }

const char* IsaCap() {
  const char* cap = std::getenv("SLIPWAY_ISA");
  for (const Row& r : kRows)
    if (cap != nullptr && std::strcmp(cap, r.name) == 0) return r.name;
  return nullptr;
}

const Isa* FindIsa(const char* name) {
  const Row* r = Find(name);
  return r != nullptr && std::strcmp(r->isa->name, name) == 0 ? r->isa : nullptr;
}
const Int8GemmMicrokernels* FindInt8Gemm(const char* name) {
  const Row* r = Find(name);
  return r != nullptr ? r->int8_gemm : nullptr;
}

const Int8ConvMicrokernels* FindInt8Conv(const char* name) {
  const Row* r = Find(name);
  return r != nullptr ? r->int8_conv : nullptr;
}

}  // namespace slipway::kernels
