// Packing filters and the way back. Both walk panels in the order in which they lie.
#include "kernels/conv/filters.h"

#include <algorithm>

namespace slipway::kernels {
namespace {

// Calls column(output channel, column of the panel) for the columns of a panel that are there.
template <typename F>
void EachColumn(const FilterShape& f, int64_t panel, F column) {
  int64_t first = panel * kPanel, count = std::min(kPanel, f.outs - first);
  if (!f.shared()) {
    const int64_t group = panel / f.group_panels(), in_group = panel % f.group_panels() * kPanel;
    first = group * f.group_outs() + in_group;
    count = std::min(kPanel, f.group_outs() - in_group);
  }
  for (int64_t j = 0; j < count; ++j) column(first + j, j);
}
// Row of a panel at which tap t of channel c lies.
int64_t RowOf(const FilterShape& f, int64_t c, int64_t t) { return f.planes() ? c * f.taps() + t : t * f.per + c; }

}  // namespace

FilterShape FiltersOf(const WeightMatrix& m) {
  return {.groups = m.groups, .per = m.k / m.taps, .outs = m.n, .height = 1, .width = m.taps};
}

void PackFilters(const float* weights, const FilterShape& f, int64_t first, int64_t last, float* to) {
  std::fill_n(to, (last - first) * f.depth() * kPanel, 0.0f);
  for (int64_t panel = first; panel < last; ++panel, to += f.depth() * kPanel)
    EachColumn(f, panel, [&](int64_t o, int64_t j) {
      const float* from = weights + o * f.depth();
      for (int64_t c = 0; c < f.per; ++c)
        for (int64_t t = 0; t < f.taps(); ++t) to[RowOf(f, c, t) * kPanel + j] = *from++;
    });
}

void UnpackFilters(const float* panels, const FilterShape& f, float* to) {
  for (int64_t panel = 0; panel < f.panels(); ++panel, panels += f.depth() * kPanel)
    EachColumn(f, panel, [&](int64_t o, int64_t j) {
      float* at = to + o * f.depth();
      for (int64_t c = 0; c < f.per; ++c)
        for (int64_t t = 0; t < f.taps(); ++t) *at++ = panels[RowOf(f, c, t) * kPanel + j];
    });
}

void PackTaps(const float* weights, int64_t channels, int64_t outs, int64_t taps, int64_t first, int64_t last, float* to) {
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t tap = panel / TapPanels(outs), o = panel % TapPanels(outs) * kPanel, count = std::min(kPanel, outs - o);
    for (int64_t c = 0; c < channels; ++c, to += kPanel) {
      const float* const from = weights + (c * outs + o) * taps + tap;
      for (int64_t j = 0; j < count; ++j) to[j] = from[j * taps];
      std::fill(to + count, to + kPanel, 0.0f);
    }
  }
}

void UnpackTaps(const float* panels, int64_t channels, int64_t outs, int64_t taps, float* to) {
  for (int64_t panel = 0; panel < taps * TapPanels(outs); ++panel) {
    const int64_t tap = panel / TapPanels(outs), o = panel % TapPanels(outs) * kPanel, count = std::min(kPanel, outs - o);
    for (int64_t c = 0; c < channels; ++c, panels += kPanel)
      for (int64_t j = 0; j < count; ++j) to[(c * outs + o + j) * taps + tap] = panels[j];
  }
}

}  // namespace slipway::kernels
