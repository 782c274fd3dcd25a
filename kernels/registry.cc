// The one sorted table of all families' rows, made when the first kernel is looked for, and the two ways to call a row.
#include "kernels/registry.h"

#include <algorithm>
#include <vector>

namespace slipway::kernels {

const Kernel* FindKernel(std::string_view name) {
  static const std::vector<Kernel>& sorted = *[] {
    auto* all = new std::vector<Kernel>();
    // The least number of inputs holds for all rows of a family.
    const struct {
      std::span<const Kernel> rows;
      bool elementwise;
      int8_t inputs;
    } tables[] = {{UnaryKernels(), true, 1},           {BinaryKernels(), true, 2},      {ChainKernels(), true, 0},
                  {MoveKernels(), false, 0},           {IndexKernels(), false, 1},      {ReduceKernels(), false, 1},
                  {MatmulKernels(), false, 2},         {QuantKernels(), false, 2},      {IntegerKernels(), false, 1},
                  {AttentionKernels(), false, 3},      {NormalizeKernels(), false, 1},  {GroupNormKernels(), false, 1},
                  {BatchNormKernels(), false, 3},      {ConvKernels(), false, 2},       {RecurrentKernels(), false, 3},
                  {PoolKernels(), false, 1},           {SampleKernels(), false, 1},     {OrderKernels(), false, 1},
                  {TransformKernels(), false, 1},      {RandomKernels(), false, 0},     {DetectionKernels(), false, 2},
                  {QuantEmbeddingKernels(), false, 3}, {IntegerConvKernels(), false, 4}};
    for (const auto& table : tables) {
      for (Kernel k : table.rows) {
        k.elementwise |= table.elementwise;
        k.inputs = std::max(k.inputs, table.inputs);
        all->push_back(k);
      }
    }
    std::sort(all->begin(), all->end(), [](const Kernel& a, const Kernel& b) { return a.name < b.name; });
    return all;
  }();
  auto it = std::lower_bound(sorted.begin(), sorted.end(), name,
                             [](const Kernel& k, std::string_view n) { return k.name < n; });
  return it != sorted.end() && it->name == name ? &*it : nullptr;
}

const char* Run(const Kernel& kernel, Call c) {
  if (c.scratch != nullptr) return kernel.run(c);
  Scratch own;
  c.scratch = &own;
  return kernel.run(c);
}

int64_t QueryWorkspace(const Kernel& kernel, Call c) {
  if (!kernel.queries_workspace) return 0;
  Scratch counter = Scratch::Counter();
  c.scratch = &counter;
  kernel.run(c);
  return counter.counted();
}

}  // namespace slipway::kernels
