// The executor: one walk over the steps. Memory of temporaries is taken at their first use and given back after their
// last.
#include <cstdlib>
#include <memory>

#include "kernels/plan.h"

namespace slipway::kernels {
namespace {

constexpr size_t kAlignment = 64;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, Free>;

}  // namespace

RunResult Run(const Plan& plan, std::span<const void* const> inputs, std::span<void* const> outputs) {
  std::vector<Memory> owned(plan.buffers.size());
  // The start of a buffer; null where memory is short.
  auto address = [&](int buffer) -> char* {
    const Buffer& b = plan.buffers[buffer];
    switch (b.kind) {
      case Buffer::kConstant:
        return static_cast<char*>(const_cast<void*>(b.constant));
      case Buffer::kInput:
        return static_cast<char*>(const_cast<void*>(inputs[b.slot]));
      case Buffer::kOutput:
        return static_cast<char*>(outputs[b.slot]);
      case Buffer::kTemporary:
        break;
    }
    if (!owned[buffer]) {
      const size_t bytes = (static_cast<size_t>(b.bytes) / kAlignment + 1) * kAlignment;
      owned[buffer].reset(std::aligned_alloc(kAlignment, bytes));
    }
    return static_cast<char*>(owned[buffer].get());
  };
  std::vector<Tensor> in, out;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    auto bind = [&](const std::vector<int>& views, std::vector<Tensor>& tensors) {
      tensors.clear();
      for (int v : views) {
        const View& view = plan.views[v];
        char* base = address(view.buffer);
        if (!base) return false;
        tensors.push_back(view.shape);
        tensors.back().data = base + view.offset;
      }
      return true;
    };
    if (!bind(step.in, in) || !bind(step.out, out)) return {"out of memory", i};
    if (const char* why = step.kernel->run({in, out, step.compute, step.ints, step.floats})) return {why, i};
    for (int b : step.last_of) owned[b].reset();
  }
  return {};
}

}  // namespace slipway::kernels
