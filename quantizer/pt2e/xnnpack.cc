// The rules of the XNNPACKQuantizer that torchao 0.18 tests itself with (torchao.testing.pt2e), with its symmetric
// configuration.
//
// Inputs and results of linear layers, convolutions, additions, products and pools are quantized, a ReLU behind them in
// between. Operators that move or select elements share the scale of what they take where that is quantized.
// Recurrent layers (GRU) stay in float.
#include <cmath>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "quantizer/pt2e/annotate.h"

namespace slipway::quantizer::pt2e {
namespace {

using ir::Node;
using ir::Value;

const text::Set& Convolutions() {
  static const auto& operators =
      *new text::Set{"aten.conv1d.default", "aten.conv2d.default", "aten.conv1d.padding", "aten.conv2d.padding"};
  return operators;
}
// With a ReLU behind them these are taken, too.
const text::Set& ConvolutionsBeforeRelu() {
  static const auto& operators =
      *new text::Set{"aten.conv1d.default",           "aten.conv1d.padding",         "aten.conv2d.default",
                     "aten.conv2d.padding",           "aten.conv3d.default",         "aten.conv3d.padding",
                     "aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"};
  return operators;
}
const text::Set& Linears() {
  static const auto& operators = *new text::Set{"aten.linear.default"};
  return operators;
}

// Operators whose results have the scale of their input.
const text::Set& Sharing() {
  static const auto& operators = *new text::Set{"aten.relu.default",
                                                "aten.hardtanh.default",
                                                "aten.max_pool2d.default",
                                                "aten.mean.default",
                                                "aten.mean.dim",
                                                "aten.permute.default",
                                                "aten.permute_copy.default",
                                                "aten.squeeze.dim",
                                                "aten.squeeze_copy.dim",
                                                "aten.view_copy.default",
                                                "aten.view.default",
                                                "aten.slice_copy.Tensor",
                                                "aten.flatten.using_ints",
                                                "aten.adaptive_avg_pool2d.default"};
  return operators;
}

class XnnpackAnnotator : public Annotator {
 public:
  XnnpackAnnotator(const ir::Program& p, const Recipe& r, const Selection& s) : Annotator(p, r, s), program_(p) {}

  // In torchao's order: what is larger goes first, and nothing is looked at again.
  void Run() override {
    ProductsBeforeRelu(Linears());
    Products(Linears());
    ProductsBeforeRelu(ConvolutionsBeforeRelu());
    Products(Convolutions());
    Pools();
    for (std::string_view op : {"aten.add.Tensor", "aten.mul.Tensor"}) {
      ElementwiseBeforeRelu(op);
      Elementwise(op);
    }
    Cats();
    Propagate();
  }

 private:
  // Marks apply to weights, too: one that two layers share is quantized for the first.
  bool AnyMarked(const std::vector<const void*>& things) const {
    for (const void* t : things)
      if (marked_.contains(t)) return true;
    return false;
  }
  void Mark(const std::vector<const void*>& things) {
    for (const void* t : things)
      if (t) marked_.insert(t);
  }
  void Result(Value* v) {
    QuantizeResult(v);
    results_.insert(v);
  }

  // A ReLU that is the only reader of what `op` computes; null where there is none.
  Node* ProducerBeforeRelu(const Node& relu) const {
    if (relu.op_name() != "aten.relu.default") return nullptr;
    const Value* v = FloatArgument(relu, "self");
    return v && v->producer() && CountReaders(v) == 1 ? v->producer() : nullptr;
  }

  void ProductsBeforeRelu(const text::Set& operators) {
    for (Node* relu : graph_) {
      Node* product = ProducerBeforeRelu(*relu);
      if (!product || !operators.contains(product->op_name())) continue;
      Product(product, relu);
    }
  }
  void Products(const text::Set& operators) {
    for (Node* product : graph_)
      if (operators.contains(product->op_name())) Product(product, product);
  }
  // `last` gives the result.
  void Product(Node* product, Node* last) {
    Value *input = FloatArgument(*product, "input"), *weight = FloatArgument(*product, "weight");
    if (!input || !weight) return;
    const Value* bias = product->Get("bias").value();
    if (AnyMarked({product, last}) || excluded(*product) || excluded(*last)) return;
    const bool alone = product == last && Linears().contains(product->op_name());
    if (!alone && AnyMarked({weight, bias})) return;
    Quantize(product, input);
    Quantize(product, weight, true);
    Result(last->output());
    Mark({product, last, weight, bias});
  }

  void Pools() {
    for (Node* n : graph_) {
      if (!Is(*n, Layer::kAdaptiveAvgPool) || AnyMarked({n}) || excluded(*n)) continue;
      Value* input = FloatArgument(*n, "self");
      if (!input) continue;
      Quantize(n, input);
      ShareWithResult(n, input);
    }
  }
  void ShareWithResult(Node* n, Value* input) {
    Result(n->output());
    Share(input, n->output());
    Mark({n});
  }

  void ElementwiseBeforeRelu(std::string_view op) {
    for (Node* relu : graph_) {
      Node* n = ProducerBeforeRelu(*relu);
      if (n && n->op_name() == op) Both(n, relu);
    }
  }
  void Elementwise(std::string_view op) {
    for (Node* n : graph_)
      if (n->op_name() == op) Both(n, n);
  }
  void Both(Node* n, Node* last) {
    if (AnyMarked({n, last}) || excluded(*n) || excluded(*last)) return;
    Value *a = FloatArgument(*n, "self"), *b = FloatArgument(*n, "other");
    if (!a || !b || IsLargeNumber(a) || IsLargeNumber(b)) return;
    Quantize(n, a);
    Quantize(n, b);
    Result(last->output());
    Mark({n, last});
  }

  // A constant that histograms of torch do not take.
  bool IsLargeNumber(const Value* v) const {
    constexpr float kMost = 3.4028235e15f;
    if (v->producer() || v->type().StaticNumel() != 1) return false;
    const ir::InputSpec& spec = program_.input_specs[static_cast<size_t>(v->index())];
    const auto it = program_.weights.find(spec.target);
    if (!spec.is_weight() || it == program_.weights.end()) return false;
    const auto bytes = ir::ReadDense(it->second);
    float number;
    if (!bytes.ok() || bytes->size() != sizeof number) return false;
    std::memcpy(&number, bytes->data(), sizeof number);
    return std::fabs(number) > kMost;
  }

  void Cats() {
    for (Node* n : graph_) {
      if (!Is(*n, Layer::kCat) || AnyMarked({n}) || excluded(*n)) continue;
      const ir::Values* inputs = n->Get("tensors").get<ir::Values>();
      if (!inputs || inputs->empty()) continue;
      bool floats = true;
      for (const Value* v : *inputs) floats = floats && v->dtype() == ir::DType::kFloat32;
      if (!floats) continue;
      for (Value* v : *inputs) {
        Quantize(n, v);
        Share((*inputs)[0], v);
      }
      ShareWithResult(n, (*inputs)[0]);
    }
  }

  void Propagate() {
    for (Node* n : graph_) {
      if (!Sharing().contains(n->op_name()) || AnyMarked({n})) continue;
      if (n->op_name() == "aten.relu.default" && in_place(*n)) continue;  // not in torchao's list
      Value* input = FloatArgument(*n, "self");
      if (!input || !results_.contains(input)) continue;
      Quantize(n, input);
      ShareWithResult(n, input);
    }
  }

  const ir::Program& program_;
  absl::flat_hash_set<const void*> marked_;
  absl::flat_hash_set<const Value*> results_;
};

}  // namespace

std::unique_ptr<Annotator> MakeXnnpackAnnotator(const ir::Program& p, const Recipe& r, const Selection& s) {
  return std::make_unique<XnnpackAnnotator>(p, r, s);
}

}  // namespace slipway::quantizer::pt2e
