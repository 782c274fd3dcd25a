// torchvision's operators: boxes, regions of interest, deformable convolutions.
#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

void Nms(PlanContext& c) {
  Operand boxes = c.in("dets"), scores = c.in("scores");
  if (!c.ok()) return;
  if (boxes.rank() != 2 || scores.rank() != 1) return c.Fail("the ranks are not those of the operator");
  c.RequireEqual(boxes.sizes[0], scores.sizes[0], "boxes and scores differ in number");
  Operand kept = c.Temp(DType::kInt64, {boxes.sizes[0]}), count = c.Temp(DType::kInt64, {});
  c.Emit("nms", {boxes, scores}, {kept, count}, boxes.dtype, kernels::SuppressionAttributes{c.f("iou_threshold")});
  c.PublishSize(0, 0, count);
  if (c.ok()) c.Return(Narrow(kept, 0, 0, c.out_sizes()[0]));
}

// roi_align, roi_pool, and by position.
void Regions(PlanContext& c) {
  Operand x = c.in("input"), rois = c.in("rois");
  const ir::OpDef& op = c.node().op();
  const bool by_position = op.base.starts_with("ps_");
  const int64_t sampling = op.ArgIndex("sampling_ratio") >= 0 ? c.i("sampling_ratio") : 0;
  const bool aligned = by_position || (op.ArgIndex("aligned") >= 0 && c.b("aligned"));
  std::vector<Operand> out = {c.Result()};
  if (c.node().outputs().size() > 1) out.push_back(c.Temp(DType::kInt32, c.out_sizes()));
  if (!c.ok()) return;
  c.Emit(c.kernel(), {x, rois}, out, x.dtype,
         kernels::RegionAttributes{c.f("spatial_scale"), sampling, aligned, by_position});
  c.Return(std::move(out));
}

void DeformConv(PlanContext& c) {
  Operand x = c.in("input"), weight = c.in("weight"), offset = c.in("offset"), mask = c.in("mask"), bias = c.in("bias"),
          out = c.Result();
  if (!c.ok()) return;
  if (x.rank() != 4 || weight.rank() != 4 || offset.rank() != 4)
    return c.Fail("the ranks are not those of the operator");
  const auto height = weight.sizes[2].constant(), width = weight.sizes[3].constant();
  const int64_t groups = c.i("groups");
  if (!height || !width || groups < 1) return c.Unsupported("filters of unknown size");
  kernels::DeformAttributes a{{*height, *width},
                              {c.i("stride_h"), c.i("stride_w")},
                              {c.i("pad_h"), c.i("pad_w")},
                              {c.i("dilation_h"), c.i("dilation_w")},
                              c.i("offset_groups")};
  if (!c.ok()) return;
  const Dim batch = x.sizes[0], channels = x.sizes[1], taps = *height * *width, rows = out.sizes[2],
            columns = out.sizes[3];
  const Dim inner = weight.sizes[1] * taps, filters = ir::FloorDiv(weight.sizes[0], groups), places = rows * columns;
  c.RequireEqual(channels, weight.sizes[1] * groups, "channels of the input and the weight differ");
  std::vector<Operand> in = {x, offset};
  if (c.b("use_mask")) in.push_back(mask);
  const DType wide = x.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Operand patches = c.Temp(x.dtype, {batch, channels, taps, rows, columns}),
          y = c.Temp(wide, {batch, groups, filters, places});
  c.Emit("deform_columns", std::move(in), {patches}, x.dtype, a);
  if (!c.ok()) return;
  Operand matrix = c.Reshape(weight, {1, groups, filters, inner});
  c.Account(inner, places);
  if (!c.ok()) return;
  c.Emit("matmul",
         {c.Expand(matrix, {batch, groups, filters, inner}), c.Reshape(patches, {batch, groups, inner, places})}, {y},
         x.dtype);
  if (!c.ok()) return;
  c.Return(c.Map("add", {c.Reshape(y, out.sizes), c.Reshape(bias, {bias.numel(), 1, 1})}, out, wide));
}

constexpr PlanFamily kDetectionFamilies[] = {
    {Nms, "nms", "/torchvision.nms.default"},
    {Regions, "roi_align", "/torchvision.roi_align.default /torchvision.ps_roi_align.default"},
    {Regions, "roi_pool", "/torchvision.roi_pool.default /torchvision.ps_roi_pool.default"},
    {DeformConv, "", "/torchvision.deform_conv2d.default"},
};

}  // namespace

absl::Span<const PlanFamily> DetectionPlans() { return kDetectionFamilies; }

}  // namespace slipway::planner
