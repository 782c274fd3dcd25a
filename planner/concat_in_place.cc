// ConcatInPlace: a temporary whose only purpose is to be copied into a part of a larger tensor (cat, stack) is computed
// there. A decoder's keys and values are concatenated with those of the past, then stacked twice: without this each is
// written three times.
//
// A temporary moves if the copy covers all of it and is dense in the larger tensor, so that its views keep sizes and
// strides and change their offset; or, for NHWC images, as rows of channels, whose strides become those of the larger
// tensor. Then every step that uses it must support these strides. Other parts of the larger tensor are written by
// copies of the same operator, which do not overlap, or have moved there themselves.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/fuse.h"
#include "planner/plan_uses.h"

namespace slipway::planner {
namespace {

using kernels::Buffer;
using kernels::Expr;
using kernels::Plan;
using kernels::Step;
using kernels::View;

using Part = PlannedProgram::Part;

class Placer {
 public:
  Placer(Plan& plan, absl::Span<const Part> parts)
      : plan_(plan), parts_(parts), part_of_(plan.views.size(), -1), gone_(plan.steps.size()) {}

  void Run() {
    by_buffer_.resize(plan_.buffers.size());
    for (int i = 0; i < Steps(); ++i)
      for (int k = 0; k < Views(i); ++k) {
        std::vector<int>& steps = by_buffer_[ViewAt(i, k).buffer];
        if (steps.empty() || steps.back() != i) steps.push_back(i);
      }
    for (size_t p = 0; p < parts_.size(); ++p) Place(static_cast<int>(p));
    if (std::find(gone_.begin(), gone_.end(), 1) == gone_.end()) return;
    DropSteps(plan_, gone_);
  }

 private:
  int Steps() const { return static_cast<int>(plan_.steps.size()); }
  int Views(int step) const { return plan_.steps[step].inputs + plan_.steps[step].outputs; }
  View& ViewAt(int step, int k) { return plan_.views[plan_.steps[step].first_view + k]; }
  bool IsOutput(int step, int k) const { return k >= plan_.steps[step].inputs; }

  void Place(int index) {
    const Part& p = parts_[index];
    const std::vector<int>& touches = by_buffer_[p.from];
    if (plan_.buffers[p.from].kind != Buffer::kTemporary || touches.empty() || p.from == p.to) return;
    const int copy = FindCopy(p);
    if (copy < 0) return;
    // Everything before the copy makes it, nothing after changes it.
    for (int i : touches)
      for (int k = 0; k < Views(i); ++k)
        if (!gone_[i] && ViewAt(i, k).buffer == p.from && IsOutput(i, k) && i > copy) return;
    const int first = touches.front(), last = std::max(touches.back(), copy);
    if (!IsStraight(first, last, copy)) return;
    for (int i : by_buffer_[p.to])
      for (int k = 0; k < Views(i); ++k)
        if (!gone_[i] && ViewAt(i, k).buffer == p.to && !IsOtherPart(i, k, p, index) && (IsOutput(i, k) || i < copy))
          return;
    if (p.pitch != 0 && !CanBePitched(p, touches, copy)) return;
    for (int i : touches)
      for (int k = 0; k < Views(i); ++k) {
        View& v = ViewAt(i, k);
        if (v.buffer != p.from) continue;
        if (p.pitch != 0) Pitch(p, &v);
        v.buffer = p.to;
        v.offset = Sum(v.offset, p.offset);
        part_of_[plan_.steps[i].first_view + k] = index;
      }
    gone_[copy] = true;
    std::vector<int> both;
    std::merge(by_buffer_[p.to].begin(), by_buffer_[p.to].end(), touches.begin(), touches.end(),
               std::back_inserter(both));
    both.erase(std::unique(both.begin(), both.end()), both.end());
    by_buffer_[p.to] = std::move(both);
    by_buffer_[p.from].clear();
  }

  // A number of the plan that is a constant.
  std::optional<int64_t> Constant(int32_t e) const {
    return plan_.exprs[e].op == Expr::kInt ? std::optional(plan_.exprs[e].value) : std::nullopt;
  }
  int32_t Number(int64_t value) {
    plan_.exprs.push_back({.op = Expr::kInt, .value = value});
    return static_cast<int32_t>(plan_.exprs.size()) - 1;
  }
  // The stride of a dim where rows lie `pitch` bytes apart; nullopt where it is no stride of rows or within one.
  static std::optional<int64_t> Pitched(const Part& p, int64_t stride) {
    if (stride % p.row == 0) return stride / p.row * p.pitch;
    return stride < p.row ? std::optional(stride) : std::nullopt;
  }
  // Whether the steps that use the temporary take images of any pitch, and all of its views are of rows and what lies
  // within one.
  bool CanBePitched(const Part& p, const std::vector<int>& touches, int copy) {
    for (int i : touches) {
      const Step& s = plan_.steps[i];
      if (i == copy || gone_[i]) continue;
      if (s.kind != Step::kKernel || (!s.kernel->elementwise && !s.kernel->pitched)) return false;
      for (int k = 0; k < Views(i); ++k) {
        const View& v = ViewAt(i, k);
        // What a convolution adds lies as its result does.
        if ((s.kernel->name == "conv" || s.kernel->name == "conv_transposed") && k >= 2 && k < s.inputs && v.rank >= 3)
          return false;
        if (v.buffer != p.from) continue;
        const auto offset = Constant(v.offset);
        const int64_t size = kernels::ByteSize(v.dtype);
        if (!offset || p.row % size != 0) return false;
        int64_t end = *offset % p.row + size;  // within a row
        for (int d = 0; d < v.rank; ++d) {
          const auto extent = Constant(plan_.dims[v.first_dim + d]),
                     stride = Constant(plan_.dims[v.first_dim + v.rank + d]);
          if (!extent || !stride || *stride < 0) return false;
          if (*extent < 2 || *stride == 0) continue;
          if (!Pitched(p, *stride * size)) return false;
          if (*stride * size % p.row != 0) end += (*extent - 1) * *stride * size;
        }
        if (end > p.row) return false;
      }
    }
    return true;
  }
  void Pitch(const Part& p, View* v) {
    const int64_t size = kernels::ByteSize(v->dtype), offset = *Constant(v->offset);
    v->offset = Number(offset / p.row * p.pitch + offset % p.row);
    std::vector<int32_t> dims(plan_.dims.begin() + v->first_dim, plan_.dims.begin() + v->first_dim + 2 * v->rank);
    for (int d = 0; d < v->rank; ++d)
      if (const auto stride = Pitched(p, *Constant(dims[v->rank + d]) * size))
        dims[v->rank + d] = Number(*stride / size);
    v->first_dim = static_cast<int32_t>(plan_.dims.size());
    plan_.dims.insert(plan_.dims.end(), dims.begin(), dims.end());
  }

  int FindCopy(const Part& p) {
    for (int i : by_buffer_[p.from]) {
      const Step& s = plan_.steps[i];
      if (!gone_[i] && s.kind == Step::kKernel && s.kernel->name == "copy" && s.origin == p.origin && s.inputs == 1 &&
          ViewAt(i, 0).buffer == p.from && ViewAt(i, 1).buffer == p.to && ViewAt(i, 1).offset == p.offset)
        return i;
    }
    return -1;
  }
  // One way through all steps; the sizes that the copy knows are known from the first on.
  bool IsStraight(int first, int last, int copy) const {
    for (int i = 0; i < Steps(); ++i) {
      const Step& s = plan_.steps[i];
      const bool jump = s.kind == Step::kJump || s.kind == Step::kUnless;
      if (jump && ((i >= first && i <= last) || (s.target > first && s.target <= last))) return false;
      if ((s.kind == Step::kSet || s.kind == Step::kPublish) && i >= first && i <= copy) return false;
    }
    return true;
  }
  // Whether a view of the larger tensor is of another of its parts, or the copy itself.
  bool IsOtherPart(int i, int k, const Part& p, int index) {
    const int other = part_of_[plan_.steps[i].first_view + k];
    if (other >= 0) return other != index && parts_[other].origin == p.origin;
    const Step& s = plan_.steps[i];
    return s.kind == Step::kKernel && s.kernel->name == "copy" && s.origin == p.origin && IsOutput(i, k);
  }
  int32_t Sum(int32_t a, int32_t b) {
    const Expr &x = plan_.exprs[a], &y = plan_.exprs[b];
    auto is = [](const Expr& e, int64_t value) { return e.op == Expr::kInt && e.value == value; };
    if (is(x, 0)) return b;
    if (is(y, 0)) return a;
    plan_.exprs.push_back(x.op == Expr::kInt && y.op == Expr::kInt ? Expr{.op = Expr::kInt, .value = x.value + y.value}
                                                                   : Expr{.op = Expr::kAdd, .a = a, .b = b});
    return static_cast<int32_t>(plan_.exprs.size()) - 1;
  }

  Plan& plan_;
  const absl::Span<const Part> parts_;
  std::vector<int> part_of_;                 // of views: by which part they have moved; -1: none
  std::vector<char> gone_;                   // steps
  std::vector<std::vector<int>> by_buffer_;  // steps with views of it, in order
};

}  // namespace

void ConcatInPlace(PlannedProgram& p) {
  if (!p.parts.empty()) Placer(p.plan, p.parts).Run();
}

}  // namespace slipway::planner
