// In f32, each step rounded, in the order of torch.nn.utils.fusion:
//
//   scale = norm_weight · (1 / √(variance + eps))    weight' = weight · scale, by channel
//   bias' = (bias - mean) · (1 / √(variance + eps)) · norm_weight + norm_bias, of linear layers (bias - mean) · scale +
//   norm_bias
//
// A weight that several layers share is replaced once for each norm that is behind one of them.
#include "quantizer/pt2e/fold_norms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace slipway::quantizer::pt2e {
namespace {

using ir::DType;
using ir::Node;
using ir::Value;

struct Product {
  Node* node = nullptr;
  bool transposed = false, linear = false;
};

absl::StatusOr<std::vector<float>> Floats(const ir::TensorRef& t) {
  ASSIGN_OR_RETURN(const std::string bytes, ir::ReadDense(t));
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}
std::string Bytes(const std::vector<float>& x) {
  return {reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float)};
}

class Folder {
 public:
  Folder(ir::Program& p, const StoreTensor& store) : p_(p), g_(*p.graph), store_(store) {}

  absl::Status Run() {
    for (Node* n : g_)
      if (IsNorm(*n)) RETURN_IF_ERROR(Fold(n));
    return absl::OkStatus();
  }

 private:
  // The numbers of a norm; null values are ones or zeros.
  struct Norm {
    const Value *weight, *bias, *mean, *variance;
    double eps;
    auto Key() const { return std::tuple(weight, bias, mean, variance, eps); }
  };

  static bool IsNorm(const Node& n) {
    if (n.op_name() == "aten._native_batch_norm_legit_no_training.default")
      return n.output(1)->users().empty() && n.output(2)->users().empty();
    const bool* training = n.Get("training").get<bool>();
    return n.op_name() == "aten.batch_norm.default" && training && !*training;
  }

  bool IsFloats(const Value* v, int64_t n) const {
    return IsStoredWeight(p_, v) && v->dtype() == DType::kFloat32 && v->type().StaticNumel() == n;
  }

  std::optional<Product> ProductBefore(const Node& norm) const {
    static const auto& convolutions =
        *new text::Set{"aten.conv1d.default", "aten.conv1d.padding", "aten.conv2d.default",
                       "aten.conv2d.padding", "aten.conv3d.default", "aten.conv3d.padding"};
    static const auto& transposed =
        *new text::Set{"aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"};
    const Value* input = norm.Get("input").value();
    Node* n = input ? input->producer() : nullptr;
    if (!n || n->output(0) != input || g_.IsOutput(input) || input->users().size() != 1) return std::nullopt;
    const bool linear = n->op_name() == "aten.linear.default";
    if (transposed.contains(n->op_name())) {
      const int64_t* groups = n->Get("groups").get<int64_t>();
      if (!groups || *groups != 1) return std::nullopt;
      return Product{n, true, false};
    }
    // A norm is over the second dim, and a linear layer's features are in the last.
    if (linear ? input->rank() != 2 : !convolutions.contains(n->op_name())) return std::nullopt;
    return Product{n, false, linear};
  }

  absl::Status Fold(Node* norm) {
    const auto product = ProductBefore(*norm);
    if (!product) return absl::OkStatus();
    Node* layer = product->node;
    if (changed_.contains(layer)) return absl::OkStatus();  // a second norm stays one
    Value *weight = layer->Get("weight").value(), *bias = layer->Get("bias").value();
    const double* eps = norm->Get("eps").get<double>();
    const auto sizes = weight->type().StaticSizes();
    if (!eps || !sizes || sizes->size() < 2) return absl::OkStatus();
    const int64_t channels = (*sizes)[product->transposed ? 1 : 0];
    const Norm of{norm->Get("weight").value(), norm->Get("bias").value(), norm->Get("running_mean").value(),
                  norm->Get("running_var").value(), *eps};
    if (!of.mean || !of.variance || !IsFloats(weight, *weight->type().StaticNumel())) return absl::OkStatus();
    for (const Value* v : {of.weight, of.bias, of.mean, of.variance, static_cast<const Value*>(bias)})
      if (v && !IsFloats(v, channels)) return absl::OkStatus();

    const auto key = std::tuple(weight, bias, product->transposed, product->linear, of.Key());
    auto done = folded_.find(key);
    if (done == folded_.end()) {
      ASSIGN_OR_RETURN(const auto made, Compute(*product, weight, bias, of, channels));
      done = folded_.emplace(key, made).first;
    }
    changed_.insert(layer);
    layer->SetArg("weight", done->second.first);
    layer->SetArg("bias", done->second.second);
    g_.ReplaceAllUses(norm->output(), layer->output());
    g_.Erase(norm);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> Read(const Value* v, int64_t channels, float otherwise) const {
    if (!v) return std::vector<float>(static_cast<size_t>(channels), otherwise);
    return Floats(p_.weights.at(WeightName(p_, v)));
  }

  absl::StatusOr<std::pair<Value*, Value*>> Compute(const Product& product, Value* weight, Value* bias, const Norm& of,
                                                    int64_t channels) {
    ASSIGN_OR_RETURN(const std::vector<float> gamma, Read(of.weight, channels, 1));
    ASSIGN_OR_RETURN(const std::vector<float> beta, Read(of.bias, channels, 0));
    ASSIGN_OR_RETURN(const std::vector<float> mean, Read(of.mean, channels, 0));
    ASSIGN_OR_RETURN(const std::vector<float> variance, Read(of.variance, channels, 1));
    ASSIGN_OR_RETURN(std::vector<float> shift, Read(bias, channels, 0));
    std::vector<float> scale(gamma.size());
    for (size_t c = 0; c < scale.size(); ++c) {
      const float root = 1 / std::sqrt(variance[c] + static_cast<float>(of.eps));
      scale[c] = gamma[c] * root;
      const float centered = shift[c] - mean[c];
      shift[c] = (product.linear ? centered * scale[c] : centered * root * gamma[c]) + beta[c];
    }
    const std::string name = WeightName(p_, weight);
    const ir::TensorRef& old = p_.weights.at(name);
    const std::vector<int64_t> sizes = old.sizes;
    ASSIGN_OR_RETURN(std::vector<float> numbers, Floats(old));
    // [channel, rest] or [other, channel, rest]
    const int64_t outer = product.transposed ? sizes[0] : 1;
    const int64_t inner = static_cast<int64_t>(numbers.size()) / std::max<int64_t>(outer * channels, 1);
    size_t at = 0;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < inner; ++i) numbers[at++] *= scale[static_cast<size_t>(c)];
    ASSIGN_OR_RETURN(const ir::TensorRef new_weight, store_(DType::kFloat32, sizes, Bytes(numbers)));
    ASSIGN_OR_RETURN(const ir::TensorRef new_bias, store_(DType::kFloat32, {channels}, Bytes(shift)));

    // The names stay where nothing else has them.
    constexpr std::string_view kWeight = "weight";
    const std::string bias_name = bias ? WeightName(p_, bias)
                                  : name.ends_with(kWeight)
                                      ? text::StrCat(name.substr(0, name.size() - kWeight.size()), "bias")
                                      : text::StrCat(name, "_bias");
    return std::pair(Put(weight, name, new_weight), Put(bias, bias_name, new_bias));
  }

  // The tensor under the name, as `v` itself where it has one reader.
  Value* Put(Value* v, const std::string& name, const ir::TensorRef& t) {
    if (v && v->users().size() == 1 && !g_.IsOutput(v)) {
      p_.weights[name] = t;
      return v;
    }
    std::string value_name = text::StrCat("p_", name);
    std::replace(value_name.begin(), value_name.end(), '.', '_');
    return ir::AddWeight(p_, ir::InputSpec::kParameter, name, t, std::move(value_name));
  }

  ir::Program& p_;
  ir::Graph& g_;
  const StoreTensor& store_;
  using Key = std::tuple<Value*, Value*, bool, bool,
                         std::tuple<const Value*, const Value*, const Value*, const Value*, double>>;
  absl::flat_hash_set<const Node*> changed_;
  std::map<Key, std::pair<Value*, Value*>> folded_;  // weights and biases; looked up only, so that its order is none
};

}  // namespace

bool IsStoredWeight(const ir::Program& p, const Value* v) {
  if (!v || v->producer() || v->graph() != p.graph.get()) return false;
  const ir::InputSpec& spec = p.input_specs[static_cast<size_t>(v->index())];
  return spec.is_weight() && p.weights.contains(spec.target) && !ir::UpdatedWeights(p).contains(spec.target);
}

const std::string& WeightName(const ir::Program& p, const Value* v) {
  return p.input_specs[static_cast<size_t>(v->index())].target;
}

absl::Status FoldNorms(ir::Program& p, const StoreTensor& store) { return Folder(p, store).Run(); }

}  // namespace slipway::quantizer::pt2e
