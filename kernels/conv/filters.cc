// Packing filters and the way back. Both walk panels in the order in which they lie.
#include "kernels/conv/filters.h"

#include <algorithm>

namespace slipway::kernels {
namespace {

// The output channels whose columns a panel has.
struct Columns {
  int64_t first, count;
};
Columns ColumnsOf(const FilterShape& f, int64_t panel) {
  if (f.shared()) return {panel * kPanel, std::min(kPanel, f.outs - panel * kPanel)};
  const int64_t group = panel / f.group_panels(), in_group = panel % f.group_panels() * kPanel;
  return {group * f.group_outs() + in_group, std::min(kPanel, f.group_outs() - in_group)};
}
// Row of a panel at which tap t of channel c lies.
int64_t RowOf(const FilterShape& f, int64_t c, int64_t t) { return f.planes() ? c * f.taps() + t : t * f.per + c; }

}  // namespace

FilterShape FiltersOf(const WeightMatrix& m) {
  return {.groups = m.groups, .per = m.k / m.taps, .outs = m.n, .height = 1, .width = m.taps};
}

void PackFilters(const float* weights, const FilterShape& f, int64_t first, int64_t last, float* to) {
  const bool in_order = f.planes() || f.per == 1 || f.taps() == 1;  // rows of a panel lie as a channel's weights do
  for (int64_t panel = first; panel < last; ++panel, to += f.depth() * kPanel) {
    const Columns columns = ColumnsOf(f, panel);
    const float* from = weights + columns.first * f.depth();
    if (columns.count < kPanel) std::fill_n(to, f.depth() * kPanel, 0.0f);
    if (in_order) {
      BestIsa().transpose(reinterpret_cast<const uint32_t*>(from), f.depth(), reinterpret_cast<uint32_t*>(to), kPanel,
                          f.depth(), columns.count);
      continue;
    }
    for (int64_t j = 0; j < columns.count; ++j)
      for (int64_t c = 0; c < f.per; ++c)
        for (int64_t t = 0; t < f.taps(); ++t) to[RowOf(f, c, t) * kPanel + j] = *from++;
  }
}

void UnpackFilters(const float* panels, const FilterShape& f, float* to) {
  for (int64_t panel = 0; panel < f.panels(); ++panel, panels += f.depth() * kPanel) {
    const Columns columns = ColumnsOf(f, panel);
    float* at = to + columns.first * f.depth();
    for (int64_t j = 0; j < columns.count; ++j)
      for (int64_t c = 0; c < f.per; ++c)
        for (int64_t t = 0; t < f.taps(); ++t) *at++ = panels[RowOf(f, c, t) * kPanel + j];
  }
}

void PackTaps(const float* weights, int64_t channels, int64_t outs, int64_t taps, int64_t first, int64_t last,
              float* to) {
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t tap = panel / TapPanels(outs), o = panel % TapPanels(outs) * kPanel,
                  count = std::min(kPanel, outs - o);
    for (int64_t c = 0; c < channels; ++c, to += kPanel) {
      const float* const from = weights + (c * outs + o) * taps + tap;
      for (int64_t j = 0; j < count; ++j) to[j] = from[j * taps];
      std::fill(to + count, to + kPanel, 0.0f);
    }
  }
}

void UnpackTaps(const float* panels, int64_t channels, int64_t outs, int64_t taps, float* to) {
  for (int64_t panel = 0; panel < taps * TapPanels(outs); ++panel) {
    const int64_t tap = panel / TapPanels(outs), o = panel % TapPanels(outs) * kPanel,
                  count = std::min(kPanel, outs - o);
    for (int64_t c = 0; c < channels; ++c, panels += kPanel)
      for (int64_t j = 0; j < count; ++j) to[(c * outs + o + j) * taps + tap] = panels[j];
  }
}

}  // namespace slipway::kernels
