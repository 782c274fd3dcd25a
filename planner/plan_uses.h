// What the passes over finished plans (fuse_*.cc) share: who reads and writes each buffer, and putting other steps in
// the place of the old ones.
#ifndef SLIPWAY_PLANNER_PLAN_USES_H_
#define SLIPWAY_PLANNER_PLAN_USES_H_

#include <utility>
#include <vector>

#include "kernels/plan.h"

namespace slipway::planner {

// The steps that read and that write each buffer, in order, one entry a view.
struct PlanUses {
  std::vector<std::vector<int>> readers, writers;  // of buffers

  explicit PlanUses(const kernels::Plan& plan) : readers(plan.buffers.size()), writers(plan.buffers.size()) {
    for (int i = 0; i < static_cast<int>(plan.steps.size()); ++i) {
      const kernels::Step& s = plan.steps[i];
      for (int k = 0; k < s.inputs + s.outputs; ++k)
        (k < s.inputs ? readers : writers)[plan.views[s.first_view + k].buffer].push_back(i);
    }
  }
};

// `place[i]` is where among the new steps the old step i is or what comes after it, with one entry more for the end:
// jumps go there.
inline void ReplaceSteps(kernels::Plan& plan, std::vector<kernels::Step> steps, const std::vector<int>& place) {
  for (kernels::Step& s : steps)
    if (s.kind == kernels::Step::kJump || s.kind == kernels::Step::kUnless) s.target = place[s.target];
  plan.steps = std::move(steps);
}

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_PLAN_USES_H_
