// RMS normalization as programs write it out: x · rsqrt(mean(x²) + eps), over the last dim, and the product with a
// vector that may follow, as the one kernel that rms_norm has. See fuse.h.
#include <algorithm>
#include <bit>
#include <vector>

#include "base/text.h"
#include "kernels/plan.h"
#include "planner/fuse.h"
#include "planner/plan_uses.h"

namespace slipway::planner {
namespace {

using kernels::Buffer;
using kernels::Expr;
using kernels::Plan;
using kernels::Step;
using kernels::View;

class NormFinder {
 public:
  explicit NormFinder(PlannedProgram& p) : p_(p), plan_(p.plan) {}

  void Run() {
    const int n = static_cast<int>(plan_.steps.size());
    gone_.assign(n, 0);
    jumped_to_.assign(n + 1, 0);
    for (const Step& s : plan_.steps)
      if (s.kind == Step::kJump || s.kind == Step::kUnless) jumped_to_[s.target] = 1;
    for (int i = 0; i < n; ++i)
      if (Is(i, "mean", 1)) Match(i);
    if (std::find(gone_.begin(), gone_.end(), 1) != gone_.end()) Sweep();
  }

 private:
  const View& In(int step, int k) const { return plan_.views[plan_.steps[step].first_view + k]; }
  const View& Out(int step, int k = 0) const {
    return plan_.views[plan_.steps[step].first_view + plan_.steps[step].inputs + k];
  }
  bool Is(int i, std::string_view kernel, int inputs) const {
    const Step& s = plan_.steps[i];
    return s.kind == Step::kKernel && s.kernel->name == kernel && s.inputs == inputs && s.outputs == 1 &&
           s.compute == kernels::DType::kF32 && Out(i).dtype == kernels::DType::kF32;
  }
  int32_t SizeOf(const View& v, int d) const { return plan_.dims[v.first_dim + d]; }
  int32_t StrideOf(const View& v, int d) const { return plan_.dims[v.first_dim + v.rank + d]; }
  bool Known(int32_t expr, int64_t value) const {
    return plan_.exprs[expr].op == Expr::kInt && plan_.exprs[expr].value == value;
  }
  bool Same(const View& a, const View& b) const {
    return a.buffer == b.buffer && a.dtype == b.dtype && a.offset == b.offset && a.rank == b.rank &&
           std::equal(plan_.dims.begin() + a.first_dim, plan_.dims.begin() + a.first_dim + 2 * a.rank,
                      plan_.dims.begin() + b.first_dim);
  }
  // The one step that writes the buffer, where it is a temporary that one step reads; -1: another.
  int OnlyWriter(int32_t buffer, size_t readers) const {
    const bool fits = plan_.buffers[buffer].kind == Buffer::kTemporary && uses_.writers[buffer].size() == 1 &&
                      uses_.readers[buffer].size() == readers;
    return fits ? uses_.writers[buffer][0] : -1;
  }
  // Both see the same numbers, one a row: sizes and strides of all dims but the last, which the one has with size 1 or
  // spread, and the other may not have.
  bool SameRows(const View& a, const View& b, int dims) const {
    if (a.buffer != b.buffer || a.offset != b.offset || a.dtype != b.dtype || a.rank < dims || b.rank < dims)
      return false;
    for (int d = 0; d < dims; ++d)
      if (SizeOf(a, d) != SizeOf(b, d) || (StrideOf(a, d) != StrideOf(b, d) && !Known(SizeOf(a, d), 1))) return false;
    return true;
  }
  // The number that the view is of throughout.
  bool Number(const View& v, double* number) const {
    const Buffer& b = plan_.buffers[v.buffer];
    for (const auto& w : p_.weights)
      if (w.buffer == v.buffer) return false;  // which may be given another value
    if (b.kind != Buffer::kConstant || !b.constant || !Known(v.offset, 0) || !Known(b.bytes, 8)) return false;
    for (int d = 0; d < v.rank; ++d)
      if (!Known(StrideOf(v, d), 0) && !Known(SizeOf(v, d), 1)) return false;
    if (v.dtype == kernels::DType::kF64)
      *number = *static_cast<const double*>(b.constant);
    else
      return false;
    return true;
  }

  void Match(int mean) {
    const Step& m = plan_.steps[mean];
    if (m.ints != 1 || !Known(plan_.numbers[m.first_number], 1)) return;
    const int square = OnlyWriter(In(mean, 0).buffer, 1);
    if (square < 0 || !Same(Out(square), In(mean, 0))) return;
    const bool product = Is(square, "mul", 2) && Same(In(square, 0), In(square, 1));
    if (!product && !Is(square, "square", 1)) return;
    const View& x = In(square, 0);
    const int rank = x.rank;
    if (rank < 1 || Out(mean).rank != rank - 1) return;
    auto reader = [&](int step) {
      const int32_t b = Out(step).buffer;
      return OnlyWriter(b, 1) == step ? uses_.readers[b][0] : -1;
    };
    const int add = reader(mean);
    double epsilon;
    if (add < 0 || !Is(add, "add", 2) || !SameRows(In(add, 0), Out(mean), rank - 1) || !Number(In(add, 1), &epsilon))
      return;
    const int root = reader(add);
    if (root < 0 || !Is(root, "rsqrt", 1) || !Same(In(root, 0), Out(add))) return;
    const int last = reader(root);
    if (last < 0 || !Is(last, "mul", 2)) return;
    const int at = Same(In(last, 0), x) ? 0 : Same(In(last, 1), x) ? 1 : -1;
    if (at < 0 || !SameRows(In(last, 1 - at), Out(root), rank - 1) || !Known(StrideOf(In(last, 1 - at), rank - 1), 0))
      return;
    // A vector for all rows.
    int end = last;
    const View* weight = nullptr;
    if (const int next = reader(last); next >= 0 && Is(next, "mul", 2)) {
      for (int k = 0; k < 2 && !weight; ++k) {
        const View& v = In(next, 1 - k);
        bool vector = Same(In(next, k), Out(last)) && v.rank == rank && v.dtype == kernels::DType::kF32;
        for (int d = 0; d + 1 < rank && vector; ++d) vector = Known(StrideOf(v, d), 0) || Known(SizeOf(v, d), 1);
        if (vector) weight = &v;
      }
      if (weight) end = next;
    }
    // One after the other, x as it was.
    const int steps[] = {square, mean, add, root, last, end};
    for (int k = 0; k + 1 < 6; ++k)
      if (steps[k] > steps[k + 1]) return;
    for (int s = square; s <= end; ++s) {
      if (plan_.steps[s].kind != Step::kKernel || (s > square && jumped_to_[s])) return;
      for (int k = 0; k < plan_.steps[s].outputs; ++k)
        if (Out(s, k).buffer == x.buffer || (weight && Out(s, k).buffer == weight->buffer)) return;
    }
    for (int s : {square, mean, add, root, last}) gone_[s] = 1;
    gone_[end] = 0;

    const View operand = x, result = Out(end), scale = weight ? *weight : View();
    Step& step = plan_.steps[end];
    step.kernel = kernels::FindKernel("rms_norm");
    step.first_view = static_cast<int>(plan_.views.size());
    step.inputs = weight ? 2 : 1;
    plan_.views.push_back(operand);
    if (weight) {
      View v = scale;
      v.rank = 1;
      v.first_dim = static_cast<int>(plan_.dims.size());
      const int32_t size = SizeOf(scale, rank - 1), stride = StrideOf(scale, rank - 1);
      plan_.dims.insert(plan_.dims.end(), {size, stride});
      plan_.views.push_back(v);
    }
    plan_.views.push_back(result);
    step.first_number = static_cast<int>(plan_.numbers.size());
    step.ints = step.floats = 1;
    plan_.numbers.push_back(Add({.op = Expr::kInt, .value = weight ? 1 : 0}));
    plan_.numbers.push_back(Add({.op = Expr::kReal, .value = std::bit_cast<int64_t>(epsilon)}));
    step.origin = static_cast<int>(p_.origins.size());
    p_.origins.push_back(weight ? "norm mean+rsqrt+mul+mul" : "norm mean+rsqrt+mul");
    p_.places.push_back(p_.places[plan_.steps[mean].origin]);
  }
  int Add(Expr e) {
    plan_.exprs.push_back(e);
    return static_cast<int>(plan_.exprs.size()) - 1;
  }

  void Sweep() {
    std::vector<Step> steps;
    std::vector<int> place;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      place.push_back(static_cast<int>(steps.size()));
      if (!gone_[i]) steps.push_back(plan_.steps[i]);
    }
    place.push_back(static_cast<int>(steps.size()));
    ReplaceSteps(plan_, std::move(steps), place);
  }

  PlannedProgram& p_;
  Plan& plan_;
  std::vector<char> gone_, jumped_to_;               // steps
  const PlanUses uses_{plan_};
};

}  // namespace

void FuseNorms(PlannedProgram& p) { NormFinder(p).Run(); }

}  // namespace slipway::planner
