// Shape functions: torchvision's operators.
#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {
namespace {

void Nms(InferContext& c) {
  Value *boxes = Self(c), *scores = TensorAt(c, 1);
  NeedRank(c, boxes, 2);
  NeedRank(c, scores, 1);
  NeedDType(c, boxes, IsFloating, "of floats");
  NeedSameDType(c, {boxes, scores});
  if (!c.ok()) return;
  c.RequireEqual(boxes->sizes()[1], 4, "the coordinates of a box");
  c.RequireEqual(boxes->sizes()[0], scores->sizes()[0], "boxes and scores");
  c.Out(DType::kInt64, {c.FreshSize()});
}

// Regions of images: all channels, or one for each bin.
void Regions(InferContext& c) {
  Value *x = Self(c), *rois = TensorAt(c, 1);
  NeedRank(c, x, 4);
  NeedRank(c, rois, 2);
  NeedDType(c, x, IsFloating, "of floats");
  NeedSameDType(c, {x, rois});
  const Sym rows = ExprOf(c.sym("pooled_height")), columns = ExprOf(c.sym("pooled_width"));
  if (!c.ok()) return;
  if (!ProvablyLessEqual(1, rows) || !ProvablyLessEqual(1, columns)) return c.Fail("no bins");
  c.RequireEqual(rois->sizes()[1], 5, "the coordinates of a region");
  Sym channels = x->sizes()[1];
  if (c.node().op().base.starts_with("ps_")) {
    c.RequireEqual(Mod(channels, rows * columns), 0, "channels that the bins do not divide");
    channels = FloorDiv(channels, rows * columns);
  }
  const Sizes sizes = {rois->sizes()[0], channels, rows, columns};
  c.Out(x->dtype(), sizes);
  if (c.node().op().base != "roi_align") c.Out(DType::kInt32, sizes);
}

void DeformConv(InferContext& c) {
  Value *x = Self(c), *weight = TensorAt(c, 1), *offset = TensorAt(c, 2), *mask = TensorAt(c, 3),
        *bias = TensorAt(c, 4);
  for (Value* v : {x, weight, offset}) NeedRank(c, v, 4);
  NeedRank(c, bias, 1);
  NeedDType(c, x, IsFloating, "of floats");
  NeedSameDType(c, {x, weight, offset, bias});
  Sym stride[] = {ExprOf(c.sym("stride_h")), ExprOf(c.sym("stride_w"))},
      padding[] = {ExprOf(c.sym("pad_h")), ExprOf(c.sym("pad_w"))},
      dilation[] = {ExprOf(c.sym("dilation_h")), ExprOf(c.sym("dilation_w"))};
  const Sym groups = ExprOf(c.sym("groups")), offset_groups = ExprOf(c.sym("offset_groups"));
  if (!c.ok()) return;
  for (Sym s : {stride[0], stride[1], dilation[0], dilation[1], groups, offset_groups})
    if (!ProvablyLessEqual(1, s)) return c.Fail("a stride, a dilation or a number of groups is not positive");
  NeedNotNegative(c, {padding[0], padding[1]}, "a padding");
  c.RequireEqual(x->sizes()[1], weight->sizes()[1] * groups, "channels of the input and the weight");
  c.RequireEqual(Mod(weight->sizes()[0], groups), 0, "channels of the result that the groups do not divide");
  c.RequireEqual(Mod(x->sizes()[1], offset_groups), 0, "channels of the input that the offsets' groups do not divide");
  NeedSameSizes(c, bias->sizes(), {weight->sizes()[0]}, "the bias and the channels of the result");
  Sizes out = {x->sizes()[0], weight->sizes()[0]};
  for (int d = 0; d < 2; ++d) {
    out.push_back(
        FloorDiv(x->sizes()[2 + d] + 2 * padding[d] - dilation[d] * (weight->sizes()[2 + d] - 1) - 1, stride[d]) + 1);
    c.RequireAtLeast(out.back(), 1);
  }
  const Sym taps = offset_groups * weight->sizes()[2] * weight->sizes()[3];
  NeedSameSizes(c, offset->sizes(), {out[0], 2 * taps, out[2], out[3]}, "the offsets and the result");
  if (c.b("use_mask")) {
    NeedSameDType(c, {x, mask});
    NeedSameSizes(c, mask->sizes(), {out[0], taps, out[2], out[3]}, "the mask and the result");
  }
  c.Out(x->dtype(), out);
}

constexpr ShapeFamily kDetectionFamilies[] = {
    {Nms, "/torchvision.nms.default"},
    {Regions,
     "/torchvision.roi_align.default /torchvision.roi_pool.default /torchvision.ps_roi_align.default "
     "/torchvision.ps_roi_pool.default"},
    {DeformConv, "/torchvision.deform_conv2d.default"},
};

}  // namespace

absl::Span<const ShapeRow> DetectionShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kDetectionFamilies);
  return rows;
}

}  // namespace slipway::ir
