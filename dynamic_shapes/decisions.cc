// Each decision may settle others by equations: while there is patience, one is made at a time and a round follows.
#include "dynamic_shapes/decisions.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "dynamic_shapes/evidence.h"
#include "dynamic_shapes/rewrite.h"
#include "dynamic_shapes/size_args.h"
#include "ir/ops/op_table.h"

namespace slipway::dynamic_shapes {

using ir::Node;
using ir::NumberRole;
using ir::Sym;
using ir::SymKind;
using ir::Type;
using ir::Value;

namespace {

constexpr int kPatience = 60;       // rounds; later ones decide all that is open at once
constexpr size_t kMostPaired = 32;  // dimensions whose products are tried
// Smaller numbers are met everywhere: half a size is all that they are suspected to be.
constexpr int64_t kLeastMade = 5;
// Smaller pads are those of small windows, unless the dimension has that size.
constexpr int64_t kLeastPad = 4;
constexpr char kUnify[] = "unify two static exports of different sizes (slipway shapes A --unify B), which tells";

bool IsPlainProduct(Sym s) {
  const auto plain = [](Sym f) { return !f.is_constant() && f.kind() == SymKind::kSymbol; };
  return plain(s) || (!s.is_constant() && s.kind() == SymKind::kMul &&
                      std::all_of(s.operands().begin(), s.operands().end(), plain));
}

bool IsRangeOfPositions(const Unknown& u) { return u.arg.node->op().base == "arange"; }

}  // namespace

bool Decisions::Decide(int round) {
  return DecideConflicts(round) || DecideNumbers(round) || DecideViews() || DecideEquations() || DecideScalars() ||
         DecideUnwritable(*p_.graph) || DecideFollowers() || DecideByTrial();
}

bool Decisions::DecideConflicts(int round) {
  const int before = known_.learned();
  for (const Propagation::Conflict& b : flow_.conflicts()) {
    for (Sym s : b.sizes) known_.PinAll(s, b.why);
    if (known_.learned() != before && round < kPatience) return true;  // each may settle others
  }
  return known_.learned() != before;
}

// Numbers that no equation reaches. First those that nothing but themselves explains.
bool Decisions::DecideNumbers(int round) {
  const int before = known_.learned();
  std::vector<int> doubtful;
  for (size_t k = known_.dimensions(); k < known_.size(); ++k) {
    Unknown& u = known_[k];
    if (u.is || InUnresolvedView(static_cast<int>(k))) continue;
    // (What is written may be a part of a sum; a product may be written beside it.)
    const bool written = EvidenceOf(*u.arg.node, u.value) == Evidence::kWritten;
    if (known_.examples() == 1 && known_.InUnresolvedEquation(static_cast<int>(k), written)) continue;
    if (!u.varies() && (known_.examples() > 1 || (Candidates(u).empty() && Suspects(u).empty())))
      known_.Assign(u, u.value);
    else
      doubtful.push_back(static_cast<int>(k));
  }
  if (known_.learned() != before) return true;
  std::vector<std::pair<int, std::vector<Sym>>> open;
  for (int k : doubtful) {
    Unknown& u = known_[k];
    std::vector<Sym> fits = Candidates(u);
    const std::string place = text::StrCat(PlaceOf(*u.arg.node), ": ", u.arg.arg, " ", u.value);
    if (u.varies()) {
      if (fits.empty())
        known_.Fail(
            text::StrCat(place, " here and ", u.more[0], " there: no expression of the inputs' sizes explains it"));
      if (fits.size() > 1 && !MakeOne(fits, place))
        known_.Fail(text::StrCat(place, " here and ", u.more[0], " there may be ", known_.Shown(fits[0]), " or ",
                                 known_.Shown(fits[1]), ": one more export whose sizes do not change together tells"));
      known_.Assign(u, fits.empty() ? Sym(u.value) : fits[0]);
    } else if (fits.empty()) {
      for (Sym s : Suspects(u))
        known_.PinAll(s, text::StrCat(place, " may be a number or made of ", known_.Shown(s)), kUnify);
      known_.Assign(u, u.value);
    } else if (EvidenceOf(*u.arg.node, u.value) == Evidence::kWritten) {
      notes_.push_back(text::StrCat(place, " is taken as written in the source, not as ", known_.Shown(fits[0])));
      known_.Assign(u, u.value);
    } else if (OfStep(u, &fits); fits.size() == 1 && u.value > 2 && IsPlainProduct(fits[0]) && IsRangeOfPositions(u) &&
                                 HasLine(*u.arg.node)) {
      notes_.push_back(text::StrCat(place, " is taken as ", known_.Shown(fits[0])));
      known_.Assign(u, fits[0]);
    } else {
      open.emplace_back(k, std::move(fits));
    }
  }
  if (known_.learned() != before) return true;
  for (const auto& [k, fits] : open) {
    Unknown& u = known_[k];
    if (u.is) continue;
    const std::string place = text::StrCat(PlaceOf(*u.arg.node), ": ", u.arg.arg, " ", u.value);
    for (Sym s : fits) known_.PinAll(s, text::StrCat(place, " may be a number or ", known_.Shown(s)), kUnify);
    if (!u.is) known_.Assign(u, u.value);
    if (round < kPatience) return true;  // each may settle others
  }
  return known_.learned() != before;
}

// The end of a range whose step is a size counts in steps: of several explanations the one is taken that is the step
// times a size.
void Decisions::OfStep(const Unknown& u, std::vector<Sym>* fits) {
  const Node& n = *u.arg.node;
  const Value* step = fits->size() > 1 && IsRangeOfPositions(u) && u.arg.arg == "end" && n.op().ArgIndex("step") >= 0
                          ? n.Get("step").value()
                          : nullptr;
  const Sym by = step ? known_.Canonical(step->type().expr) : Sym(1);
  if (by.is_constant() || by.kind() != SymKind::kSymbol) return;
  std::vector<Sym> counted;
  for (Sym s : *fits)
    if (IsPlainProduct(s) && s.kind() == SymKind::kMul && Mentions(s, by)) counted.push_back(s);
  if (counted.size() == 1) *fits = counted;
}

// Dimensions that a number may all be have to be of one size. False where it may be other expressions.
bool Decisions::MakeOne(const std::vector<Sym>& fits, const std::string& place) {
  for (Sym s : fits)
    if (s.is_constant() || s.kind() != SymKind::kSymbol || !known_.Find(s)) return false;
  for (size_t i = 1; i < fits.size(); ++i) {
    Unknown& u = *known_.Find(fits[i]);
    u.cause = text::StrCat(place, " may be either: ", known_.Shown(fits[0]), " = ", known_.Shown(fits[i]));
    known_.Assign(u, fits[0]);
  }
  return true;
}

bool Decisions::InUnresolvedView(int k) const {
  return std::any_of(flow_.unresolved_views().begin(), flow_.unresolved_views().end(),
                     [&](const Propagation::UnresolvedView& v) {
                       return std::find(v.numbers.begin(), v.numbers.end(), k) != v.numbers.end();
                     });
}

std::vector<Sym> Decisions::FreeDimensions() {
  std::vector<Sym> out;
  for (size_t k = 0; k < known_.dimensions(); ++k)
    if (!known_[k].is) out.push_back(known_[k].symbol);
  return out;
}

// Expressions that the number may stand for: a dimension, one more or less, its double or half, a product of two.
std::vector<Sym> Decisions::Candidates(const Unknown& u) {
  if (u.varies()) return LinearFits(u, FreeDimensions());
  const NumberRole role = u.arg.role;
  const Value* x = FirstTensor(*u.arg.node);
  if (!x || (role != NumberRole::kBound && role != NumberRole::kPad && role != NumberRole::kSetting &&
             role != NumberRole::kDiagonal))
    return Matching(u, FreeDimensions(), 0);
  const Sym size = BoundedSize(u, *x);
  std::vector<Sym> among;
  for (int k : known_.In(size))
    if (known_[k].dimension()) among.push_back(known_[k].symbol);
  const Evidence evidence = EvidenceOf(*u.arg.node, u.value);
  // What a line without a name of a size computes there is a setting of the layer; small ones are met everywhere.
  const bool may_be_any = evidence >= Evidence::kUnseen || (evidence == Evidence::kPossible && u.value > 2);
  if (role == NumberRole::kPad) {
    std::vector<Sym> out = PadSuspicion(u, size, among);
    if (may_be_any && out.empty()) out = Matching(u, u.value < kLeastPad ? among : FreeDimensions(), size);
    return out;
  }
  if (!known_.In(size).empty()) {
    std::vector<Sym> out = Matching(u, among, size);
    if (out.empty() && may_be_any) out = Exactly(u, FreeDimensions());
    return out;
  }
  // Within a dimension of a fixed size of something computed, a bound is what that size makes, or any size; of a table,
  // it is any size. (Parameters are split into matrices.)
  if (text::Contains(u.arg.node->op().base, "split")) return {};
  if (!flow_.IsData(x)) return Matching(u, FreeDimensions(), 0);
  const auto fixed = known_.ValueOf(size);
  const bool of_fixed = fixed && HasLine(*u.arg.node) &&
                        (u.value == *fixed || u.value == *fixed - 1 || u.value * 2 == *fixed ||
                         (u.value * 4 == *fixed && evidence != Evidence::kLikely));
  return may_be_any && !of_fixed ? Exactly(u, FreeDimensions()) : std::vector<Sym>();
}

// Dimensions that a number may be made of which is none of the expressions above: where the line asks for a size, or
// there is no line.
std::vector<Sym> Decisions::Suspects(const Unknown& u) {
  const Evidence evidence = EvidenceOf(*u.arg.node, u.value);
  const bool diagonal = u.arg.role == NumberRole::kDiagonal;
  if (u.value < (diagonal ? 2 : 3) || u.varies() || u.arg.role == NumberRole::kRepeat || evidence < Evidence::kUnseen)
    return {};
  const Value* x = FirstTensor(*u.arg.node);
  const bool within = u.arg.role == NumberRole::kBound || u.arg.role == NumberRole::kSetting;
  if (x && within && HasLine(*u.arg.node)) {
    const auto size = known_.Canonical(BoundedSize(u, *x)).constant();
    if (size && (u.value * 2 == *size || u.value == *size || u.value * 4 == *size)) return {};
  }
  std::vector<Sym> out;
  const std::vector<Sym> free = FreeDimensions();
  const double v = static_cast<double>(u.value);
  for (Sym s : free)
    if (const auto k = known_.ValueOf(s); k && *k > 2) {
      const bool scaled = u.value % *k == 0 || *k % u.value == 0;
      if (u.arg.role == NumberRole::kResample
              ? scaled
              : (u.value >= kLeastMade || diagonal || u.value * 2 == *k) && IsDerivedFrom(v, static_cast<double>(*k)))
        out.push_back(s);
    }
  if (u.arg.role == NumberRole::kResample || (u.value < kLeastMade && !diagonal)) return out;
  for (size_t i = 0; out.empty() && i < free.size() && i < kMostPaired; ++i)
    for (size_t j = 0; j < i; ++j) {
      const auto k = known_.ValueOf(free[i]), m = known_.ValueOf(free[j]);
      if (k && m && IsDerivedFrom(v, static_cast<double>(*k), static_cast<double>(*m)))
        out.push_back(free[i]), out.push_back(free[j]);
    }
  return out;
}

// The dimensions that a number may stand for or be made of stay what they were.
void Decisions::PinSourcesOf(const Unknown& u) {
  if (u.varies() || EvidenceOf(*u.arg.node, u.value) == Evidence::kWritten) return;
  std::vector<Sym> may = Candidates(u);
  if (may.empty()) may = Suspects(u);
  const std::string place = text::StrCat(PlaceOf(*u.arg.node), ": ", u.arg.arg, " ", u.value);
  for (Sym s : may) known_.PinAll(s, text::StrCat(place, " may be a number or made of ", known_.Shown(s)), kUnify);
}

// The dimensions that the number is.
std::vector<Sym> Decisions::Exactly(const Unknown& u, const std::vector<Sym>& among) {
  std::vector<Sym> out;
  for (Sym s : among)
    if (known_.Fits(s, u)) out.push_back(s);
  return out;
}

// What a number that differs between the programs may be: a size, a product of two, or c * size + d, or one divided by
// a number. Of all that give its values the plainest; several where none is plainer than the others.
std::vector<Sym> Decisions::LinearFits(const Unknown& u, const std::vector<Sym>& among) {
  std::vector<Sym> out;
  int least = std::numeric_limits<int>::max();
  const auto add = [&](Sym s, int effort) {
    if (effort > least || !known_.Fits(s, u)) return;
    if (effort < least) out.clear();
    least = effort;
    if (std::none_of(out.begin(), out.end(), [&](Sym t) { return t == s || ir::ProvablyEqual(s, t); }))
      out.push_back(s);
  };
  const auto offset = [](int64_t d) { return d == 0 ? 0 : std::abs(d) == 1 ? 1 : 2; };
  std::vector<std::pair<Sym, int>> sizes;
  for (Sym s : among) sizes.emplace_back(s, 0);
  for (size_t i = 0; i < among.size(); ++i)
    for (size_t j = 0; j <= i && i < kMostPaired; ++j) sizes.emplace_back(among[i] * among[j], 1);
  for (const auto& [s, effort] : sizes) add(s, effort);
  for (size_t k = 1; k < known_.examples(); ++k) {
    for (const auto& [s, effort] : sizes) {
      auto x = known_.ValueOf(s), y = known_.ValueOf(s, k);
      if (!x || !y || *x == *y) continue;
      constexpr int64_t kLarge = int64_t{1} << 30;
      if (std::abs(u.value) > kLarge || u.more[k - 1] > kLarge || u.more[k - 1] < -kLarge || *x > kLarge || *y > kLarge)
        continue;
      const int64_t rise = u.more[k - 1] - u.value, run = *y - *x;
      if (rise == 0) continue;
      if (rise % run == 0) {
        const int64_t c = rise / run, d = u.value - c * *x;
        add(s * c + d, effort + (c == 1 ? 0 : 1) + offset(d));
      }
      // The rise of what is divided may be a little more or less.
      for (int64_t c : {run / rise, run / rise + 1, run / rise - 1, int64_t{2}}) {
        if (c < 2) continue;
        for (int64_t d = -3; d <= 3; ++d) {
          const Sym q = ir::FloorDiv(s + d, c);
          if (auto v = known_.ValueOf(q)) add(q + (u.value - *v), effort + 1 + (d == 0 ? 0 : 1) + offset(u.value - *v));
        }
      }
    }
  }
  return out;
}

// Pads that round a size up hide where it came from.
std::vector<Sym> Decisions::PadSuspicion(const Unknown& u, Sym size, std::vector<Sym> among) {
  auto value = known_.ValueOf(size);
  if (!value || (*value + u.value) % 8 != 0 || *value % 8 == 0) return {};
  return among;
}

// The size of the dimension that a bound counts in.
Sym Decisions::BoundedSize(const Unknown& u, const Value& x) {
  const Node& n = *u.arg.node;
  if (u.arg.role == NumberRole::kPad) {
    const int d = x.rank() - 1 - u.arg.element / 2;
    return d >= 0 && d < x.rank() ? known_.Canonical(x.sizes()[d]) : Sym(0);
  }
  const ir::Arg& dim = n.Get("dim");
  int64_t d = dim.get<int64_t>() ? *dim.get<int64_t>() : u.arg.role == NumberRole::kBound ? 0 : x.rank() - 1;
  if (d < 0) d += x.rank();
  return d >= 0 && d < x.rank() ? known_.Canonical(x.sizes()[d]) : Sym(0);
}

std::vector<Sym> Decisions::Matching(const Unknown& u, const std::vector<Sym>& among, Sym size) {
  std::vector<Sym> out;
  auto add = [&](Sym s) {
    if (known_.Fits(s, u) && std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
  };
  if (!size.is_constant()) {
    add(size);
    add(size - 1);
    add(ir::FloorDiv(size, 2));
  }
  for (Sym s : among) add(s);
  if (!out.empty() || u.arg.role == NumberRole::kSetting || u.arg.role == NumberRole::kDiagonal) return out;
  const bool resampled = u.arg.role == NumberRole::kResample, repeated = u.arg.role == NumberRole::kRepeat;
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

bool Decisions::DecideViews() {
  const int before = known_.learned();
  for (const Propagation::UnresolvedView& v : flow_.unresolved_views())
    known_.PinAll(
        v.product,
        text::StrCat(PlaceOf(*v.node), ": ", known_.Shown(v.product), " is divided in a way that the sizes leave open"),
        kUnify);
  return known_.learned() != before;
}

bool Decisions::DecideEquations() {
  const int before = known_.learned();
  for (const Unknowns::Equation& e : known_.unsolved()) {
    const std::string why = text::StrCat(PlaceOf(*e.node), ": ", known_.Shown(e.a), " = ", known_.Shown(e.b));
    for (Sym side : {e.a, e.b})
      for (int k : known_.In(known_.Canonical(side)))
        if (!known_[k].dimension()) PinSourcesOf(known_[k]);
    known_.PinAll(e.a, why);
    known_.PinAll(e.b, why);
  }
  return known_.learned() != before;
}

// Dimensions that were not asked for and need not be what others are.
bool Decisions::DecideFollowers() {
  const int before = known_.learned();
  for (size_t k = 0; k < known_.dimensions(); ++k)
    if (!known_[k].is && known_[k].ask.follows) known_.Pin(static_cast<int>(k), "it was not asked for");
  return known_.learned() != before;
}

// When all is decided: the program at other sizes. What does not run there, or gives other sizes than were found, stays
// as it was.
bool Decisions::DecideByTrial() {
  if (flow_.literal()) return false;  // torch found its sizes
  const int before = known_.learned();
  std::vector<int> stuck;
  for (const Unknowns::Trial& trial : known_.Trials(&stuck)) {
    auto conflict = flow_.Try(trial);
    if (!conflict) continue;
    for (Sym s : conflict->sizes) known_.PinAll(s, conflict->why);
    return known_.learned() != before;
  }
  for (int k : stuck) {
    std::string why = "no other size was found that meets what must hold";
    for (const auto& [condition, node] : known_.conditions())
      if (text::Contains(condition, known_.Shown(known_[k].symbol))) why = text::StrCat(node, ": ", condition);
    known_.Pin(k, why);
  }
  return known_.learned() != before;
}

// What a graph cannot compute from the sizes of its inputs.
bool Decisions::DecideUnwritable(const ir::Graph& g) {
  const int before = known_.learned();
  absl::flat_hash_set<Sym> sizes;
  for (const Value* v : g.inputs()) {
    for (Sym s : v->type().sizes) sizes.insert(known_.Canonical(s));
    if (v->type().kind == Type::kSymInt) sizes.insert(known_.Canonical(v->type().expr));
  }
  for (const Node* n : g) {
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>())
        if (DecideUnwritable(**sub)) return true;
    for (int k : flow_.NumbersOf(*n)) {
      const Sym e = known_.Canonical(known_[k].symbol);
      bool writable = SizeWriter::Writes(e);
      for (Sym s : e.Symbols()) writable &= sizes.contains(s);
      if (!writable)
        known_.PinAll(e, text::StrCat(PlaceOf(*n), ": ", known_[k].arg.arg, " is ", known_.Shown(e),
                                      ", which nothing there tells"));
    }
  }
  return known_.learned() != before;
}

// Numbers that tensors are computed with, as in x.sum(1) / x.shape[1].
bool Decisions::DecideScalars() {
  if (flow_.literal() || known_.examples() > 1) return false;  // what varies is an unknown, what does not is a number
  const int before = known_.learned();
  const std::vector<Sym> sizes = FreeDimensions();
  if (sizes.empty()) return false;
  std::vector<AmbiguousScalar> ambiguous;
  FindAmbiguousScalars(
      p_, sizes, [&](Sym s) { return known_.Find(s)->axis == 0; }, [&](Sym s) { return known_.ValueOf(s); },
      &ambiguous);
  // Numbers that the program gives back: sizes, where they are those of a dimension.
  for (const ir::Arg& a : p_.graph->outputs)
    if (auto number = a.get<int64_t>(); number && *number > 1)
      for (Sym s : sizes)
        if (known_.ValueOf(s) == *number)
          known_.PinAll(s, text::StrCat("the result ", *number, " may be ", known_.Shown(s)), kUnify);
  for (const AmbiguousScalar& d : ambiguous)
    known_.PinAll(d.symbol,
                  text::StrCat(PlaceOf(*d.node), ": the number ", d.number, " may be ", known_.Shown(d.symbol)),
                  kUnify);
  return known_.learned() != before;
}

}  // namespace slipway::dynamic_shapes
