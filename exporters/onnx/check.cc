// Weights are described to the checker as graph inputs of their type: their values never matter to it.
#include "exporters/onnx/check.h"

#include <set>

#include "base/text.h"
#include "exporters/onnx/types.h"
#include "onnx_model/opaque.h"

namespace slipway::exporters::onnx_out {

absl::Status CheckSkeleton(onnx::ModelProto& model, const std::vector<WeightRef>& weights) {
  onnx::GraphProto* graph = model.mutable_graph();
  const int inputs = graph->input_size();
  std::set<std::string_view> known;  // weights that are defaults of inputs
  for (int i = 0; i < inputs; ++i) known.insert(graph->input(i).name());
  for (const WeightRef& w : weights) {
    if (known.contains(w.name)) continue;
    auto* info = graph->add_input();
    info->set_name(w.name);
    auto* t = info->mutable_type()->mutable_tensor_type();
    t->set_elem_type(OnnxType(w.dtype()));
    auto* shape = t->mutable_shape();
    for (int64_t d : w.dims()) shape->add_dim()->set_dim_value(d);
  }
  absl::Status status = onnx_model::CheckModel(model);
  if (!status.ok()) status = absl::InternalError(text::StrCat("the ONNX checker refuses the model: ", text::FromAbsl(status.message())));
  while (graph->input_size() > inputs) graph->mutable_input()->RemoveLast();
  return status;
}

}  // namespace slipway::exporters::onnx_out
