// The table of instruction sets and the choice among them: the last one in the table that the processor has, unless
// SLIPWAY_ISA names an earlier one. An unknown name caps nothing.
#include "kernels/isa/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <cstring>

#include "kernels/isa/bf16.h"
#include "kernels/isa/dot.h"

namespace slipway::kernels {

#if defined(__aarch64__)
extern const Isa kIsaNeon;
extern const DotIsa kDotNeon;
#else
extern const Isa kIsaBase;
extern const DotIsa kDotBase;
#endif
#if defined(__x86_64__)
extern const Isa kIsaAvx2, kIsaAvx512;
extern const DotIsa kDotAvx2, kDotAvxVnni, kDotAvx512, kDotAvx512Vnni;
extern const Bf16Isa kBf16Avx512;
#endif

namespace {

#if defined(__x86_64__)
// GCC 12's __builtin_cpu_supports does not know it: CPUID leaf 7, subleaf 1, EAX bit 4.
bool HasAvxVnni() {
  unsigned eax, ebx, ecx, edx;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 4 & 1) != 0;
}
#endif

// From the plainest to the best. Sets that add a few instructions share the other loops with the one that they add them
// to.
struct Row {
  const char* name;
  const Isa* isa;
  const DotIsa* dot;
  const Bf16Isa* bf16;  // or null
  bool (*present)();
};
constexpr Row kRows[] = {
#if defined(__aarch64__)
    {"neon", &kIsaNeon, &kDotNeon, nullptr, [] { return true; }},
#else
    {"v2", &kIsaBase, &kDotBase, nullptr, [] { return true; }},
#endif
#if defined(__x86_64__)
    {"avx2", &kIsaAvx2, &kDotAvx2, nullptr,
     [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }},
    {"avxvnni", &kIsaAvx2, &kDotAvxVnni, nullptr, HasAvxVnni},
    {"avx512", &kIsaAvx512, &kDotAvx512, nullptr,
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
     }},
    {"avx512vnni", &kIsaAvx512, &kDotAvx512Vnni, nullptr, [] { return __builtin_cpu_supports("avx512vnni") != 0; }},
    {"avx512bf16", &kIsaAvx512, &kDotAvx512Vnni, &kBf16Avx512,
     [] { return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16"); }},
#endif
};

// Each row needs what the rows of the other loops before it need; one that adds instructions may be missing between
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
const DotIsa& BestDot() { return *Best().dot; }
const Bf16Isa* BestBf16() { return Best().bf16; }

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
const DotIsa* FindDot(const char* name) {
  const Row* r = Find(name);
  return r != nullptr ? r->dot : nullptr;
}

}  // namespace slipway::kernels
