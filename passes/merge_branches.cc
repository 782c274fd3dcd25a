// Branches that are linear in the same image and added up become one convolution:
//
//   norm(conv3x3(x)) + norm(conv1x1(x)) + norm(x) + x  →  conv3x3(x)
//
// Every branch is a convolution, the identity, or either of them with a batch norm of the running statistics behind it;
// numbers may be
// added, too: a 0, which branches that are left out leave, goes with the others or by itself. The new convolution has
// the sums of the branches' weights, each by its norm's factors and at its place in the largest window, computed in f64
// and rounded once. It stands for
// sums in another order: results differ from the program's by rounding, as those of any two implementations of it do.
// The branches' weights are left out of the program unless something else reads them.
//
// No branch makes the others do more: groups, strides and dilations agree, and the largest window is one that a branch
// has.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/match.h"
#include "passes/pass.h"
#include "passes/stored_weights.h"

namespace slipway::passes {
namespace {

using ir::DType;
using ir::Ints;
using ir::Node;
using ir::Value;

constexpr int64_t kMostWeights = int64_t{1} << 28;  // of a convolution

bool IsResultOf(const Value* v, std::string_view op) { return v && Is(v->producer(), op); }
bool IsImage(const Value* v) { return v && v->type().is_tensor() && v->rank() == 4 && v->dtype() == DType::kFloat32; }

// One branch: y = scale · conv(x) + shift, or scale · x + shift.
struct Branch {
  Value* x = nullptr;
  const Node* conv = nullptr;  // null: the identity
  Ints kernel = {1, 1}, stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 0;          // 0: any
  const Node* norm = nullptr;  // or null
};

class Merger {
 public:
  explicit Merger(ir::Program& p) : g_(*p.graph), weights_(p) {}

  absl::StatusOr<int> Run() {
    std::vector<Node*> nodes;
    for (Node* n : g_) nodes.push_back(n);
    int merged = 0;
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
      if (gone_.contains(*n) || !IsSum((*n)->output())) continue;
      ASSIGN_OR_RETURN(const int branches, Merge(*n));
      merged += branches;
      if (branches == 0 && AddsNothing(**n)) ReplaceNode(*n, {(*n)->Get("self").value()});
    }
    return merged;
  }

 private:
  // x + y of images of the same sizes, or an image and a number.
  bool IsSum(const Value* v) const {
    if (!IsResultOf(v, "aten.add.Tensor") || !IsImage(v)) return false;
    ir::ArgReader c(*v->producer());
    const Value *a = v->producer()->Get("self").value(), *b = v->producer()->Get("other").value();
    if (!IsImage(a) || (b ? !IsImage(b) : !AddedNumber(*v->producer()))) return false;
    for (int d = 0; d < 4; ++d)
      if (!ir::ProvablyEqual(a->sizes()[d], v->sizes()[d]) || (b && !ir::ProvablyEqual(b->sizes()[d], v->sizes()[d])))
        return false;
    const ir::Scalar alpha = c.scalar("alpha");
    return c.ok() && alpha.is_constant() && alpha.d == 1;
  }
  static std::optional<double> AddedNumber(const Node& sum) {
    ir::ArgReader c(sum);
    const ir::Scalar s = c.scalar("other");
    return c.ok() && s.is_constant() && s.kind != ir::Scalar::kComplex && std::isfinite(s.d) ? std::optional(s.d)
                                                                                             : std::nullopt;
  }
  // Only the sign of zeros changes.
  bool AddsNothing(const Node& sum) const {
    return !sum.Get("other").value() && AddedNumber(sum) == 0.0 && !g_.IsOutput(sum.output());
  }

  Branch Read(Value* v) const {
    Branch b;
    b.x = v;
    if (IsResultOf(b.x, "aten.batch_norm.default") && IsOnlyUse(b.x)) {
      const Node& n = *b.x->producer();
      if (!weights_.IsNorm(n) || !IsImage(n.Get("input").value())) return b;
      b.norm = &n;
      b.x = n.Get("input").value();
    }
    if (!IsResultOf(b.x, "aten.conv2d.default") || !IsOnlyUse(b.x)) return b;
    const Node& n = *b.x->producer();
    ir::ArgReader c(n);
    const Ints stride = c.ints("stride", 2), padding = c.ints("padding", 2), dilation = c.ints("dilation", 2);
    const int64_t groups = c.i("groups");
    if (!c.ok() || !weights_.NameOf(n, "weight") || !weights_.IsWeightOrNone(n, "bias") ||
        !IsImage(n.Get("input").value()) || groups < 1)
      return b;
    const std::vector<int64_t>& sizes = weights_.Tensor(*weights_.NameOf(n, "weight")).sizes;
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
      if (b.conv != nullptr &&
          (largest == nullptr || b.kernel[0] * b.kernel[1] > largest->kernel[0] * largest->kernel[1]))
        largest = &b;
    if (largest == nullptr) return 0;
    std::vector<size_t> taken;
    for (size_t i = 0; i < branches.size(); ++i)
      if (branches[i].x == largest->x && PlaceIn(branches[i], *largest)) taken.push_back(i);
    if (taken.size() + (number ? 1 : 0) < 2) return 0;
    const std::string& name = *weights_.NameOf(*largest->conv, "weight");
    const std::vector<int64_t> sizes = weights_.Tensor(name).sizes;
    const int64_t outs = sizes[0], per = sizes[1], taps = sizes[2] * sizes[3], group_outs = outs / largest->groups;
    // An identity gives as many channels as it gets.
    const bool square = per * largest->groups == outs && largest->x->sizes()[1].is(outs);
    std::erase_if(taken, [&](size_t i) { return branches[i].conv == nullptr && !square; });
    if (taken.size() + (number ? 1 : 0) < 2 || outs * per * taps > kMostWeights || group_outs * largest->groups != outs)
      return 0;
    std::vector<double> weights(static_cast<size_t>(outs * per * taps)),
        bias(static_cast<size_t>(outs), number.value_or(0));
    for (size_t i : taken) {
      const Branch& b = branches[i];
      const Ints place = *PlaceIn(b, *largest);
      ChannelAffine to(outs);
      if (b.norm != nullptr) RETURN_IF_ERROR(weights_.Append(*b.norm, &to));
      std::vector<double> own;
      if (b.conv != nullptr) {
        RETURN_IF_ERROR(weights_.AddBiasOf(*b.conv, &to));
        const std::string& branch = *weights_.NameOf(*b.conv, "weight");
        if (weights_.Tensor(branch).sizes[0] != outs || weights_.Tensor(branch).sizes[1] != per) return 0;
        ASSIGN_OR_RETURN(own, weights_.Read(branch));
      }
      const double* from = own.data();
      for (int64_t o = 0; o < outs; ++o) {
        const double by = to.scale[static_cast<size_t>(o)];
        bias[static_cast<size_t>(o)] += to.shift[static_cast<size_t>(o)];
        auto at = [&](int64_t c, int64_t y, int64_t x) -> double& {
          return weights[static_cast<size_t>(((o * per + c) * sizes[2] + place[0] + y) * sizes[3] + place[1] + x)];
        };
        if (b.conv == nullptr) {
          at(o % per, 0, 0) += by;  // with as many channels in as out, channel o is number o % per of its group
          continue;
        }
        for (int64_t c = 0; c < per; ++c)
          for (int64_t y = 0; y < b.kernel[0]; ++y)
            for (int64_t x = 0; x < b.kernel[1]; ++x) at(c, y, x) += by * *from++;
      }
    }
    const DType dtype = weights_.Tensor(name).dtype;
    Value* const w = weights_.Add(text::StrCat(name, ".merged"), dtype, sizes, BytesOf(dtype, weights));
    const ir::Arg shift = weights_.AddBias(name, bias);
    ir::Builder b(g_, sum, largest->conv->source());
    Value* result = b.Call("aten.conv2d.default", {largest->x, w, shift, largest->stride, largest->padding,
                                                   largest->dilation, largest->groups});
    for (size_t i = 0; i < leaves.size(); ++i)
      if (std::find(taken.begin(), taken.end(), i) == taken.end())
        result = b.Call("aten.add.Tensor", {result, leaves[i]});
    RETURN_IF_ERROR(b.status());
    gone_.insert(sums.begin(), sums.end());
    // The sums on the way have no other use: they go with the code that is dead now.
    ReplaceNode(sum, {result});
    return static_cast<int>(taken.size());
  }

  ir::Graph& g_;
  StoredWeights weights_;
  absl::flat_hash_set<const Node*> gone_;
};

}  // namespace

absl::StatusOr<int> MergeBranches(ir::Program& p) {
  ASSIGN_OR_RETURN(const int merged, Merger(p).Run());
  if (merged > 0) RETURN_IF_ERROR(EliminateDeadCode(p));
  return merged;
}

}  // namespace slipway::passes
