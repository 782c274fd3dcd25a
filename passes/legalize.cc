// The one lowering mechanism: rewrite by decompositions until every op is legal for the target.
#include <vector>

#include "base/text.h"
#include "passes/decompose.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

// A decomposition may use ops that decompose again; a chain longer than this is a cycle in the tables.
constexpr int kMaxRounds = 16;

// Replaces `n` by its decomposition. False when the decomposition refuses: the node then stays and is reported.
bool Decompose(ir::Node* n, const DecomposeRow& row) {
  ir::Graph& g = *n->graph();
  ir::Node* before = n->prev();
  Decomposer d(*n, row.widen);
  row.fn(d);
  bool ok = d.ok() && d.b.ok() && d.results().size() >= n->outputs().size();
  Values results = d.results();
  if (ok) {
    for (size_t i = 0; i < n->outputs().size(); ++i) {
      Value *old = n->output(i), *now = results[i];
      if (!old) continue;
      if (!now) {
        ok = old->users().empty() && !g.IsOutput(old);
        continue;
      }
      if (old->type().is_tensor() && now->dtype() != old->dtype()) results[i] = now = d.b.Cast(now, old->dtype());
      // The two must agree where both are known; the declared type stays otherwise.
      if (old->type().is_tensor()) {
        ok &= d.b.ok() && now->rank() == old->rank();
        for (int k = 0; ok && k < old->rank(); ++k) ok &= !ir::ProvablyDifferent(now->sizes()[k], old->sizes()[k]);
      }
    }
  }
  if (!ok) {
    // Take back what was built.
    while (n->prev() != before) g.Erase(n->prev());
    return false;
  }
  for (size_t i = 0; i < n->outputs().size(); ++i) {
    Value *old = n->output(i), *now = results[i];
    if (!old || !now) continue;
    std::string name = old->name();
    if (now->type().is_tensor() && now->producer()) now->mutable_type().sizes = old->sizes();
    g.ReplaceAllUses(old, now);
  }
  std::vector<std::pair<Value*, std::string>> names;
  for (size_t i = 0; i < n->outputs().size(); ++i)
    if (n->output(i) && results[i] && results[i]->producer() && results[i]->producer() != n)
      names.emplace_back(results[i], n->output(i)->name());
  g.Erase(n);
  for (auto& [v, name] : names)
    if (v->producer() && !g.FindValue(name)) g.Rename(v, name);
  return true;
}

void LegalizeGraph(ir::Graph& g, const std::function<bool(const ir::Node&)>& legal) {
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = false;
    for (ir::Node *n = g.first(), *next; n; n = next) {
      next = n->next();
      if (round == 0)
        for (const ir::NamedArg& a : n->args())
          if (auto sub = a.arg.get<ir::SubGraph>()) LegalizeGraph(**sub, legal);
      if (legal(*n)) continue;
      if (const DecomposeRow* row = FindDecomposition(n->op_name())) changed |= Decompose(n, *row);
    }
    if (!changed) return;
  }
}

}  // namespace

absl::Status Legalize(ir::Program& p, const std::function<bool(const ir::Node&)>& legal) {
  LegalizeGraph(*p.graph, legal);
  return absl::OkStatus();
}

}  // namespace slipway::passes
