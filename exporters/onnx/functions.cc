// A body is lowered as a graph of its own, with names and constants that nothing outside sees; equal bodies are found
// by their serialized form.
#include "exporters/onnx/functions.h"

#include "absl/strings/ascii.h"
#include "base/text.h"
#include "exporters/onnx/graph_order.h"
#include "exporters/onnx/types.h"

namespace slipway::exporters::onnx_out {

std::string FunctionLibrary::NameOf(LoweringContext& caller, const ir::Graph& g, std::string_view wanted) {
  EmitterShared shared;  // names and constants of its own: a function sees nothing around it
  shared.opset = caller.e.opset();
  shared.form = caller.e.form();
  shared.strict_types = caller.e.shared()->strict_types;
  shared.functions = this;
  onnx::GraphProto body;
  Emitter e(&body, &shared);
  GraphLowering lowering(e, nullptr);
  lowering.refusals = caller.graph().refusals;
  lowering.custom_ops = caller.graph().custom_ops;
  lowering.module_names = false;  // those of one call would be wrong for the others

  onnx::FunctionProto f;
  std::set<std::string> taken;  // inputs, and outputs so far: each output is a node's result and used once
  for (const ir::Value* v : g.inputs()) {
    const std::string name = e.UniqueName(v->name());
    f.add_input(name);
    taken.insert(name);
    lowering.Bind(v, {name, ElementType(v->type()), v->type().is_tensor() ? v->rank() : 0});
  }
  lowering.Run(g, caller.graph().problems());
  for (const ir::Arg& a : g.outputs) {
    ir::Value* v = a.value();
    if (!v) {
      caller.Unsupported("a nested graph whose result is no tensor or symbolic number");
      return "";
    }
    V x = lowering.Get(v);
    if (!taken.insert(x.name).second || shared.constants.size() > 0) x = e.Op("Identity", {x});
    taken.insert(x.name);
    body.add_output()->set_name(x.name);
  }
  caller.SetStatus(shared.status);
  OrderGraph(&body, &shared);
  for (const onnx::ValueInfoProto& result : body.output()) f.add_output(result.name());

  for (const std::string& key : shared.constant_order) {
    onnx::NodeProto* n = f.add_node();
    n->set_op_type("Constant");
    auto& [name, tensor] = shared.constants[key];
    n->add_output(name);
    onnx::AttributeProto* value = n->add_attribute();
    value->set_name("value");
    value->set_type(onnx::AttributeProto::TENSOR);
    *value->mutable_t() = std::move(tensor);
    value->mutable_t()->clear_name();
  }
  for (onnx::NodeProto& n : *body.mutable_node()) *f.add_node() = std::move(n);
  if (!shared.constant_order.empty()) FindSchema("Constant", shared.opset);
  auto import = [&](const std::string& domain, int version) {
    auto* opset = f.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(version);
  };
  import("", shared.opset);
  for (const std::string& domain : shared.custom_domains) import(domain, 1);
  domains_.insert(shared.custom_domains.begin(), shared.custom_domains.end());

  auto [known, fresh] = by_content_.try_emplace(f.SerializeAsString());
  if (!fresh) return known->second;
  std::string stem;
  for (char ch : wanted) stem += absl::ascii_isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
  if (stem.empty() || absl::ascii_isdigit(static_cast<unsigned char>(stem[0]))) stem = "function_" + stem;
  std::string name = stem;
  for (int k = 1; !names_.insert(name).second; ++k) name = text::StrCat(stem, "_", k);
  f.set_name(name);
  f.set_domain(kDomain);
  functions_.push_back(std::move(f));
  return known->second = name;
}

}  // namespace slipway::exporters::onnx_out
