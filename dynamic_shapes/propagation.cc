// Every inferred type must have the sizes of the example when the example's numbers are put in. Where it has not, an
// explanation was wrong, and the node is blamed.
#include "dynamic_shapes/propagation.h"

#include <algorithm>

#include "base/text.h"
#include "dynamic_shapes/view_rule.h"
#include "ir/ops/higher_order.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"

namespace slipway::dynamic_shapes {

using ir::Node;
using ir::Sym;
using ir::SymKind;
using ir::Type;
using ir::Value;

namespace {

bool IsHigherOrder(const Node& n) {
  return std::any_of(n.args().begin(), n.args().end(), [](const ir::NamedArg& a) { return a.arg.is<ir::SubGraph>(); });
}

bool HasUnknownCall(Sym s) {
  if (s.is_constant()) return false;
  if (s.kind() == SymKind::kCall && s.name() == "unknown") return true;
  for (Sym o : s.operands())
    if (HasUnknownCall(o)) return true;
  return false;
}

}  // namespace

Propagation::Propagation(ir::Program& p, const DimRequests& ask, const std::vector<const Alignment*>& others,
                         bool literal, Unknowns& known)
    : p_(p), others_(others), literal_(literal), known_(known), holders_(&p) {
  for (size_t i = 0; i < p_.graph->inputs().size(); ++i) {
    Value* v = p_.graph->inputs()[i];
    if (i >= p_.input_specs.size() || p_.input_specs[i].kind != ir::InputSpec::kUser || !v->type().is_tensor())
      continue;
    data_.insert(v);
    for (int axis = 0; axis < v->rank(); ++axis) {
      auto size = v->sizes()[axis].constant();
      if (!size) continue;
      auto asked = ask(*v, axis);
      Unknown u;
      u.value = *size;
      for (const Alignment* other : others_)
        u.more.push_back(other->values.at(v)->sizes()[axis].constant().value_or(0));
      if (!asked || !asked->free || (!u.varies() && (*size < 2 || known_.examples() > 1))) continue;
      u.input = v;
      u.axis = axis;
      u.ask = *asked;
      known_.Add(std::move(u));
    }
  }
  if (known_.dimensions() > 0) Visit(*p_.graph);
}

absl::Span<const int> Propagation::NumbersOf(const Node& n) const {
  const auto it = numbers_.find(&n);
  return it == numbers_.end() ? absl::Span<const int>() : it->second;
}

void Propagation::State(Value* v) {
  declared_index_[v] = static_cast<int>(declared_.size());
  declared_.emplace_back(v, v->type());
}

void Propagation::Visit(ir::Graph& g) {
  for (Value* v : g.inputs()) State(v);
  for (Node* n : g) {
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>())
        if (!declared_index_.contains((*sub)->inputs().empty() ? nullptr : (*sub)->inputs()[0])) Visit(**sub);
    bool from_data = false;
    for (const ir::NamedArg& a : n->args()) a.arg.ForEachValue([&](Value* v) { from_data |= data_.contains(v); });
    for (Value* v : n->outputs()) {
      if (!v) continue;
      State(v);
      if (from_data) data_.insert(v);
    }
    if (literal_) continue;
    for (SizeArg& a : SizeArgsOf(*n)) {
      const bool counted_back = a.role == ir::NumberRole::kBound || a.role == ir::NumberRole::kSetting ||
                                a.role == ir::NumberRole::kPad || a.role == ir::NumberRole::kDiagonal ||
                                a.role == ir::NumberRole::kSize;
      const bool negative = counted_back && a.value <= -2 && a.value > -(int64_t{1} << 62);
      Unknown u;
      u.value = negative ? -a.value : a.value;
      u.negative = negative;
      u.arg = a;
      for (const Alignment* other : others_) {
        const int64_t there = other->NumberAt(a);
        u.more.push_back(negative ? -there : there);
      }
      if (!u.varies() && (u.value < 2 || u.value >= (int64_t{1} << 62) || a.frozen ||
                          a.role == ir::NumberRole::kWindow || ir::IsElementary(a.role)))
        continue;
      if (known_.examples() > 1 && !u.varies()) u.is = u.value;
      const int k = known_.Add(std::move(u));
      known_[k].holder = holders_.AddInput(text::StrCat("number_", k), Type::SymInt(known_[k].symbol));
      numbers_[n].push_back(k);
      SetSizeArg(known_[k].arg, known_[k].holder);
    }
  }
}

Type Propagation::WithKnown(Type t) {
  for (Sym& s : t.sizes) s = known_.Canonical(s);
  t.expr = known_.Canonical(t.expr);
  return t;
}

const Type& Propagation::DeclaredIn(const Value* v, size_t example) const {
  return example == 0 ? Declared(v) : others_[example - 1]->values.at(v)->type();
}

void Propagation::SetRootInputs() {
  for (Value* v : p_.graph->inputs()) v->mutable_type() = Declared(v);
  for (size_t k = 0; k < known_.dimensions(); ++k)
    const_cast<Value*>(known_[k].input)->mutable_type().sizes[known_[k].axis] = known_.Canonical(known_[k].symbol);
}

void Propagation::Round() {
  known_.BeginRound();
  unresolved_views_.clear();
  conflicts_.clear();
  merged_.clear();
  seen_bodies_.clear();
  SetRootInputs();
  Infer(*p_.graph);
  // What is written back into an input or a weight has its sizes.
  for (size_t i = 0; i < p_.output_specs.size() && i < p_.graph->outputs.size(); ++i)
    MatchWritten(p_.output_specs[i], p_.graph->outputs[i].value());
}

void Propagation::MatchWritten(const ir::OutputSpec& spec, const Value* v) {
  if (!v || !v->type().is_tensor() || !v->producer()) return;
  for (size_t i = 0; i < p_.input_specs.size() && i < p_.graph->inputs().size(); ++i) {
    const Value* input = p_.graph->inputs()[i];
    const bool it = spec.kind == ir::OutputSpec::kUserInputMutation
                        ? p_.input_specs[i].kind == ir::InputSpec::kUser && input->name() == spec.target
                    : spec.updates_weight()
                        ? p_.input_specs[i].kind != ir::InputSpec::kUser && p_.input_specs[i].target == spec.target
                        : false;
    if (!it || input->rank() != v->rank()) continue;
    for (int d = 0; d < v->rank(); ++d)
      if (!known_.Equate(v->sizes()[d], input->sizes()[d], *v->producer()))
        AddConflict(*v->producer(), "what is written back has other sizes");
  }
}

void Propagation::Infer(ir::Graph& g) {
  for (Node* n : g) {
    if (!SetNumbers(*n))
      LeaveUnresolved(*n);
    else if (IsHigherOrder(*n))
      InferHigherOrder(*n);
    else
      InferNode(*n);
  }
}

// Gives the holders of the node's numbers what is known of them. False: too little for this round.
bool Propagation::SetNumbers(Node& n) {
  if (literal_) return MatchView(n);
  const absl::Span<const int> numbers = NumbersOf(n);
  if (numbers.empty()) return true;
  if (const Viewed viewed = ViewedSizes(n); !viewed.arg.empty()) {
    if (!SolveViewOf(n, viewed, numbers)) return false;
  } else if (!ExpandSizesArg(n).empty()) {
    SolveExpand(n, numbers);
  }
  for (int k : numbers)
    known_[k].holder->mutable_type().expr =
        known_[k].negative ? -known_.Canonical(known_[k].symbol) : known_.Canonical(known_[k].symbol);
  return true;
}

// Sizes of a view that are symbols are those of the dimensions that they take the place of.
bool Propagation::MatchView(Node& n) {
  const Viewed viewed = ViewedSizes(n);
  auto sizes = viewed.arg.empty() ? nullptr : n.Get(viewed.arg).get<ir::SymInts>();
  if (!sizes) return true;
  std::vector<int64_t> to;
  for (const ir::IntOrValue& i : *sizes) {
    auto v = known_.ValueOf(ir::ExprOf(i));
    if (!v) return true;
    to.push_back(*v);
  }
  ir::Sizes from = viewed.from;
  for (Sym& s : from) s = known_.Canonical(s);
  auto explained =
      SolveView(from, to, [&](Sym s) { return known_.ValueOf(s); }, [](Sym) { return std::vector<Sym>(); });
  for (size_t j = 0; explained && j < to.size(); ++j)
    if ((*sizes)[j].value && !explained->sizes[j].open && !known_.HasUnresolvedSize(explained->sizes[j].expr))
      known_.Equate(explained->sizes[j].expr, ir::ExprOf((*sizes)[j]), n);
  return true;
}

// Explains the sizes of a view by those of its operand, with the first example that leaves one explanation; then takes
// over the sizes that are explained and remembers those that stay open. False where nothing could be told yet.
bool Propagation::SolveViewOf(Node& n, const Viewed& viewed, absl::Span<const int> unknown) {
  std::vector<int64_t> to;
  const ir::Arg& sizes = n.Get(viewed.arg);
  if (auto ints = sizes.get<ir::Ints>())
    to.assign(ints->begin(), ints->end());
  else if (auto some = sizes.get<ir::SymInts>()) {
    for (const ir::IntOrValue& i : *some) {
      if (!i.value)
        to.push_back(i.constant);
      else if (auto v = known_.ValueOf(ir::ExprOf(i)))
        to.push_back(*v);
      else
        return true;
    }
  }
  std::vector<int> numbers(to.size(), -1);  // by element
  for (int k : unknown) numbers[known_[k].arg.element] = k;
  ir::Sizes from = viewed.from;
  for (Sym& s : from) s = known_.Canonical(s);
  if (std::any_of(from.begin(), from.end(), [&](Sym s) { return known_.HasUnresolvedSize(s); })) return false;
  std::optional<ViewSizes> explained;
  for (size_t k = 0; k < known_.examples(); ++k) {
    for (size_t j = 0; k > 0 && j < numbers.size(); ++j)
      if (numbers[j] >= 0) to[j] = known_.ValueOf(known_[numbers[j]], k);
    explained = SolveView(
        from, to, [&](Sym s) { return known_.ValueOf(s, k); },
        [&](Sym s) {
          auto order = merged_.find(s);
          return order == merged_.end() ? std::vector<Sym>() : order->second;
        });
    // Where the first example leaves several ways, or misleads, another may tell.
    bool fits = explained.has_value() && (explained->open.empty() || k + 1 == known_.examples());
    for (size_t j = 0; fits && j < numbers.size(); ++j)
      fits = numbers[j] < 0 || explained->sizes[j].open || known_.Fits(explained->sizes[j].expr, known_[numbers[j]]);
    if (fits) break;
    if (k + 1 == known_.examples()) explained.reset();
  }
  // Numbers among the sizes that no equation has reached yet may do so in a later round.
  if (!explained || !explained->open.empty())
    for (Sym s : from)
      for (int k : known_.In(s))
        if (!known_[k].dimension()) return false;
  if (!explained) {
    if (!std::any_of(from.begin(), from.end(), [&](Sym s) { return known_.IsOpen(s); }))
      AddConflict(n, text::StrCat("the elements of ", known_.Shown(from), " are regrouped to ", "[",
                                  text::Join(to, ", "), "]"));
    return false;
  }
  for (const ViewSize& size : explained->sizes) {
    if (size.factors.size() < 2) continue;
    auto [it, fresh] = merged_.emplace(size.expr, size.factors);
    if (!fresh && it->second != size.factors) it->second.clear();  // two orders: neither tells
  }
  for (size_t j = 0; j < numbers.size(); ++j) {
    if (numbers[j] < 0 || explained->sizes[j].open) continue;
    Unknown& u = known_[numbers[j]];
    const Sym e = explained->sizes[j].expr;
    if (u.is && (known_.Canonical(u.symbol) == known_.Canonical(e) || known_.examples() > 1)) continue;
    if (!Mentions(e, u.symbol)) known_.Assign(u, e);
  }
  for (const ViewSizes::Open& open : explained->open) {
    UnresolvedView view{&n, {}, open.product};
    for (int j = open.first; j < open.first + open.count; ++j)
      if (numbers[j] >= 0) view.numbers.push_back(numbers[j]);
    // All but one known: that one is what the others leave.
    Sym rest = 1;
    int left = -1, unknown = 0;
    for (int k : view.numbers) {
      const Sym s = known_.Canonical(known_[k].symbol);
      if (s == known_[k].symbol)
        left = k, ++unknown;
      else
        rest = rest * s;
    }
    if (unknown == 1) {
      const Sym e = ir::FloorDiv(open.product, rest);
      if (known_.Fits(e, known_[left]) && !Mentions(e, known_[left].symbol))
        known_.Assign(known_[left], e);
      else
        AddConflict(n, text::StrCat(known_.Shown(open.product), " is divided"));
    } else if (unknown > 1) {
      unresolved_views_.push_back(std::move(view));
    }
  }
  return true;
}

void Propagation::SolveExpand(Node& n, absl::Span<const int> numbers) {
  Value* x = FirstTensor(n);
  if (!x) return;
  for (int k : numbers) {
    Unknown& u = known_[k];
    const int total = static_cast<int>(n.Get("size").is<ir::Ints>()      ? n.Get("size").get<ir::Ints>()->size()
                                       : n.Get("size").is<ir::SymInts>() ? n.Get("size").get<ir::SymInts>()->size()
                                                                         : 0);
    const int d = u.arg.element - (total - x->rank());
    if (u.is || d < 0 || d >= x->rank() || x->sizes()[d].is(1)) continue;
    const Sym size = known_.Canonical(x->sizes()[d]);
    if (!known_.HasUnresolvedSize(size) && known_.Fits(size, u) && !Mentions(size, u.symbol)) known_.Assign(u, size);
  }
}

// A node that cannot have the sizes that were tried: what it takes stays as it was, unless other nodes tell more first.
void Propagation::AddConflict(Node& n, const std::string& why) {
  Conflict conflict{text::StrCat(PlaceOf(n), ": ", why), {}};
  for (const ir::NamedArg& a : n.args())
    a.arg.ForEachValue([&](Value* v) {
      for (Sym s : v->type().sizes) conflict.sizes.push_back(s);
      conflict.sizes.push_back(v->type().expr);
    });
  for (int k : NumbersOf(n)) conflict.sizes.push_back(known_[k].symbol);
  conflicts_.push_back(std::move(conflict));
}

// The results of a node whose sizes are not known in this round: nothing is learned from them.
void Propagation::LeaveUnresolved(const Node& n) {
  for (Value* v : n.outputs()) {
    if (!v) continue;
    v->mutable_type() = Declared(v);
    if (!v->type().is_tensor()) continue;
    v->mutable_type().strides_known = false;
    for (Sym& s : v->mutable_type().sizes) {
      auto size = s.constant();
      if (size && *size >= 2) s = known_.UnresolvedSize(*size);
    }
  }
}

bool Propagation::DependsOnSizes(const Value& v) const {
  std::vector<const Value*> open = {&v};
  absl::flat_hash_set<const Value*> seen;
  while (!open.empty()) {
    const Value* x = open.back();
    open.pop_back();
    if (!seen.insert(x).second || !x->producer()) continue;
    for (int k : NumbersOf(*x->producer()))
      if (!known_.Canonical(known_[k].symbol).is_constant()) return true;
    for (const ir::NamedArg& a : x->producer()->args()) a.arg.ForEachValue([&](Value* y) { open.push_back(y); });
  }
  return false;
}

bool Propagation::TakesUnknowns(const Node& n) const {
  bool any = false;
  for (const ir::NamedArg& a : n.args())
    a.arg.ForEachValue([&](Value* v) {
      for (Sym s : v->type().sizes) any |= !known_.In(s).empty() || known_.IsOpen(s);
      any |= !known_.In(v->type().expr).empty();
    });
  return any;
}

void Propagation::InferNode(Node& n) {
  if (!TakesUnknowns(n)) {
    for (Value* v : n.outputs())
      if (v) v->mutable_type() = Declared(v);
    return;
  }
  std::vector<ir::ShapeConstraint> constraints;
  auto types = ir::InferTypes(n, ir::FreshSymbols::kNone, &constraints);
  if (!types.ok()) {
    const bool no_rule = absl::IsUnimplemented(types.status());
    std::string_view why = text::FromAbsl(types.status().message());
    text::ConsumePrefix(&why, text::StrCat(n.op_name(), ": "));
    AddConflict(n, no_rule ? text::StrCat("how its sizes follow is not known (", why, ")") : std::string(why));
    return LeaveUnresolved(n);
  }
  for (const ir::ShapeConstraint& c : constraints) {
    const Sym e = c.condition;
    if (e.is_constant() || e.operands().size() != 2) continue;
    if (e.kind() == SymKind::kEq && !known_.Equate(e.operands()[0], e.operands()[1], n)) {
      AddConflict(n, text::StrCat(known_.Shown(e.operands()[0]), " and ", known_.Shown(e.operands()[1]), " differ"));
      return LeaveUnresolved(n);
    }
    if (e.kind() == SymKind::kGe) known_.AtMost(e.operands()[1], e.operands()[0], n);
  }
  size_t i = 0;
  for (Value* v : n.outputs()) {
    if (v) Take(n, *v, i < types->size() ? (*types)[i] : Declared(v));
    ++i;
  }
}

// The inferred type, where it has the example's sizes.
void Propagation::Take(Node& n, Value& v, const Type& inferred) {
  const Type& declared = Declared(&v);
  Type t = declared;
  t.strides_known = false;
  if (t.is_tensor() && inferred.is_tensor() && inferred.rank() == t.rank()) {
    for (int d = 0; d < t.rank(); ++d) {
      const Sym s =
          HasUnknownCall(inferred.sizes[d]) ? t.sizes[d] : known_.Decide(known_.Canonical(inferred.sizes[d]), n);
      for (size_t k = 0; k < known_.examples(); ++k)
        if (known_.ValueOf(s, k) != known_.ValueOf(DeclaredIn(&v, k).sizes[d], k)) {
          AddConflict(n, text::StrCat("its result has a size of ", DeclaredIn(&v, k).sizes[d].ToString(), ", not of ",
                                      known_.Shown(s)));
          return LeaveUnresolved(n);
        }
      t.sizes[d] = s;
      // A window has room at least once.
      if (text::Contains(n.op().base, "conv") || text::Contains(n.op().base, "pool")) known_.AtMost(1, s, n);
    }
  } else if (t.is_tensor()) {
    AddConflict(n, "its result has another rank");
    return LeaveUnresolved(n);
  } else if (t.is_sym() && inferred.is_sym() && !HasUnknownCall(inferred.expr)) {
    t.expr = known_.Canonical(inferred.expr);
  }
  v.mutable_type() = std::move(t);
}

Type Propagation::OfArg(const ir::Arg& a, const Type& fallback) {
  Value* v = a.value();
  return v ? WithKnown(v->type()) : fallback;
}

std::optional<Propagation::Conflict> Propagation::Try(const Unknowns::Trial& trial) {
  std::vector<Type> before;
  for (const auto& [v, declared] : declared_) {
    Type& t = v->mutable_type();
    before.push_back(t);
    for (Sym& s : t.sizes) s = known_.At(s, trial);
    t.expr = known_.At(t.expr, trial);
    t.strides_known = false;
  }
  for (size_t k = known_.dimensions(); k < known_.size(); ++k) {
    const Sym e = known_.At(known_[k].symbol, trial);
    known_[k].holder->mutable_type().expr = known_[k].negative ? -e : e;
  }
  std::string why;
  Node* failed = TryGraph(*p_.graph, &why);
  for (size_t i = 0; i < before.size(); ++i) declared_[i].first->mutable_type() = std::move(before[i]);
  for (size_t k = known_.dimensions(); k < known_.size(); ++k) {
    const Sym e = known_.Canonical(known_[k].symbol);
    known_[k].holder->mutable_type().expr = known_[k].negative ? -e : e;
  }
  if (!failed) return std::nullopt;
  std::vector<std::string> sizes;
  Conflict out;
  for (const auto& [k, size] : trial) {
    if (size == known_[k].value) continue;
    sizes.push_back(text::StrCat(known_[k].input->name(), ".", known_[k].axis, " = ", size));
    const Sym symbol = known_[k].symbol;
    bool takes = false;
    for (const ir::NamedArg& a : failed->args())
      a.arg.ForEachValue([&](Value* v) {
        for (Sym s : v->type().sizes) takes |= Mentions(known_.Canonical(s), symbol);
        takes |= Mentions(known_.Canonical(v->type().expr), symbol);
      });
    for (int number : NumbersOf(*failed)) takes |= Mentions(known_.Canonical(known_[number].symbol), symbol);
    if (takes) out.sizes.push_back(symbol);
  }
  if (out.sizes.empty())
    for (const auto& [k, size] : trial)
      if (size != known_[k].value) out.sizes.push_back(known_[k].symbol);
  out.why = text::StrCat(PlaceOf(*failed), " at ", text::Join(sizes, ", "), ": ", why);
  return out;
}

// The first node that does not give what was inferred for it, as types are now.
Node* Propagation::TryGraph(ir::Graph& g, std::string* why) {
  for (Node* n : g) {
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>())
        if (Node* failed = TryGraph(**sub, why)) return failed;
    if (IsHigherOrder(*n)) continue;
    bool other = false, data = false;  // than in the export; sizes that depend on data
    for (const ir::NamedArg& a : n->args())
      a.arg.ForEachValue([&](Value* v) {
        other |= !declared_index_.contains(v) || v->type().sizes != Declared(v).sizes ||
                 !(v->type().expr == Declared(v).expr);
        data |= !v->type().expr.is_constant();
        for (Sym s : v->type().sizes) data |= !s.is_constant();
      });
    if (!other || data) continue;
    std::vector<ir::ShapeConstraint> constraints;
    auto types = ir::InferTypes(*n, ir::FreshSymbols::kNone, &constraints);
    if (!types.ok()) {
      *why = std::string(text::FromAbsl(types.status().message()));
    } else {
      const bool list =
          std::any_of(n->op().returns.begin(), n->op().returns.end(), [](const ir::ReturnDef& r) { return r.is_list; });
      if (list && types->size() != n->outputs().size())
        *why = text::StrCat(types->size(), " results instead of ", n->outputs().size());
      for (size_t i = 0; why->empty() && i < n->outputs().size() && i < types->size(); ++i) {
        const Value* v = n->output(i);
        if (!v || !v->type().is_tensor() || !(*types)[i].is_tensor()) continue;
        const ir::Sizes &got = (*types)[i].sizes, &wanted = v->type().sizes;
        bool same = got.size() == wanted.size();
        for (size_t d = 0; same && d < got.size(); ++d)
          same = !got[d].is_constant() || !wanted[d].is_constant() || got[d] == wanted[d];
        if (!same)
          *why = text::StrCat("its result has other sizes than were found for it: ", (*types)[i].ToString(), " and ",
                              v->type().ToString());
      }
    }
    if (!why->empty()) return n;
  }
  return nullptr;
}

// Sets an input of a body. A body that several nodes call must get the same sizes from each.
void Propagation::SetInput(Node& n, Value* input, Type t, bool drop_first) {
  const Type& declared = Declared(input);
  if (!declared.is_tensor() || !t.is_tensor()) {
    if (declared.is_sym() && t.is_sym()) input->mutable_type().expr = t.expr;
    return;
  }
  if (drop_first && !t.sizes.empty()) t.sizes.erase(t.sizes.begin());
  if (t.rank() != declared.rank()) return AddConflict(n, "a body takes another rank");
  Type to = declared;
  to.strides_known = false;
  to.sizes = t.sizes;
  if (seen_bodies_.contains(input->graph()))
    for (int d = 0; d < to.rank(); ++d)
      if (!known_.Equate(input->sizes()[d], to.sizes[d], n)) AddConflict(n, "a body is called with other sizes");
  input->mutable_type() = std::move(to);
}

void Propagation::InferHigherOrder(Node& n) {
  auto decoded = ir::DecodeHigherOrder(n);
  if (!decoded.ok()) {
    if (TakesUnknowns(n)) AddConflict(n, "how its sizes follow is not known");
    return LeaveUnresolved(n);
  }
  const ir::HigherOrder& h = *decoded;
  const bool associative = h.kind == ir::HigherOrder::kAssociativeScan;
  for (const ir::SubGraph& body : h.bodies) {
    size_t i = 0;
    auto give = [&](const std::vector<ir::Arg>& args, bool drop) {
      for (const ir::Arg& a : args) {
        if (i >= body->inputs().size()) return;
        Value* input = body->inputs()[i++];
        SetInput(n, input, OfArg(a, Declared(input)), drop);
      }
    };
    give(h.carried, false);
    give(h.scanned, true);
    if (associative) give(h.scanned, true);
    give(h.captured, false);
    seen_bodies_.insert(body.get());
    Infer(*body);
  }
  auto output = [&](size_t body, size_t i) -> const Value* {
    return body < h.bodies.size() && i < h.bodies[body]->outputs.size() ? h.bodies[body]->outputs[i].value() : nullptr;
  };
  for (size_t i = 0; i < n.outputs().size(); ++i) {
    Value* v = n.output(i);
    if (!v) continue;
    Type t = Declared(v);
    const size_t body = h.kind == ir::HigherOrder::kWhileLoop ? 1 : 0;
    const Value* made = output(body, i);
    if (!made || !t.is_tensor() || !made->type().is_tensor()) {
      v->mutable_type() = t;
      continue;
    }
    ir::Sizes sizes = WithKnown(made->type()).sizes;
    const bool stacked = h.kind == ir::HigherOrder::kScan && i >= h.carried.size();
    if (associative) sizes.clear();
    if (stacked || associative) {
      const ir::Arg* along = h.scanned.empty() ? nullptr : &h.scanned[0];
      if (along && along->value() && along->value()->rank() > 0) {
        if (associative)
          sizes = i < h.scanned.size() && h.scanned[i].value() ? WithKnown(h.scanned[i].value()->type()).sizes
                                                               : ir::Sizes();
        else
          sizes.insert(sizes.begin(), known_.Canonical(along->value()->sizes()[0]));
      }
    }
    // Carried values keep their sizes; branches agree.
    if (i < h.carried.size() && h.carried[i].value() && !stacked) Same(n, sizes, h.carried[i].value()->sizes());
    if (h.kind == ir::HigherOrder::kCond)
      if (const Value* other = output(1, i); other && other->type().is_tensor()) Same(n, sizes, other->sizes());
    Type inferred = t;
    inferred.sizes = sizes;
    Take(n, *v, inferred);
  }
}

void Propagation::Same(Node& n, const ir::Sizes& a, const ir::Sizes& b) {
  for (size_t d = 0; d < a.size() && a.size() == b.size(); ++d)
    if (!known_.Equate(a[d], b[d], n)) AddConflict(n, "its bodies give different sizes");
}

}  // namespace slipway::dynamic_shapes
