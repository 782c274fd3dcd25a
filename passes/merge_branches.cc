// Branches that are linear in the same image and added up become one convolution:
//
//   norm(conv3x3(x)) + norm(conv1x1(x)) + norm(x) + x  →  conv3x3(x)
//
// Every branch is a convolution, the identity, or either of them with a batch norm of the running statistics behind it; numbers may be
// added, too (branches that are left out leave a 0). The new
// convolution has the sums of the branches' weights, each by its norm's factors and at its place in the largest window, computed in f64
// and rounded once. It stands for sums in another order: results differ from the program's by rounding, as those of any two
// implementations of it do. The branches' weights are left out of the program unless something else reads them.
//
// No branch makes the others do more: groups, strides and dilations agree, and the largest window is one that a branch has.
//
// In the same way a convolution or a linear layer alone takes over the batch norm behind it (FoldNorms).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::DType;
using ir::Ints;
using ir::Node;
using ir::Value;

constexpr int64_t kMostWeights = int64_t{1} << 28;  // of a convolution

bool Is(const Value* v, std::string_view op) { return v && v->producer() && v->producer()->op_name() == op; }
bool IsOnlyUse(const Value* v) { return v->users().size() == 1 && !v->graph()->IsOutput(v); }
bool IsImage(const Value* v) { return v && v->type().is_tensor() && v->rank() == 4 && v->dtype() == DType::kFloat32; }

// One branch: y = scale · conv(x) + shift, or scale · x + shift.
struct Branch {
  Value* x = nullptr;
  const Node* conv = nullptr;  // null: the identity
  Ints kernel = {1, 1}, stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 0;           // 0: any
  const Node* norm = nullptr;  // or null
};

class Merger {
 public:
  explicit Merger(ir::Program& p) : p_(p), g_(*p.graph) {
    const text::Set updated = ir::UpdatedWeights(p);
    for (size_t i = 0; i < p.input_specs.size(); ++i) {
      const ir::InputSpec& s = p.input_specs[i];
      const auto weight = s.kind == ir::InputSpec::kUser ? p.weights.end() : p.weights.find(s.target);
      if (weight == p.weights.end() || updated.contains(s.target) || weight->second.dtype != DType::kFloat32) continue;
      const auto sizes = g_.inputs()[i]->type().StaticSizes();
      if (sizes && *sizes == weight->second.sizes) weights_[g_.inputs()[i]] = weight->first;
    }
  }

  absl::StatusOr<int> Run() {
    std::vector<Node*> nodes;
    for (Node* n : g_) nodes.push_back(n);
    int merged = 0;
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
      if (gone_.contains(*n) || !IsSum((*n)->output())) continue;
      ASSIGN_OR_RETURN(const int branches, Merge(*n));
      merged += branches;
    }
    return merged;
  }

  // Of convolutions in 1, 2 or 3 dims whose weights are nothing else's.
  absl::StatusOr<int> RunNorms() {
    int folded = 0;
    for (Node* n : g_) {
      ASSIGN_OR_RETURN(const bool done, FoldNorm(n));
      folded += done;
    }
    return folded;
  }

 private:
  // x + y of images of the same sizes, or an image and a number.
  bool IsSum(const Value* v) const {
    if (!Is(v, "aten.add.Tensor") || !IsImage(v)) return false;
    ir::ArgReader c(*v->producer());
    const Value *a = v->producer()->Get("self").value(), *b = v->producer()->Get("other").value();
    if (!IsImage(a) || (b ? !IsImage(b) : !AddedNumber(*v->producer()))) return false;
    for (int d = 0; d < 4; ++d)
      if (!ir::ProvablyEqual(a->sizes()[d], v->sizes()[d]) || (b && !ir::ProvablyEqual(b->sizes()[d], v->sizes()[d]))) return false;
    const ir::Scalar alpha = c.scalar("alpha");
    return c.ok() && alpha.is_constant() && alpha.d == 1;
  }
  static std::optional<double> AddedNumber(const Node& sum) {
    ir::ArgReader c(sum);
    const ir::Scalar s = c.scalar("other");
    return c.ok() && s.is_constant() && s.kind != ir::Scalar::kComplex && std::isfinite(s.d) ? std::optional(s.d) : std::nullopt;
  }
  const std::string* WeightOf(const Node& n, std::string_view argument) const {
    const auto it = weights_.find(n.Get(argument).value());
    return it == weights_.end() ? nullptr : &it->second;
  }
  // Whether the argument is a weight, or None.
  bool IsWeightOrNone(const Node& n, std::string_view argument) const {
    return n.Get(argument).value() == nullptr ? n.Get(argument).is_none() : WeightOf(n, argument) != nullptr;
  }

  // A batch norm of the running statistics, which are weights as its factors are.
  bool IsNorm(const Node& n) const {
    if (n.op_name() != "aten.batch_norm.default") return false;
    ir::ArgReader c(n);
    const bool training = c.b("training");
    (void)c.f("eps");
    return c.ok() && !training && WeightOf(n, "running_mean") && WeightOf(n, "running_var") && IsWeightOrNone(n, "weight") &&
           IsWeightOrNone(n, "bias");
  }

  // What a view makes rows of features of; the value itself where it is no such view.
  static Value* WithoutRows(Value* rows) {
    static constexpr std::string_view kViews[] = {"aten.flatten.using_ints", "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default"};
    const Node* n = rows->producer();
    if (!n || rows->rank() != 2 || std::find(std::begin(kViews), std::end(kViews), n->op_name()) == std::end(kViews)) return rows;
    Value* from = n->Get("self").value();
    const bool kept = from && from->rank() >= 2 && from->sizes().back().is_constant() && from->sizes().back() == rows->sizes()[1];
    if (!kept || from->graph()->IsOutput(from)) return rows;
    // Others may read its sizes only.
    for (const Node* user : from->users())
      if (user != n && (user->op_name() != "aten.reshape_as.default" || user->Get("self").value() == from)) return rows;
    return from;
  }

  // norm(conv(x)) as conv(x) with other weights.
  absl::StatusOr<bool> FoldNorm(Node* norm) {
    if (!IsNorm(*norm)) return false;
    Value* image = norm->Get("input").value();
    Node* conv = image ? WithoutRows(image)->producer() : nullptr;
    const bool linear = conv && conv->op_name() == "aten.linear.default" && image->rank() == 2;
    if (!linear && image) conv = image->producer();
    if (!conv || !IsOnlyUse(image) || image->dtype() != DType::kFloat32 || norm->output()->dtype() != DType::kFloat32) return false;
    static constexpr std::string_view kConvolutions[] = {"aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default",
                                                         "aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding"};
    if (!linear && std::find(std::begin(kConvolutions), std::end(kConvolutions), conv->op_name()) == std::end(kConvolutions)) return false;
    const std::string* name = WeightOf(*conv, "weight");
    if (!name || !IsWeightOrNone(*conv, "bias") || conv->Get("weight").value()->users().size() != 1) return false;
    const std::vector<int64_t> sizes = p_.weights.find(*name)->second.sizes;
    // An image without a batch has its channels first.
    if (sizes.size() < (linear ? 2 : 3) || static_cast<int>(sizes.size()) != image->rank() || p_.weights.find(*name)->second.numel() > kMostWeights) return false;
    const int64_t outs = sizes[0];
    std::vector<double> scale(static_cast<size_t>(outs), 1), shift(static_cast<size_t>(outs));
    RETURN_IF_ERROR(ReadNorm({.conv = conv, .norm = norm}, &scale, &shift));
    ASSIGN_OR_RETURN(std::vector<float> weights, ReadFloats(*name));
    const size_t per = outs > 0 ? weights.size() / static_cast<size_t>(outs) : 0;
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(static_cast<double>(weights[i]) * scale[i / per]);
    const std::string stem = *name;
    conv->SetArg("weight", AddWeight(text::StrCat(stem, ".merged"), sizes, std::move(weights)));
    conv->SetArg("bias", AddBias(stem, {shift.begin(), shift.end()}));
    // The value is the norm's, and so is its name: what compares values by name finds it.
    g_.ReplaceAllUses(norm->output(), image);
    g_.TakeName(image, norm->output());
    g_.Erase(norm);
    return true;
  }

  Branch Read(Value* v) const {
    Branch b;
    b.x = v;
    if (Is(b.x, "aten.batch_norm.default") && IsOnlyUse(b.x)) {
      const Node& n = *b.x->producer();
      if (!IsNorm(n) || !IsImage(n.Get("input").value())) return b;
      b.norm = &n;
      b.x = n.Get("input").value();
    }
    if (!Is(b.x, "aten.conv2d.default") || !IsOnlyUse(b.x)) return b;
    const Node& n = *b.x->producer();
    ir::ArgReader c(n);
    const Ints stride = c.ints("stride", 2), padding = c.ints("padding", 2), dilation = c.ints("dilation", 2);
    const int64_t groups = c.i("groups");
    if (!c.ok() || !WeightOf(n, "weight") || !IsWeightOrNone(n, "bias") || !IsImage(n.Get("input").value()) || groups < 1) return b;
    const std::vector<int64_t>& sizes = p_.weights.find(*WeightOf(n, "weight"))->second.sizes;
    if (sizes.size() != 4) return b;
    b.conv = &n, b.x = n.Get("input").value();
    b.kernel = {sizes[2], sizes[3]}, b.stride = stride, b.padding = padding, b.dilation = dilation, b.groups = groups;
    return b;
  }

  // Where tap 0 of branch b is in the window of `largest`, by dim; nullopt where the branch does not fit into it.
  static std::optional<Ints> PlaceIn(const Branch& b, const Branch& largest) {
    Ints place;
    if (b.groups != 0 && b.groups != largest.groups) return std::nullopt;
    for (int d = 0; d < 2; ++d) {
      const int64_t by = largest.dilation[d], from = largest.padding[d] - b.padding[d];
      if (b.stride[d] != largest.stride[d] || (b.kernel[d] > 1 && b.dilation[d] != by) || from < 0 || from % by != 0 ||
          from / by + b.kernel[d] > largest.kernel[d])
        return std::nullopt;
      place.push_back(from / by);
    }
    return place;
  }

  absl::StatusOr<std::vector<float>> ReadFloats(const std::string& name) const {
    const ir::TensorRef& t = p_.weights.find(name)->second;
    ASSIGN_OR_RETURN(const std::string bytes, ir::ReadDense(t));
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
    return out;
  }

  // y = scale[c] · conv(x) + shift[c].
  absl::Status ReadNorm(const Branch& b, std::vector<double>* scale, std::vector<double>* shift) const {
    if (b.norm != nullptr) {
      ir::ArgReader c(*b.norm);
      const double epsilon = c.f("eps");
      auto each = [&](std::string_view argument, auto f) -> absl::Status {
        if (WeightOf(*b.norm, argument) == nullptr) return absl::OkStatus();
        ASSIGN_OR_RETURN(const std::vector<float> values, ReadFloats(*WeightOf(*b.norm, argument)));
        if (values.size() != scale->size()) return absl::InvalidArgumentError("a batch norm of another number of channels");
        for (size_t i = 0; i < values.size(); ++i) f(i, static_cast<double>(values[i]));
        return absl::OkStatus();
      };
      RETURN_IF_ERROR(each("running_var", [&](size_t i, double v) { (*scale)[i] = 1 / std::sqrt(v + epsilon); }));
      RETURN_IF_ERROR(each("weight", [&](size_t i, double v) { (*scale)[i] *= v; }));
      RETURN_IF_ERROR(each("running_mean", [&](size_t i, double v) { (*shift)[i] = -v * (*scale)[i]; }));
      RETURN_IF_ERROR(each("bias", [&](size_t i, double v) { (*shift)[i] += v; }));
    }
    if (b.conv == nullptr || WeightOf(*b.conv, "bias") == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<float> bias, ReadFloats(*WeightOf(*b.conv, "bias")));
    if (bias.size() != shift->size()) return absl::InvalidArgumentError("a bias of another number of channels");
    for (size_t i = 0; i < bias.size(); ++i) (*shift)[i] += static_cast<double>(bias[i]) * (*scale)[i];
    return absl::OkStatus();
  }

  Value* AddWeight(const std::string& name, std::vector<int64_t> sizes, std::vector<float> floats) {
    std::string bytes(reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float));
    ir::TensorRef t = ir::OwnedTensor(DType::kFloat32, std::move(sizes), std::move(bytes));
    return ir::AddWeight(p_, ir::InputSpec::kTensorConstant, name, std::move(t), text::StrCat("c_", name));
  }

  // The bias of a convolution with this weight; none where it would add nothing.
  ir::Arg AddBias(const std::string& weight, std::vector<float> floats) {
    if (std::all_of(floats.begin(), floats.end(), [](float f) { return f == 0; })) return ir::None{};
    const auto outs = static_cast<int64_t>(floats.size());
    return AddWeight(text::StrCat(weight, ".merged_bias"), {outs}, std::move(floats));
  }

  // How many branches of the sum became one convolution.
  absl::StatusOr<int> Merge(Node* sum) {
    std::vector<Value*> leaves, open = {sum->output()};
    std::vector<const Node*> sums;
    std::optional<double> number;  // the sum of those that are added
    while (!open.empty()) {
      Value* v = open.back();
      open.pop_back();
      if (v != sum->output() && !(IsSum(v) && IsOnlyUse(v))) {
        leaves.push_back(v);
        continue;
      }
      const Node& n = *v->producer();
      sums.push_back(&n);
      if (Value* other = n.Get("other").value())
        open.push_back(other);
      else
        number = number.value_or(0) + *AddedNumber(n);
      open.push_back(n.Get("self").value());
    }
    std::vector<Branch> branches;
    for (Value* v : leaves) branches.push_back(Read(v));
    // The largest window, and what fits into it.
    const Branch* largest = nullptr;
    for (const Branch& b : branches)
      if (b.conv != nullptr && (largest == nullptr || b.kernel[0] * b.kernel[1] > largest->kernel[0] * largest->kernel[1])) largest = &b;
    if (largest == nullptr) return 0;
    std::vector<size_t> taken;
    for (size_t i = 0; i < branches.size(); ++i)
      if (branches[i].x == largest->x && PlaceIn(branches[i], *largest)) taken.push_back(i);
    if (taken.size() + (number ? 1 : 0) < 2) return 0;
    const std::string& name = *WeightOf(*largest->conv, "weight");
    const std::vector<int64_t> sizes = p_.weights.find(name)->second.sizes;
    const int64_t outs = sizes[0], per = sizes[1], taps = sizes[2] * sizes[3], group_outs = outs / largest->groups;
    // An identity gives as many channels as it gets.
    const bool square = per * largest->groups == outs && largest->x->sizes()[1].is(outs);
    std::erase_if(taken, [&](size_t i) { return branches[i].conv == nullptr && !square; });
    if (taken.size() + (number ? 1 : 0) < 2 || outs * per * taps > kMostWeights || group_outs * largest->groups != outs) return 0;
    std::vector<double> weights(static_cast<size_t>(outs * per * taps)), bias(static_cast<size_t>(outs), number.value_or(0));
    for (size_t i : taken) {
      const Branch& b = branches[i];
      const Ints place = *PlaceIn(b, *largest);
      std::vector<double> scale(static_cast<size_t>(outs), 1), shift(static_cast<size_t>(outs));
      RETURN_IF_ERROR(ReadNorm(b, &scale, &shift));
      std::vector<float> own;
      if (b.conv != nullptr) {
        if (p_.weights.find(*WeightOf(*b.conv, "weight"))->second.sizes[0] != outs ||
            p_.weights.find(*WeightOf(*b.conv, "weight"))->second.sizes[1] != per)
          return 0;
        ASSIGN_OR_RETURN(own, ReadFloats(*WeightOf(*b.conv, "weight")));
      }
      const float* from = own.data();
      for (int64_t o = 0; o < outs; ++o) {
        const double by = scale[static_cast<size_t>(o)];
        bias[static_cast<size_t>(o)] += shift[static_cast<size_t>(o)];
        auto at = [&](int64_t c, int64_t y, int64_t x) -> double& {
          return weights[static_cast<size_t>(((o * per + c) * sizes[2] + place[0] + y) * sizes[3] + place[1] + x)];
        };
        if (b.conv == nullptr) {
          at(o % per, 0, 0) += by;  // with as many channels in as out, channel o is number o % per of its group
          continue;
        }
        for (int64_t c = 0; c < per; ++c)
          for (int64_t y = 0; y < b.kernel[0]; ++y)
            for (int64_t x = 0; x < b.kernel[1]; ++x) at(c, y, x) += by * static_cast<double>(*from++);
      }
    }
    Value* const w = AddWeight(text::StrCat(name, ".merged"), sizes, {weights.begin(), weights.end()});
    ir::Arg shift = AddBias(name, {bias.begin(), bias.end()});
    ir::Builder b(g_, sum, largest->conv->source());
    Value* result = b.Call("aten.conv2d.default", {largest->x, w, shift, largest->stride, largest->padding, largest->dilation, largest->groups});
    for (size_t i = 0; i < leaves.size(); ++i)
      if (std::find(taken.begin(), taken.end(), i) == taken.end()) result = b.Call("aten.add.Tensor", {result, leaves[i]});
    RETURN_IF_ERROR(b.status());
    gone_.insert(sums.begin(), sums.end());
    // The sums on the way have no other use: they go with the code that is dead now.
    ReplaceNode(sum, {result});
    return static_cast<int>(taken.size());
  }

  ir::Program& p_;
  ir::Graph& g_;
  absl::flat_hash_map<const Value*, std::string> weights_;  // inputs that are f32 weights which nothing updates
  absl::flat_hash_set<const Node*> gone_;
};

}  // namespace

absl::StatusOr<int> FoldNorms(ir::Program& p) {
  ASSIGN_OR_RETURN(const int folded, Merger(p).RunNorms());
  if (folded > 0) RETURN_IF_ERROR(EliminateDeadCode(p));
  return folded;
}

absl::StatusOr<int> MergeBranches(ir::Program& p) {
  ASSIGN_OR_RETURN(const int merged, Merger(p).Run());
  if (merged > 0) RETURN_IF_ERROR(EliminateDeadCode(p));
  return merged;
}

}  // namespace slipway::passes
