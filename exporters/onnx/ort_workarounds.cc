// Nested graphs and functions are walked too: a Cast there may read a Transpose of the same graph only.
#include "exporters/onnx/ort_workarounds.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "onnx_model/schemas.h"

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

// Puts each node before the one of its index; indices rise.
void Insert(Nodes* nodes, std::vector<std::pair<int, onnx::NodeProto>> fresh) {
  for (size_t k = fresh.size(); k-- > 0;) {
    *nodes->Add() = std::move(fresh[k].second);
    for (int at = nodes->size() - 1; at > fresh[k].first; --at) nodes->SwapElements(at, at - 1);
  }
}

// ---- Casts of transposes.

// Takes back what is said of the types of these values.
void Forget(onnx::GraphProto* g, const absl::flat_hash_set<std::string>& names) {
  auto* infos = g->mutable_value_info();
  infos->erase(std::remove_if(infos->begin(), infos->end(), [&](const auto& v) { return names.contains(v.name()); }),
               infos->end());
  for (onnx::NodeProto& n : *g->mutable_node())
    for (onnx::AttributeProto& a : *n.mutable_attribute())
      if (a.has_g()) Forget(a.mutable_g(), names);
}

// `uses` counts the names that the nodes and what is around them read. Values that have another type then are added to
// `retyped`.
void Rewrite(Nodes* nodes, const absl::flat_hash_map<std::string, int>& uses,
             absl::flat_hash_set<std::string>* retyped) {
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
  Insert(nodes, std::move(fresh));
}

// ---- Pads.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& n, std::string_view name) {
  for (const onnx::AttributeProto& a : n.attribute())
    if (a.name() == name) return &a;
  return nullptr;
}

// Whether the node computes something else when zeros around its operand become its own padding.
bool PadsOtherwise(const onnx::NodeProto& reader, const std::string& value) {
  if (reader.op_type() == "MaxPool") return true;
  if (reader.op_type() == "AveragePool") {
    const onnx::AttributeProto* counts = FindAttribute(reader, "count_include_pad");
    return !counts || counts->i() == 0;
  }
  return reader.op_type() == "Conv" && reader.input(0) != value;
}

// How many numbers a constant has, by its name, in this list of nodes or around it.
using Lengths = absl::flat_hash_map<std::string, int64_t>;

void AddLength(const std::string& name, const onnx::TensorProto& t, Lengths* lengths) {
  if (t.dims_size() == 1) (*lengths)[name] = t.dims(0);
}

void KeepPads(Nodes* nodes, Lengths lengths, int opset) {
  absl::flat_hash_map<std::string, const onnx::NodeProto*> reader;  // of a value that one node reads
  for (const onnx::NodeProto& n : *nodes) {
    for (const std::string& name : n.input()) {
      auto [at, first] = reader.try_emplace(name, &n);
      if (!first) at->second = nullptr;
    }
    if (n.op_type() != "Constant") continue;
    if (const onnx::AttributeProto* value = FindAttribute(n, "value")) AddLength(n.output(0), value->t(), &lengths);
  }
  auto reader_of = [&](const std::string& name) {
    auto found = reader.find(name);
    return found == reader.end() ? nullptr : found->second;
  };
  std::vector<std::pair<int, onnx::NodeProto>> fresh;  // before the node of that index
  for (int i = 0; i < nodes->size(); ++i) {
    onnx::NodeProto& n = *nodes->Mutable(i);
    for (onnx::AttributeProto& a : *n.mutable_attribute())
      if (a.has_g()) KeepPads(a.mutable_g()->mutable_node(), lengths, opset);
    if (n.op_type() != "Pad" || n.input_size() < 2 || n.input_size() > 3) continue;
    const onnx::AttributeProto* mode = FindAttribute(n, "mode");
    auto length = lengths.find(n.input(1));
    if ((mode && mode->s() != "constant") || length == lengths.end()) continue;
    std::string value = n.output(0);
    const onnx::NodeProto* next = reader_of(value);
    if (next && next->op_type() == "Cast") value = next->output(0), next = reader_of(value);
    if (!next || !PadsOtherwise(*next, value)) continue;
    onnx_model::FindSchema("Constant", opset);
    onnx::NodeProto axes;
    axes.set_op_type("Constant");
    axes.set_name(text::StrCat(n.name(), ".axes"));
    axes.add_output(text::StrCat(n.output(0), ".axes"));
    onnx::AttributeProto* all = axes.add_attribute();
    all->set_name("value");
    all->set_type(onnx::AttributeProto::TENSOR);
    all->mutable_t()->set_data_type(onnx::TensorProto::INT64);
    all->mutable_t()->add_dims(length->second / 2);
    for (int64_t d = 0; d < length->second / 2; ++d) all->mutable_t()->add_int64_data(d);
    if (n.input_size() == 2) n.add_input("");
    n.add_input(axes.output(0));
    fresh.emplace_back(i, std::move(axes));
  }
  Insert(nodes, std::move(fresh));
}

}  // namespace

void KeepPads(onnx::ModelProto* model, int opset) {
  Lengths lengths;
  for (const onnx::TensorProto& t : model->graph().initializer()) AddLength(t.name(), t, &lengths);
  KeepPads(model->mutable_graph()->mutable_node(), lengths, opset);
  for (onnx::FunctionProto& f : *model->mutable_functions()) KeepPads(f.mutable_node(), {}, opset);
}

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
