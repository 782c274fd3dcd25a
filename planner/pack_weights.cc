// A weight is packed if all its uses agree: views of one constant may lie at the same place in several buffers (tied
// weights), and a single use as anything but the same whole right matrix keeps it plain.
#include "planner/pack_weights.h"

#include <map>
#include <utility>

namespace slipway::planner {
namespace {

// Narrower ones gain little and are filled up by much. Those of f32 gain where rows are many, whose last vector of
// columns has loops of its own.
constexpr int64_t kLeastColumns = 2 * kernels::kPanel, kLeastFloatColumns = 4;

}  // namespace

void ChooseWeightsToPack(PlannedProgram& planned) {
  const kernels::Plan& plan = planned.plan;
  // What each constant's bytes are read as, by the place they lie at: tied weights stay one, packed or not.
  struct Use {
    kernels::WeightMatrix matrix;
    bool any = false, good = true, nibbles = true, quads = true, panels = true, filters = true, taps = true;
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
      auto takes = [&](kernels::Packing packing) { return kernels::TakesPacked(plan, s, k, packing, &m); };
      use.nibbles = use.nibbles && takes(kernels::Packing::kNibbles);
      use.quads = use.quads && takes(kernels::Packing::kQuads);
      use.panels = use.panels && takes(kernels::Packing::kPanels);
      use.filters = use.filters && takes(kernels::Packing::kFilters);
      use.taps = use.taps && takes(kernels::Packing::kTaps);
      use.good = use.good && (use.quads || use.panels || use.filters || use.taps);
      m.packing = kernels::Packing::kPanels;
      use.good =
          use.good &&
          (use.filters || use.taps || m.n >= (m.dtype == kernels::DType::kF32 ? kLeastFloatColumns : kLeastColumns)) &&
          (!use.any || m == use.matrix);
      use.matrix = m;
      use.any = true;
    }
  for (PlannedProgram::Weight& w : planned.weights) {
    const Use& use = uses[place_of[w.buffer]];
    if (!use.any || !use.good) continue;
    w.packed = use.matrix;
    w.packed->packing = use.filters  ? kernels::Packing::kFilters
                        : use.taps   ? kernels::Packing::kTaps
                        : use.panels ? kernels::Packing::kPanels
                                     : kernels::Packing::kQuads;
    if (!use.nibbles) continue;
    for (kernels::Packing packing : {kernels::Packing::kUnsignedNibbles, kernels::Packing::kNibbles})
      if (kernels::FitsPacking(plan.buffers[w.buffer].constant, use.matrix.dtype, use.matrix.k * use.matrix.n, packing))
        w.packed->packing = packing;
  }
}

}  // namespace slipway::planner
