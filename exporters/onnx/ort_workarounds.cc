// Nested graphs and functions are walked too: a Cast there may read a Transpose of the same graph only.
#include "exporters/onnx/ort_workarounds.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/text.h"

namespace slipway::exporters::onnx_out {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// Names that a list of nodes reads, nested graphs included, with how often.
void CountUses(const Nodes& nodes, absl::flat_hash_map<std::string, int>* uses) {
  for (const onnx::NodeProto& n : nodes) {
    for (const std::string& name : n.input()) ++(*uses)[name];
    for (const onnx::AttributeProto& a : n.attribute()) {
      if (!a.has_g()) continue;
      CountUses(a.g().node(), uses);
      for (const auto& out : a.g().output()) ++(*uses)[out.name()];
    }
  }
}

// Takes back what is said of the types of these values.
void Forget(onnx::GraphProto* g, const absl::flat_hash_set<std::string>& names) {
  auto* infos = g->mutable_value_info();
  infos->erase(std::remove_if(infos->begin(), infos->end(), [&](const auto& v) { return names.contains(v.name()); }), infos->end());
  for (onnx::NodeProto& n : *g->mutable_node())
    for (onnx::AttributeProto& a : *n.mutable_attribute())
      if (a.has_g()) Forget(a.mutable_g(), names);
}

// `uses` counts the names that the nodes and what is around them read. Values that have another type then are added to `retyped`.
void Rewrite(Nodes* nodes, const absl::flat_hash_map<std::string, int>& uses, absl::flat_hash_set<std::string>* retyped) {
  absl::flat_hash_map<std::string, onnx::NodeProto*> transposes;  // by result
  absl::flat_hash_set<std::string> multiplied;                    // what a MatMul reads
  for (const onnx::NodeProto& n : *nodes)
    if (n.op_type() == "MatMul") multiplied.insert(n.input().begin(), n.input().end());
  std::vector<std::pair<int, onnx::NodeProto>> fresh;  // before the node of that index
  for (int i = 0; i < nodes->size(); ++i) {
    onnx::NodeProto& n = *nodes->Mutable(i);
    for (onnx::AttributeProto& a : *n.mutable_attribute())
      if (a.has_g()) Rewrite(a.mutable_g()->mutable_node(), uses, retyped);
    if (n.op_type() == "Transpose") transposes[n.output(0)] = &n;
    if (n.op_type() != "Cast" || !multiplied.contains(n.output(0))) continue;
    auto found = transposes.find(n.input(0));
    if (found == transposes.end()) continue;
    onnx::NodeProto& t = *found->second;
    if (uses.at(n.input(0)) == 1) {
      // They change places; names of values stay where they are.
      retyped->insert(t.output(0));
      t.mutable_op_type()->swap(*n.mutable_op_type());
      t.mutable_attribute()->Swap(n.mutable_attribute());
      transposes.erase(found);
    } else {
      onnx::NodeProto cast = n;
      cast.set_name(text::StrCat(n.name(), ".first"));
      cast.set_input(0, t.input(0));
      cast.set_output(0, text::StrCat(n.output(0), ".first"));
      n.set_op_type("Transpose");
      *n.mutable_attribute() = t.attribute();
      n.set_input(0, cast.output(0));
      fresh.emplace_back(i, std::move(cast));
    }
  }
  for (size_t k = fresh.size(); k-- > 0;) {
    *nodes->Add() = std::move(fresh[k].second);
    for (int at = nodes->size() - 1; at > fresh[k].first; --at) nodes->SwapElements(at, at - 1);
  }
}

}  // namespace

void CastBeforeTranspose(onnx::ModelProto* model) {
  absl::flat_hash_map<std::string, int> uses;
  CountUses(model->graph().node(), &uses);
  for (const auto& out : model->graph().output()) ++uses[out.name()];
  absl::flat_hash_set<std::string> retyped;
  Rewrite(model->mutable_graph()->mutable_node(), uses, &retyped);
  if (!retyped.empty()) Forget(model->mutable_graph(), retyped);
  for (onnx::FunctionProto& f : *model->mutable_functions()) {
    uses.clear();
    CountUses(f.node(), &uses);
    for (const std::string& out : f.output()) ++uses[out];
    Rewrite(f.mutable_node(), uses, &retyped);
  }
}

}  // namespace slipway::exporters::onnx_out
