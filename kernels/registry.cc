// See registry.h.
#include "kernels/registry.h"

#include <algorithm>
#include <vector>

namespace slipway::kernels {

const Kernel* FindKernel(std::string_view name) {
  static const std::vector<const Kernel*>& sorted = *[] {
    auto* all = new std::vector<const Kernel*>();
    for (auto table : {UnaryKernels(), BinaryKernels(), MoveKernels(), IndexKernels(), ReduceKernels(),
                       ContractKernels(), NormalizeKernels()})
      for (const Kernel& k : table) all->push_back(&k);
    std::sort(all->begin(), all->end(), [](const Kernel* a, const Kernel* b) { return a->name < b->name; });
    return all;
  }();
  auto it = std::lower_bound(sorted.begin(), sorted.end(), name,
                             [](const Kernel* k, std::string_view n) { return k->name < n; });
  return it != sorted.end() && (*it)->name == name ? *it : nullptr;
}

}  // namespace slipway::kernels
