// The program is inferred again and again with what is known so far, until nothing new is learned:
//
//   each round   types flow from the inputs; numbers that may be sizes are unknowns; equations are solved as they come
//   when stable  unknowns that no equation reaches are decided by evidence, or pin the dimensions they may stand for
//   at the end   arguments are rewritten, symbols named, types inferred once more
//
// Every inferred type must have the sizes of the example when the example's numbers are put in. Where it has not, an
// explanation was wrong, and the dimensions involved are pinned.
#include "shapes/free_dims.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/higher_order.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "shapes/align.h"
#include "shapes/evidence.h"
#include "shapes/rewrite.h"
#include "shapes/size_args.h"
#include "shapes/view_rule.h"

namespace slipway::shapes {
namespace {

using ir::Node;
using ir::Sym;
using ir::SymKind;
using ir::Type;
using ir::Value;

constexpr int kMaxRounds = 400;
constexpr int kPatience = 60;      // rounds; later ones decide all that is open at once
constexpr size_t kMostPaired = 32;  // dimensions whose products are tried

std::string PlaceOf(const Node& n) {
  const std::string at = n.source() ? n.source()->Describe() : "";
  return text::StrCat(n.op_name(), at.empty() ? (n.output() ? text::StrCat(" (%", n.output()->name(), ")") : "") : text::StrCat(" in ", at));
}

// An unknown: a dimension of an input, or a number that may be a size.
struct Unknown {
  Sym symbol = 0;
  int64_t value = 0;          // of the example
  std::vector<int64_t> more;  // of further examples, where the program is unified with others
  std::optional<Sym> is;   // what it was found to be, over other unknowns
  // A dimension
  const Value* input = nullptr;
  int axis = 0;
  DimAsk ask;
  ir::SymRange range{2, std::numeric_limits<int64_t>::max()};
  std::string cause, help;   // of a number or a relation
  std::string bound_cause;   // of the range
  // A number
  SizeArg arg;
  Value* holder = nullptr;   // stands in the argument while types are inferred
  bool negative = false;     // the argument is the negative of it: a place counted from the end
  bool dimension() const { return input != nullptr; }
};

class Solver {
 public:
  // `others`: the same program at other sizes, node by node.
  // `literal`: numbers in the program are just that.
  Solver(ir::Program& p, const AskFor& ask, std::vector<const Alignment*> others = {}, bool literal = false)
      : p_(p), ask_(ask), others_(std::move(others)), literal_(literal), holders_(&p) {}

  absl::StatusOr<Ledger> Run() {
    MakeUnknowns();
    if (dimensions_ == 0) return Facts();
    RETURN_IF_ERROR(SolveAll());
    if (!failure_.empty()) return absl::UnimplementedError(failure_);
    for (size_t k = 0; k < dimensions_; ++k) needs_.push_back(Shown(unknowns_[k].symbol));
    RETURN_IF_ERROR(Rewrite());  // symbols of this table end here
    return Facts();
  }

 private:
  ir::Program& p_;
  const AskFor& ask_;
  std::vector<const Alignment*> others_;
  const bool literal_;
  std::string failure_;  // why the programs are not one at several sizes
  ir::Graph holders_;  // owns the values that stand for numbers
  std::deque<Unknown> unknowns_;
  size_t dimensions_ = 0;  // the first unknowns are dimensions
  text::Map<int> by_name_;
  absl::flat_hash_map<const Node*, std::vector<int>> numbers_;  // of a node, by position among its arguments
  std::vector<std::pair<Value*, Type>> stated_;                 // types as exported
  absl::flat_hash_map<const Value*, int> stated_at_;
  absl::flat_hash_set<const Value*> data_;  // values that depend on what the user gives
  absl::flat_hash_map<Sym, Sym> canonical_;
  std::vector<std::string> notes_;
  bool changed_ = false;
  int round_ = 0;
  struct OpenView {
    const Node* node;
    std::vector<int> numbers;
    Sym product;
  };
  std::vector<OpenView> open_views_;  // of the round
  absl::flat_hash_map<Sym, std::vector<Sym>> merged_;  // of the round: what sizes were merged from, outermost first
  struct Bound {
    Sym low, high;
    std::string place;
  };
  std::vector<Bound> bounds_;  // of the round
  struct Equation {
    const Node* node;
    Sym a, b;
  };
  std::vector<Equation> unsolved_;  // of the round

  // --- Unknowns ---------------------------------------------------------------------------------------------------

  void MakeUnknowns() {
    for (size_t i = 0; i < p_.graph->inputs().size(); ++i) {
      Value* v = p_.graph->inputs()[i];
      if (i >= p_.input_specs.size() || p_.input_specs[i].kind != ir::InputSpec::kUser || !v->type().is_tensor()) continue;
      data_.insert(v);
      for (int axis = 0; axis < v->rank(); ++axis) {
        auto size = v->sizes()[axis].constant();
        if (!size) continue;
        auto ask = ask_(*v, axis);
        Unknown u;
        u.value = *size;
        for (const Alignment* other : others_) u.more.push_back(other->values.at(v)->sizes()[axis].constant().value_or(0));
        if (!ask || !ask->free || (!Varies(u) && (*size < 2 || !others_.empty()))) continue;
        u.input = v;
        u.axis = axis;
        u.ask = *ask;
        Add(std::move(u), "dim");
      }
    }
    dimensions_ = unknowns_.size();
    if (dimensions_ > 0) Visit(*p_.graph);
  }
  int Add(Unknown u, std::string_view base) {
    const std::string name = text::StrCat("slipway_", base, "_", unknowns_.size());
    u.symbol = p_.syms->Symbol(name);
    by_name_[name] = static_cast<int>(unknowns_.size());
    unknowns_.push_back(std::move(u));
    return static_cast<int>(unknowns_.size()) - 1;
  }
  void State(Value* v) {
    stated_at_[v] = static_cast<int>(stated_.size());
    stated_.emplace_back(v, v->type());
  }
  void Visit(ir::Graph& g) {
    for (Value* v : g.inputs()) State(v);
    for (Node* n : g) {
      for (const ir::NamedArg& a : n->args())
        if (auto sub = a.arg.get<ir::SubGraph>())
          if (!stated_at_.contains((*sub)->inputs().empty() ? nullptr : (*sub)->inputs()[0])) Visit(**sub);
      bool from_data = false;
      for (const ir::NamedArg& a : n->args()) a.arg.ForEachValue([&](Value* v) { from_data |= data_.contains(v); });
      for (Value* v : n->outputs()) {
        if (!v) continue;
        State(v);
        if (from_data) data_.insert(v);
      }
      if (literal_) continue;
      for (SizeArg& a : SizeArgsOf(*n)) {
        const bool negative = a.role == SizeRole::kBound && a.value <= -2;
        Unknown u;
        u.value = negative ? -a.value : a.value;
        u.negative = negative;
        u.arg = a;
        for (const Alignment* other : others_) {
          const int64_t there = other->NumberAt(a);
          u.more.push_back(negative ? -there : there);
        }
        if (!Varies(u) && (u.value < 2 || u.value >= (int64_t{1} << 62) || a.role == SizeRole::kNumber)) continue;
        if (!others_.empty() && !Varies(u)) u.is = u.value;
        const int k = Add(std::move(u), "number");
        unknowns_[k].holder = holders_.AddInput(text::StrCat("number_", k), Type::SymInt(unknowns_[k].symbol));
        numbers_[n].push_back(k);
        SetSizeArg(unknowns_[k].arg, unknowns_[k].holder);
      }
    }
  }

  // --- Expressions ------------------------------------------------------------------------------------------------

  Unknown* Find(Sym symbol) {
    auto it = by_name_.find(symbol.name());
    return it == by_name_.end() ? nullptr : &unknowns_[it->second];
  }
  // With everything put in that is known.
  Sym Canonical(Sym s) {
    if (s.is_constant()) return s;
    if (auto it = canonical_.find(s); it != canonical_.end()) return it->second;
    Sym out = ir::Substitute(s, [&](Sym symbol) -> std::optional<Sym> {
      Unknown* u = Find(symbol);
      if (!u || !u->is) return std::nullopt;
      return Canonical(*u->is);
    });
    return canonical_[s] = out;
  }
  // For the example. Sizes that depend on data get numbers of their own.
  std::optional<int64_t> ValueOf(Sym s, size_t example = 0) {
    return ir::Evaluate(s, [&](std::string_view name) -> std::optional<int64_t> {
      auto it = by_name_.find(name);
      if (it != by_name_.end()) return ValueOf(unknowns_[it->second], example);
      if (auto open = open_sizes_.find(name); open != open_sizes_.end()) return open->second;
      return 1009 + static_cast<int64_t>(std::hash<std::string_view>()(name) % 9001);
    });
  }
  static int64_t ValueOf(const Unknown& u, size_t example) { return example == 0 ? u.value : u.more[example - 1]; }
  // For every example.
  bool Fits(Sym s, const Unknown& u) {
    for (size_t k = 0; k <= others_.size(); ++k)
      if (auto v = ValueOf(s, k); !v || *v != ValueOf(u, k)) return false;
    return true;
  }
  static bool Varies(const Unknown& u) {
    return std::any_of(u.more.begin(), u.more.end(), [&](int64_t v) { return v != u.value; });
  }
  std::vector<int> UnknownsIn(Sym s) {
    std::vector<int> out;
    for (Sym symbol : s.Symbols())
      if (auto it = by_name_.find(symbol.name()); it != by_name_.end()) out.push_back(it->second);
    return out;
  }
  static bool Mentions(Sym s, Sym symbol) {
    for (Sym x : s.Symbols())
      if (x == symbol) return true;
    return false;
  }

  void Assign(Unknown& u, Sym to) {
    u.is = to;
    canonical_.clear();
    changed_ = true;
  }
  // A dimension stays what it was; a number is just that.
  void Pin(int k, std::string cause, std::string help = "") {
    Unknown& u = unknowns_[k];
    if (u.is) return;
    if (Varies(u) && failure_.empty()) failure_ = cause.empty() ? text::StrCat("a number is ", u.value, " in one program and ", u.more[0], " in another, and nothing explains it") : cause;
    if (u.dimension()) {
      u.cause = std::move(cause);
      u.help = std::move(help);
    }
    Assign(u, u.value);
  }
  void PinAll(Sym s, const std::string& cause, const std::string& help = "") {
    for (int k : UnknownsIn(Canonical(s))) Pin(k, cause, help);
  }

  // --- Equations --------------------------------------------------------------------------------------------------

  // a - b as a sum in which `symbol` stands once, times `factor`; what symbol then is.
  std::optional<Sym> SolveFor(Sym symbol, Sym a, Sym b, bool exact_only) {
    const Sym difference = a - b;
    std::vector<Sym> terms = {difference};
    if (!difference.is_constant() && difference.kind() == SymKind::kAdd)
      terms.assign(difference.operands().begin(), difference.operands().end());
    Sym factor = 0, rest = 0;
    bool found = false;
    for (Sym t : terms) {
      if (!Mentions(t, symbol)) {
        rest = rest - t;
        continue;
      }
      if (found) return std::nullopt;
      found = true;
      if (t == symbol) {
        factor = 1;
        continue;
      }
      if (t.kind() != SymKind::kMul) return std::nullopt;
      factor = 1;
      int times = 0;
      for (Sym f : t.operands()) {
        if (f == symbol) ++times;
        else if (Mentions(f, symbol)) return std::nullopt;
        else factor = factor * f;
      }
      if (times != 1) return std::nullopt;
    }
    if (!found) return std::nullopt;
    if (factor.is(1)) return rest;
    if (factor.is(-1)) return -rest;
    const Sym quotient = ir::FloorDiv(rest, factor);
    if (exact_only && !ir::ProvablyEqual(quotient * factor, rest)) return std::nullopt;
    return quotient;
  }

  bool TrySolve(int k, Sym a, Sym b, const std::string& why) {
    Unknown& u = unknowns_[k];
    auto e = SolveFor(u.symbol, a, b, u.dimension());
    if (!e || Mentions(*e, u.symbol) || e->is_too_large()) return false;
    if (!Fits(*e, u)) return false;
    if (u.dimension()) u.cause = why;
    Assign(u, *e);
    return true;
  }

  // Learns from a == b. False: it does not hold for the example.
  bool Equate(Sym a, Sym b, const Node& n) {
    a = Canonical(a);
    b = Canonical(b);
    if (a == b || ir::ProvablyEqual(a, b)) return true;
    if (!ValueOf(a) || !ValueOf(b) || IsOpen(a) || IsOpen(b)) return true;  // beyond what is solved for
    for (size_t k = 0; k <= others_.size(); ++k)
      if (ValueOf(a, k) != ValueOf(b, k)) return false;
    std::vector<int> in = UnknownsIn(a);
    for (int k : UnknownsIn(b))
      if (std::find(in.begin(), in.end(), k) == in.end()) in.push_back(k);
    std::sort(in.begin(), in.end());
    const bool sizes = std::any_of(in.begin(), in.end(), [&](int k) { return unknowns_[k].dimension(); });
    const bool numbers = std::any_of(in.begin(), in.end(), [&](int k) { return !unknowns_[k].dimension(); });
    const std::string why = text::StrCat(PlaceOf(n), ": ", Shown(a), " = ", Shown(b));
    if (numbers) {
      // The latest first: earlier numbers explain later ones.
      for (auto it = in.rbegin(); it != in.rend(); ++it)
        if (!unknowns_[*it].dimension() && TrySolve(*it, a, b, why)) return true;
      if (!sizes) {
        for (int k : in) Pin(k, why);
        return true;
      }
      unsolved_.push_back({&n, a, b});
      return true;
    }
    for (bool follows : {true, false})
      for (auto it = in.rbegin(); it != in.rend(); ++it)
        if (unknowns_[*it].ask.follows == follows && TrySolve(*it, a, b, why)) return true;
    // Divisions by sizes come from views with -1 and leave nothing over, which the node that divides needs as well.
    Sym x = a, y = b;
    while (ClearDivision(x, y)) {}
    if (!(x == a && y == b) && Equal(x, y))
      for (auto it = in.rbegin(); it != in.rend(); ++it)
        if (TrySolve(*it, x, y, why)) return true;
    // A condition that sizes must meet: divisibility, equal results of divisions, a product. Where it is not met the program fails, or
    // does what it does in eager mode.
    if (!NarrowByQuotient(a, b, PlaceOf(n))) conditions_.insert({text::StrCat(Shown(a), " = ", Shown(b)), PlaceOf(n)});
    return true;
  }
  bool Equal(Sym a, Sym b) {
    for (size_t k = 0; k <= others_.size(); ++k)
      if (!ValueOf(a, k) || ValueOf(a, k) != ValueOf(b, k)) return false;
    return true;
  }
  // c * (x // y) = b becomes c * x = b * y; on either side.
  static bool ClearDivision(Sym& a, Sym& b) {
    for (bool swapped : {false, true}) {
      Sym& side = swapped ? b : a;
      Sym& other = swapped ? a : b;
      if (side.is_constant()) continue;
      std::vector<Sym> factors = {side};
      if (side.kind() == SymKind::kMul) factors.assign(side.operands().begin(), side.operands().end());
      for (Sym& f : factors) {
        if (f.is_constant() || f.kind() != SymKind::kFloorDiv || f.operands()[1].is_constant()) continue;
        other = other * f.operands()[1];
        f = f.operands()[0];
        Sym product = 1;
        for (Sym g : factors) product = product * g;
        side = product;
        return true;
      }
    }
    return false;
  }
  // d // c = k bounds d.
  bool NarrowByQuotient(Sym a, Sym b, const std::string& place) {
    if (a.is_constant()) std::swap(a, b);
    auto k = b.constant();
    if (!k || a.is_constant() || a.kind() != SymKind::kFloorDiv) return false;
    const Sym d = a.operands()[0];
    auto c = a.operands()[1].constant();
    if (!c || *c <= 0 || d.is_constant() || d.kind() != SymKind::kSymbol) return false;
    bounds_.push_back({*c * *k, d, place});
    bounds_.push_back({d, *c * *k + *c - 1, place});
    return true;
  }
  std::map<std::string, std::string> conditions_;  // with the node of each

  // low <= high, which holds for the example: a bound where it is one of a single dimension.
  void AtMost(Sym low, Sym high, const Node& n) {
    low = Canonical(low);
    high = Canonical(high);
    if (ir::ProvablyLessEqual(low, high)) return;
    auto a = ValueOf(low), b = ValueOf(high);
    if (!a || !b || *a > *b) return;
    bounds_.push_back({low, high, PlaceOf(n)});
  }

  // Whether another example has its extremum at the operand where the first has.
  bool SameOrder(const std::vector<Sym>& operands, size_t example, bool max) {
    const auto extremum = [&](size_t k) {
      size_t best = 0;
      for (size_t i = 1; i < operands.size(); ++i) {
        auto a = ValueOf(operands[i], k), b = ValueOf(operands[best], k);
        if (a && b && (max ? *a > *b : *a < *b)) best = i;
      }
      return best;
    };
    return extremum(0) == extremum(example);
  }
  // Puts in the case of the example for minima and maxima, and notes what that takes.
  Sym Decide(Sym s, const Node& n) {
    if (s.is_constant() || s.operands().empty()) return s;
    std::vector<Sym> operands;
    bool same = true;
    for (Sym o : s.operands()) {
      operands.push_back(s.is_integer_valued() ? Decide(o, n) : o);
      same &= operands.back() == o;
    }
    const bool max = s.kind() == SymKind::kMax;
    if ((max || s.kind() == SymKind::kMin) && s.is_integer_valued()) {
      Sym best = operands[0];
      auto value = ValueOf(best);
      for (size_t k = 1; k <= others_.size(); ++k)
        if (!SameOrder(operands, k, max)) return s;
      for (Sym o : operands) {
        auto v = ValueOf(o);
        if (!v || !value) return s;
        // Of equal ones an expression, which may turn out to be the other.
        if (max ? *v > *value : *v < *value) best = o, value = v;
        else if (*v == *value && best.is_constant()) best = o;
      }
      for (Sym o : operands)
        if (o != best) max ? AtMost(o, best, n) : AtMost(best, o, n);
      return best;
    }
    if (same) return s;
    auto made = p_.syms->Make(s.kind(), operands, s.name());
    return made.ok() ? *made : s;
  }

  // --- A round ----------------------------------------------------------------------------------------------------

  Type WithKnown(Type t) {
    for (Sym& s : t.sizes) s = Canonical(s);
    t.expr = Canonical(t.expr);
    return t;
  }
  const Type& Stated(const Value* v) const { return stated_[stated_at_.at(v)].second; }
  const Type& StatedIn(const Value* v, size_t example) const {
    return example == 0 ? Stated(v) : others_[example - 1]->values.at(v)->type();
  }

  void SetRootInputs() {
    for (Value* v : p_.graph->inputs()) v->mutable_type() = Stated(v);
    for (size_t k = 0; k < dimensions_; ++k)
      const_cast<Value*>(unknowns_[k].input)->mutable_type().sizes[unknowns_[k].axis] = Canonical(unknowns_[k].symbol);
  }

  void Round() {
    changed_ = false;
    open_views_.clear();
    unsolved_.clear();
    bounds_.clear();
    blames_.clear();
    conditions_.clear();
    merged_.clear();
    SetRootInputs();
    Infer(*p_.graph);
    // What is written back into an input or a weight has its sizes.
    for (size_t i = 0; i < p_.output_specs.size() && i < p_.graph->outputs.size(); ++i) MatchWritten(p_.output_specs[i], p_.graph->outputs[i].value());
  }
  void MatchWritten(const ir::OutputSpec& spec, const Value* v) {
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
        if (!Equate(v->sizes()[d], input->sizes()[d], *v->producer())) Blame(*v->producer(), "what is written back has other sizes");
    }
  }

  void Infer(ir::Graph& g) {
    for (Node* n : g) {
      if (!SetNumbers(*n)) LeaveOpen(*n);
      else if (IsHigherOrder(*n)) InferHigherOrder(*n);
      else InferNode(*n);
    }
  }
  static bool IsHigherOrder(const Node& n) {
    return std::any_of(n.args().begin(), n.args().end(), [](const ir::NamedArg& a) { return a.arg.is<ir::SubGraph>(); });
  }

  // Gives the holders of the node's numbers what is known of them. False: too little for this round.
  bool SetNumbers(Node& n) {
    if (literal_) return MatchView(n);
    auto it = numbers_.find(&n);
    if (it == numbers_.end()) return true;
    if (const Viewed viewed = ViewedSizes(n); !viewed.arg.empty()) {
      if (!ExplainViewOf(n, viewed, it->second)) return false;
    } else if (!ExpandSizesArg(n).empty()) {
      ExplainExpand(n, it->second);
    }
    for (int k : it->second)
      unknowns_[k].holder->mutable_type().expr = unknowns_[k].negative ? -Canonical(unknowns_[k].symbol) : Canonical(unknowns_[k].symbol);
    return true;
  }
  // Sizes of a view that are symbols are those of the dimensions that they take the place of.
  bool MatchView(Node& n) {
    const Viewed viewed = ViewedSizes(n);
    auto sizes = viewed.arg.empty() ? nullptr : n.Get(viewed.arg).get<ir::SymInts>();
    if (!sizes) return true;
    std::vector<int64_t> to;
    for (const ir::IntOrValue& i : *sizes) {
      auto v = ValueOf(ir::ExprOf(i));
      if (!v) return true;
      to.push_back(*v);
    }
    ir::Sizes from = viewed.from;
    for (Sym& s : from) s = Canonical(s);
    auto explained = ExplainView(from, to, [&](Sym s) { return ValueOf(s); }, [](Sym) { return std::vector<Sym>(); });
    for (size_t j = 0; explained && j < to.size(); ++j)
      if ((*sizes)[j].value && !explained->sizes[j].open && !OpenOnly(explained->sizes[j].expr))
        Equate(explained->sizes[j].expr, ir::ExprOf((*sizes)[j]), n);
    return true;
  }
  bool ExplainViewOf(Node& n, const Viewed& viewed, const std::vector<int>& unknown) {
    std::vector<int64_t> to;
    const ir::Arg& sizes = n.Get(viewed.arg);
    if (auto ints = sizes.get<ir::Ints>()) to.assign(ints->begin(), ints->end());
    else if (auto some = sizes.get<ir::SymInts>()) {
      for (const ir::IntOrValue& i : *some) {
        if (!i.value) to.push_back(i.constant);
        else if (auto v = ValueOf(ir::ExprOf(i))) to.push_back(*v);
        else return true;
      }
    }
    std::vector<int> numbers(to.size(), -1);  // by element
    for (int k : unknown) numbers[unknowns_[k].arg.element] = k;
    ir::Sizes from = viewed.from;
    for (Sym& s : from) s = Canonical(s);
    if (std::any_of(from.begin(), from.end(), [&](Sym s) { return OpenOnly(s); })) return false;
    std::optional<ViewSizes> explained;
    for (size_t k = 0; k <= others_.size(); ++k) {
      for (size_t j = 0; k > 0 && j < numbers.size(); ++j)
        if (numbers[j] >= 0) to[j] = ValueOf(unknowns_[numbers[j]], k);
      explained = ExplainView(from, to, [&](Sym s) { return ValueOf(s, k); }, [&](Sym s) {
        auto order = merged_.find(s);
        return order == merged_.end() ? std::vector<Sym>() : order->second;
      });
      // Where the first example leaves several ways, or misleads, another may tell.
      bool fits = explained.has_value() && (explained->open.empty() || k == others_.size());
      for (size_t j = 0; fits && j < numbers.size(); ++j)
        fits = numbers[j] < 0 || explained->sizes[j].open || Fits(explained->sizes[j].expr, unknowns_[numbers[j]]);
      if (fits) break;
      if (k == others_.size()) explained.reset();
    }
    // Numbers among the sizes that no equation has reached yet may do so in a later round.
    if (!explained || !explained->open.empty())
      for (Sym s : from)
        for (int k : UnknownsIn(s))
          if (!unknowns_[k].dimension()) return false;
    if (!explained) {
      if (!std::any_of(from.begin(), from.end(), [&](Sym s) { return IsOpen(s); }))
        Blame(n, text::StrCat("the elements of ", ShownSizes(from), " are regrouped to ", ShownInts(to)));
      return false;
    }
    for (const ViewSize& size : explained->sizes) {
      if (size.factors.size() < 2) continue;
      auto [it, fresh] = merged_.emplace(size.expr, size.factors);
      if (!fresh && it->second != size.factors) it->second.clear();  // two orders: neither tells
    }
    for (size_t j = 0; j < numbers.size(); ++j) {
      if (numbers[j] < 0 || explained->sizes[j].open) continue;
      Unknown& u = unknowns_[numbers[j]];
      const Sym e = explained->sizes[j].expr;
      if (u.is && (Canonical(u.symbol) == Canonical(e) || !others_.empty())) continue;
      if (!Mentions(e, u.symbol)) Assign(u, e);
    }
    for (const ViewSizes::Open& open : explained->open) {
      OpenView view{&n, {}, open.product};
      for (int j = open.first; j < open.first + open.count; ++j)
        if (numbers[j] >= 0) view.numbers.push_back(numbers[j]);
      // All but one known: that one is what the others leave.
      Sym rest = 1;
      int left = -1, unknown = 0;
      for (int k : view.numbers) {
        const Sym s = Canonical(unknowns_[k].symbol);
        if (s == unknowns_[k].symbol) left = k, ++unknown;
        else rest = rest * s;
      }
      if (unknown == 1) {
        const Sym e = ir::FloorDiv(open.product, rest);
        if (Fits(e, unknowns_[left]) && !Mentions(e, unknowns_[left].symbol)) Assign(unknowns_[left], e);
        else Blame(n, text::StrCat(Shown(open.product), " is divided"));
      } else if (unknown > 1) {
        open_views_.push_back(std::move(view));
      }
    }
    return true;
  }
  void ExplainExpand(Node& n, const std::vector<int>& numbers) {
    Value* x = FirstTensor(n);
    if (!x) return;
    for (int k : numbers) {
      Unknown& u = unknowns_[k];
      const int total = static_cast<int>(n.Get("size").is<ir::Ints>() ? n.Get("size").get<ir::Ints>()->size()
                                         : n.Get("size").is<ir::SymInts>() ? n.Get("size").get<ir::SymInts>()->size() : 0);
      const int d = u.arg.element - (total - x->rank());
      if (u.is || d < 0 || d >= x->rank() || x->sizes()[d].is(1)) continue;
      const Sym size = Canonical(x->sizes()[d]);
      if (!OpenOnly(size) && Fits(size, u) && !Mentions(size, u.symbol)) Assign(u, size);
    }
  }

  // A node that cannot have the sizes that were tried: what it takes stays as it was, unless other nodes tell more first.
  void Blame(Node& n, const std::string& why) {
    Blamed blamed{text::StrCat(PlaceOf(n), ": ", why), {}};
    for (const ir::NamedArg& a : n.args())
      a.arg.ForEachValue([&](Value* v) {
        for (Sym s : v->type().sizes) blamed.sizes.push_back(s);
        blamed.sizes.push_back(v->type().expr);
      });
    if (auto it = numbers_.find(&n); it != numbers_.end())
      for (int k : it->second)
        blamed.sizes.push_back(unknowns_[k].symbol);
    blames_.push_back(std::move(blamed));
  }
  struct Blamed {
    std::string why;
    std::vector<Sym> sizes;
  };
  std::vector<Blamed> blames_;  // of the round
  bool DecideBlames() {
    changed_ = false;
    for (const Blamed& b : blames_) {
      for (Sym s : b.sizes) PinAll(s, b.why);
      if (changed_ && round_ < kPatience) return true;  // each may settle others
    }
    return changed_;
  }
  // The results of a node whose sizes are not known in this round: nothing is learned from them.
  void LeaveOpen(const Node& n) {
    for (Value* v : n.outputs()) {
      if (!v) continue;
      v->mutable_type() = Stated(v);
      if (!v->type().is_tensor()) continue;
      v->mutable_type().strides_known = false;
      for (Sym& s : v->mutable_type().sizes) {
        auto size = s.constant();
        if (size && *size >= 2) s = OpenSize(*size);
      }
    }
  }
  // Of this value, and nothing else is known of it.
  Sym OpenSize(int64_t value) {
    const std::string name = text::StrCat("slipway_open_", value);
    open_sizes_[name] = value;
    return p_.syms->Symbol(name);
  }
  text::Map<int64_t> open_sizes_;
  bool OpenOnly(Sym s) {
    for (Sym x : s.Symbols())
      if (open_sizes_.contains(x.name())) return true;
    return false;
  }
  bool IsOpen(Sym s) {
    for (Sym x : s.Symbols())
      if (!by_name_.contains(x.name())) return true;
    return false;
  }
  bool TakesUnknowns(const Node& n) {
    bool any = false;
    for (const ir::NamedArg& a : n.args())
      a.arg.ForEachValue([&](Value* v) {
        for (Sym s : v->type().sizes) any |= !UnknownsIn(s).empty() || IsOpen(s);
        any |= !UnknownsIn(v->type().expr).empty();
      });
    return any;
  }

  void InferNode(Node& n) {
    if (!TakesUnknowns(n)) {
      for (Value* v : n.outputs())
        if (v) v->mutable_type() = Stated(v);
      return;
    }
    std::vector<ir::ShapeConstraint> constraints;
    auto types = ir::InferTypes(n, ir::FreshSymbols::kNone, &constraints);
    if (!types.ok()) {
      const bool no_rule = absl::IsUnimplemented(types.status());
      std::string_view why = text::FromAbsl(types.status().message());
      text::ConsumePrefix(&why, text::StrCat(n.op_name(), ": "));
      Blame(n, no_rule ? text::StrCat("how its sizes follow is not known (", why, ")") : std::string(why));
      return LeaveOpen(n);
    }
    for (const ir::ShapeConstraint& c : constraints) {
      const Sym e = c.condition;
      if (e.is_constant() || e.operands().size() != 2) continue;
      if (e.kind() == SymKind::kEq && !Equate(e.operands()[0], e.operands()[1], n)) {
        Blame(n, text::StrCat(Shown(e.operands()[0]), " and ", Shown(e.operands()[1]), " differ"));
        return LeaveOpen(n);
      }
      if (e.kind() == SymKind::kGe) AtMost(e.operands()[1], e.operands()[0], n);
    }
    size_t i = 0;
    for (Value* v : n.outputs()) {
      if (v) Take(n, *v, i < types->size() ? (*types)[i] : Stated(v));
      ++i;
    }
  }
  static bool HasUnknownCall(Sym s) {
    if (s.is_constant()) return false;
    if (s.kind() == SymKind::kCall && s.name() == "unknown") return true;
    for (Sym o : s.operands())
      if (HasUnknownCall(o)) return true;
    return false;
  }
  // The inferred type, where it has the example's sizes.
  void Take(Node& n, Value& v, const Type& inferred) {
    const Type& stated = Stated(&v);
    Type t = stated;
    t.strides_known = false;
    if (t.is_tensor() && inferred.is_tensor() && inferred.rank() == t.rank()) {
      for (int d = 0; d < t.rank(); ++d) {
        const Sym s = HasUnknownCall(inferred.sizes[d]) ? t.sizes[d] : Decide(Canonical(inferred.sizes[d]), n);
        for (size_t k = 0; k <= others_.size(); ++k)
          if (ValueOf(s, k) != ValueOf(StatedIn(&v, k).sizes[d], k)) {
            Blame(n, text::StrCat("its result has a size of ", StatedIn(&v, k).sizes[d].ToString(), ", not of ", Shown(s)));
            return LeaveOpen(n);
          }
        t.sizes[d] = s;
        // A window has room at least once.
        if (text::Contains(n.op().base, "conv") || text::Contains(n.op().base, "pool")) AtMost(1, s, n);
      }
    } else if (t.is_tensor()) {
      Blame(n, "its result has another rank");
      return LeaveOpen(n);
    } else if (t.is_sym() && inferred.is_sym() && !HasUnknownCall(inferred.expr)) {
      t.expr = Canonical(inferred.expr);
    }
    v.mutable_type() = std::move(t);
  }

  // --- Higher-order operators -------------------------------------------------------------------------------------

  Type OfArg(const ir::Arg& a, const Type& fallback) {
    Value* v = a.value();
    return v ? WithKnown(v->type()) : fallback;
  }
  // Sets an input of a body. A body that several nodes call must get the same sizes from each.
  void SetInput(Node& n, Value* input, Type t, bool drop_first = false) {
    const Type& stated = Stated(input);
    if (!stated.is_tensor() || !t.is_tensor()) {
      if (stated.is_sym() && t.is_sym()) input->mutable_type().expr = t.expr;
      return;
    }
    if (drop_first && !t.sizes.empty()) t.sizes.erase(t.sizes.begin());
    if (t.rank() != stated.rank()) return Blame(n, "a body takes another rank");
    Type to = stated;
    to.strides_known = false;
    to.sizes = t.sizes;
    if (seen_bodies_.contains(input->graph()))
      for (int d = 0; d < to.rank(); ++d)
        if (!Equate(input->sizes()[d], to.sizes[d], n)) Blame(n, "a body is called with other sizes");
    input->mutable_type() = std::move(to);
  }
  absl::flat_hash_set<const ir::Graph*> seen_bodies_;

  void InferHigherOrder(Node& n) {
    auto decoded = ir::DecodeHigherOrder(n);
    if (!decoded.ok()) {
      if (TakesUnknowns(n)) Blame(n, "how its sizes follow is not known");
      return LeaveOpen(n);
    }
    const ir::HigherOrder& h = *decoded;
    for (const ir::SubGraph& body : h.bodies) {
      size_t i = 0;
      auto give = [&](const std::vector<ir::Arg>& args, bool drop) {
        for (const ir::Arg& a : args) {
          if (i >= body->inputs().size()) return;
          Value* input = body->inputs()[i++];
          SetInput(n, input, OfArg(a, Stated(input)), drop);
        }
      };
      give(h.carried, false);
      const bool associative = h.kind == ir::HigherOrder::kAssociativeScan;
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
      Type t = Stated(v);
      const size_t body = h.kind == ir::HigherOrder::kWhileLoop ? 1 : 0;
      const Value* made = output(body, i);
      if (!made || !t.is_tensor() || !made->type().is_tensor()) {
        v->mutable_type() = t;
        continue;
      }
      ir::Sizes sizes = WithKnown(made->type()).sizes;
      const bool stacked = h.kind == ir::HigherOrder::kScan && i >= h.carried.size();
      if (associative(h)) sizes.clear();
      if (stacked || associative(h)) {
        const ir::Arg* along = h.scanned.empty() ? nullptr : &h.scanned[0];
        if (along && along->value() && along->value()->rank() > 0) {
          if (associative(h)) sizes = i < h.scanned.size() && h.scanned[i].value() ? WithKnown(h.scanned[i].value()->type()).sizes : ir::Sizes();
          else sizes.insert(sizes.begin(), Canonical(along->value()->sizes()[0]));
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
  static bool associative(const ir::HigherOrder& h) { return h.kind == ir::HigherOrder::kAssociativeScan; }
  void Same(Node& n, const ir::Sizes& a, const ir::Sizes& b) {
    for (size_t d = 0; d < a.size() && a.size() == b.size(); ++d)
      if (!Equate(a[d], b[d], n)) Blame(n, "its bodies give different sizes");
  }

  // --- Decisions --------------------------------------------------------------------------------------------------

  absl::Status SolveAll() {
    for (round_ = 0; round_ < kMaxRounds; ++round_) {
      seen_bodies_.clear();
      Round();
      if (!failure_.empty()) return absl::OkStatus();
      if (changed_ || DecideBlames() || DecideNumbers() || DecideViews() || DecideEquations() || DecideScalars() || DecideUnwritable(*p_.graph) || DecideFollowers()) continue;
      return absl::OkStatus();
    }
    return absl::UnimplementedError("the sizes of the program do not settle");
  }

  // Numbers that no equation reaches. First those that nothing but themselves explains.
  bool DecideNumbers() {
    changed_ = false;
    std::vector<int> doubtful;
    for (size_t k = dimensions_; k < unknowns_.size(); ++k) {
      Unknown& u = unknowns_[k];
      if (u.is || InOpenView(static_cast<int>(k))) continue;
      if (!Varies(u) && (!others_.empty() || Explanations(u).empty())) Assign(u, u.value);
      else doubtful.push_back(static_cast<int>(k));
    }
    if (changed_) return true;
    std::vector<std::pair<int, std::vector<Sym>>> open;
    for (int k : doubtful) {
      Unknown& u = unknowns_[k];
      std::vector<Sym> fits = Explanations(u);
      const std::string place = text::StrCat(PlaceOf(*u.arg.node), ": ", u.arg.arg, " ", u.value);
      if (Varies(u)) {
        if (fits.empty() && failure_.empty()) failure_ = text::StrCat(place, " here and ", u.more[0], " there: no expression of the inputs' sizes explains it");
        Assign(u, fits.empty() ? Sym(u.value) : fits[0]);
      } else if (fits.empty()) {
        Assign(u, u.value);
      } else if (IsWrittenOut(*u.arg.node, u.value)) {
        notes_.push_back(text::StrCat(place, " is taken as written in the source, not as ", Shown(fits[0])));
        Assign(u, u.value);
      } else if (fits.size() == 1 && u.value > 2 && IsPlainProduct(fits[0]) && IsRangeOfPositions(u)) {
        notes_.push_back(text::StrCat(place, " is taken as ", Shown(fits[0])));
        Assign(u, fits[0]);
      } else {
        open.emplace_back(k, std::move(fits));
      }
    }
    if (changed_) return true;
    for (const auto& [k, fits] : open) {
      Unknown& u = unknowns_[k];
      if (u.is) continue;
      const std::string place = text::StrCat(PlaceOf(*u.arg.node), ": ", u.arg.arg, " ", u.value);
      for (Sym s : fits)
        PinAll(s, text::StrCat(place, " may be a number or ", Shown(s)),
               "unify two static exports of different sizes (slipway shapes A --unify B), which tells");
      if (!u.is) Assign(u, u.value);
      if (round_ < kPatience) return true;  // each may settle others
    }
    return changed_;
  }
  static bool IsPlainProduct(Sym s) {
    const auto plain = [](Sym f) { return !f.is_constant() && f.kind() == SymKind::kSymbol; };
    return plain(s) || (!s.is_constant() && s.kind() == SymKind::kMul && std::all_of(s.operands().begin(), s.operands().end(), plain));
  }
  static bool IsRangeOfPositions(const Unknown& u) { return u.arg.node->op().base == "arange"; }
  bool InOpenView(int k) const {
    return std::any_of(open_views_.begin(), open_views_.end(),
                       [&](const OpenView& v) { return std::find(v.numbers.begin(), v.numbers.end(), k) != v.numbers.end(); });
  }

  // Expressions that the number may stand for: a dimension, one more or less, its double or half, a product of two.
  std::vector<Sym> Explanations(const Unknown& u) {
    std::vector<Sym> among;
    if (Varies(u)) {
      for (size_t k = 0; k < dimensions_; ++k)
        if (!unknowns_[k].is) among.push_back(unknowns_[k].symbol);
      return LinearFits(u, among);
    }
    if (u.arg.role == SizeRole::kBound || u.arg.role == SizeRole::kPad || u.arg.role == SizeRole::kSetting) {
      // Within a dimension of a fixed size of something computed, a bound is a number; of a table, it may be any size.
      const Value* x = FirstTensor(*u.arg.node);
      if (!x) return {};
      const Sym size = BoundedSize(u, *x);
      if (!UnknownsIn(size).empty()) {
        for (int k : UnknownsIn(size))
          if (unknowns_[k].dimension()) among.push_back(unknowns_[k].symbol);
        if (u.arg.role == SizeRole::kPad) return PadSuspicion(u, size, among);
        return Matching(u, among, size);
      }
      // (Parameters are split into matrices.)
      if (data_.contains(x) || text::Contains(u.arg.node->op().base, "split")) return {};
    }
    for (size_t k = 0; k < dimensions_; ++k)
      if (!unknowns_[k].is) among.push_back(unknowns_[k].symbol);
    return Matching(u, among, 0);
  }
  // What a number that differs between the programs may be: a product of sizes, or c * size + d, or one divided by a number.
  std::vector<Sym> LinearFits(const Unknown& u, const std::vector<Sym>& among) {
    std::vector<Sym> out;
    auto add = [&](Sym s) {
      if (Fits(s, u) && std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
    };
    std::vector<Sym> sizes = among;
    for (size_t i = 0; i < among.size(); ++i)
      for (size_t j = 0; j <= i && i < kMostPaired; ++j) sizes.push_back(among[i] * among[j]);
    for (Sym s : sizes) add(s);
    for (size_t k = 1; k <= others_.size() && out.empty(); ++k) {
      for (Sym s : sizes) {
        auto x = ValueOf(s), y = ValueOf(s, k);
        if (!x || !y || *x == *y) continue;
        constexpr int64_t kLarge = int64_t{1} << 40;
        if (std::abs(u.value) > kLarge || u.more[k - 1] > kLarge || u.more[k - 1] < -kLarge || *x > kLarge || *y > kLarge) continue;
        const int64_t rise = u.more[k - 1] - u.value, run = *y - *x;
        if (rise % run == 0) {
          add(s * (rise / run) + (u.value - rise / run * *x));
        } else if (run % rise == 0) {
          for (int64_t d = -3; d <= 3; ++d) {
            const Sym q = ir::FloorDiv(s + d, run / rise);
            if (auto v = ValueOf(q)) add(q + (u.value - *v));
          }
        }
      }
    }
    if (out.size() > 1) out.resize(1);
    return out;
  }
  // Pads that round a size up hide where it came from.
  std::vector<Sym> PadSuspicion(const Unknown& u, Sym size, std::vector<Sym> among) {
    auto value = ValueOf(size);
    if (!value || (*value + u.value) % 8 != 0 || *value % 8 == 0) return {};
    return among;
  }
  // The size of the dimension that a bound counts in.
  Sym BoundedSize(const Unknown& u, const Value& x) {
    const Node& n = *u.arg.node;
    if (u.arg.role == SizeRole::kPad) {
      const int d = x.rank() - 1 - u.arg.element / 2;
      return d >= 0 && d < x.rank() ? Canonical(x.sizes()[d]) : Sym(0);
    }
    const ir::Arg& dim = n.Get("dim");
    int64_t d = dim.get<int64_t>() ? *dim.get<int64_t>() : u.arg.role == SizeRole::kBound ? 0 : x.rank() - 1;
    if (d < 0) d += x.rank();
    return d >= 0 && d < x.rank() ? Canonical(x.sizes()[d]) : Sym(0);
  }
  std::vector<Sym> Matching(const Unknown& u, const std::vector<Sym>& among, Sym size) {
    std::vector<Sym> out;
    auto add = [&](Sym s) {
      if (Fits(s, u) && std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
    };
    if (!size.is_constant()) {
      add(size);
      add(size - 1);
      add(ir::FloorDiv(size, 2));
    }
    for (Sym s : among) add(s);
    if (!out.empty() || u.arg.role == SizeRole::kSetting) return out;
    const bool resampled = u.arg.arg == "output_size", repeated = u.arg.arg == "repeats" || u.arg.arg == "dims";
    for (size_t i = 0; i < among.size() && !repeated; ++i) {
      add(among[i] * 2);
      if (resampled) {
        add(ir::FloorDiv(among[i], 2));
        continue;
      }
      add(among[i] + 1);
      add(among[i] - 1);
      for (size_t j = 0; j < i && i < kMostPaired; ++j) add(among[i] * among[j]);
    }
    return out;
  }

  bool DecideViews() {
    changed_ = false;
    for (const OpenView& v : open_views_)
      PinAll(v.product, text::StrCat(PlaceOf(*v.node), ": ", Shown(v.product), " is divided in a way that the sizes leave open"),
             "unify two static exports of different sizes (slipway shapes A --unify B), which tells");
    return changed_;
  }
  bool DecideEquations() {
    changed_ = false;
    for (const Equation& e : unsolved_) {
      const std::string why = text::StrCat(PlaceOf(*e.node), ": ", Shown(e.a), " = ", Shown(e.b));
      PinAll(e.a, why);
      PinAll(e.b, why);
    }
    return changed_;
  }
  // Dimensions that were not asked for and need not be what others are.
  bool DecideFollowers() {
    changed_ = false;
    for (size_t k = 0; k < dimensions_; ++k)
      if (!unknowns_[k].is && unknowns_[k].ask.follows) Pin(static_cast<int>(k), "it was not asked for");
    return changed_;
  }
  // What a graph cannot compute from the sizes of its inputs.
  bool DecideUnwritable(const ir::Graph& g) {
    changed_ = false;
    absl::flat_hash_set<Sym> sizes;
    for (const Value* v : g.inputs()) {
      for (Sym s : v->type().sizes) sizes.insert(Canonical(s));
      if (v->type().kind == Type::kSymInt) sizes.insert(Canonical(v->type().expr));
    }
    for (const Node* n : g) {
      for (const ir::NamedArg& a : n->args())
        if (auto sub = a.arg.get<ir::SubGraph>())
          if (DecideUnwritable(**sub)) return true;
      auto it = numbers_.find(n);
      if (it == numbers_.end()) continue;
      for (int k : it->second) {
        const Sym e = Canonical(unknowns_[k].symbol);
        bool writable = SizeWriter::Writes(e);
        for (Sym s : e.Symbols()) writable &= sizes.contains(s);
        if (!writable) PinAll(e, text::StrCat(PlaceOf(*n), ": ", unknowns_[k].arg.arg, " is ", Shown(e), ", which nothing there tells"));
      }
    }
    return changed_;
  }
  // Numbers that tensors are computed with, as in x.sum(1) / x.shape[1].
  bool DecideScalars() {
    changed_ = false;
    if (literal_ || !others_.empty()) return false;  // what varies is an unknown, what does not is a number
    std::vector<ScalarDoubt> doubts;
    std::vector<Sym> sizes;
    for (size_t k = 0; k < dimensions_; ++k)
      if (!unknowns_[k].is) sizes.push_back(unknowns_[k].symbol);
    if (sizes.empty()) return false;
    FindScalarDoubts(p_, sizes, [&](Sym s) { return Find(s)->axis == 0; }, [&](Sym s) { return ValueOf(s); }, &doubts);
    // Numbers that the program gives back: sizes, where they are those of a dimension.
    for (const ir::Arg& a : p_.graph->outputs)
      if (auto number = a.get<int64_t>(); number && *number > 1)
        for (Sym s : sizes)
          if (ValueOf(s) == *number)
            PinAll(s, text::StrCat("the result ", *number, " may be ", Shown(s)), "unify two static exports of different sizes (slipway shapes A --unify B), which tells");
    for (const ScalarDoubt& d : doubts)
      PinAll(d.symbol, text::StrCat(PlaceOf(*d.node), ": the number ", d.number, " may be ", Shown(d.symbol)),
             "unify two static exports of different sizes (slipway shapes A --unify B), which tells");
    return changed_;
  }

  // --- The program ------------------------------------------------------------------------------------------------

  // Sizes that depend on data are at most what the example's sizes allow, by the export: not any more.
  std::vector<NamedSymbol> FreedDataSizes() {
    std::vector<NamedSymbol> out;
    std::set<std::string> seen;
    for (const auto& [v, stated] : stated_) {
      if (!v->producer() || !stated.is_tensor() || !TakesUnknowns(*v->producer())) continue;
      for (Sym s : stated.sizes) {
        if (s.is_constant() || s.kind() != SymKind::kSymbol || by_name_.contains(s.name()) || !seen.insert(std::string(s.name())).second) continue;
        const ir::SymRange r = p_.syms->range(s.name());
        if (r.max != std::numeric_limits<int64_t>::max())
          out.push_back({s, std::string(s.name()), {r.min, std::numeric_limits<int64_t>::max()}, 0});
      }
    }
    return out;
  }
  absl::Status Rewrite();
  absl::Status WriteNumbers(ir::Graph& g);
  void NarrowBy(Sym low, Sym high, const std::string& place);
  // Sums, products and divisions of sizes grow with them.
  static bool IsMonotone(Sym s) {
    if (s.is_constant() || s.kind() == SymKind::kSymbol) return true;
    if (s.kind() != SymKind::kAdd && s.kind() != SymKind::kMul && s.kind() != SymKind::kFloorDiv && s.kind() != SymKind::kPow) return false;
    return std::all_of(s.operands().begin(), s.operands().end(), IsMonotone);
  }
  absl::flat_hash_set<const ir::Graph*> written_;

  // --- Facts ------------------------------------------------------------------------------------------------------

  std::vector<std::string> needs_;  // of dimensions, as shown

  std::string Shown(Sym s) {
    // Before symbols are named, dimensions are called after their inputs.
    s = Canonical(s);
    std::string text = s.ToString();
    if (s.is_constant()) return text;
    std::vector<std::pair<std::string, std::string>> names;
    for (int k : UnknownsIn(s)) {
      const Unknown& u = unknowns_[k];
      names.emplace_back(u.symbol.name(), u.dimension() ? text::StrCat(u.input->name(), ".", u.axis) : std::to_string(u.value));
    }
    std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
    for (const auto& [from, to] : names)
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
    return text;
  }
  std::string ShownSizes(const ir::Sizes& sizes) {
    std::vector<std::string> parts;
    for (Sym s : sizes) parts.push_back(Shown(s));
    return text::StrCat("[", text::Join(parts, ", "), "]");
  }
  static std::string ShownInts(const std::vector<int64_t>& ints) { return text::StrCat("[", text::Join(ints, ", "), "]"); }

  absl::StatusOr<Ledger> Facts();
};

// --- Rewriting ----------------------------------------------------------------------------------------------------

void Solver::NarrowBy(Sym low, Sym high, const std::string& place) {
  low = Canonical(low);
  high = Canonical(high);
  std::vector<int> in = UnknownsIn(low);
  for (int k : UnknownsIn(high))
    if (std::find(in.begin(), in.end(), k) == in.end()) in.push_back(k);
  if (in.size() != 1 || IsOpen(low) || IsOpen(high) || !IsMonotone(low) || !IsMonotone(high)) return;
  Unknown& u = unknowns_[in[0]];
  const auto holds = [&](int64_t size) {
    const auto value = [&](std::string_view) { return std::optional<int64_t>(size); };
    auto a = ir::Evaluate(low, value), b = ir::Evaluate(high, value);
    return a && b && *a <= *b;
  };
  if (!holds(u.value)) return;
  // Sizes for which it holds are an interval around the example.
  int64_t least = u.range.min;
  if (least < u.value && !holds(least)) {
    for (int64_t fails = least, good = u.value; good - fails > 1;) {
      const int64_t middle = fails + (good - fails) / 2;
      holds(middle) ? good = middle : fails = middle;
      least = good;
    }
    u.range.min = least;
    u.bound_cause = text::StrCat(place, ": at least ", least);
  }
  int64_t most = std::min(u.range.max, int64_t{1} << 40);
  if (!holds(most)) {
    for (int64_t good = u.value, fails = most; fails - good > 1;) {
      const int64_t middle = good + (fails - good) / 2;
      holds(middle) ? good = middle : fails = middle;
      most = good;
    }
    if (most > u.value || holds(u.value)) u.range.max = std::max(most == std::min(u.range.max, int64_t{1} << 40) ? u.value : most, u.value);
    u.bound_cause = text::StrCat(place, ": at most ", u.range.max);
  }
}

absl::Status Solver::Rewrite() {
  for (const Bound& b : bounds_) NarrowBy(b.low, b.high, b.place);
  // Strides follow sizes where the layout allows; what is not known is not stated.
  for (auto& [v, stated] : stated_) {
    Type& t = v->mutable_type();
    for (Sym& s : t.sizes) s = Canonical(s);
    t.expr = Canonical(t.expr);
    if (!t.is_tensor() || t.sizes == stated.sizes) {
      if (t.is_tensor()) t.strides_known = stated.strides_known;
      continue;
    }
    auto strides = StridesLike(stated, t.sizes);
    t.strides_known = strides.has_value();
    t.strides = strides ? *std::move(strides) : ir::Sizes();
  }
  RETURN_IF_ERROR(WriteNumbers(*p_.graph));
  std::vector<NamedSymbol> named = FreedDataSizes();
  std::set<std::string> names;
  const auto taken = [&](const std::string& name) { return names.contains(name) || p_.syms->FindSymbol(name).has_value(); };
  for (size_t k = 0; k < dimensions_; ++k) {
    Unknown& u = unknowns_[k];
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
    auto it = numbers_.find(n);
    if (it == numbers_.end()) continue;
    for (int k : it->second) {
      const Unknown& u = unknowns_[k];
      auto value = writer.Write(u.negative ? -Canonical(u.symbol) : Canonical(u.symbol));
      if (!value)
        return absl::UnimplementedError(text::StrCat(PlaceOf(*n), ": ", u.arg.arg, " is ", Shown(u.symbol), ", which nothing here computes"));
      SetSizeArg(u.arg, *value);
    }
  }
  return absl::OkStatus();
}

// --- Facts --------------------------------------------------------------------------------------------------------

absl::StatusOr<Ledger> Solver::Facts() {
  Ledger out = LedgerOf(p_, /*explain=*/false);
  out.notes = notes_;
  out.conditions.assign(conditions_.begin(), conditions_.end());
  std::map<std::pair<std::string, int>, size_t> of;
  for (size_t k = 0; k < needs_.size(); ++k) of[{unknowns_[k].input->name(), unknowns_[k].axis}] = k;
  for (DimFact& f : out.dims) {
    f.needs_range = f.range;
    f.needs = f.size.ToString();
    if (auto it = of.find({f.input, f.axis}); it != of.end()) {
      const Unknown& u = unknowns_[it->second];
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

std::optional<DimAsk> AskForAll(const Value&, int) { return DimAsk(); }

absl::StatusOr<Ledger> FreeDims(ir::Program& p, const AskFor& ask, Numbers numbers) {
  return Solver(p, ask, {}, numbers == Numbers::kLiteral).Run();
}

absl::StatusOr<Ledger> Unify(ir::Program& p, absl::Span<const ir::Program* const> others) {
  std::vector<Alignment> alignments;
  for (const ir::Program* other : others) {
    ASSIGN_OR_RETURN(Alignment a, Align(p, *other));
    alignments.push_back(std::move(a));
  }
  std::vector<const Alignment*> all;
  for (const Alignment& a : alignments) all.push_back(&a);
  return Solver(p, AskForAll, all).Run();
}

}  // namespace slipway::shapes
