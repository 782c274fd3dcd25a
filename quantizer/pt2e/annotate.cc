// The table of layers, and what both sets of rules ask of a graph.
//
// torch.export says where a node comes from in `source_fn_stack` (strict) or else in `nn_module_stack`, whose last
// entry is the innermost module. torchao compares the names with those of its patterns, so F.hardswish is not
// nn.Hardswish, and a subclass of nn.Conv2d is no nn.Conv2d in programs of today's default, which is not strict.
#include "quantizer/pt2e/annotate.h"

#include <algorithm>
#include <memory>
#include <string>

#include "base/text.h"
#include "ir/ops/args.h"

namespace slipway::quantizer::pt2e {
namespace {

using ir::Node;
using ir::Value;

// Names are separated by spaces.
struct LayerRow {
  Layer layer;
  std::string_view operators, origins;
};
constexpr LayerRow kLayers[] = {
    {Layer::kConv1d, "aten.conv1d.default aten.conv1d.padding", "torch.nn.modules.conv.Conv1d torch.conv1d"},
    {Layer::kConv2d, "aten.conv2d.default aten.conv2d.padding", "torch.nn.modules.conv.Conv2d torch.conv2d"},
    {Layer::kLinear, "aten.linear.default", "torch.nn.modules.linear.Linear"},
    {Layer::kLinearCall, "aten.linear.default", "torch.nn.modules.linear.Linear torch._C._nn.linear"},
    {Layer::kRelu, "aten.relu.default", "torch.nn.modules.activation.ReLU torch.nn.functional.relu torch.relu_"},
    {Layer::kHardtanh, "aten.hardtanh.default",
     "torch.nn.modules.activation.Hardtanh torch.nn.functional.hardtanh torch._C._nn.hardtanh_"},
    {Layer::kHardswish, "aten.hardswish.default", "torch.nn.modules.activation.Hardswish"},
    {Layer::kRelu6, "aten.hardtanh.default aten.relu6.default", "torch.nn.modules.activation.ReLU6"},
    {Layer::kSilu, "aten.silu.default", "torch.nn.modules.activation.SiLU"},
    {Layer::kLeakyRelu, "aten.leaky_relu.default", "torch.nn.modules.activation.LeakyReLU"},
    {Layer::kTanh, "aten.tanh.default", "torch.nn.modules.activation.Tanh"},
    {Layer::kGelu, "aten.gelu.default", "torch.nn.modules.activation.GELU"},
    {Layer::kAdaptiveAvgPool, "aten.adaptive_avg_pool2d.default",
     "torch.nn.modules.pooling.AdaptiveAvgPool2d torch.nn.functional.adaptive_avg_pool2d"},
    {Layer::kCat, "aten.cat.default", "torch.cat"},
};

bool Lists(std::string_view names, std::string_view name) {
  const std::vector<std::string_view> all = text::Split(names, ' ');
  return std::find(all.begin(), all.end(), name) != all.end();
}

// What comes behind the last comma of the last of entries that are separated by semicolons.
std::string_view LastName(std::string_view stack) {
  stack.remove_prefix(std::min(stack.size(), stack.rfind(';') + 1));
  return stack.substr(stack.rfind(',') + 1);
}

}  // namespace

std::string_view OriginOf(const Node& n) {
  if (!n.source()) return "";
  for (const auto& [key, value] : n.source()->other)
    if (key == "source_fn_stack" && !value.empty()) return LastName(value);
  return LastName(n.source()->nn_module_stack);
}

Value* FloatArgument(const Node& n, std::string_view name) {
  Value* v = n.Get(name).value();
  return v && v->type().is_tensor() && v->dtype() == ir::DType::kFloat32 ? v : nullptr;
}

Annotator::Annotator(const ir::Program& p, const Recipe& recipe, const Selection& selection)
    : graph_(*p.graph), selection_(selection), by_operator_(recipe.by_operator) {
  for (Node* n : graph_) order_.emplace(n, order_.size());
}

bool Annotator::Is(const Node& n, Layer layer) const {
  for (const LayerRow& row : kLayers) {
    if (row.layer != layer || !Lists(row.operators, n.op_name())) continue;
    const std::string_view origin = OriginOf(n);
    return by_operator_ || origin.empty() || Lists(row.origins, origin) || included(n);
  }
  return false;
}

std::vector<Node*> Annotator::Readers(const Value* v) const {
  std::vector<Node*> nodes(v->users().begin(), v->users().end());
  std::sort(nodes.begin(), nodes.end(), [&](Node* a, Node* b) { return order_.at(a) < order_.at(b); });
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

size_t Annotator::CountReaders(const Value* v) const { return Readers(v).size() + (graph_.IsOutput(v) ? 1 : 0); }

void Annotator::Quantize(Node* user, Value* value, bool weight) {
  for (const Annotations::Edge& e : out_.edges)
    if (e.user == user && e.value == value) return;
  out_.edges.push_back({user, value, weight});
}

Annotations Annotate(const ir::Program& p, const Recipe& recipe, const Selection& selection) {
  const std::unique_ptr<Annotator> a = recipe.quantizer == Recipe::Quantizer::kX86
                                           ? MakeX86Annotator(p, recipe, selection)
                                           : MakeXnnpackAnnotator(p, recipe, selection);
  a->Run();
  return a->Take();
}

absl::Status NumbersBecomeConstants(ir::Program& p) {
  int made = 0;
  for (Node* n : *p.graph) {
    if (n->op_name() != "aten.add.Tensor" && n->op_name() != "aten.mul.Tensor") continue;
    const Value* self = FloatArgument(*n, "self");
    const ir::Arg& other = n->Get("other");
    float number;
    if (const double* real = other.get<double>())
      number = static_cast<float>(*real);
    else if (const int64_t* whole = other.get<int64_t>())
      number = static_cast<float>(*whole);
    else
      continue;
    if (!self) continue;
    const std::string name = text::StrCat("_tensor_constant_", made++);
    std::string bytes(reinterpret_cast<const char*>(&number), sizeof number);
    n->SetArg("other", ir::AddWeight(p, ir::InputSpec::kTensorConstant, name,
                                     ir::OwnedTensor(ir::DType::kFloat32, {}, std::move(bytes)), name));
  }
  return absl::OkStatus();
}

}  // namespace slipway::quantizer::pt2e
