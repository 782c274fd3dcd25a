// The loops over pairs of bf16 that word_conv.h takes, and per-channel operands in whole panels.
#include "kernels/conv/conv_bf16.h"

#include <algorithm>
#include <cstdint>

#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/filters.h"
#include "kernels/conv/word_conv.h"

namespace slipway::kernels {
namespace {

WordGeometry GeometryOf(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a) {
  return {x.sizes[0],    x.sizes[1], x.sizes[3],  x.sizes[4],  out.sizes[1], out.sizes[3], out.sizes[4],  a.groups,
          w.sizes[3],    w.sizes[4], a.stride[1], a.stride[2], a.padding[1], a.padding[2], a.dilation[1], a.dilation[2],
          /*per_word=*/2};
}
FilterShape FiltersOf(const WordGeometry& g) {
  return {g.groups, g.group_channels(), g.outs, g.height, g.width, /*pairs=*/true};
}

class PairLoops {
 public:
  using Weight = uint16_t;
  using Widened = uint16_t;
  using IgemmParams = Bf16IgemmParams;
  using DwconvParams = Bf16DwconvParams;
  static constexpr int64_t kBytes = 2;
  static constexpr uint8_t padding = 0;
  static constexpr int64_t result_bytes = 2;

  PairLoops(const WordGeometry& g, const HalfEpilogue& after) : g_(g), after_(after) {}

  static int64_t PatchColumns() { return 12; }
  static int64_t CopiedColumns() { return 56; }
  static int64_t DepthwiseBlock() { return BestBf16Conv()->depthwise_block; }
  static int64_t DepthwisePixels() { return BestBf16Conv()->depthwise_pixels; }
  static int64_t WidenedElements(int64_t, int64_t) { return 0; }
  void Igemm(Bf16IgemmParams& p, uint16_t*, int64_t column, int64_t element) const {
    // Columns of groups are filled up, channels are not.
    const int64_t per = g_.group_columns();
    p.after = after_.At(g_.groups == 1 ? column : column / per * g_.group_outs() + column % per, element);
    BestBf16Conv()->igemm(p);
  }
  void Dwconv(Bf16DwconvParams& p, int64_t element) const {
    p.after = after_.At(0, element);
    BestBf16Conv()->dwconv(p);
  }
  static const uint16_t* ArrangeDepthwise(const WordGeometry& g, const uint16_t* weights, Scratch& scratch) {
    const Bf16ConvMicrokernels& isa = *BestBf16Conv();
    auto* const to = scratch.Take<uint16_t>(isa.arranged(g.channels, g.height, g.width));
    if (!scratch.querying()) isa.arrange_depthwise(weights, g.channels, g.height, g.width, to);
    return to;
  }

 private:
  const WordGeometry& g_;
  const HalfEpilogue& after_;
};

}  // namespace

bool CanUseConvBf16(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a) {
  for (const Tensor* t : {&x, &w, &out})
    if (t->dtype != DType::kBF16 || t->rank != 5 || t->sizes[2] != 1) return false;
  return BestBf16Conv() != nullptr && a.padding[0] == 0 && !x.is_packed() && ChannelsLast(out) &&
         (w.packed == Packing::kConvFilters || (!w.is_packed() && w.is_contiguous())) &&
         GeometryOf(x, w, out, a).IsValid();
}

const char* ConvBf16Algorithm(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a) {
  const WordGeometry g = GeometryOf(x, w, out, a);
  return g.depthwise()   ? "channels last, depthwise"
         : g.pointwise() ? "channels last, pointwise"
         : g.groups > 1  ? "channels last, groups"
                         : "channels last, in row blocks";
}

void ConvBf16(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a,
              const HalfEpilogue& epilogue, const Workers* workers, Scratch& scratch) {
  const WordGeometry g = GeometryOf(x, w, out, a);
  const auto* weights = w.as<uint16_t>();
  if (!w.is_packed()) {
    const FilterShape filters = FiltersOf(g);
    auto* const panels = scratch.Take<uint16_t>(filters.elements());
    if (!scratch.querying()) PackFilters(weights, filters, 0, filters.panels(), panels);
    weights = panels;
  }
  PairLoops loops(g, epilogue);
  WordConv<PairLoops>(g, loops, workers).Run(x, weights, out, out, scratch);
}

}  // namespace slipway::kernels
