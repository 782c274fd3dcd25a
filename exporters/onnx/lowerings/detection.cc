// torchvision's operators: ONNX has most of them, from the same source.
#include <cmath>
#include <limits>

#include "exporters/onnx/lowerings/data.h"

namespace slipway::exporters::onnx_out {
namespace {

// NonMaxSuppression over boxes in the order of their scores, whose scores are then their places from the end: so a NaN
// is the best score and equals stay in order, as in torch. A box whose corners are the wrong way round overlaps
// nothing: it is made one without extent, which ONNX's operator, which would turn it, lets overlap nothing either.
// Overlaps are f32: the threshold is rounded down, so that what is greater than the one is greater than the other.
void Nms(LoweringContext& c) {
  if (c.tensor("dets")->dtype() == DType::kFloat64) return c.Unsupported("boxes of f64: ONNX compares them in f32");
  const double threshold = c.f("iou_threshold");
  if (!(threshold >= 0 && threshold <= 1)) return c.Unsupported("a threshold that is not between 0 and 1");
  float limit = static_cast<float>(threshold);
  if (limit > threshold) limit = std::nextafter(limit, 0.0F);
  V boxes = c.e.Cast(c.in("dets"), DType::kFloat32), scores = c.in("scores"), n = c.e.Dim(boxes, 0);
  V order = TopK(c.e, scores, n, 0, true, MayBeNan(c, c.tensor("scores"))).second;
  boxes = c.e.Gather(boxes, order, 0);
  V low = c.e.Slice(boxes, {0}, {2}, {1}), high = c.e.Max(c.e.Slice(boxes, {2}, {4}, {1}), low);
  V places = c.e.Cast(Iota(c.e, c.e.Squeeze(n, {0})), DType::kFloat32);
  V kept = c.e.Op("NonMaxSuppression",
                  {c.e.Unsqueeze(c.e.Concat({low, high}, 1), {0}), c.e.Unsqueeze(c.e.Op("Neg", {places}), {0, 1}), n,
                   c.e.Numbers({limit}, DType::kFloat32, {1})},
                  {}, DType::kInt64, 2);
  c.Return(c.e.Gather(order, c.e.Gather(kept, c.e.I64Scalar(2), 1), 0));
}

// Regions as ONNX wants them: corners, and the images that they are of.
std::pair<V, V> Split(LoweringContext& c, V rois) {
  V image = c.e.Cast(c.e.Squeeze(c.e.Slice(rois, {0}, {1}, {1}), {1}), DType::kInt64);
  return {c.e.Slice(rois, {1}, {5}, {1}), image};
}
void RoiAlign(LoweringContext& c) {
  V x = c.in("input");
  auto [corners, image] = Split(c, c.in("rois"));
  c.Return(c.e.Op("RoiAlign", {x, corners, image},
                  {{"coordinate_transformation_mode", std::string(c.b("aligned") ? "half_pixel" : "output_half_pixel")},
                   {"mode", std::string("avg")},
                   {"output_height", c.i("pooled_height")},
                   {"output_width", c.i("pooled_width")},
                   {"sampling_ratio", std::max<int64_t>(c.i("sampling_ratio"), 0)},
                   {"spatial_scale", c.f("spatial_scale")}},
                  x.dtype, 4));
}
void RoiPool(LoweringContext& c) {
  if (c.used(1)) return c.Unsupported("places of the maxima");
  V x = c.in("input"), rois = c.in("rois");
  if (x.dtype == DType::kFloat64) return c.Unsupported("regions of f64: ONNX pools in f32");
  c.Return({c.e.Op("MaxRoiPool", {x, rois},
                   {{"pooled_shape", Ints{c.i("pooled_height"), c.i("pooled_width")}},
                    {"spatial_scale", c.f("spatial_scale")}},
                   x.dtype, 4),
            V{}});
}

void DeformConv(LoweringContext& c) {
  ir::Value* weight = c.tensor("weight");
  Ints kernel;
  for (int d = 2; d < 4; ++d) {
    auto size = weight->sizes()[d].constant();
    if (!size) return c.Unsupported("filters of symbolic size");
    kernel.push_back(*size);
  }
  const int64_t down = c.i("pad_h"), across = c.i("pad_w");
  std::vector<V> in = {c.in("input"), c.in("weight"), c.in("offset"), c.in("bias")};
  if (c.b("use_mask")) in.push_back(c.in("mask"));
  const DType t = in[0].dtype;
  c.Return(c.e.Op("DeformConv", std::move(in),
                  {{"dilations", Ints{c.i("dilation_h"), c.i("dilation_w")}},
                   {"group", c.i("groups")},
                   {"kernel_shape", kernel},
                   {"offset_group", c.i("offset_groups")},
                   {"pads", Ints{down, across, down, across}},
                   {"strides", Ints{c.i("stride_h"), c.i("stride_w")}}},
                  t, 4));
}

constexpr Row kDetectionRows[] = {
    {"torchvision.nms.default", Nms},
    {"torchvision.roi_align.default", RoiAlign, true},
    {"torchvision.roi_pool.default", RoiPool, true},
    {"torchvision.deform_conv2d.default", DeformConv, true, 19},
};

}  // namespace

absl::Span<const Row> DetectionRows() { return kDetectionRows; }

}  // namespace slipway::exporters::onnx_out
