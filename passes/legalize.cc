// The one lowering mechanism: rewrite by decompositions until every op is legal for the target.
#include <vector>

#include "base/text.h"
#include "ir/ops/rule.h"
#include "passes/decompose.h"
#include "passes/node_order.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

// A decomposition may use ops that decompose again; a chain longer than this is a cycle in the tables.
constexpr int kMaxRounds = 16;

// Whether `now` may stand for `old`. The two types must agree where both are known.
absl::Status CheckReplacement(const ir::Node& n, size_t i, const Value* old, const Value* now) {
  const ir::Type &a = old->type(), &b = now->type();
  bool same = a.kind == b.kind;
  if (same && a.is_tensor()) {
    same = a.dtype == b.dtype && a.rank() == b.rank();
    for (int k = 0; same && k < a.rank(); ++k) same = !ir::ProvablyDifferent(a.sizes[k], b.sizes[k]);
  }
  if (same) return absl::OkStatus();
  return absl::InternalError(
      text::StrCat(n.op_name(), ": result ", i, " is ", a.ToString(), ", its decomposition gives ", b.ToString()));
}

// Builds n's decomposition before it. `results` has an entry per result of n, null only where it is unused.
absl::Status Build(ir::Node* n, const DecomposeRow& row, Values& results) {
  Decomposer d(*n, row.widen);
  if (absl::Status s = ir::RunRule(*n, [&] { row.fn(d); }); !s.ok()) return s;
  if (!d.ok()) return d.status();
  if (!d.b.ok()) return d.b.status();
  results = d.results();
  if (results.size() < n->outputs().size())
    return absl::InternalError(
        text::StrCat(n->op_name(), ": its decomposition gives ", results.size(), " results of ", n->outputs().size()));
  for (size_t i = 0; i < n->outputs().size(); ++i) {
    Value* old = n->output(i);
    if (!old) continue;
    if (!results[i]) {
      if (old->users().empty() && !n->graph()->IsOutput(old)) continue;
      return absl::UnimplementedError(text::StrCat(n->op_name(), ": result ", i, " is used"));
    }
    if (old->type().is_tensor() && results[i]->type().is_tensor()) results[i] = d.b.Cast(results[i], old->dtype());
    if (!d.b.ok()) return d.b.status();
    if (absl::Status s = CheckReplacement(*n, i, old, results[i]); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyDecomposition(ir::Node* n, const DecomposeRow& row) {
  ir::Graph& g = *n->graph();
  ir::Node* before = n->prev();
  Values results;
  if (absl::Status s = Build(n, row, results); !s.ok()) {
    // Take back what was built.
    while (n->prev() != before) g.Erase(n->prev());
    return s;
  }
  OrderNodes(g, before, n, results);
  ReplaceNode(n, results);
  return absl::OkStatus();
}

void ReplaceNode(ir::Node* n, const Values& results) {
  ir::Graph& g = *n->graph();
  std::vector<std::pair<Value*, std::string>> names;
  for (size_t i = 0; i < n->outputs().size(); ++i) {
    Value *old = n->output(i), *now = results[i];
    if (!old || !now) continue;
    if (now->type().is_tensor() && now->producer()) now->mutable_type().sizes = old->sizes();
    if (now->producer() && now->producer() != n) names.emplace_back(now, old->name());
    g.ReplaceAllUses(old, now);
  }
  g.Erase(n);
  for (auto& [v, name] : names)
    if (v->producer() && !g.FindValue(name)) g.Rename(v, name);
}

namespace {

void LegalizeGraph(ir::Graph& g, const std::function<bool(const ir::Node&)>& legal, Refusals& refusals) {
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = false;
    for (ir::Node *n = g.first(), *next; n; n = next) {
      next = n->next();
      for (const ir::NamedArg& a : n->args())  // in every round: decompositions may build loops
        if (auto sub = a.arg.get<ir::SubGraph>()) LegalizeGraph(**sub, legal, refusals);
      if (legal(*n)) continue;
      const DecomposeRow* row = FindDecomposition(n->op_name());
      if (!row || refusals.contains(n)) continue;
      absl::Status s = ApplyDecomposition(n, *row);
      changed |= s.ok();
      if (!s.ok()) refusals.emplace(n, std::move(s));
    }
    if (!changed) return;
  }
}

}  // namespace

absl::Status Legalize(ir::Program& p, const std::function<bool(const ir::Node&)>& legal, Refusals* refusals) {
  Refusals own;
  LegalizeGraph(*p.graph, legal, refusals ? *refusals : own);
  return absl::OkStatus();
}

}  // namespace slipway::passes
