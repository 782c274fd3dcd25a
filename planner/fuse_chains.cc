// FuseChains: elementwise steps become one step of kernel `chain`. A chain stands where its last step stood, so earlier
// members move down past the steps between; that is only done where none of these reads or writes what they do.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "kernels/executor/plan.h"
#include "planner/fuse.h"
#include "planner/plan_uses.h"

namespace slipway::planner {
namespace {

using kernels::Buffer;
using kernels::ChainOp;
using kernels::Plan;
using kernels::Step;
using kernels::View;

// Members of a chain lie at most so many steps apart.
constexpr int kFarthest = 256;

class ChainFuser {
 public:
  explicit ChainFuser(PlannedProgram& p) : p_(p), plan_(p.plan) {}

  void Run() {
    const int n = static_cast<int>(plan_.steps.size());
    group_.assign(n, -1);
    std::vector<char> begins(n + 1, 0);  // of what is run from its first step to its last, or not at all
    for (int i = 0; i < n; ++i) {
      const Step& s = plan_.steps[i];
      if (s.kind == Step::kKernel) continue;
      begins[i] = begins[i + 1] = 1;
      if (s.kind == Step::kJump || s.kind == Step::kUnless) begins[s.target] = 1;
    }
    int block = 0;
    for (int i = 0; i < n; ++i) {
      if (begins[i]) block = i;
      if (!Fits(i)) continue;
      group_[i] = static_cast<int>(groups_.size());
      groups_.push_back({i});
      // With those that give its operands, where they may come as late as this.
      for (int k = 0; k < plan_.steps[i].inputs; ++k) {
        const std::vector<int>& writers = uses_.writers[In(i, k).buffer];
        for (auto w = writers.rbegin(); w != writers.rend(); ++w) {
          if (*w >= i) continue;
          if (*w >= block && group_[*w] >= 0 && group_[*w] != group_[i]) Join(i, group_[*w]);
          break;
        }
      }
    }
    Rewrite();
  }

 private:
  const View& In(int step, int k) const { return plan_.views[plan_.steps[step].first_view + k]; }
  const View& Out(int step, int k = 0) const {
    return plan_.views[plan_.steps[step].first_view + plan_.steps[step].inputs + k];
  }
  bool SameDims(const View& a, const View& b, int of_each) const {
    return a.rank == b.rank &&
           std::equal(plan_.dims.begin() + a.first_dim, plan_.dims.begin() + a.first_dim + of_each * a.rank,
                      plan_.dims.begin() + b.first_dim);
  }
  bool Same(const View& a, const View& b) const {
    return a.buffer == b.buffer && a.dtype == b.dtype && a.offset == b.offset && SameDims(a, b, 2);
  }

  bool Fits(int i) const {
    const Step& s = plan_.steps[i];
    if (s.kind != Step::kKernel || s.outputs != 1 || s.inputs < 1 || s.inputs > ChainOp::kMaxInputs) return false;
    if (!s.kernel->row && s.kernel->name != "copy") return false;
    for (int k = 0; k < s.inputs; ++k)
      if (!SameDims(In(i, k), Out(i), 1)) return false;
    return true;
  }

  // Whether the order of two steps counts.
  bool Conflict(int a, int b) const {
    const Step &x = plan_.steps[a], &y = plan_.steps[b];
    for (int i = 0; i < x.inputs + x.outputs; ++i)
      for (int j = 0; j < y.inputs + y.outputs; ++j)
        if ((i >= x.inputs || j >= y.inputs) &&
            plan_.views[x.first_view + i].buffer == plan_.views[y.first_view + j].buffer)
          return true;
    return false;
  }

  // The group `g` into that of the step i, which is its last, where that changes nothing.
  void Join(int i, int g) {
    std::vector<int> all = groups_[g];
    if (!SameDims(Out(all[0]), Out(i), 1) || i - all[0] > kFarthest) return;
    all.insert(all.end(), groups_[group_[i]].begin(), groups_[group_[i]].end());
    std::sort(all.begin(), all.end());
    if (all.size() > kernels::kMaxChainOps) return;
    auto member = [&](int s) { return std::binary_search(all.begin(), all.end(), s); };
    for (int m : all)
      for (int s = m + 1; s < i; ++s)
        if (!member(s) && Conflict(m, s)) return;
    // A member that writes what another reads agrees with it on the view.
    for (int m : all)
      for (int other : all) {
        if (other != m && Out(other).buffer == Out(m).buffer) return;
        for (int k = 0; k < plan_.steps[other].inputs; ++k)
          if (In(other, k).buffer == Out(m).buffer && !Same(In(other, k), Out(m))) return;
      }
    std::vector<const View*> operands;
    int results = 0;
    for (int m : all) {
      results += IsKept(m, all);
      for (int k = 0; k < plan_.steps[m].inputs; ++k)
        if (GiverOf(m, k, all) < 0) AddOperand(In(m, k), operands);
    }
    if (operands.size() + static_cast<size_t>(results) > kernels::kMaxChainTensors) return;
    const int old = group_[i];
    for (int m : groups_[g]) group_[m] = old;
    groups_[g].clear();
    groups_[old] = std::move(all);
  }

  // Whether the result of member m is needed in memory.
  bool IsKept(int m, const std::vector<int>& all) const {
    const int b = Out(m).buffer;
    if (plan_.buffers[b].kind != Buffer::kTemporary || uses_.writers[b].size() != 1) return true;
    for (int r : uses_.readers[b])
      if (r <= m || !std::binary_search(all.begin(), all.end(), r)) return true;
    return uses_.readers[b].empty();
  }
  // Which member gives operand k of member m; -1: it comes from outside.
  int GiverOf(int m, int k, const std::vector<int>& all) const {
    for (size_t i = 0; i < all.size() && all[i] < m; ++i)
      if (Out(all[i]).buffer == In(m, k).buffer) return static_cast<int>(i);
    return -1;
  }
  int AddOperand(const View& v, std::vector<const View*>& operands) const {
    for (size_t i = 0; i < operands.size(); ++i)
      if (Same(*operands[i], v)) return static_cast<int>(i);
    operands.push_back(&v);
    return static_cast<int>(operands.size()) - 1;
  }

  std::string NameOf(const std::vector<int>& all) const {
    std::string name = "chain";
    int last = -1;
    for (int m : all) {
      const int origin = plan_.steps[m].origin;
      if (origin == last) continue;
      last = origin;
      std::string_view op = p_.origins[origin];
      if (const size_t dot = op.find('.'); dot != op.npos) op = op.substr(dot + 1);
      text::StrAppend(&name, name == "chain" ? " " : "+", op.substr(0, op.find('.')));
    }
    return name;
  }

  // The step of a group; its views go to `views`.
  Step Make(const std::vector<int>& all, std::vector<View>& views) {
    Step step = plan_.steps[all.back()];
    step.kernel = kernels::FindKernel("chain");
    step.first_op = static_cast<int>(plan_.ops.size());
    step.ops = static_cast<int>(all.size());
    step.first_view = static_cast<int>(views.size());
    step.first_number = static_cast<int>(plan_.numbers.size());
    step.ints = step.floats = 0;
    std::vector<const View*> operands, results;
    std::vector<int> last_use(all.size(), -1);
    std::vector<ChainOp> ops(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const Step& s = plan_.steps[all[i]];
      ChainOp& op = ops[i];
      op.kernel = s.kernel;
      op.compute = s.compute;
      op.result = Out(all[i]).dtype;
      op.inputs = static_cast<int8_t>(s.inputs);
      for (int k = 0; k < s.inputs; ++k) {
        const int giver = GiverOf(all[i], k, all);
        if (giver >= 0) last_use[giver] = static_cast<int>(i);
        op.in[k] = static_cast<int16_t>(giver >= 0 ? ~giver : AddOperand(In(all[i], k), operands));
      }
      if (IsKept(all[i], all)) {
        op.output = static_cast<int8_t>(results.size());
        results.push_back(&Out(all[i]));
      }
      op.ints = s.ints, op.floats = s.floats;
      step.ints += s.ints, step.floats += s.floats;
    }
    std::vector<int> free_from;  // by slot: the operation that may take it
    for (size_t i = 0; i < all.size(); ++i) {
      size_t slot = 0;
      while (slot < free_from.size() && free_from[slot] >= static_cast<int>(i)) ++slot;
      if (slot == free_from.size()) free_from.push_back(0);
      free_from[slot] = std::max(last_use[i], static_cast<int>(i));
      ops[i].slot = static_cast<int16_t>(slot);
    }
    for (bool floats : {false, true})
      for (int m : all) {
        const Step& s = plan_.steps[m];
        for (int k = floats ? s.ints : 0; k < (floats ? s.ints + s.floats : s.ints); ++k)
          plan_.numbers.push_back(plan_.numbers[s.first_number + k]);
      }
    step.inputs = static_cast<int>(operands.size());
    step.outputs = static_cast<int>(results.size());
    for (const View* v : operands) views.push_back(*v);
    for (const View* v : results) views.push_back(*v);
    plan_.ops.insert(plan_.ops.end(), ops.begin(), ops.end());
    step.origin = static_cast<int>(p_.origins.size());
    p_.origins.push_back(NameOf(all));
    p_.places.push_back(p_.places[plan_.steps[all.back()].origin]);
    return step;
  }

  void Rewrite() {
    RewriteSteps(plan_, [&](int i, std::vector<Step>& steps, std::vector<View>& views) {
      const int g = group_[i];
      if (g >= 0 && groups_[g].size() > 1) {
        if (groups_[g].back() == i) steps.push_back(Make(groups_[g], views));
        return;
      }
      Step s = plan_.steps[i];
      const auto first = plan_.views.begin() + s.first_view;
      s.first_view = static_cast<int>(views.size());
      views.insert(views.end(), first, first + s.inputs + s.outputs);
      steps.push_back(s);
    });
  }

  PlannedProgram& p_;
  Plan& plan_;
  std::vector<int> group_;                // of steps; -1: none
  std::vector<std::vector<int>> groups_;  // steps in order
  const PlanUses uses_{plan_};
};

}  // namespace

void FuseChains(PlannedProgram& p) { ChainFuser(p).Run(); }

}  // namespace slipway::planner
