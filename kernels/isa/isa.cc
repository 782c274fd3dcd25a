// The table of instruction sets and the choice among them: the last one in the table that the processor has, unless SLIPWAY_ISA
// names an earlier one. An unknown name caps nothing.
#include "kernels/isa/isa.h"

#include <cstdlib>
#include <cstring>

namespace slipway::kernels {

#if defined(__aarch64__)
extern const Isa kIsaNeon;
#else
extern const Isa kIsaBase;
#endif
#if defined(__x86_64__)
extern const Isa kIsaAvx2;
extern const Isa kIsaAvx512;
#endif

namespace {

// From the plainest to the best.
struct Row {
  const Isa* isa;
  bool (*present)();
};
constexpr Row kRows[] = {
#if defined(__aarch64__)
    {&kIsaNeon, [] { return true; }},
#else
    {&kIsaBase, [] { return true; }},
#endif
#if defined(__x86_64__)
    {&kIsaAvx2,
     [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }},
    {&kIsaAvx512,
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
     }},
#endif
};

const Isa* Choose() {
  const char* cap = std::getenv("SLIPWAY_ISA");
  const Isa* best = kRows[0].isa;
  for (const Row& r : kRows) {
    if (!r.present()) break;
    best = r.isa;
    if (cap != nullptr && std::strcmp(cap, r.isa->name) == 0) break;
  }
  return best;
}

}  // namespace

const Isa& BestIsa() {
  static const Isa* const best = Choose();
  return *best;
}

const Isa* FindIsa(const char* name) {
  for (const Row& r : kRows)
    if (std::strcmp(name, r.isa->name) == 0) return r.present() ? r.isa : nullptr;
  return nullptr;
}

}  // namespace slipway::kernels
