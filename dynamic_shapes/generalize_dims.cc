// The program is inferred again and again with what is known so far, until nothing new is learned:
//
//   each round   types flow from the inputs; numbers that may be sizes are unknowns; equations are solved as they come
//   when stable  unknowns that no equation reaches are decided by evidence, or pin the dimensions they may stand for
//   at the end   arguments are rewritten, symbols named, types inferred once more
#include "dynamic_shapes/generalize_dims.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "dynamic_shapes/align.h"
#include "dynamic_shapes/decisions.h"
#include "dynamic_shapes/propagation.h"
#include "dynamic_shapes/recompute.h"
#include "dynamic_shapes/rewrite.h"
#include "dynamic_shapes/unknowns.h"

namespace slipway::dynamic_shapes {
namespace {

using ir::Node;
using ir::Sym;
using ir::SymKind;
using ir::Type;

constexpr int kMaxRounds = 400;

class Solver {
 public:
  // `others`: the same program at other sizes, node by node.
  // `literal`: numbers in the program are just that.
  Solver(ir::Program& p, const DimRequests& ask, std::vector<const Alignment*> others = {}, bool literal = false)
      : p_(p), others_(std::move(others)), known_(*p.syms, others_.size() + 1), flow_(p, ask, others_, literal, known_),
        decisions_(p, flow_, known_) {}

  absl::StatusOr<Ledger> Run() {
    if (known_.dimensions() == 0) return Facts();
    RETURN_IF_ERROR(SolveAll());
    for (size_t k = 0; k < known_.dimensions(); ++k) needs_.push_back(known_.Shown(known_[k].symbol));
    kept_ = KeptOutputs();
    RETURN_IF_ERROR(Rewrite());  // symbols of this table end here
    return Facts();
  }

 private:
  absl::Status SolveAll();
  std::vector<NamedSymbol> FreedDataSizes();
  absl::Status Rewrite();
  absl::Status WriteNumbers(ir::Graph& g);
  absl::StatusOr<Ledger> Facts();
  std::vector<std::string> KeptOutputs();

  ir::Program& p_;
  const std::vector<const Alignment*> others_;
  Unknowns known_;
  Propagation flow_;
  Decisions decisions_;
  absl::flat_hash_set<const ir::Graph*> written_;
  std::vector<std::string> needs_;  // of dimensions, as shown
  std::vector<std::string> kept_;   // notes on results that stay as they are
};

absl::Status Solver::SolveAll() {
  for (int round = 0; round < kMaxRounds; ++round) {
    const int before = known_.learned();
    flow_.Round();
    if (!known_.failure().empty()) return absl::UnimplementedError(known_.failure());
    if (known_.learned() == before && !decisions_.Decide(round)) return absl::OkStatus();
  }
  return absl::UnimplementedError("the sizes of the program do not settle");
}

// Sizes that depend on data are at most what the example's sizes allow, by the export: not any more.
std::vector<NamedSymbol> Solver::FreedDataSizes() {
  std::vector<NamedSymbol> out;
  std::set<std::string> seen;
  for (const auto& [v, declared] : flow_.declared()) {
    if (!v->producer() || !declared.is_tensor() || !flow_.TakesUnknowns(*v->producer())) continue;
    for (Sym s : declared.sizes) {
      if (s.is_constant() || s.kind() != SymKind::kSymbol || known_.Find(s) ||
          !seen.insert(std::string(s.name())).second)
        continue;
      const ir::SymRange r = p_.syms->range(s.name());
      if (r.max != std::numeric_limits<int64_t>::max())
        out.push_back({s, std::string(s.name()), {r.min, std::numeric_limits<int64_t>::max()}, 0});
    }
  }
  return out;
}

absl::Status Solver::Rewrite() {
  known_.NarrowRanges();
  // Strides follow sizes where the layout allows; what is not known is not stated.
  for (const auto& [v, declared] : flow_.declared()) {
    Type& t = v->mutable_type();
    for (Sym& s : t.sizes) s = known_.Canonical(s);
    t.expr = known_.Canonical(t.expr);
    if (!t.is_tensor() || t.sizes == declared.sizes) {
      if (t.is_tensor()) t.strides_known = declared.strides_known;
      continue;
    }
    auto strides = StridesLike(declared, t.sizes);
    t.strides_known = strides.has_value();
    t.strides = strides ? *std::move(strides) : ir::Sizes();
  }
  RETURN_IF_ERROR(WriteNumbers(*p_.graph));
  std::vector<NamedSymbol> named = FreedDataSizes();
  std::set<std::string> names;
  const auto taken = [&](const std::string& name) {
    return names.contains(name) || p_.syms->FindSymbol(name).has_value();
  };
  for (size_t k = 0; k < known_.dimensions(); ++k) {
    Unknown& u = known_[k];
    if (u.is) continue;
    std::string name = u.ask.name.empty() || taken(u.ask.name) ? NameForDim(*u.input, u.axis, taken) : u.ask.name;
    names.insert(name);
    if (u.ask.range.min > u.range.min && u.ask.range.min <= u.value) u.range.min = u.ask.range.min;
    if (u.ask.range.max < u.range.max && u.ask.range.max >= u.value) u.range.max = u.ask.range.max;
    named.push_back({u.symbol, name, u.range, u.value});
  }
  return RenameSymbols(p_, named);
}

absl::Status Solver::WriteNumbers(ir::Graph& g) {
  SizeWriter writer(g);
  std::vector<Node*> nodes;
  for (Node* n : g) nodes.push_back(n);
  for (Node* n : nodes) {
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>())
        if (written_.insert(sub->get()).second) RETURN_IF_ERROR(WriteNumbers(**sub));
    for (int k : flow_.NumbersOf(*n)) {
      const Unknown& u = known_[k];
      auto value = writer.Write(u.negative ? -known_.Canonical(u.symbol) : known_.Canonical(u.symbol));
      if (!value)
        return absl::UnimplementedError(text::StrCat(PlaceOf(*n), ": ", u.arg.arg, " is ", known_.Shown(u.symbol),
                                                     ", which nothing here computes"));
      SetSizeArg(u.arg, *value);
    }
  }
  return absl::OkStatus();
}

// Results that nothing of the inputs makes, where dimensions are free: they stay as they are at every size.
std::vector<std::string> Solver::KeptOutputs() {
  std::vector<std::string> out;
  bool any_free = false;
  for (size_t k = 0; k < known_.dimensions(); ++k) any_free |= !known_[k].is;
  for (size_t i = 0; any_free && i < p_.graph->outputs.size(); ++i) {
    const ir::Value* v = p_.graph->outputs[i].value();
    const bool user = i >= p_.output_specs.size() || p_.output_specs[i].kind == ir::OutputSpec::kUser;
    if (!user || !v || !v->producer() || !v->type().is_tensor() || v->rank() == 0 || flow_.IsData(v)) continue;
    if (flow_.DependsOnSizes(*v)) continue;
    out.push_back(text::StrCat("output ", i, ", ", v->type().ToString(), " of ", PlaceOf(*v->producer()),
                               ", is the same at all sizes"));
  }
  return out;
}

absl::StatusOr<Ledger> Solver::Facts() {
  Ledger out = LedgerOf(p_, /*explain=*/false);
  out.notes = decisions_.notes();
  out.notes.insert(out.notes.end(), kept_.begin(), kept_.end());
  out.conditions.assign(known_.conditions().begin(), known_.conditions().end());
  std::map<std::pair<std::string, int>, size_t> of;
  for (size_t k = 0; k < needs_.size(); ++k) of[{known_[k].input->name(), known_[k].axis}] = k;
  for (DimFact& f : out.dims) {
    f.needs_range = f.range;
    f.needs = f.size.ToString();
    if (auto it = of.find({f.input, f.axis}); it != of.end()) {
      const Unknown& u = known_[it->second];
      f.asked = !u.ask.follows;
      f.needs = needs_[it->second];
      f.example = u.value;
      f.cause = u.cause.empty() ? u.bound_cause : u.cause;
      f.help = u.help;
    } else if (auto k = f.size.constant(); k && *k < 2) {
      f.cause = text::StrCat("a size of ", *k, " is specialized: it broadcasts or is empty");
    }
  }
  return out;
}

}  // namespace

std::optional<DimRequest> RequestAll(const ir::Value&, int) { return DimRequest(); }

absl::StatusOr<Ledger> GeneralizeDims(ir::Program& p, const DimRequests& ask, Numbers numbers) {
  ASSIGN_OR_RETURN(Ledger out, Solver(p, ask, {}, numbers == Numbers::kLiteral).Run());
  // A size of 0 or 1 that was asked for by name is said to stay.
  for (DimFact& f : out.dims) {
    const auto size = f.size.constant();
    const ir::Value* input = p.graph->FindValue(f.input);
    if (!size || *size > 1 || f.asked || !input || input->producer()) continue;
    const auto asked = ask(*input, f.axis);
    f.asked = asked && asked->free && !asked->name.empty();
    if (f.asked) f.help = "an export at a size of 2 or more has it dynamic";
  }
  return out;
}

absl::StatusOr<Ledger> Unify(ir::Program& p, absl::Span<ir::Program* const> others) {
  std::vector<ir::Program*> programs = {&p};
  programs.insert(programs.end(), others.begin(), others.end());
  RETURN_IF_ERROR(RecomputeDiffering(programs));
  std::vector<Alignment> alignments;
  for (const ir::Program* other : others) {
    ASSIGN_OR_RETURN(Alignment a, Align(p, *other));
    alignments.push_back(std::move(a));
  }
  std::vector<const Alignment*> all;
  for (const Alignment& a : alignments) all.push_back(&a);
  return Solver(p, RequestAll, all).Run();
}

}  // namespace slipway::dynamic_shapes
