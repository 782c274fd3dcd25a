// InplaceUpdates: an operator that updates a part of a tensor is planned as a copy of all of it and a step that writes
// the part. Where the old tensor is not read after that, the new one takes its memory and the copy is left out. So a
// cache of fixed size, a buffer that the program updates, is written where it lies: it is copied to a temporary, which
// is written, and copied back; first the copies among the temporaries go, then both around them. One that is made anew
// is made where it belongs.
//
// Only of plans without jumps, whose steps run in order, and of tensors whose sizes are numbers.
#include <algorithm>
#include <limits>
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

class Updater {
 public:
  explicit Updater(Plan& plan) : plan_(plan), gone_(plan.steps.size()) {}

  void Run() {
    for (const Step& s : plan_.steps)
      if (s.kind == Step::kJump || s.kind == Step::kUnless) return;
    Look();
    bool any = false;
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (IsCopyOfAll(static_cast<int>(i))) any |= Merge(static_cast<int>(i));
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (IsCopyOfAll(static_cast<int>(i))) any |= WriteThrough(static_cast<int>(i));
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (IsCopyOfAll(static_cast<int>(i))) any |= MakeThere(static_cast<int>(i));
    if (!any) return;
    DropSteps(plan_, gone_);
  }

 private:
  const View& ViewAt(int step, int k) const { return plan_.views[plan_.steps[step].first_view + k]; }
  Buffer::Kind KindOf(int buffer) const { return plan_.buffers[buffer].kind; }

  void Look() {
    touches_.assign(plan_.buffers.size(), {});
    for (int i = 0; i < static_cast<int>(plan_.steps.size()); ++i) {
      const Step& s = plan_.steps[i];
      for (int k = 0; k < s.inputs + s.outputs; ++k) {
        std::vector<Touch>& list = touches_[ViewAt(i, k).buffer];
        list.push_back({i, k >= s.inputs});
      }
    }
  }

  // A dense view of the whole buffer.
  bool IsAll(const View& v) const {
    auto number = [&](int e) { return plan_.exprs[e].op == Expr::kInt ? plan_.exprs[e].value : int64_t{-1}; };
    if (number(v.offset) != 0) return false;
    int64_t bytes = kernels::ByteSize(v.dtype);
    for (int d = v.rank - 1; d >= 0; --d) {
      const int64_t size = number(plan_.dims[v.first_dim + d]), stride = number(plan_.dims[v.first_dim + v.rank + d]);
      if (size < 1 || (size > 1 && stride * kernels::ByteSize(v.dtype) != bytes) ||
          bytes > std::numeric_limits<int64_t>::max() / size)
        return false;
      bytes *= size;
    }
    return number(plan_.buffers[v.buffer].bytes) == bytes;
  }
  bool IsCopyOfAll(int i) const {
    const Step& s = plan_.steps[i];
    if (gone_[i] || s.kind != Step::kKernel || s.kernel->name != "copy" || s.inputs != 1 || s.outputs != 1)
      return false;
    const View &from = ViewAt(i, 0), &to = ViewAt(i, 1);
    return from.dtype == to.dtype && from.buffer != to.buffer && IsAll(from) && IsAll(to) &&
           plan_.buffers[from.buffer].bytes == plan_.buffers[to.buffer].bytes && from.rank == to.rank &&
           std::equal(plan_.dims.begin() + from.first_dim, plan_.dims.begin() + from.first_dim + from.rank,
                      plan_.dims.begin() + to.first_dim);
  }
  // The first step after `copy` that writes the buffer.
  int FirstWrite(int buffer, int copy) const {
    for (const Touch& t : touches_[buffer])
      if (t.step > copy && t.writes) return t.step;
    return std::numeric_limits<int>::max();
  }
  void Rename(int from, int to) {
    for (const Touch& t : touches_[from]) {
      const Step& s = plan_.steps[t.step];
      if (gone_[t.step]) continue;
      for (int k = 0; k < s.inputs + s.outputs; ++k)
        if (View& v = plan_.views[s.first_view + k]; v.buffer == from) v.buffer = to;
    }
    std::vector<Touch> both;
    for (const int b : {from, to})
      for (const Touch& t : touches_[b])
        if (!gone_[t.step]) both.push_back(t);
    std::stable_sort(both.begin(), both.end(), [](const Touch& a, const Touch& b) { return a.step < b.step; });
    touches_[to] = std::move(both);
    touches_[from].clear();
  }

  // A copy of a temporary that is over before the copy changes.
  bool Merge(int copy) {
    const int from = ViewAt(copy, 0).buffer, to = ViewAt(copy, 1).buffer;
    if (KindOf(from) != Buffer::kTemporary || KindOf(to) != Buffer::kTemporary || touches_[to].front().step != copy)
      return false;
    const int write = FirstWrite(to, copy);
    for (const Touch& t : touches_[from])
      if ((t.step >= write || t.writes) && t.step > copy) return false;
    gone_[copy] = true;
    Rename(to, from);
    return true;
  }
  // A copy of a state that is written and copied back.
  bool WriteThrough(int copy) {
    const int state = ViewAt(copy, 0).buffer, to = ViewAt(copy, 1).buffer;
    if (KindOf(state) != Buffer::kState || KindOf(to) != Buffer::kTemporary || touches_[to].front().step != copy)
      return false;
    const int write = FirstWrite(to, copy);
    int back = -1;
    for (const Touch& t : touches_[state]) {
      if (t.writes) {
        if (back >= 0 || !IsCopyOfAll(t.step) || ViewAt(t.step, 0).buffer != to) return false;
        back = t.step;
      } else if (t.step >= write && t.step != copy) {
        return false;
      }
    }
    // Behind the way back the two would differ.
    if (back < 0 || back < copy || FirstWrite(to, back) != std::numeric_limits<int>::max()) return false;
    gone_[copy] = gone_[back] = true;
    Rename(to, state);
    return true;
  }

  // A tensor that is made anew and copied to the state: it is made there, where the old one is not read any more, or
  // only by the step that makes it, element by element.
  bool MakeThere(int back) {
    const int from = ViewAt(back, 0).buffer, state = ViewAt(back, 1).buffer;
    if (KindOf(from) != Buffer::kTemporary || KindOf(state) != Buffer::kState ||
        FirstWrite(from, back) != std::numeric_limits<int>::max())
      return false;
    const int made = touches_[from].front().step;
    const Step& s = plan_.steps[made];
    bool all = false;
    for (int k = 0; k < s.inputs + s.outputs; ++k)
      if (ViewAt(made, k).buffer == from) all = k >= s.inputs && IsAll(ViewAt(made, k));
    if (!all) return false;
    for (const Touch& t : touches_[state]) {
      if (t.step == back) continue;
      if (t.writes || t.step > made) return false;
      if (t.step < made) continue;
      if (!s.kernel->elementwise || s.outputs != 1) return false;
      for (int k = 0; k < s.inputs; ++k)
        if (ViewAt(made, k).buffer == state && !IsSame(ViewAt(made, k), ViewAt(made, s.inputs))) return false;
    }
    gone_[back] = true;
    Rename(from, state);
    return true;
  }
  // The same elements of two tensors.
  bool IsSame(const View& a, const View& b) const {
    return kernels::ByteSize(a.dtype) == kernels::ByteSize(b.dtype) && a.rank == b.rank && a.offset == b.offset &&
           std::equal(plan_.dims.begin() + a.first_dim, plan_.dims.begin() + a.first_dim + 2 * a.rank,
                      plan_.dims.begin() + b.first_dim);
  }

  struct Touch {
    int step;
    bool writes;
  };
  Plan& plan_;
  std::vector<char> gone_;                   // steps
  std::vector<std::vector<Touch>> touches_;  // of buffers, in order
};

}  // namespace

void InplaceUpdates(PlannedProgram& p) { Updater(p.plan).Run(); }

}  // namespace slipway::planner
