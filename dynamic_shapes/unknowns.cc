// An equation is solved for the unknown that stands in it once: for numbers first, of them the latest. What is left of
// one between dimensions is a condition, or a bound where it is the quotient of one.
#include "dynamic_shapes/unknowns.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace slipway::dynamic_shapes {

using ir::Node;
using ir::Sym;
using ir::SymKind;

namespace {

constexpr int64_t kMostTried = int64_t{1} << 27;  // larger sizes are not tried at multiples

// c * (x // y) = b becomes c * x = b * y; on either side.
bool ClearDivision(Sym& a, Sym& b) {
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

// Sums, products and divisions of sizes grow with them.
bool IsMonotone(Sym s) {
  if (s.is_constant() || s.kind() == SymKind::kSymbol) return true;
  if (s.kind() != SymKind::kAdd && s.kind() != SymKind::kMul && s.kind() != SymKind::kFloorDiv &&
      s.kind() != SymKind::kPow)
    return false;
  return std::all_of(s.operands().begin(), s.operands().end(), IsMonotone);
}

}  // namespace

bool Unknown::varies() const {
  return std::any_of(more.begin(), more.end(), [&](int64_t v) { return v != value; });
}

std::string PlaceOf(const Node& n) {
  const std::string at = n.source() ? n.source()->Describe() : "";
  return text::StrCat(n.op_name(), at.empty() ? (n.output() ? text::StrCat(" (%", n.output()->name(), ")") : "")
                                              : text::StrCat(" in ", at));
}

bool Mentions(Sym s, Sym symbol) {
  for (Sym x : s.Symbols())
    if (x == symbol) return true;
  return false;
}

int Unknowns::Add(Unknown u) {
  const std::string name = text::StrCat("slipway_", u.dimension() ? "dim" : "number", "_", unknowns_.size());
  u.symbol = symbols_.Symbol(name);
  dimensions_ += u.dimension();
  by_name_[name] = static_cast<int>(unknowns_.size());
  unknowns_.push_back(std::move(u));
  return static_cast<int>(unknowns_.size()) - 1;
}

Unknown* Unknowns::Find(Sym symbol) {
  auto it = by_name_.find(symbol.name());
  return it == by_name_.end() ? nullptr : &unknowns_[it->second];
}

Sym Unknowns::Canonical(Sym s) {
  if (s.is_constant()) return s;
  if (auto it = canonical_.find(s); it != canonical_.end()) return it->second;
  Sym out = ir::Substitute(s, [&](Sym symbol) -> std::optional<Sym> {
    Unknown* u = Find(symbol);
    if (!u || !u->is) return std::nullopt;
    return Canonical(*u->is);
  });
  return canonical_[s] = out;
}

std::optional<int64_t> Unknowns::ValueOf(Sym s, size_t example) {
  return ir::Evaluate(s, [&](std::string_view name) -> std::optional<int64_t> {
    auto it = by_name_.find(name);
    if (it != by_name_.end()) return ValueOf(unknowns_[it->second], example);
    if (auto open = open_sizes_.find(name); open != open_sizes_.end()) return open->second;
    return 1009 + static_cast<int64_t>(std::hash<std::string_view>()(name) % 9001);
  });
}

bool Unknowns::Fits(Sym s, const Unknown& u) {
  for (size_t k = 0; k < examples_; ++k)
    if (auto v = ValueOf(s, k); !v || *v != ValueOf(u, k)) return false;
  return true;
}

std::vector<int> Unknowns::In(Sym s) {
  std::vector<int> out;
  for (Sym symbol : s.Symbols())
    if (auto it = by_name_.find(symbol.name()); it != by_name_.end()) out.push_back(it->second);
  return out;
}

Sym Unknowns::UnresolvedSize(int64_t value) {
  const std::string name = text::StrCat("slipway_open_", value);
  open_sizes_[name] = value;
  return symbols_.Symbol(name);
}

bool Unknowns::HasUnresolvedSize(Sym s) {
  for (Sym x : s.Symbols())
    if (open_sizes_.contains(x.name())) return true;
  return false;
}

bool Unknowns::IsOpen(Sym s) {
  for (Sym x : s.Symbols())
    if (!by_name_.contains(x.name())) return true;
  return false;
}

void Unknowns::Assign(Unknown& u, Sym to) {
  u.is = to;
  canonical_.clear();
  ++learned_;
}

void Unknowns::Pin(int k, std::string cause, std::string help) {
  Unknown& u = unknowns_[k];
  if (u.is) return;
  if (u.varies())
    Fail(cause.empty() ? text::StrCat("a number is ", u.value, " in one program and ", u.more[0],
                                      " in another, and nothing explains it")
                       : cause);
  if (u.dimension()) {
    u.cause = std::move(cause);
    u.help = std::move(help);
  }
  Assign(u, u.value);
}

bool Unknowns::InUnresolvedEquation(int k, bool products_only) {
  const Sym symbol = unknowns_[k].symbol;
  const auto product = [&](Sym s) {
    std::vector<Sym> terms = {s};
    if (!s.is_constant() && s.kind() == SymKind::kAdd) terms.assign(s.operands().begin(), s.operands().end());
    for (Sym t : terms) {
      if (t.is_constant() || t.kind() != SymKind::kMul || !Mentions(t, symbol)) continue;
      for (int other : In(t))
        if (other != k && !unknowns_[other].dimension()) return true;
    }
    return false;
  };
  return std::any_of(unsolved_.begin(), unsolved_.end(), [&](const Equation& e) {
    const Sym a = Canonical(e.a), b = Canonical(e.b);
    return product(a) || product(b) || (!products_only && (SharesSum(symbol, a) || SharesSum(symbol, b)));
  });
}

void Unknowns::Fail(std::string why) {
  if (failure_.empty()) failure_ = std::move(why);
}

void Unknowns::PinAll(Sym s, const std::string& cause, const std::string& help) {
  for (int k : In(Canonical(s))) Pin(k, cause, help);
}

void Unknowns::BeginRound() {
  bounds_.clear();
  unsolved_.clear();
  conditions_.clear();
  condition_sides_.clear();
}

// Whether a sum adds a number to another that is not known either: parts of a size, of which nothing tells which is a
// number.
bool Unknowns::SharesSum(Sym symbol, Sym sum) {
  if (examples_ > 1 || sum.is_constant() || sum.kind() != SymKind::kAdd || Find(symbol) == nullptr ||
      Find(symbol)->dimension())
    return false;
  bool self = false, other = false;
  for (Sym t : sum.operands()) {
    if (t == symbol)
      self = true;
    else if (Unknown* u = t.is_constant() || t.kind() != SymKind::kSymbol ? nullptr : Find(t); u && !u->dimension())
      other = true;
  }
  return self && other;
}

// a - b as a sum in which `symbol` stands once, times `factor`; what symbol then is.
std::optional<Sym> Unknowns::SolveFor(Sym symbol, Sym a, Sym b, bool exact_only) {
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
      if (f == symbol)
        ++times;
      else if (Mentions(f, symbol))
        return std::nullopt;
      else
        factor = factor * f;
    }
    if (times != 1) return std::nullopt;
  }
  if (!found) return std::nullopt;
  if (SharesSum(symbol, a) || SharesSum(symbol, b)) return std::nullopt;
  if (factor.is(1)) return rest;
  if (factor.is(-1)) return -rest;
  // What else is not known is no divisor: a product of two numbers is not divided between them.
  for (int k : In(factor))
    if (!unknowns_[k].dimension()) return std::nullopt;
  const Sym quotient = ir::FloorDiv(rest, factor);
  if (exact_only && !ir::ProvablyEqual(quotient * factor, rest)) return std::nullopt;
  return quotient;
}

bool Unknowns::TrySolve(int k, Sym a, Sym b, const std::string& why) {
  Unknown& u = unknowns_[k];
  auto e = SolveFor(u.symbol, a, b, u.dimension());
  if (!e || Mentions(*e, u.symbol) || e->is_too_large()) return false;
  if (!Fits(*e, u)) return false;
  if (u.dimension()) u.cause = why;
  Assign(u, *e);
  return true;
}

bool Unknowns::Equate(Sym a, Sym b, const Node& n) {
  a = Canonical(a);
  b = Canonical(b);
  if (a == b || ir::ProvablyEqual(a, b)) return true;
  if (!ValueOf(a) || !ValueOf(b) || IsOpen(a) || IsOpen(b)) return true;  // beyond what is solved for
  for (size_t k = 0; k < examples_; ++k)
    if (ValueOf(a, k) != ValueOf(b, k)) return false;
  std::vector<int> in = In(a);
  for (int k : In(b))
    if (std::find(in.begin(), in.end(), k) == in.end()) in.push_back(k);
  std::sort(in.begin(), in.end());
  const bool numbers = std::any_of(in.begin(), in.end(), [&](int k) { return !unknowns_[k].dimension(); });
  const std::string why = text::StrCat(PlaceOf(n), ": ", Shown(a), " = ", Shown(b));
  if (numbers) {
    // The latest first: earlier numbers explain later ones.
    for (auto it = in.rbegin(); it != in.rend(); ++it)
      if (!unknowns_[*it].dimension() && TrySolve(*it, a, b, why)) return true;
    // Parts of what is fixed are numbers.
    const bool fixed = a.is_constant() || b.is_constant();
    if (fixed && std::none_of(in.begin(), in.end(), [&](int k) { return unknowns_[k].dimension(); })) {
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
  while (ClearDivision(x, y)) {
  }
  if (!(x == a && y == b) && Equal(x, y))
    for (auto it = in.rbegin(); it != in.rend(); ++it)
      if (TrySolve(*it, x, y, why)) return true;
  // A condition that sizes must meet: divisibility, equal results of divisions, a product. Where it is not met the
  // program fails, or does what it does in eager mode.
  if (!NarrowByQuotient(a, b, PlaceOf(n))) {
    conditions_.insert({text::StrCat(Shown(a), " = ", Shown(b)), PlaceOf(n)});
    condition_sides_.emplace_back(a, b);
  }
  return true;
}

bool Unknowns::Equal(Sym a, Sym b) {
  for (size_t k = 0; k < examples_; ++k)
    if (!ValueOf(a, k) || ValueOf(a, k) != ValueOf(b, k)) return false;
  return true;
}

// d // c = k bounds d.
bool Unknowns::NarrowByQuotient(Sym a, Sym b, const std::string& place) {
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

void Unknowns::AtMost(Sym low, Sym high, const Node& n) {
  low = Canonical(low);
  high = Canonical(high);
  if (ir::ProvablyLessEqual(low, high)) return;
  auto a = ValueOf(low), b = ValueOf(high);
  if (!a || !b || *a > *b) return;
  bounds_.push_back({low, high, PlaceOf(n)});
}

// Whether another example has its extremum at the operand where the first has.
bool Unknowns::SameOrder(const std::vector<Sym>& operands, size_t example, bool max) {
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

Sym Unknowns::Decide(Sym s, const Node& n) {
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
    for (size_t k = 1; k < examples_; ++k)
      if (!SameOrder(operands, k, max)) return s;
    for (Sym o : operands) {
      auto v = ValueOf(o);
      if (!v || !value) return s;
      // Of equal ones an expression, which may turn out to be the other.
      if (max ? *v > *value : *v < *value)
        best = o, value = v;
      else if (*v == *value && best.is_constant())
        best = o;
    }
    for (Sym o : operands)
      if (o != best) max ? AtMost(o, best, n) : AtMost(best, o, n);
    return best;
  }
  if (same) return s;
  auto made = symbols_.Make(s.kind(), operands, s.name());
  return made.ok() ? *made : s;
}

std::string Unknowns::Shown(Sym s) {
  s = Canonical(s);
  std::string text = s.ToString();
  if (s.is_constant()) return text;
  std::vector<std::pair<std::string, std::string>> names;
  for (int k : In(s)) {
    const Unknown& u = unknowns_[k];
    names.emplace_back(u.symbol.name(),
                       u.dimension() ? text::StrCat(u.input->name(), ".", u.axis) : std::to_string(u.value));
  }
  std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  for (const auto& [from, to] : names)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

std::string Unknowns::Shown(const ir::Sizes& sizes) {
  std::vector<std::string> parts;
  for (Sym s : sizes) parts.push_back(Shown(s));
  return text::StrCat("[", text::Join(parts, ", "), "]");
}

void Unknowns::NarrowRanges() {
  for (const Bound& b : bounds_) NarrowBy(b.low, b.high, b.place);
}

Sym Unknowns::At(Sym s, const Trial& trial) {
  return ir::Substitute(Canonical(s), [&](Sym symbol) -> std::optional<Sym> {
    auto it = by_name_.find(symbol.name());
    auto size = it == by_name_.end() ? trial.end() : trial.find(it->second);
    return size == trial.end() ? std::nullopt : std::optional<Sym>(size->second);
  });
}

// Three steps that share the free dimensions and their ranges: candidates in which conditions hold, by fixed ways, by
// chance and one dimension at a time; of these the ones that change most; then the dimensions that are stuck.
std::vector<Unknowns::Trial> Unknowns::Trials(std::vector<int>* stuck) {
  std::vector<int> free;
  std::vector<ir::SymRange> ranges(dimensions_);  // as they would be
  const std::deque<Unknown> before = unknowns_;
  NarrowRanges();
  for (size_t k = 0; k < dimensions_; ++k) {
    const Unknown& u = unknowns_[k];
    ranges[k] = {std::max(u.range.min, u.ask.range.min), std::min(u.range.max, u.ask.range.max)};
    if (!unknowns_[k].is) free.push_back(static_cast<int>(k));
  }
  unknowns_ = before;
  const auto size_at = [&](int k, int way) -> int64_t {
    const int64_t e = unknowns_[k].value;
    if (e > kMostTried) return e;
    const int64_t sizes[] = {2 * e, 3 * e, e + 1, 4 * e, e, e - 1, e / 2, e + 2, e + 8, e + 32, e * 5, e + 3};
    return sizes[way % static_cast<int>(std::size(sizes))];
  };
  const auto holds = [&](const Trial& t) {
    for (int k : free)
      if (t.at(k) < std::max<int64_t>(ranges[k].min, 1) || t.at(k) > ranges[k].max || t.at(k) > 8 * kMostTried)
        return false;
    for (const auto& [a, b] : condition_sides_) {
      const Sym x = At(a, t), y = At(b, t);
      if (x.is_constant() && y.is_constant() && !(x == y)) return false;
    }
    for (const Bound& b : bounds_)
      if (const auto low = At(b.low, t).constant(), high = At(b.high, t).constant(); low && high && *low > *high)
        return false;
    return true;
  };
  std::vector<Trial> good;
  const auto consider = [&](Trial t) {
    if (holds(t)) good.push_back(std::move(t));
  };
  uint64_t random = 1;
  for (int attempt = 0; attempt < 400 && good.size() < 40; ++attempt) {
    Trial t;
    for (size_t i = 0; i < free.size(); ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      t[free[i]] = size_at(free[i], attempt < 4    ? attempt
                                    : attempt == 4 ? 2 + static_cast<int>(i)
                                                   : static_cast<int>(random >> 33));
    }
    consider(std::move(t));
  }
  // One at a time, where they do not change together.
  for (int k : free)
    for (int way = 0; way < 12; ++way) {
      Trial t;
      for (int other : free) t[other] = other == k ? size_at(k, way) : unknowns_[other].value;
      consider(std::move(t));
    }
  std::set<int> left(free.begin(), free.end());
  std::vector<Trial> out;
  const auto news = [&](const Trial& t) {
    return std::count_if(left.begin(), left.end(), [&](int k) { return t.at(k) != unknowns_[k].value; });
  };
  const auto changed = [&](const Trial& t) {
    return std::count_if(free.begin(), free.end(), [&](int k) { return t.at(k) != unknowns_[k].value; });
  };
  while (!good.empty() && (out.size() < 2 || !left.empty())) {
    auto best = std::max_element(good.begin(), good.end(), [&](const Trial& a, const Trial& b) {
      return std::pair(news(a), changed(a)) < std::pair(news(b), changed(b));
    });
    if (changed(*best) == 0 || (out.size() >= 2 && news(*best) == 0)) break;
    for (int k : free)
      if (best->at(k) != unknowns_[k].value) left.erase(k);
    out.push_back(*best);
    good.erase(best);
  }
  // A dimension that only changes by leave of others (rows × columns = 64), or not at all, runs at no other size for
  // who does not know that.
  const auto scales = [&](const std::vector<int>& together, int64_t times, int64_t by) {
    Trial t;
    for (int k : free) t[k] = unknowns_[k].value;
    for (int k : together) t[k] = std::min(t[k], kMostTried) * times / by;
    return holds(t);
  };
  for (int k : free) {
    const int64_t e = unknowns_[k].value;
    std::vector<int> beside;  // with what stands in its conditions
    for (const auto& [a, b] : condition_sides_) {
      std::vector<int> in = In(Canonical(a));
      for (int other : In(Canonical(b))) in.push_back(other);
      if (std::find(in.begin(), in.end(), k) == in.end()) continue;
      for (int other : in)
        if (!unknowns_[other].is && std::find(beside.begin(), beside.end(), other) == beside.end())
          beside.push_back(other);
    }
    if (beside.empty()) continue;
    bool free_of_others =
        e > kMostTried || (2 * e > ranges[k].max && e / 2 < ranges[k].min);  // its range says how far it goes
    for (const auto& [times, by] : {std::pair<int64_t, int64_t>(2, 1), {3, 1}, {4, 1}, {1, 2}})
      for (const std::vector<int>& together : {std::vector<int>{k}, beside, free})
        free_of_others |= scales(together, times, by);
    if (!free_of_others) stuck->push_back(k);
  }
  return out;
}

void Unknowns::NarrowBy(Sym low, Sym high, const std::string& place) {
  low = Canonical(low);
  high = Canonical(high);
  std::vector<int> in = In(low);
  for (int k : In(high))
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
    if (most > u.value || holds(u.value))
      u.range.max = std::max(most == std::min(u.range.max, int64_t{1} << 40) ? u.value : most, u.value);
    u.bound_cause = text::StrCat(place, ": at most ", u.range.max);
  }
}

}  // namespace slipway::dynamic_shapes
