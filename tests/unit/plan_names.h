// The kernels of a plan's steps, which tests of passes over plans expect.
#ifndef SLIPWAY_TESTS_UNIT_PLAN_NAMES_H_
#define SLIPWAY_TESTS_UNIT_PLAN_NAMES_H_

#include <string>

#include "base/text.h"
#include "kernels/executor/plan.h"
#include "kernels/registry.h"

namespace slipway::planner {

inline std::string KernelNames(const kernels::Plan& plan) {
  std::string names;
  for (const kernels::Step& s : plan.steps)
    if (s.kernel) text::StrAppend(&names, names.empty() ? "" : " ", s.kernel->name);
  return names;
}

}  // namespace slipway::planner

#endif  // SLIPWAY_TESTS_UNIT_PLAN_NAMES_H_
