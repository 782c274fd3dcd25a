// What follows a product channel by channel becomes part of its weights:
//
//   linear(x, w, b).transpose(1, 2) * gamma[:, None]  →  linear(x, gamma[:, None] * w, gamma * b).transpose(1, 2)
//
// FoldScaleShift takes factors that are weights (layer scale, and one that all channels share) and summands behind
// convolutions, linear layers and batch norms of the running statistics, and such norms behind linear layers;
// FoldBatchNorms takes those behind convolutions, which loops over images apply themselves. Between are views that keep
// the channels in one dim. The product's value and what is on the way have no other reader, nor have the product's
// weights. New weights are computed in f64 and rounded once: of f32 and f64 only, since halves are rounded between the
// product and the factor.
//
// A product stays whose largest new weight would overflow or be a denormal number, in f16 where --dtype makes the
// weights that.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "ir/ops/args.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"
#include "passes/stored_weights.h"

namespace slipway::passes {
namespace {

using ir::DType;
using ir::Node;
using ir::Value;

constexpr int64_t kMostBytes = int64_t{1} << 30;  // of a product's weight, which is held twice for a moment
constexpr int64_t kMostHeld = int64_t{1} << 31;   // of all that are new, which are held until they are written

// Weights whose rows are the channels of the result, which are a dim of it.
struct ScaledProduct {
  const std::string* weight;
  int channel;
  bool takes_norms;
};

// A node that scales and shifts channels of a value, which stands for its result afterwards.
struct ScaleShiftStep {
  Node* node;
  Value* of;
};

// The least normal and the largest number.
std::pair<double, double> RangeOf(DType t) {
  if (t == DType::kFloat16) return {std::ldexp(1, -14), 65504};
  if (t == DType::kFloat64) return {std::numeric_limits<double>::min(), std::numeric_limits<double>::max()};
  return {std::numeric_limits<float>::min(),
          t == DType::kBFloat16 ? std::ldexp(255, 120) : std::numeric_limits<float>::max()};
}

// The only node that reads elements of v; null where there are none or several. Others may read its sizes.
Node* OnlyUser(const Value* v) {
  if (v->graph()->IsOutput(v)) return nullptr;
  Node* only = nullptr;
  for (Node* n : v->users()) {
    if (n->op_name() == "aten.sym_size.int" ||
        (n->op_name() == "aten.reshape_as.default" && n->Get("self").value() != v))
      continue;
    if (only) return nullptr;
    only = n;
  }
  return only;
}

// Where the dim of channels is behind a view of v; nullopt where they are no dim of it.
std::optional<int> ChannelAfterView(const Node& view, const Value* v, int channel) {
  const Value* out = view.output();
  if (!out || !out->type().is_tensor()) return std::nullopt;
  if (const Permuted turned = ReadPermutation(out); turned.source == v)
    return static_cast<int>(std::find(turned.order.begin(), turned.order.end(), channel) - turned.order.begin());
  if (!IsReshape(view) || FirstArgument(view) != v) return std::nullopt;
  // Elements keep their order: a dim of as many indices, with as many elements for each, is the same.
  const auto behind = [](const Value* x, int d) {
    ir::Sym all = 1;
    while (++d < x->rank()) all = all * x->sizes()[d];
    return all;
  };
  for (int d = 0; d < out->rank(); ++d)
    if (ir::ProvablyEqual(out->sizes()[d], v->sizes()[channel]) &&
        ir::ProvablyEqual(behind(out, d), behind(v, channel)))
      return d;
  return std::nullopt;
}

class ScaleShiftFolder {
 public:
  ScaleShiftFolder(ir::Program& p, bool norms, DType narrow)
      : g_(*p.graph), weights_(p), norms_(norms), narrow_(narrow) {}

  absl::StatusOr<int> Run() {
    int folded = 0;
    for (Node* n : g_) {
      const auto product = ReadProduct(*n);
      if (!product) continue;
      ASSIGN_OR_RETURN(const int steps, Fold(n, *product));
      folded += steps;
    }
    return folded;
  }

 private:
  std::optional<ScaledProduct> ReadProduct(const Node& n) const {
    static const auto& convolutions =
        *new text::Set{"aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default",
                       "aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding"};
    const bool linear = n.op_name() == "aten.linear.default", norm = !norms_ && weights_.IsNorm(n);
    if (!linear && !norm && !convolutions.contains(n.op_name())) return std::nullopt;
    const std::string* name = weights_.NameOf(n, "weight");
    if (!name || !weights_.IsWeightOrNone(n, "bias")) return std::nullopt;
    const ir::TensorRef& t = weights_.Tensor(*name);
    const int rank = static_cast<int>(t.sizes.size()), result = n.output()->rank();
    if (t.nbytes() > kMostBytes || n.output()->dtype() != t.dtype) return std::nullopt;
    // An image without a batch has its channels first.
    const int channel = norm ? 1 : linear ? result - 1 : result - rank + 1;
    if ((linear && rank != 2) || channel < 0 || channel >= result) return std::nullopt;
    return ScaledProduct{.weight = name, .channel = channel, .takes_norms = linear || norms_};
  }

  // The weight behind a factor or summand of v that is one number a channel, or one for all; null for others.
  const std::string* PerChannel(const Value* operand, const Value* v, int channel) const {
    if (!operand || operand->rank() > v->rank()) return nullptr;
    const Value* stored = operand;
    while (const Node* n = stored->producer()) {
      const bool slice = n->op_name() == "aten.slice.Tensor";
      if (!slice && !IsReshape(*n)) return nullptr;
      const Value* whole = FirstArgument(*n);
      const auto sizes = stored->type().StaticSizes();
      if (slice && (!sizes || whole->type().StaticSizes() != sizes)) return nullptr;
      stored = whole;
    }
    const std::string* name = weights_.NameOf(stored);
    if (!name || stored->dtype() != v->dtype()) return nullptr;
    const int64_t numbers = weights_.Tensor(*name).numel();
    const int d = operand->rank() - (v->rank() - channel);
    return numbers == 1 || (d >= 0 && v->sizes()[channel].is(numbers) && operand->sizes()[d].is(numbers)) ? name
                                                                                                          : nullptr;
  }

  // Adds what `n` does to the channels of v; false where it is something else.
  absl::StatusOr<bool> Append(const ScaledProduct& p, const Node& n, const Value* read, int channel,
                              ChannelAffine* all) const {
    if (!n.output() || n.output()->dtype() != read->dtype()) return false;
    if (weights_.IsNorm(n)) {
      if (!p.takes_norms || n.Get("input").value() != read || channel != 1) return false;
      RETURN_IF_ERROR(weights_.Append(n, all));
      return true;
    }
    if (norms_) return false;
    const bool sum = n.op_name() == "aten.add.Tensor";
    if (!sum && n.op_name() != "aten.mul.Tensor") return false;
    if (sum) {
      ir::ArgReader c(n);
      const ir::Scalar alpha = c.scalar("alpha");
      if (!c.ok() || !alpha.is_constant() || alpha.d != 1) return false;
    }
    const Value *left = n.Get("self").value(), *right = n.Get("other").value();
    const std::string* name = PerChannel(left == read ? right : left, read, channel);
    if (!name) return false;
    ASSIGN_OR_RETURN(const std::vector<double> numbers, weights_.Read(*name));
    for (size_t i = 0; i < all->scale.size(); ++i) {
      const double number = numbers[numbers.size() == 1 ? 0 : i];
      all->shift[i] = sum ? all->shift[i] + number : all->shift[i] * number;
      if (!sum) all->scale[i] *= number;
    }
    return true;
  }

  // How many steps behind the product are part of it now.
  absl::StatusOr<int> Fold(Node* product, const ScaledProduct& p) {
    const ir::TensorRef& t = weights_.Tensor(*p.weight);
    if (!product->output()->sizes()[p.channel].is(t.sizes[0])) return 0;
    ChannelAffine all(t.sizes[0]);
    std::vector<ScaleShiftStep> steps;
    // `of` will be what `read` is.
    Value *of = product->output(), *read = of;
    for (int channel = p.channel; Node* n = OnlyUser(read); read = n->output()) {
      ASSIGN_OR_RETURN(const bool step, Append(p, *n, read, channel, &all));
      if (step) {
        steps.push_back({n, of});
        continue;
      }
      const auto behind = ChannelAfterView(*n, read, channel);
      if (!behind) break;
      channel = *behind;
      of = n->output();
    }
    if (steps.empty() || !weights_.IsReadOnce(product->Get("weight").value()) || held_ + t.nbytes() > kMostHeld)
      return 0;
    RETURN_IF_ERROR(weights_.AddBiasOf(*product, &all));
    ASSIGN_OR_RETURN(std::string bytes, ir::ReadDense(t));
    if (!(t.dtype == DType::kFloat64 ? Scale<double>(all, &bytes) : Scale<float>(all, &bytes))) return 0;
    held_ += t.nbytes();
    product->SetArg("weight", weights_.Add(text::StrCat(*p.weight, ".merged"), t.dtype, t.sizes, std::move(bytes)));
    product->SetArg("bias", weights_.AddBias(*p.weight, all.shift));
    // The value is the last step's, and so is its name: what compares values by name finds it.
    for (const ScaleShiftStep& s : steps) {
      g_.ReplaceAllUses(s.node->output(), s.of);
      g_.TakeName(s.of, s.node->output());
      g_.Erase(s.node);
    }
    return static_cast<int>(steps.size());
  }

  // Multiplies rows; false where the numbers leave the range of normal ones.
  template <typename T>
  bool Scale(const ChannelAffine& by, std::string* bytes) const {
    const auto [least, most] = RangeOf(sizeof(T) == sizeof(double) ? DType::kFloat64 : narrow_);
    const size_t rows = by.scale.size();
    std::vector<T> row(rows > 0 ? bytes->size() / sizeof(T) / rows : 0);
    double largest = 0;
    for (size_t c = 0; c < rows; ++c) {
      if (!(std::abs(by.shift[c]) <= most)) return false;
      char* const at = bytes->data() + c * row.size() * sizeof(T);
      std::memcpy(row.data(), at, row.size() * sizeof(T));
      for (T& w : row) {
        const double scaled = static_cast<double>(w) * by.scale[c];
        if (!(std::abs(scaled) <= most)) return false;
        largest = std::max(largest, std::abs(scaled));
        w = static_cast<T>(scaled);
      }
      std::memcpy(at, row.data(), row.size() * sizeof(T));
    }
    return largest == 0 || largest >= least;
  }

  ir::Graph& g_;
  StoredWeights weights_;
  const bool norms_;
  const DType narrow_;  // what f32 becomes behind this pass
  int64_t held_ = 0;
};

absl::StatusOr<int> Fold(ir::Program& p, bool norms, DType narrow) {
  ASSIGN_OR_RETURN(const int folded, ScaleShiftFolder(p, norms, narrow).Run());
  if (folded > 0) RETURN_IF_ERROR(EliminateDeadCode(p));
  return folded;
}

}  // namespace

absl::StatusOr<int> FoldScaleShift(ir::Program& p, DType narrow) { return Fold(p, false, narrow); }
absl::StatusOr<int> FoldBatchNorms(ir::Program& p, DType narrow) { return Fold(p, true, narrow); }

}  // namespace slipway::passes
