// See registry.h.
#include "kernels/registry.h"

#include <algorithm>
#include <vector>

namespace slipway::kernels {

const Kernel* FindKernel(std::string_view name) {
  static const std::vector<Kernel>& sorted = *[] {
    auto* all = new std::vector<Kernel>();
    const struct {
      std::span<const Kernel> rows;
      bool elementwise;
      int8_t inputs;
    } tables[] = {{UnaryKernels(), true, 1},     {BinaryKernels(), true, 2}, {ChainKernels(), true, 0},  {MoveKernels(), false, 0},
                  {IndexKernels(), false, 1},    {ReduceKernels(), false, 1}, {ContractKernels(), false, 2}, {QuantKernels(), false, 2}, {AttentionKernels(), false, 3},
                  {NormalizeKernels(), false, 1}, {ConvKernels(), false, 2}, {RecurrentKernels(), false, 3}, {PoolKernels(), false, 1}, {SampleKernels(), false, 1}, {OrderKernels(), false, 1}, {TransformKernels(), false, 1}};
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

}  // namespace slipway::kernels
