// Boxes: what detectors end with.
#include <algorithm>
#include <string>
#include <utility>

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {
namespace {

// Corners (x1, y1, x2, y2) of boxes that are two corners in any order, or a centre and sizes.
Value* Corners(Call& c, Value* boxes, bool centre) {
  Value* part[4];
  for (int64_t i = 0; i < 4; ++i) part[i] = c.b.Call("aten.select.int", {boxes, -1, i});
  const auto all = [&](Values corners) { return c.b.Call("aten.stack.default", {Arg(std::move(corners)), -1}); };
  if (centre) {
    Value *w = c.b.Call("aten.mul.Scalar", {part[2], 0.5}), *h = c.b.Call("aten.mul.Scalar", {part[3], 0.5});
    return all({c.b.Call("aten.sub.Tensor", {part[0], w}), c.b.Call("aten.sub.Tensor", {part[1], h}),
                c.b.Call("aten.add.Tensor", {part[0], w}), c.b.Call("aten.add.Tensor", {part[1], h})});
  }
  return all(
      {c.b.Call("aten.minimum.default", {part[0], part[2]}), c.b.Call("aten.minimum.default", {part[1], part[3]}),
       c.b.Call("aten.maximum.default", {part[0], part[2]}), c.b.Call("aten.maximum.default", {part[1], part[3]})});
}

// Rows (batch, class, box): each class of each batch on its own, in this order.
void NonMaxSuppression(Call& c) {
  constexpr int64_t kMost = 4096;  // lists, each with its nodes
  Value *boxes = c.in(0), *scores = c.in(1);
  if (boxes->rank() != 3 || scores->rank() != 3) return c.Wrong("boxes or scores of a rank other than 3");
  const auto batches = boxes->sizes()[0].constant(), classes = scores->sizes()[1].constant();
  if (!batches || !classes || *batches * *classes > kMost || *batches * *classes < 1)
    return c.Refuse("of a dynamic number of batches or classes");
  const double overlap = c.has(3) ? c.number(3).value_or(-1) : 0;
  if (overlap < 0) return c.Refuse("with an iou_threshold that the program computes");
  SymInts most = {IntOrValue(0)};
  if (c.has(2)) most = c.ints(2, "a number of boxes");
  if (most.size() != 1) return c.Wrong("max_output_boxes_per_class of other than one number");
  boxes = Corners(c, boxes, c.integer("center_point_box", 0) != 0);
  Values rows;
  for (int64_t n = 0; n < *batches; ++n) {
    Value* own = c.b.Call("aten.select.int", {boxes, 0, n});
    for (int64_t k = 0; k < *classes; ++k) {
      Value* score = c.b.Call("aten.select.int", {c.b.Call("aten.select.int", {scores, 0, n}), 0, k});
      Value *from = own, *at = nullptr;
      if (c.has(4)) {
        Value* above = c.b.Call("aten.gt.Tensor", {score, c.b.Call("aten.reshape.default", {c.in(4), Arg(Ints{})})});
        at = c.b.Call("aten.squeeze.dims", {c.b.Call("aten.nonzero.default", {above}), Arg(Ints{1})});
        from = c.b.Call("aten.index_select.default", {own, 0, at});
        score = c.b.Call("aten.index_select.default", {score, 0, at});
      }
      Value* kept = c.b.Call("torchvision.nms.default", {from, score, overlap});
      kept = c.b.Call("aten.slice.Tensor", {kept, 0, 0, Arg(most[0]), 1});
      if (at) kept = c.b.Call("aten.index_select.default", {at, 0, kept});
      const auto column = [&](int64_t number) {
        return c.b.Call("aten.full_like.default", {kept, number}, {{"dtype", Arg(DType::kInt64)}});
      };
      rows.push_back(c.b.Call("aten.stack.default", {Arg(Values{column(n), column(k), kept}), 1}));
    }
  }
  c.Give(rows.size() == 1 ? rows[0] : c.b.Call("aten.cat.default", {Arg(rows), 0}));
}

void RoiAlign(Call& c) {
  Value *x = c.in(0), *rois = c.in(1), *batch = c.in(2);
  if (c.text("mode", "avg") != "avg") return c.Refuse("of mode max");
  if (rois->rank() != 2 || batch->rank() != 1) return c.Wrong("regions that are no rows");
  const bool aligned =
      c.text("coordinate_transformation_mode", c.opset < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  Value* rows =
      c.b.Call("aten.cat.default",
               {Arg(Values{c.b.Call("aten.unsqueeze.default", {c.b.Cast(batch, rois->dtype()), 1}), rois}), 1});
  c.Give(c.b.Call("torchvision.roi_align.default",
                  {x, rows, c.real("spatial_scale", 1), c.integer("output_height", 1), c.integer("output_width", 1),
                   std::max<int64_t>(c.integer("sampling_ratio", 0), 0), aligned}));
}

constexpr Row kDetectionRows[] = {
    {"NonMaxSuppression", NonMaxSuppression},
    {"RoiAlign", RoiAlign, 1, nullptr, Always},
};

}  // namespace

absl::Span<const Row> DetectionRows() { return kDetectionRows; }

}  // namespace slipway::importers::onnx_in
