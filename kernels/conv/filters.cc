// Packing filters and the way back. Both walk panels in the order in which they lie.
#include "kernels/conv/filters.h"

#include <algorithm>
#include <vector>

namespace slipway::kernels {
namespace {

// The output channels whose columns a panel has.
struct Columns {
  int64_t first, count;
};
Columns ColumnsOf(const FilterShape& f, int64_t panel) {
  if (f.shared()) return {panel * kPanel, std::min(kPanel, f.output_channels - panel * kPanel)};
  const int64_t group = panel / f.group_panels(), in_group = panel % f.group_panels() * kPanel;
  return {group * f.group_output_channels() + in_group, std::min(kPanel, f.group_output_channels() - in_group)};
}
// Row of a panel at which tap t of channel c lies.
int64_t RowOf(const FilterShape& f, int64_t c, int64_t t) {
  return f.reads_nchw() ? c * f.kernel_size() + t : t * f.filled_channels() + c;
}
// Where column j of a row lies in its panel.
int64_t PlaceOf(const FilterShape& f, int64_t row, int64_t j) {
  return f.pairs && !f.shared() ? (row / 2 * kPanel + j) * 2 + row % 2 : row * kPanel + j;
}

// Calls move(place in the panels, place in the weights) for each weight of panels [first, last).
template <typename F>
void ForEachWeight(const FilterShape& f, int64_t first, int64_t last, F move) {
  for (int64_t panel = first, at = 0; panel < last; ++panel, at += f.depth() * kPanel) {
    const Columns columns = ColumnsOf(f, panel);
    int64_t weight = columns.first * f.group_channels * f.kernel_size();
    for (int64_t j = 0; j < columns.count; ++j)
      for (int64_t c = 0; c < f.group_channels; ++c)
        for (int64_t t = 0; t < f.kernel_size(); ++t) move(at + PlaceOf(f, RowOf(f, c, t), j), weight++);
  }
}

}  // namespace

FilterShape FiltersOf(const WeightMatrix& m) {
  return {.groups = m.groups,
          .group_channels = m.k / m.taps,
          .output_channels = m.n,
          .height = 1,
          .width = m.taps,
          .pairs = m.dtype == DType::kBF16};
}

void PackFilters(const float* weights, const FilterShape& f, int64_t first, int64_t last, float* to) {
  const bool in_order =
      f.reads_nchw() || f.group_channels == 1 || f.kernel_size() == 1;  // rows of a panel lie as a channel's weights do
  for (int64_t panel = first; panel < last; ++panel, to += f.depth() * kPanel) {
    const Columns columns = ColumnsOf(f, panel);
    const float* from = weights + columns.first * f.depth();
    if (columns.count < kPanel) std::fill_n(to, f.depth() * kPanel, 0.0f);
    if (in_order) {
      BestIsa().elementwise.transpose(reinterpret_cast<const uint32_t*>(from), f.depth(),
                                      reinterpret_cast<uint32_t*>(to), kPanel, f.depth(), columns.count);
      continue;
    }
    ForEachWeight(f, panel, panel + 1, [&](int64_t place, int64_t weight) { to[place] = weights[weight]; });
  }
}
void PackFilters(const uint16_t* weights, const FilterShape& f, int64_t first, int64_t last, uint16_t* to) {
  std::fill_n(to, (last - first) * f.depth() * kPanel, uint16_t{0});
  ForEachWeight(f, first, last, [&](int64_t place, int64_t weight) { to[place] = weights[weight]; });
}

void UnpackFilters(const float* panels, const FilterShape& f, float* to) {
  ForEachWeight(f, 0, f.panels(), [&](int64_t place, int64_t weight) { to[weight] = panels[place]; });
}
void UnpackFilters(const uint16_t* panels, const FilterShape& f, uint16_t* to) {
  ForEachWeight(f, 0, f.panels(), [&](int64_t place, int64_t weight) { to[weight] = panels[place]; });
}

void WidenFilters(const uint16_t* panels, DType dtype, const FilterShape& f, float* to) {
  const auto widen = [dtype](const uint16_t* from, int64_t n, float* floats) {
    BestIsa().elementwise.convert_to_f32(from, dtype, floats, n);
  };
  FilterShape wide = f;
  wide.pairs = false;
  if (!f.pairs || f.shared()) return widen(panels, f.elements(), to);
  if (wide.shared() || wide.reads_nchw()) {  // other panels
    std::vector<uint16_t> plain(static_cast<size_t>(f.output_channels * f.group_channels * f.kernel_size()));
    std::vector<float> floats(plain.size());
    UnpackFilters(panels, f, plain.data());
    widen(plain.data(), static_cast<int64_t>(plain.size()), floats.data());
    return PackFilters(floats.data(), wide, 0, wide.panels(), to);
  }
  // The same panels: the channels of a pair one behind the other, without those that fill up.
  float row[2 * kPanel];
  for (int64_t i = 0; i < f.panels() * f.kernel_size(); ++i)
    for (int64_t c = 0; c < f.group_channels; c += 2, panels += 2 * kPanel) {
      widen(panels, 2 * kPanel, row);
      const int64_t channels = std::min<int64_t>(2, f.group_channels - c);
      for (int64_t one = 0; one < channels; ++one, to += kPanel)
        for (int64_t j = 0; j < kPanel; ++j) to[j] = row[2 * j + one];
    }
}

void PackTransposedFilters(const float* weights, int64_t channels, int64_t outs, int64_t taps, int64_t first,
                           int64_t last, float* to) {
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t tap = panel / PanelsPerElement(outs), o = panel % PanelsPerElement(outs) * kPanel,
                  count = std::min(kPanel, outs - o);
    for (int64_t c = 0; c < channels; ++c, to += kPanel) {
      const float* const from = weights + (c * outs + o) * taps + tap;
      for (int64_t j = 0; j < count; ++j) to[j] = from[j * taps];
      std::fill(to + count, to + kPanel, 0.0f);
    }
  }
}

void UnpackTransposedFilters(const float* panels, int64_t channels, int64_t outs, int64_t taps, float* to) {
  for (int64_t panel = 0; panel < taps * PanelsPerElement(outs); ++panel) {
    const int64_t tap = panel / PanelsPerElement(outs), o = panel % PanelsPerElement(outs) * kPanel,
                  count = std::min(kPanel, outs - o);
    for (int64_t c = 0; c < channels; ++c, panels += kPanel)
      for (int64_t j = 0; j < count; ++j) to[(c * outs + o + j) * taps + tap] = panels[j];
  }
}

}  // namespace slipway::kernels
