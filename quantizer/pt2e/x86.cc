// The rules of torchao 0.18's X86InductorQuantizer with its default configuration.
//
// Inputs of convolutions, linear layers and products of tensors of the same sizes are quantized, and what is added to
// the result of a convolution. Layers that follow one another form a pattern, of which only the last is known to give
// integers to what comes behind; pools, concatenations and flattening of such values are quantized too, their result
// with the scale of their input. Results of all others become integers where they are read.
#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "quantizer/pt2e/annotate.h"

namespace slipway::quantizer::pt2e {
namespace {

using ir::Node;
using ir::Value;

// In the order in which torchao looks for them.
struct Pattern {
  Layer product;
  bool add;
  std::vector<Layer> behind;  // one of them; empty: nothing
};
const std::vector<Pattern>& Patterns() {
  static const auto& patterns = *new std::vector<Pattern>{
      {Layer::kConv2d, true, {Layer::kRelu}},
      {Layer::kConv2d, true, {}},
      {Layer::kConv2d, false, {Layer::kRelu}},
      {Layer::kConv2d, false, {Layer::kHardtanh}},
      {Layer::kConv2d, false, {Layer::kHardswish}},
      {Layer::kConv2d, false, {Layer::kRelu6}},
      {Layer::kConv2d, false, {Layer::kSilu}},
      {Layer::kConv1d, false, {Layer::kRelu}},
      {Layer::kConv2d, false, {}},
      {Layer::kLinear, true, {Layer::kRelu}},
      {Layer::kLinear, true, {}},
      {Layer::kLinear, false, {Layer::kRelu}},
      {Layer::kLinear, false, {Layer::kLeakyRelu}},
      {Layer::kLinear, false, {Layer::kTanh}},
      {Layer::kLinear, false, {Layer::kGelu}},
      {Layer::kLinearCall, false, {}},
  };
  return patterns;
}

// Operators whose results may have the integers of their input, and its argument.
struct Propagating {
  std::string_view op, input;
};
constexpr Propagating kPropagating[] = {
    {"aten.max_pool2d.default", "self"}, {"aten.cat.default", "tensors"},
    {"aten.avg_pool2d.default", "self"}, {"aten.adaptive_avg_pool2d.default", "self"},
    {"aten.flatten.using_ints", "self"},
};
const Propagating* FindPropagating(const Node& n) {
  for (const Propagating& p : kPropagating)
    if (p.op == n.op_name()) return &p;
  return nullptr;
}

// Whether an operator is one that the quantizer could take: what flattening in front of it is worth the integers.
bool IsQuantizable(const Node& n) {
  static const auto& operators =
      *new text::Set{"aten.conv1d.default", "aten.conv2d.default", "aten.linear.default", "aten.mul.Tensor",
                     "aten.matmul.default", "aten.conv1d.padding", "aten.conv2d.padding"};
  return operators.contains(n.op_name()) || FindPropagating(n);
}

class X86Annotator : public Annotator {
 public:
  using Annotator::Annotator;

  void Run() override {
    // What is excluded is marked first, in the same patterns; nothing that is marked is looked at again.
    for (const bool excluding : {true, false}) {
      excluding_ = excluding;
      for (const Pattern& p : Patterns()) Match(p);
      for (Node* n : graph_)
        if (n->op_name() == "aten.matmul.default" && (excluding_ || included(*n))) MatchProduct(n, false);
      for (Node* n : graph_)
        if (n->op_name() == "aten.mul.Tensor" && !in_place(*n)) MatchProduct(n, true);
      for (Node* n : graph_)
        if (const Propagating* p = FindPropagating(*n)) Propagate(n, *p);
    }
  }

 private:
  // Whether the nodes are free for the pass that is going on.
  bool Free(const std::vector<Node*>& nodes) const {
    for (Node* n : nodes)
      if (marked_.contains(n) || (excluding_ && !excluded(*n))) return false;
    return true;
  }
  void Mark(const std::vector<Node*>& nodes) { marked_.insert(nodes.begin(), nodes.end()); }

  void Match(const Pattern& p) {
    for (Node* product : graph_) {
      if (!Is(*product, p.product)) continue;
      Value* input = FloatArgument(*product, "input");
      Value* weight = FloatArgument(*product, "weight");
      if (!input || !weight) continue;
      std::vector<Node*> nodes = {product};
      Value* added = nullptr;
      if (p.add) {
        Node* add = OnlyReader(product);
        if (!add || add->op_name() != "aten.add.Tensor") continue;
        added = FloatArgument(*add, add->Get("self").value() == product->output() ? "other" : "self");
        if (!added) continue;
        nodes.push_back(add);
      }
      if (p.behind.empty()) {
        Take(nodes, input, weight, p.product == Layer::kConv2d ? added : nullptr);
        continue;
      }
      for (Node* unary : Readers(nodes.back()->output())) {
        if (!Is(*unary, p.behind[0])) continue;
        std::vector<Node*> all = nodes;
        all.push_back(unary);
        Take(all, input, weight, p.product == Layer::kConv2d ? added : nullptr);
      }
    }
  }

  Node* OnlyReader(const Node* n) const {
    return CountReaders(n->output()) == 1 && !graph_.IsOutput(n->output()) ? Readers(n->output())[0] : nullptr;
  }

  // `added` may be null.
  void Take(const std::vector<Node*>& nodes, Value* input, Value* weight, Value* added) {
    if (!Free(nodes)) return;
    Mark(nodes);
    if (excluding_) return;
    Quantize(nodes[0], input);
    Quantize(nodes[0], weight, true);
    if (added) Quantize(nodes[1], added);
    integers_.insert(nodes.back()->output());
  }

  void MatchProduct(Node* n, bool same_sizes) {
    if (!Free({n})) return;
    Value *a = FloatArgument(*n, "self"), *b = FloatArgument(*n, "other");
    if (excluding_) return Mark({n});
    if (!a || !b || (same_sizes && !HaveSameSizes(a, b))) return;
    Mark({n});
    Quantize(n, a);
    Quantize(n, b);
    integers_.insert(n->output());
  }

  static bool HaveSameSizes(const Value* a, const Value* b) {
    if (a->rank() != b->rank()) return false;
    for (int d = 0; d < a->rank(); ++d)
      if (!ir::ProvablyEqual(a->sizes()[d], b->sizes()[d])) return false;
    return true;
  }

  void Propagate(Node* n, const Propagating& p) {
    if (!Free({n})) return;
    if (excluding_) return Mark({n});
    ir::Values inputs;
    if (const ir::Values* list = n->Get(p.input).get<ir::Values>())
      inputs = *list;
    else
      inputs = {n->Get(p.input).value()};
    if (inputs.empty() || !std::all_of(inputs.begin(), inputs.end(), [&](Value* v) { return integers_.contains(v); }))
      return;
    if (p.op == "aten.flatten.using_ints") {
      const std::vector<Node*> readers = Readers(n->output());
      if (CountReaders(n->output()) > 0 &&
          std::none_of(readers.begin(), readers.end(), [](Node* r) { return IsQuantizable(*r); }))
        return;
    }
    Mark({n});
    for (Value* v : inputs) {
      Quantize(n, v);
      Share(inputs[0], v);
    }
    QuantizeResult(n->output());
    Share(inputs[0], n->output());
    integers_.insert(n->output());
  }

  bool excluding_ = false;
  absl::flat_hash_set<const Node*> marked_;
  absl::flat_hash_set<const Value*> integers_;  // results of patterns
};

}  // namespace

std::unique_ptr<Annotator> MakeX86Annotator(const ir::Program& p, const Recipe& r, const Selection& s) {
  return std::make_unique<X86Annotator>(p, r, s);
}

}  // namespace slipway::quantizer::pt2e
