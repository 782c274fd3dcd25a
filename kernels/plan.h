// A plan: what a native program is at run time. Buffers, views into them, and a flat list of kernel calls; no names, no
// expressions, nothing to look up. Views (slices, transposes, expansions) cost nothing: they are entries of a table.
//
// Sizes are numbers: a plan is for one set of input sizes.
#ifndef SLIPWAY_KERNELS_PLAN_H_
#define SLIPWAY_KERNELS_PLAN_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/registry.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

struct Buffer {
  enum Kind : uint8_t {
    kTemporary,  // the executor's, from its first step to its last
    kConstant,   // memory that whoever made the plan keeps alive and nobody writes
    kInput,      // the caller's
    kOutput,     // the caller's, written
  };
  Kind kind = kTemporary;
  int64_t bytes = 0;
  const void* constant = nullptr;  // kConstant
  int slot = 0;                    // kInput, kOutput: which
};

// A tensor: `shape.data` is unused, the bytes begin at `offset` of the buffer.
struct View {
  int buffer = 0;
  int64_t offset = 0;
  Tensor shape;
};

struct Step {
  const Kernel* kernel = nullptr;
  std::vector<int> in, out;  // views
  DType compute = DType::kF32;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<int> last_of;  // temporary buffers nobody reads after this step
  int origin = 0;            // what the planner made the step from, for messages and profiles
};

struct Plan {
  std::vector<Buffer> buffers;
  std::vector<View> views;
  std::vector<Step> steps;
};

// What went wrong: the kernel's text and the step; ok when `why` is null.
struct RunResult {
  const char* why = nullptr;
  size_t step = 0;
};

// Runs the plan. `inputs` and `outputs` point to dense memory of the sizes that the plan's buffers of those slots
// state; they may not overlap. Not ok: the outputs hold nothing of use.
RunResult Run(const Plan& plan, std::span<const void* const> inputs, std::span<void* const> outputs);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_PLAN_H_
