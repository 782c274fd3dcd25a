// What the passes over finished plans (fuse_*.cc) share: which steps read and write each buffer, the replacement of
// steps, and their numbers.
#ifndef SLIPWAY_PLANNER_PLAN_USES_H_
#define SLIPWAY_PLANNER_PLAN_USES_H_

#include <bit>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/attributes.h"
#include "kernels/executor/plan.h"

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

// Makes the steps of a plan anew, in order: `emit(i, steps, views)` appends what takes the place of step i, with its
// views, or nothing. Jumps go to what takes the place of their targets, or comes after it.
template <typename F>
void RewriteSteps(kernels::Plan& plan, F emit) {
  std::vector<kernels::Step> steps;
  std::vector<kernels::View> views;
  std::vector<int> place;  // of old steps, and the end, among the new
  for (int i = 0; i < static_cast<int>(plan.steps.size()); ++i) {
    place.push_back(static_cast<int>(steps.size()));
    emit(i, steps, views);
  }
  place.push_back(static_cast<int>(steps.size()));
  for (kernels::Step& s : steps)
    if (s.kind == kernels::Step::kJump || s.kind == kernels::Step::kUnless) s.target = place[s.target];
  plan.steps = std::move(steps);
  plan.views = std::move(views);
}

// Appends the numbers of a kernel's attributes, integers and then reals, to the plan's numbers, and counts them in the
// step, whose last numbers they become.
template <typename Attributes>
void AppendNumbers(kernels::Plan& plan, Attributes attributes, kernels::Step* s) {
  std::vector<int32_t> reals;  // behind all integers
  auto add = [&]<typename T>(const T& x) {
    const bool real = std::is_same_v<T, double>;
    plan.exprs.push_back({.op = real ? kernels::Expr::kReal : kernels::Expr::kInt, .value = std::bit_cast<int64_t>(x)});
    (real ? reals : plan.numbers).push_back(static_cast<int32_t>(plan.exprs.size()) - 1);
    ++(real ? s->floats : s->ints);
  };
  kernels::ForEachNumber(attributes, add);
  plan.numbers.insert(plan.numbers.end(), reals.begin(), reals.end());
}

// The plan without the steps that are marked; their views go with them.
inline void DropSteps(kernels::Plan& plan, const std::vector<char>& gone) {
  RewriteSteps(plan, [&](int i, std::vector<kernels::Step>& steps, std::vector<kernels::View>& views) {
    if (gone[i]) return;
    kernels::Step s = plan.steps[i];
    const auto first = plan.views.begin() + s.first_view;
    s.first_view = static_cast<int>(views.size());
    views.insert(views.end(), first, first + s.inputs + s.outputs);
    steps.push_back(s);
  });
}

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_PLAN_USES_H_
