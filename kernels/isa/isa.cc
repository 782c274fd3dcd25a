// The table of instruction sets and the choice among them: the last one in the table that the processor has, unless
// SLIPWAY_ISA names an earlier one. An unknown name caps nothing. cmake/InstructionSets.cmake defines SLIPWAY_WITH_… of
// each set that is built.
#include "kernels/isa/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "kernels/isa/bf16_conv.h"
#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/int8_conv.h"
#include "kernels/isa/int8_gemm.h"
#include "kernels/isa/names.h"
#include "kernels/system.h"

namespace slipway::kernels {

// The tables of a set: of all families, or of some of them, where it extends another.
#define SLIPWAY_ALL_FAMILIES(set, bytes)                                       \
  namespace set {                                                              \
  extern const GemmMicrokernels kGemm;                                         \
  extern const ElementwiseMicrokernels kElementwise;                           \
  extern const ReductionMicrokernels kReduction;                               \
  extern const RnnMicrokernels kRnn;                                           \
  extern const ConvNchwMicrokernels kConvNchw;                                 \
  extern const ConvNhwcMicrokernels kConvNhwc;                                 \
  extern const DequantGemmMicrokernels kDequantGemm;                           \
  extern const AttentionMicrokernels kAttention;                               \
  extern const Int8GemmMicrokernels kInt8Gemm;                                 \
  extern const Int8ConvMicrokernels kInt8Conv;                                 \
  constexpr Isa kIsa = {#set, bytes / 4, kGemm,     kElementwise, kReduction,  \
                        kRnn, kConvNchw, kConvNhwc, kDequantGemm, kAttention}; \
  }
#define SLIPWAY_BYTE_FAMILIES(set)             \
  namespace set {                              \
  extern const Int8GemmMicrokernels kInt8Gemm; \
  extern const Int8ConvMicrokernels kInt8Conv; \
  }
#define SLIPWAY_BF16_FAMILIES(set)             \
  namespace set {                              \
  extern const Bf16GemmMicrokernels kBf16Gemm; \
  extern const Bf16ConvMicrokernels kBf16Conv; \
  }

#if SLIPWAY_WITH_V2
SLIPWAY_ALL_FAMILIES(v2, 16)
#endif
#if SLIPWAY_WITH_AVX2
SLIPWAY_ALL_FAMILIES(avx2, 32)
#endif
#if SLIPWAY_WITH_AVXVNNI
SLIPWAY_BYTE_FAMILIES(avxvnni)
#endif
#if SLIPWAY_WITH_AVX512
SLIPWAY_ALL_FAMILIES(avx512, 64)
#endif
#if SLIPWAY_WITH_AVX512VNNI
SLIPWAY_BYTE_FAMILIES(avx512vnni)
#endif
#if SLIPWAY_WITH_AVX512BF16
SLIPWAY_BF16_FAMILIES(avx512bf16)
#endif
#if SLIPWAY_WITH_AMX
namespace amx {
extern const Int8GemmMicrokernels kInt8Gemm;
extern const Bf16GemmMicrokernels kBf16Gemm;
}  // namespace amx
#endif
#if SLIPWAY_WITH_NEON
SLIPWAY_ALL_FAMILIES(neon, 16)
#endif
#if SLIPWAY_WITH_DOTPROD
SLIPWAY_BYTE_FAMILIES(dotprod)
#endif
#if SLIPWAY_WITH_I8MM
SLIPWAY_BYTE_FAMILIES(i8mm)
#endif
#if SLIPWAY_WITH_BF16
SLIPWAY_BF16_FAMILIES(bf16)
#endif

namespace {

#if defined(__x86_64__)
// CPUID leaf 1, ECX bit 29: Clang 16's __builtin_cpu_supports does not know it.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx >> 29 & 1) != 0;
}

[[maybe_unused]] bool HasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c(); }

[[maybe_unused]] bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma") &&
         HasF16c();
}

// GCC 12's __builtin_cpu_supports does not know it: CPUID leaf 7, subleaf 1, EAX bit 4.
[[maybe_unused]] bool HasAvxVnni() {
  unsigned eax, ebx, ecx, edx;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 4 & 1) != 0;
}

// CPUID leaf 7, EDX bits 22, 24 and 25; and the system must save tiles.
[[maybe_unused]] bool HasAmx() {
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24, kInt8 = 1u << 25, kAll = kBf16 | kTiles | kInt8;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & kAll) == kAll &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16") && RequestTiles();
}
#endif
#if SLIPWAY_WITH_V2
bool HasV2() { return true; }  // what everything else is compiled for, or older
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
#if SLIPWAY_WITH_V2
    {"v2", &v2::kIsa, &v2::kInt8Gemm, &v2::kInt8Conv, nullptr, nullptr, HasV2},
#endif
#if SLIPWAY_WITH_AVX2
    {"avx2", &avx2::kIsa, &avx2::kInt8Gemm, &avx2::kInt8Conv, nullptr, nullptr, HasAvx2},
#endif
#if SLIPWAY_WITH_AVXVNNI
    {"avxvnni", &avx2::kIsa, &avxvnni::kInt8Gemm, &avxvnni::kInt8Conv, nullptr, nullptr, HasAvxVnni},
#endif
#if SLIPWAY_WITH_AVX512
    {"avx512", &avx512::kIsa, &avx512::kInt8Gemm, &avx512::kInt8Conv, nullptr, nullptr, HasAvx512},
#endif
#if SLIPWAY_WITH_AVX512VNNI
    {"avx512vnni", &avx512::kIsa, &avx512vnni::kInt8Gemm, &avx512vnni::kInt8Conv, nullptr, nullptr,
     [] { return __builtin_cpu_supports("avx512vnni") != 0; }},
#endif
#if SLIPWAY_WITH_AVX512BF16
    {"avx512bf16", &avx512::kIsa, &avx512vnni::kInt8Gemm, &avx512vnni::kInt8Conv, &avx512bf16::kBf16Conv,
     &avx512bf16::kBf16Gemm,
     [] { return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16"); }},
#endif
#if SLIPWAY_WITH_AMX
    {"amx", &avx512::kIsa, &amx::kInt8Gemm, &avx512vnni::kInt8Conv, &avx512bf16::kBf16Conv, &amx::kBf16Gemm, HasAmx},
#endif
#if SLIPWAY_WITH_NEON
    {"neon", &neon::kIsa, &neon::kInt8Gemm, &neon::kInt8Conv, nullptr, nullptr, [] { return true; }},
#endif
#if SLIPWAY_WITH_DOTPROD
    {"dotprod", &neon::kIsa, &dotprod::kInt8Gemm, &dotprod::kInt8Conv, nullptr, nullptr, HasArmDotProducts},
#endif
#if SLIPWAY_WITH_I8MM
    {"i8mm", &neon::kIsa, &i8mm::kInt8Gemm, &i8mm::kInt8Conv, nullptr, nullptr, HasArmMixedDotProducts},
#endif
#if SLIPWAY_WITH_BF16
    {"bf16", &neon::kIsa, &i8mm::kInt8Gemm, &i8mm::kInt8Conv, &bf16::kBf16Conv, &bf16::kBf16Gemm,
     HasArmBf16DotProducts},
#endif
};
constexpr int kCount = static_cast<int>(std::size(kRows));

// Null where the processor has none of the sets.
const Row* BestOrNull() {
  static const Row* const best = [] {
    IsaPresence rows[kCount];
    for (int i = 0; i < kCount; ++i)
      rows[i] = {kRows[i].name, i == 0 || kRows[i].isa != kRows[i - 1].isa, kRows[i].present()};
    const int i = ChooseIsa(rows, kCount, IsaCap());
    return i >= 0 ? &kRows[i] : nullptr;
  }();
  return best;
}
const Row& Best() {
  const Row* const best = BestOrNull();
  if (best != nullptr) [[likely]]
    return *best;
  // Whoever loads plans or begins a command asks IsaError() first.
  std::fprintf(stderr, "slipway: %s\n", IsaError());
  std::abort();
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
const char* BestIsaName() {
  const Row* const best = BestOrNull();
  return best != nullptr ? best->name : "none";
}
bool HasAllIsas() {
  int of_this_architecture = 1;
#if defined(__x86_64__)
  of_this_architecture = 7;
#elif defined(__aarch64__)
  of_this_architecture = 4;
#endif
  return kCount == of_this_architecture;
}
const char* IsaError() {
  if (BestOrNull() != nullptr) return nullptr;
  static const std::string error = [] {
    std::string names;
    for (const Row& r : kRows) names += (names.empty() ? "" : ", ") + std::string(r.name);
    return "this build has kernels for " + names + " only and this processor lacks " +
           (kCount == 1 ? "it" : "all of these") +
           "; `cmake -DSLIPWAY_ISAS=all build && cmake --build build` adds the others";
  }();
  return error.c_str();
}

int ChooseIsa(const IsaPresence* sets, int count, const char* cap) {
  int best = -1;
  for (int i = 0; i < count; ++i) {
    if (sets[i].present)
      best = i;
    else if (sets[i].whole)
      break;
    if (cap != nullptr && std::strcmp(cap, sets[i].name) == 0) break;
  }
  return best;
}
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
