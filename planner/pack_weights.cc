// See pack_weights.h.
#include "planner/pack_weights.h"

#include <map>
#include <utility>

namespace slipway::planner {
namespace {

// Narrower ones gain little and are filled up by much.
constexpr int64_t kLeastColumns = 2 * kernels::kPanel;

}  // namespace

void ChooseWeightsToPack(PlannedProgram& planned) {
  const kernels::Plan& plan = planned.plan;
  // What each constant's bytes are read as, by the place they lie at: tied weights stay one, packed or not.
  struct Use {
    kernels::WeightMatrix matrix;
    bool any = false, good = true;
  };
  using Place = std::pair<const ir::Storage*, int64_t>;
  std::map<int, Place> place_of;
  std::map<Place, Use> uses;
  for (const PlannedProgram::Weight& w : planned.weights) {
    place_of[w.buffer] = {w.tensor.storage.get(), w.tensor.offset};
    uses[place_of[w.buffer]].good &= w.tensor.is_contiguous();
  }
  for (const kernels::Step& s : plan.steps)
    for (int k = 0; k < s.inputs + s.outputs; ++k) {
      auto place = place_of.find(plan.views[s.first_view + k].buffer);
      if (place == place_of.end()) continue;
      Use& use = uses[place->second];
      kernels::WeightMatrix m;
      use.good = use.good && kernels::TakesPacked(plan, s, k, &m) && m.n >= kLeastColumns && (!use.any || m == use.matrix);
      use.matrix = m;
      use.any = true;
    }
  for (PlannedProgram::Weight& w : planned.weights)
    if (const Use& use = uses[place_of[w.buffer]]; use.any && use.good) w.packed = use.matrix;
}

}  // namespace slipway::planner
