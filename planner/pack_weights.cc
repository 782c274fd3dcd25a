// A weight is packed if all its uses agree: views of one constant may lie at the same place in several buffers (tied
// weights), and a single use as anything but the same whole right matrix keeps it plain.
#include "planner/pack_weights.h"

#include <map>
#include <utility>
#include <variant>

namespace slipway::planner {
namespace {

// Narrower ones gain little and are filled up by much. Those of f32 gain where rows are many, whose last vector of
// columns has loops of its own.
constexpr int64_t kMinColumns = 2 * kernels::kPanel, kMinFloatColumns = 4;

bool Fits(const PlannedProgram::Weight& w, const void* integers, const kernels::WeightMatrix& m,
          kernels::Packing packing) {
  if (const auto& known = w.tensor.storage->bounds) {
    const auto [low, high] = kernels::NibbleRange(packing);
    return known->first >= low && known->second <= high;
  }
  const bool fits = kernels::FitsPacking(integers, m.dtype, m.k * m.n, packing);
  if (const auto* bytes = std::get_if<io::Bytes>(&w.tensor.storage->bytes))
    if (const io::FileRange* range = bytes->file_range()) range->Release();
  return fits;
}

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
      auto takes = [&](kernels::Packing packing) { return kernels::CanUsePacked(plan, s, k, packing, &m); };
      use.nibbles = use.nibbles && takes(kernels::Packing::kNr16Int4);
      use.quads = use.quads && takes(kernels::Packing::kNr16K4);
      use.panels = use.panels && takes(kernels::Packing::kNr16);
      use.filters = use.filters && takes(kernels::Packing::kConvFilters);
      use.taps = use.taps && takes(kernels::Packing::kTransposedConvFilters);
      use.good = use.good && (use.quads || use.panels || use.filters || use.taps);
      m.packing = kernels::Packing::kNr16;
      use.good =
          use.good &&
          (use.filters || use.taps || m.n >= (m.dtype == kernels::DType::kF32 ? kMinFloatColumns : kMinColumns)) &&
          (!use.any || m == use.matrix);
      use.matrix = m;
      use.any = true;
    }
  for (PlannedProgram::Weight& w : planned.weights) {
    const Use& use = uses[place_of[w.buffer]];
    if (!use.any || !use.good) continue;
    w.packed = use.matrix;
    w.packed->packing = use.filters  ? kernels::Packing::kConvFilters
                        : use.taps   ? kernels::Packing::kTransposedConvFilters
                        : use.panels ? kernels::Packing::kNr16
                                     : kernels::Packing::kNr16K4;
    if (!use.nibbles) continue;
    for (kernels::Packing packing : {kernels::Packing::kNr16UInt4, kernels::Packing::kNr16Int4})
      if (Fits(w, plan.buffers[w.buffer].constant, use.matrix, packing)) w.packed->packing = packing;
  }
}

}  // namespace slipway::planner
