// Each decision may settle others by equations: while there is patience, one is made at a time and a round follows.
#include "shapes/decisions.h"

#include <algorithm>
#include <cstdlib>

#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "ir/ops/op_table.h"
#include "shapes/evidence.h"
#include "shapes/rewrite.h"
#include "shapes/size_args.h"

namespace slipway::shapes {

using ir::Node;
using ir::Sym;
using ir::SymKind;
using ir::Type;
using ir::Value;

namespace {

constexpr int kPatience = 60;       // rounds; later ones decide all that is open at once
constexpr size_t kMostPaired = 32;  // dimensions whose products are tried
constexpr char kUnify[] = "unify two static exports of different sizes (slipway shapes A --unify B), which tells";

bool IsPlainProduct(Sym s) {
  const auto plain = [](Sym f) { return !f.is_constant() && f.kind() == SymKind::kSymbol; };
  return plain(s) || (!s.is_constant() && s.kind() == SymKind::kMul && std::all_of(s.operands().begin(), s.operands().end(), plain));
}

bool IsRangeOfPositions(const Unknown& u) { return u.arg.node->op().base == "arange"; }

}  // namespace

bool Decisions::Decide(int round) {
  return DecideBlames(round) || DecideNumbers(round) || DecideViews() || DecideEquations() || DecideScalars() ||
         DecideUnwritable(*p_.graph) || DecideFollowers();
}

bool Decisions::DecideBlames(int round) {
  const int before = known_.learned();
  for (const Propagation::Blamed& b : flow_.blames()) {
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
    if (u.is || InOpenView(static_cast<int>(k))) continue;
    if (!u.varies() && (known_.examples() > 1 || Explanations(u).empty())) known_.Assign(u, u.value);
    else doubtful.push_back(static_cast<int>(k));
  }
  if (known_.learned() != before) return true;
  std::vector<std::pair<int, std::vector<Sym>>> open;
  for (int k : doubtful) {
    Unknown& u = known_[k];
    std::vector<Sym> fits = Explanations(u);
    const std::string place = text::StrCat(PlaceOf(*u.arg.node), ": ", u.arg.arg, " ", u.value);
    if (u.varies()) {
      if (fits.empty()) known_.Fail(text::StrCat(place, " here and ", u.more[0], " there: no expression of the inputs' sizes explains it"));
      known_.Assign(u, fits.empty() ? Sym(u.value) : fits[0]);
    } else if (fits.empty()) {
      known_.Assign(u, u.value);
    } else if (IsWrittenOut(*u.arg.node, u.value)) {
      notes_.push_back(text::StrCat(place, " is taken as written in the source, not as ", known_.Shown(fits[0])));
      known_.Assign(u, u.value);
    } else if (fits.size() == 1 && u.value > 2 && IsPlainProduct(fits[0]) && IsRangeOfPositions(u)) {
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
    for (Sym s : fits)
      known_.PinAll(s, text::StrCat(place, " may be a number or ", known_.Shown(s)), kUnify);
    if (!u.is) known_.Assign(u, u.value);
    if (round < kPatience) return true;  // each may settle others
  }
  return known_.learned() != before;
}

bool Decisions::InOpenView(int k) const {
  return std::any_of(flow_.open_views().begin(), flow_.open_views().end(),
                     [&](const Propagation::OpenView& v) { return std::find(v.numbers.begin(), v.numbers.end(), k) != v.numbers.end(); });
}

std::vector<Sym> Decisions::FreeDimensions() {
  std::vector<Sym> out;
  for (size_t k = 0; k < known_.dimensions(); ++k)
    if (!known_[k].is) out.push_back(known_[k].symbol);
  return out;
}

// Expressions that the number may stand for: a dimension, one more or less, its double or half, a product of two.
std::vector<Sym> Decisions::Explanations(const Unknown& u) {
  if (u.varies()) return LinearFits(u, FreeDimensions());
  if (u.arg.role == SizeRole::kBound || u.arg.role == SizeRole::kPad || u.arg.role == SizeRole::kSetting) {
    // Within a dimension of a fixed size of something computed, a bound is a number; of a table, it may be any size.
    const Value* x = FirstTensor(*u.arg.node);
    if (!x) return {};
    const Sym size = BoundedSize(u, *x);
    if (!known_.In(size).empty()) {
      std::vector<Sym> among;
      for (int k : known_.In(size))
        if (known_[k].dimension()) among.push_back(known_[k].symbol);
      if (u.arg.role == SizeRole::kPad) return PadSuspicion(u, size, among);
      return Matching(u, among, size);
    }
    // (Parameters are split into matrices.)
    if (flow_.IsData(x) || text::Contains(u.arg.node->op().base, "split")) return {};
  }
  return Matching(u, FreeDimensions(), 0);
}

// What a number that differs between the programs may be: a product of sizes, or c * size + d, or one divided by a number.
std::vector<Sym> Decisions::LinearFits(const Unknown& u, const std::vector<Sym>& among) {
  std::vector<Sym> out;
  auto add = [&](Sym s) {
    if (known_.Fits(s, u) && std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
  };
  std::vector<Sym> sizes = among;
  for (size_t i = 0; i < among.size(); ++i)
    for (size_t j = 0; j <= i && i < kMostPaired; ++j) sizes.push_back(among[i] * among[j]);
  for (Sym s : sizes) add(s);
  for (size_t k = 1; k < known_.examples() && out.empty(); ++k) {
    for (Sym s : sizes) {
      auto x = known_.ValueOf(s), y = known_.ValueOf(s, k);
      if (!x || !y || *x == *y) continue;
      constexpr int64_t kLarge = int64_t{1} << 40;
      if (std::abs(u.value) > kLarge || u.more[k - 1] > kLarge || u.more[k - 1] < -kLarge || *x > kLarge || *y > kLarge) continue;
      const int64_t rise = u.more[k - 1] - u.value, run = *y - *x;
      if (rise % run == 0) {
        add(s * (rise / run) + (u.value - rise / run * *x));
      } else if (run % rise == 0) {
        for (int64_t d = -3; d <= 3; ++d) {
          const Sym q = ir::FloorDiv(s + d, run / rise);
          if (auto v = known_.ValueOf(q)) add(q + (u.value - *v));
        }
      }
    }
  }
  if (out.size() > 1) out.resize(1);
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
  if (u.arg.role == SizeRole::kPad) {
    const int d = x.rank() - 1 - u.arg.element / 2;
    return d >= 0 && d < x.rank() ? known_.Canonical(x.sizes()[d]) : Sym(0);
  }
  const ir::Arg& dim = n.Get("dim");
  int64_t d = dim.get<int64_t>() ? *dim.get<int64_t>() : u.arg.role == SizeRole::kBound ? 0 : x.rank() - 1;
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

bool Decisions::DecideViews() {
  const int before = known_.learned();
  for (const Propagation::OpenView& v : flow_.open_views())
    known_.PinAll(v.product, text::StrCat(PlaceOf(*v.node), ": ", known_.Shown(v.product), " is divided in a way that the sizes leave open"), kUnify);
  return known_.learned() != before;
}

bool Decisions::DecideEquations() {
  const int before = known_.learned();
  for (const Unknowns::Equation& e : known_.unsolved()) {
    const std::string why = text::StrCat(PlaceOf(*e.node), ": ", known_.Shown(e.a), " = ", known_.Shown(e.b));
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
      if (!writable) known_.PinAll(e, text::StrCat(PlaceOf(*n), ": ", known_[k].arg.arg, " is ", known_.Shown(e), ", which nothing there tells"));
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
  std::vector<ScalarDoubt> doubts;
  FindScalarDoubts(p_, sizes, [&](Sym s) { return known_.Find(s)->axis == 0; }, [&](Sym s) { return known_.ValueOf(s); }, &doubts);
  // Numbers that the program gives back: sizes, where they are those of a dimension.
  for (const ir::Arg& a : p_.graph->outputs)
    if (auto number = a.get<int64_t>(); number && *number > 1)
      for (Sym s : sizes)
        if (known_.ValueOf(s) == *number)
          known_.PinAll(s, text::StrCat("the result ", *number, " may be ", known_.Shown(s)), kUnify);
  for (const ScalarDoubt& d : doubts)
    known_.PinAll(d.symbol, text::StrCat(PlaceOf(*d.node), ": the number ", d.number, " may be ", known_.Shown(d.symbol)), kUnify);
  return known_.learned() != before;
}

}  // namespace slipway::shapes
