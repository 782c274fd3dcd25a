// FuseConvs: a convolution takes over the steps that follow it, one after the other, and moves to where the last of
// them stood.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "kernels/attributes.h"
#include "kernels/executor/plan.h"
#include "kernels/isa/epilogue.h"
#include "planner/fuse.h"
#include "planner/plan_uses.h"

namespace slipway::planner {
namespace {

using kernels::Activation;
using kernels::Buffer;
using kernels::Expr;
using kernels::Plan;
using kernels::Step;
using kernels::View;

constexpr double kInf = std::numeric_limits<double>::infinity();

// What a convolution has taken over so far.
struct Tail : kernels::ConvTailAttributes {
  Tail() : ConvTailAttributes{0, Activation::kNone, 0, -kInf, kInf, {}} {}
  std::vector<View> more;  // operands behind the image and the weights
  std::vector<int> origins;
  bool plain() const { return origins.empty(); }
};

class ConvFuser {
 public:
  explicit ConvFuser(PlannedProgram& p) : p_(p), plan_(p.plan) {}

  void Run() {
    const int n = static_cast<int>(plan_.steps.size());
    views_.resize(n);
    gone_.assign(n, 0);
    tails_.resize(n);
    block_.resize(n);
    for (const auto& w : p_.weights) weights_.push_back(w.buffer);
    std::sort(weights_.begin(), weights_.end());
    std::vector<char> begins(n + 1, 0);  // of what is run from its first step to its last, or not at all
    for (int i = 0; i < n; ++i) {
      const Step& s = plan_.steps[i];
      views_[i].assign(plan_.views.begin() + s.first_view, plan_.views.begin() + s.first_view + s.inputs + s.outputs);
      if (s.kind != Step::kJump && s.kind != Step::kUnless) continue;
      begins[i + 1] = begins[s.target] = 1;
    }
    for (int i = 0, block = 0; i < n; ++i) block_[i] = block += begins[i];
    bool any = false;
    for (int i = 0; i < n; ++i) {
      if (gone_[i] || !IsConv(i)) continue;
      if (tails_[i].plain() && !Start(i)) continue;
      any |= Extend(i);
    }
    if (any) Rewrite();
  }

 private:
  bool IsConv(int i) const {
    const Step& s = plan_.steps[i];
    return s.kind == Step::kKernel && (s.kernel->name == "conv" || s.kernel->name == "conv_transposed") &&
           s.outputs == 1 && (s.compute == kernels::DType::kF32 || TakesHalves(i)) && s.floats == 0;
  }
  // Whether it is one of bf16 or f16 whose loops round once, behind all that follows the sums: of images with channels
  // last.
  bool TakesHalves(int i) const {
    return kernels::IsHalf(plan_.steps[i].compute) && HasChannelsLast(i) && views_[i][0].rank == 5 &&
           IsOne(plan_.dims[views_[i][0].first_dim + 2]);
  }
  // All of one dtype; a bias becomes the first of the tail's operands.
  bool Start(int i) {
    const Step& s = plan_.steps[i];
    if (s.inputs < 2 || s.inputs > 3) return false;
    for (const View& v : views_[i])
      if (v.dtype != s.compute) return false;
    if (s.inputs == 3) {
      tails_[i].parts = kernels::kBias;
      tails_[i].more = {views_[i][2]};
    }
    return true;
  }

  const View& Out(int i) const { return views_[i].back(); }
  bool IsOne(int expr) const { return plan_.exprs[expr].op == Expr::kInt && plan_.exprs[expr].value == 1; }
  // Whether both have the same sizes and strides, but for dims of size 1.
  bool SameLayout(const View& a, const View& b) const {
    int i = 0, j = 0;
    for (;;) {
      while (i < a.rank && IsOne(plan_.dims[a.first_dim + i])) ++i;
      while (j < b.rank && IsOne(plan_.dims[b.first_dim + j])) ++j;
      if (i == a.rank || j == b.rank) return i == a.rank && j == b.rank;
      if (plan_.dims[a.first_dim + i] != plan_.dims[b.first_dim + j] ||
          plan_.dims[a.first_dim + a.rank + i] != plan_.dims[b.first_dim + b.rank + j])
        return false;
      ++i, ++j;
    }
  }
  // Whether both are the same elements: the same sizes and strides, but for dims of size 1, in any order.
  bool SameElements(const View& a, const View& b) const {
    auto dims = [&](const View& v) {
      std::vector<std::pair<int32_t, int32_t>> out;  // stride, size
      for (int d = 0; d < v.rank; ++d)
        if (!IsOne(plan_.dims[v.first_dim + d]))
          out.emplace_back(plan_.dims[v.first_dim + v.rank + d], plan_.dims[v.first_dim + d]);
      std::sort(out.begin(), out.end());
      return out;
    };
    return a.buffer == b.buffer && a.offset == b.offset && a.dtype == b.dtype && dims(a) == dims(b);
  }
  // A number of the plan, not a weight, that stands for all elements.
  bool Number(const View& v, double* value) const {
    const Buffer& b = plan_.buffers[v.buffer];
    if (b.kind != Buffer::kConstant || b.constant == nullptr ||
        std::binary_search(weights_.begin(), weights_.end(), v.buffer))
      return false;
    const Expr& offset = plan_.exprs[v.offset];
    if (offset.op != Expr::kInt || offset.value != 0) return false;
    for (int d = 0; d < v.rank; ++d) {
      const Expr& stride = plan_.exprs[plan_.dims[v.first_dim + v.rank + d]];
      if (!IsOne(plan_.dims[v.first_dim + d]) && (stride.op != Expr::kInt || stride.value != 0)) return false;
    }
    auto read = [&]<typename T>(T x) {
      std::memcpy(&x, b.constant, sizeof x);
      *value = static_cast<double>(x);
      return static_cast<T>(*value) == x;
    };
    return v.dtype == kernels::DType::kI64   ? read(int64_t{})
           : v.dtype == kernels::DType::kF64 ? read(double{})
           : v.dtype == kernels::DType::kF32 ? read(float{})
                                             : false;
  }
  double Real(int number) const {
    const Expr& e = plan_.exprs[plan_.numbers[number]];
    return e.op == Expr::kReal ? std::bit_cast<double>(e.value) : std::numeric_limits<double>::quiet_NaN();
  }

  // Takes over steps as long as it can; whether it did. The convolution moves to where the last of them is.
  bool Extend(int i) {
    bool any = false;
    for (;;) {
      const int buffer = Out(i).buffer;
      if (plan_.buffers[buffer].kind != Buffer::kTemporary || uses_.writers[buffer].size() != 1 ||
          uses_.readers[buffer].size() != 1)
        return any;
      const int j = uses_.readers[buffer][0];
      if (j <= i || block_[j] != block_[i] || !Fits(i, j)) return any;
      Tail tail = tails_[i];
      if (!Take(i, j, &tail)) return any;
      Move(i, j, std::move(tail));
      any = true;
      i = j;
    }
  }
  // Whether the convolution may be done where step j is, in its place.
  bool Fits(int i, int j) const {
    const Step& s = plan_.steps[j];
    const kernels::DType dtype = plan_.steps[i].compute;
    if (s.kind != Step::kKernel || s.outputs != 1 || s.compute != dtype || Out(j).dtype != dtype) return false;
    std::vector<int> used;
    for (int k = 0; k + 1 < static_cast<int>(views_[i].size()); ++k) used.push_back(views_[i][k].buffer);
    for (const View& v : tails_[i].more) used.push_back(v.buffer);
    for (int b : used)
      for (int w : uses_.writers[b])
        if (w > i && w <= j) return false;
    for (int k = 0; k < s.inputs; ++k)
      if (views_[j][k].buffer == Out(j).buffer) return false;
    return true;
  }

  // Whether operand k of step j is the result of convolution i, and its own result lies alike.
  bool IsSame(int i, int j, int k) const {
    return SameElements(views_[j][k], Out(i)) && SameLayout(Out(j), views_[j][k]);
  }

  // Whether the result of convolution i has channels last, whose loops can do more behind the function.
  bool HasChannelsLast(int i) const {
    const View& out = Out(i);
    return plan_.steps[i].kernel->name == "conv" && out.rank == 5 && IsOne(plan_.dims[out.first_dim + out.rank + 1]) &&
           !IsOne(plan_.dims[out.first_dim + out.rank + 4]);
  }

  // Takes step j over behind what `tail` has; where it does not, `tail` is of no use any more.
  bool Take(int i, int j, Tail* tail) const {
    const Step& s = plan_.steps[j];
    const std::string_view name = s.kernel->name;
    const std::vector<View>& in = views_[j];
    if (tail->plain()) tail->origins.push_back(plan_.steps[i].origin);
    tail->origins.push_back(s.origin);
    const bool summed = tail->activation == Activation::kNone;
    // What has a norm or an addition here: the sums or, of convolutions with channels last, what the function gives.
    if (!summed && !tail->post && (name == "batch_norm" || name == "add") && HasChannelsLast(i))
      tail->post = kernels::ConvPostAttributes{0, 0};
    if (tail->post && name != "batch_norm" && name != "add") return false;
    int64_t& have = tail->post ? tail->post->parts : tail->parts;
    if (name == "batch_norm") {
      if ((!summed && !tail->post) || (have & (kernels::kAdded | kernels::kNormStatistics)) || s.ints < 1 ||
          s.floats < 1)
        return false;
      const Expr& parts = plan_.exprs[plan_.numbers[s.first_number]];
      if (parts.op != Expr::kInt || !IsSame(i, j, 0)) return false;
      for (int k = 1; k < s.inputs; ++k) {
        if (in[k].dtype != kernels::DType::kF32 && in[k].dtype != s.compute) return false;
        tail->more.push_back(in[k]);
      }
      have |= parts.value;
      double& epsilon = tail->post ? tail->post->epsilon : tail->epsilon;
      epsilon = Real(s.first_number + s.ints);
      return epsilon == epsilon;
    }
    if (name == "add" && s.inputs == 2) {
      if ((!summed && !tail->post) || (have & kernels::kAdded)) return false;
      for (int k = 0; k < 2; ++k) {
        if (!IsSame(i, j, k) || in[1 - k].dtype != s.compute || !SameLayout(in[1 - k], in[k])) continue;
        View other = in[1 - k];
        // With the result's dims, of which the kernel asks that they be the same.
        other.rank = Out(i).rank, other.first_dim = Out(i).first_dim;
        tail->more.push_back(other);
        have |= kernels::kAdded;
        return true;
      }
      return false;
    }
    if ((name == "maximum" || name == "minimum") && s.inputs == 2) {
      double bound = 0;
      if ((!summed && tail->activation != Activation::kClamp) || !IsSame(i, j, 0) || !Number(in[1], &bound) ||
          bound != bound)
        return false;
      auto limit = [&](double x) { return name == "maximum" ? std::max(x, bound) : std::min(x, bound); };
      tail->low = limit(tail->low), tail->high = limit(tail->high);
      tail->activation = Activation::kClamp;
      return true;
    }
    if (s.inputs != 1 || s.ints != 0 || !IsSame(i, j, 0)) return false;
    if (name == "leaky_relu" && s.floats == 1) {
      if (!summed) return false;
      tail->activation = Activation::kLeakyRelu, tail->low = Real(s.first_number);
      return true;
    }
    if (s.floats != 0) return false;
    if (name == "relu") {
      if (!summed && tail->activation != Activation::kClamp) return false;
      tail->low = std::max(tail->low, 0.0), tail->high = std::max(tail->high, 0.0);
      tail->activation = Activation::kClamp;
      return true;
    }
    if (!summed) return false;
    for (auto [kernel, activation] : {std::pair{"silu", Activation::kSilu},
                                      {"hardswish", Activation::kHardSwish},
                                      {"hardsigmoid", Activation::kHardSigmoid}})
      if (name == kernel) {
        tail->activation = activation;
        return true;
      }
    return false;
  }

  void Move(int i, int j, Tail tail) {
    auto reads = [&](int step, bool now) {
      for (int k = 0; k < plan_.steps[step].inputs; ++k) {
        std::vector<int>& r = uses_.readers[views_[step][k].buffer];
        if (now)
          r.push_back(step);
        else
          std::erase(r, step);
      }
    };
    reads(i, false), reads(j, false);
    const View result = views_[j].back();
    View out = Out(i);
    out.buffer = result.buffer, out.offset = result.offset;
    std::vector<View> views = {views_[i][0], views_[i][1]};
    views.insert(views.end(), tail.more.begin(), tail.more.end());
    views.push_back(out);
    Step s = plan_.steps[i];
    s.inputs = static_cast<int>(views.size()) - 1;
    plan_.steps[j] = s;
    views_[j] = std::move(views);
    gone_[i] = 1;
    reads(j, true);
    tails_[j] = std::move(tail);
  }

  void Finish(Step& s, const Tail& tail) {
    const int first = static_cast<int>(plan_.numbers.size());
    for (int k = 0; k < s.ints; ++k) plan_.numbers.push_back(plan_.numbers[s.first_number + k]);
    AppendNumbers<kernels::ConvTailAttributes>(plan_, tail, &s);
    s.first_number = first;
    std::string name;
    for (int origin : tail.origins) {
      std::string_view op = p_.origins[origin];
      if (const size_t dot = op.find('.'); dot != op.npos && !name.empty()) op = op.substr(dot + 1);
      if (!name.empty()) op = op.substr(0, op.find('.'));
      text::StrAppend(&name, name.empty() ? "" : "+", op);
    }
    p_.places.push_back(p_.places[s.origin]);
    s.origin = static_cast<int>(p_.origins.size());
    p_.origins.push_back(std::move(name));
  }
  void Rewrite() {
    RewriteSteps(plan_, [&](int i, std::vector<Step>& steps, std::vector<View>& views) {
      if (gone_[i]) return;
      Step s = plan_.steps[i];
      if (!tails_[i].plain()) Finish(s, tails_[i]);
      s.first_view = static_cast<int>(views.size());
      views.insert(views.end(), views_[i].begin(), views_[i].end());
      steps.push_back(s);
    });
  }

  PlannedProgram& p_;
  Plan& plan_;
  std::vector<std::vector<View>> views_;  // of steps
  std::vector<char> gone_;                // steps
  std::vector<Tail> tails_;               // of steps
  std::vector<int> block_;                // of steps: those of one are run together
  PlanUses uses_{plan_};                  // as steps are taken over
  std::vector<int> weights_;              // buffers
};

}  // namespace

void FuseConvs(PlannedProgram& p) { ConvFuser(p).Run(); }

}  // namespace slipway::planner
