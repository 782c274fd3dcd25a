// Weights are described to the checker as graph inputs of their type: their values never matter to it.
#include "exporters/onnx/check.h"

#include <set>

#include "base/text.h"
#include "exporters/onnx/types.h"
#include "onnx_model/onnx_graph.h"

namespace slipway::exporters::onnx_out {

namespace {

// The types that inference found for values that have none; sizes that it has only made names for are left open.
void TakeTypes(const onnx::GraphProto& inferred, onnx::GraphProto* graph) {
  std::set<std::string_view> known;
  for (const auto* described : {&graph->input(), &graph->output()})
    for (const onnx::ValueInfoProto& v : *described) known.insert(v.name());
  std::vector<const onnx::ValueInfoProto*> more;
  std::set<std::string_view> typed;
  for (const onnx::ValueInfoProto& v : graph->value_info()) typed.insert(v.name());
  for (const onnx::ValueInfoProto& v : inferred.value_info())
    if (!known.contains(v.name()) && !typed.contains(v.name())) more.push_back(&v);
  for (const onnx::ValueInfoProto* v : more) {
    onnx::ValueInfoProto* info = graph->add_value_info();
    *info = *v;
    if (!info->type().tensor_type().has_shape()) continue;
    for (auto& dim : *info->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
      if (dim.dim_param().starts_with("unk__")) dim.clear_dim_param();
  }
}

}  // namespace

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
  onnx::ModelProto inferred;
  absl::Status status = onnx_model::CheckModel(model, &inferred);
  if (!status.ok())
    status =
        absl::InternalError(text::StrCat("the ONNX checker refuses the model: ", text::FromAbsl(status.message())));
  while (graph->input_size() > inputs) graph->mutable_input()->RemoveLast();
  if (status.ok()) TakeTypes(inferred.graph(), graph);
  return status;
}

}  // namespace slipway::exporters::onnx_out
