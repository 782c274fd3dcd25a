// FuseDepthwiseBlocks: fuses a depthwise convolution with the pointwise ones before and after it into one step of
// kernel `depthwise_block`, where the intermediate image is too large for the cache: it is then never stored whole. A
// pointwise convolution between two depthwise ones is fused with the one across the larger intermediate.
#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <vector>

#include "base/text.h"
#include "kernels/attributes.h"
#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/depthwise_block.h"
#include "kernels/validate.h"
#include "planner/fuse.h"
#include "planner/plan_uses.h"

namespace slipway::planner {
namespace {

using kernels::Buffer;
using kernels::Expr;
using kernels::Plan;
using kernels::Step;
using kernels::Tensor;
using kernels::View;

// Elements of the image between: of fewer, the second-level cache has a part still when the next convolution reads
// them.
constexpr int64_t kMinIntermediateElements = 200 << 10;
constexpr int64_t kMinRows = 16;  // of the result: threads share them

class DepthwiseBlockFuser {
 public:
  explicit DepthwiseBlockFuser(PlannedProgram& p) : p_(p), plan_(p.plan), uses_(p.plan) {}

  void Run() {
    Find();
    bool any = false;
    for (const Edge& e : edges_) any |= Accept(e);
    if (!any) return;
    std::vector<char> gone(convs_.size());
    std::vector<int> block_at(convs_.size(), -1);  // the depthwise convolution of the block that stands there
    for (size_t d = 0; d < convs_.size(); ++d) {
      const Members& m = members_[d];
      if (m.before < 0 && m.after < 0) continue;
      for (int i : {m.before, static_cast<int>(d), m.after})
        if (i >= 0) gone[i] = 1;
      block_at[End(static_cast<int>(d))] = static_cast<int>(d);
    }
    RewriteSteps(plan_, [&](int i, std::vector<Step>& steps, std::vector<View>& views) {
      if (gone[i] && block_at[i] < 0) return;
      Step s = plan_.steps[i];
      const int first = static_cast<int>(views.size());
      if (block_at[i] >= 0) {
        s = Join(block_at[i], views);
      } else {
        const auto from = plan_.views.begin() + s.first_view;
        views.insert(views.end(), from, from + s.inputs + s.outputs);
      }
      s.first_view = first;
      steps.push_back(s);
    });
  }

 private:
  // A convolution of f32, bf16 or f16 whose sizes are known.
  struct Conv {
    Tensor x, w, out;
    kernels::FusedConvAttributes<> attributes;
  };
  // The step `to` alone reads what `from` gives: one of them is depthwise.
  struct Edge {
    int from, to;
    bool before;  // `to` is the depthwise one
    int64_t elements;
  };
  // The pointwise convolutions of a depthwise one; -1: none.
  struct Members {
    int before = -1, after = -1;
  };

  void Find() {
    const int n = static_cast<int>(plan_.steps.size());
    convs_.resize(n), members_.resize(n), taken_.resize(n);
    for (int i = 0; i < n; ++i) convs_[i] = ReadConv(plan_.steps[i]);
    for (int i = 0; i < n; ++i) {
      const int j = Reader(i);
      if (j < 0 || convs_[i]->out.numel() < kMinIntermediateElements) continue;
      if (IsDepthwise(i) != IsDepthwise(j)) edges_.push_back({i, j, IsDepthwise(j), convs_[i]->out.numel()});
    }
    std::stable_sort(edges_.begin(), edges_.end(),
                     [](const Edge& a, const Edge& b) { return a.elements > b.elements; });
  }

  const View& ViewOf(const Step& s, int k) const { return plan_.views[s.first_view + k]; }
  // The number that an expression is, if it is one.
  bool Read(int32_t expr, int64_t* value) const {
    *value = plan_.exprs[expr].value;
    return plan_.exprs[expr].op == Expr::kInt;
  }
  bool Read(const View& v, Tensor* t) const {
    t->dtype = v.dtype, t->rank = v.rank;
    for (int d = 0; d < v.rank; ++d)
      if (!Read(plan_.dims[v.first_dim + d], &t->sizes[d]) ||
          !Read(plan_.dims[v.first_dim + v.rank + d], &t->strides[d]))
        return false;
    return true;
  }
  std::optional<Conv> ReadConv(const Step& s) const {
    if (s.kind != Step::kKernel || s.kernel->name != "conv" || kernels::ComputeType(s.compute) != kernels::DType::kF32)
      return std::nullopt;
    std::vector<int64_t> ints(s.ints);
    std::vector<double> reals(s.floats);
    for (int k = 0; k < s.ints; ++k)
      if (!Read(plan_.numbers[s.first_number + k], &ints[k])) return std::nullopt;
    for (int k = 0; k < s.floats; ++k) {
      const Expr& e = plan_.exprs[plan_.numbers[s.first_number + s.ints + k]];
      if (e.op != Expr::kReal) return std::nullopt;
      reals[k] = std::bit_cast<double>(e.value);
    }
    Conv c;
    if (!ReadAttributes(ints, reals, &c.attributes) || !Read(ViewOf(s, 0), &c.x) || !Read(ViewOf(s, 1), &c.w) ||
        !Read(ViewOf(s, s.inputs), &c.out))
      return std::nullopt;
    // A bias that is a vector, as tails have it.
    if (!c.attributes.tail && s.inputs > 2 && (ViewOf(s, 2).rank != 1 || ViewOf(s, 2).dtype != s.compute))
      return std::nullopt;
    return c;
  }
  bool IsDepthwise(int i) const {
    return convs_[i]->w.rank == 5 && convs_[i]->w.sizes[1] == 1 &&
           convs_[i]->attributes.conv.groups == convs_[i]->w.sizes[0];
  }
  bool IsPointwise(int i) const {
    const Conv& c = *convs_[i];
    const auto& a = c.attributes.conv;
    bool is = a.groups == 1 && c.w.rank == 5;
    for (int d = 0; d < 3; ++d) is = is && c.w.sizes[2 + d] == 1 && a.stride[d] == 1 && a.padding[d] == 0;
    return is;
  }
  // The convolution that alone reads what convolution i gives, all of it; -1: none.
  int Reader(int i) const {
    if (!convs_[i]) return -1;
    const View& out = ViewOf(plan_.steps[i], plan_.steps[i].inputs);
    if (plan_.buffers[out.buffer].kind != Buffer::kTemporary || uses_.writers[out.buffer].size() != 1 ||
        uses_.readers[out.buffer].size() != 1)
      return -1;
    const int j = uses_.readers[out.buffer][0];
    if (j <= i || !convs_[j]) return -1;
    const View& image = ViewOf(plan_.steps[j], 0);
    const Tensor &a = convs_[i]->out, &b = convs_[j]->x;
    const bool same = image.buffer == out.buffer && image.offset == out.offset && kernels::SameSizes(a, b) &&
                      kernels::ChannelsLast(a) && kernels::ChannelsLast(b) && a.strides[4] == b.strides[4];
    return same ? j : -1;
  }

  // Takes a pointwise convolution to the depthwise one beside it.
  bool Accept(const Edge& e) {
    const int d = e.before ? e.to : e.from, other = e.before ? e.from : e.to;
    if (taken_[other] || !IsPointwise(other)) return false;
    Members& m = members_[d];
    const Members had = m;
    (e.before ? m.before : m.after) = other;
    taken_[other] = IsBlock(d);
    if (!taken_[other]) m = had;
    return taken_[other];
  }
  int End(int d) const { return members_[d].after >= 0 ? members_[d].after : d; }

  // Whether the kernel takes what the members of convolution d are, and all may be done where the last of them stands.
  bool IsBlock(int d) const {
    const Members& m = members_[d];
    const int end = End(d), first = m.before >= 0 ? m.before : d;
    const Tensor &x = convs_[first]->x, &out = convs_[end]->out;
    kernels::DepthwiseBlock block;
    block.depthwise.w = convs_[d]->w, block.shape = ShapeOf(convs_[d]->attributes.conv);
    if (m.before >= 0) block.before = {convs_[m.before]->w, {}};
    if (m.after >= 0) block.after = {convs_[m.after]->w, {}};
    if (out.rank != 5 || out.sizes[3] < kMinRows || !kernels::CanUseDepthwiseBlock(x, block, out)) return false;
    for (int k = first; k <= end; ++k)
      if (plan_.steps[k].kind != Step::kKernel) return false;
    for (const Step& jump : plan_.steps)
      if ((jump.kind == Step::kJump || jump.kind == Step::kUnless) && jump.target > first && jump.target <= end)
        return false;
    for (int i : {m.before, d}) {
      if (i < 0) continue;
      const auto& tail = convs_[i]->attributes.tail;
      const bool adds = tail && (((tail->parts | (tail->post ? tail->post->parts : 0)) & kernels::kAdded) != 0);
      if (i == end) {
        if (kernels::IsHalf(out.dtype) && adds) return false;
        continue;
      }
      if (adds || (tail && tail->post)) return false;
      for (int k = 0; k < plan_.steps[i].inputs; ++k)
        for (int w : uses_.writers[ViewOf(plan_.steps[i], k).buffer])
          if (w > i && w <= end && w != m.before && w != d) return false;
    }
    return true;
  }

  Step Join(int d, std::vector<View>& views) {
    const Members& m = members_[d];
    const int order[] = {m.before, d, m.after};
    const Step& last = plan_.steps[End(d)];
    const size_t first = views.size();
    views.push_back(ViewOf(plan_.steps[m.before >= 0 ? m.before : d], 0));
    for (int i : {d, m.before, m.after})
      if (i >= 0) views.push_back(ViewOf(plan_.steps[i], 1));
    for (int i : order)
      for (int k = 2; i >= 0 && k < plan_.steps[i].inputs; ++k) views.push_back(ViewOf(plan_.steps[i], k));
    const auto inputs = static_cast<int32_t>(views.size() - first);
    views.push_back(ViewOf(last, last.inputs));

    kernels::DepthwiseBlockAttributes<> a{m.before >= 0, m.after >= 0, convs_[d]->attributes.conv, {}, {}};
    for (int k = 0; k < 3; ++k) {
      constexpr double kInf = std::numeric_limits<double>::infinity();
      a.sums[k] = {0, kernels::Activation::kNone, 0, -kInf, kInf};
      if (order[k] < 0) continue;
      const Step& s = plan_.steps[order[k]];
      if (const auto& tail = convs_[order[k]]->attributes.tail)
        a.sums[k] = {tail->parts, tail->activation, tail->epsilon, tail->low, tail->high};
      else
        a.sums[k].parts = s.inputs > 2 ? int{kernels::kBias} : 0;
    }
    if (const auto& tail = convs_[End(d)]->attributes.tail) a.post = tail->post;

    Step s = last;
    s.kernel = kernels::FindKernel("depthwise_block");
    s.inputs = inputs;
    s.first_number = static_cast<int32_t>(plan_.numbers.size()), s.ints = s.floats = 0;
    AppendNumbers(plan_, a, &s);

    std::string name;
    for (int i : order)
      if (i >= 0) text::StrAppend(&name, name.empty() ? "" : " + ", p_.origins[plan_.steps[i].origin]);
    p_.places.push_back(p_.places[last.origin]);
    s.origin = static_cast<int32_t>(p_.origins.size());
    p_.origins.push_back(std::move(name));
    return s;
  }

  PlannedProgram& p_;
  Plan& plan_;
  const PlanUses uses_;
  std::vector<std::optional<Conv>> convs_;  // of steps
  std::vector<Edge> edges_;                 // the larger first
  std::vector<Members> members_;            // of steps that are depthwise convolutions
  std::vector<char> taken_;                 // steps that are members
};

}  // namespace

void FuseDepthwiseBlocks(PlannedProgram& p) { DepthwiseBlockFuser(p).Run(); }

}  // namespace slipway::planner
