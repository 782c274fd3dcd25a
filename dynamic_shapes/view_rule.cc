// Views that only merge or split dimensions, which is nearly all, form groups of dimensions; each is explained alone.
#include "dynamic_shapes/view_rule.h"

#include <algorithm>
#include <cmath>

namespace slipway::dynamic_shapes {
namespace {

using ir::Sym;
using SizeOf = std::function<std::optional<int64_t>(Sym)>;
using Order = std::function<std::vector<Sym>(Sym)>;

// The dimensions [from, from_end) become [to, to_end).
struct Group {
  int from, from_end, to, to_end;
};

// Where the products of the sizes agree. nullopt where they never do at the end.
std::optional<std::vector<Group>> Groups(absl::Span<const int64_t> from, absl::Span<const int64_t> to) {
  std::vector<Group> out;
  const int m = static_cast<int>(from.size()), n = static_cast<int>(to.size());
  int i = 0, j = 0;
  while (i < m || j < n) {
    Group g{i, i, j, j};
    int64_t a = 1, b = 1;
    if (i < m) a = from[i++];
    if (j < n) b = to[j++];
    while (a != b) {
      if (a < b) {
        if (i == m || __builtin_mul_overflow(a, from[i++], &a)) return std::nullopt;
      } else {
        if (j == n || __builtin_mul_overflow(b, to[j++], &b)) return std::nullopt;
      }
    }
    g.from_end = i;
    g.to_end = j;
    out.push_back(g);
  }
  return out;
}

std::vector<Sym> FactorsOf(Sym e) {
  if (!e.is_constant() && e.kind() == ir::SymKind::kMul) return {e.operands().begin(), e.operands().end()};
  return {e};
}

class GroupSolver {
 public:
  GroupSolver(absl::Span<const Sym> from, absl::Span<const int64_t> from_values, absl::Span<const int64_t> to,
              const SizeOf& value, const Order& order)
      : from_(from), from_values_(from_values), to_(to), value_(value), order_(order) {}

  // Sizes for the group's part of `to`; open ones where several fit. False: none fits.
  bool Solve(std::vector<ViewSize>& out, std::optional<Sym>& open) {
    Sym product = 1;
    for (Sym s : from_) product = product * s;
    const int n = static_cast<int>(to_.size());
    int several = 0, only = 0;
    for (int j = 0; j < n; ++j) {
      out.push_back({Sym(to_[j])});
      if (to_[j] != 1) ++several, only = j;
    }
    if (product.is_constant()) return true;
    if (several == 0) return false;
    if (several == 1) {
      out[only].expr = product;
      if (from_.size() > 1) out[only].factors.assign(from_.begin(), from_.end());
      return true;
    }
    if (ByPlaceInSomeOrder(out, product)) return true;
    for (int j = 0; j < n; ++j) out[j] = {Sym(to_[j])};
    const int ways = ByFactors(product, out);
    if (ways == 1) return true;
    open = product;
    for (int j = 0; j < n; ++j) out[j] = {Sym(to_[j]), to_[j] != 1};
    return true;
  }

 private:
  absl::Span<const Sym> from_;
  absl::Span<const int64_t> from_values_, to_;
  const SizeOf& value_;
  const Order& order_;

  static Sym Product(const std::vector<ViewSize>& sizes) {
    Sym p = 1;
    for (const ViewSize& s : sizes) p = p * s.expr;
    return p;
  }

  struct Factor {
    Sym expr;
    int64_t value;
  };
  // Sizes that are products came from merging dimensions, in an order that they do not tell: those orders are tried in
  // which every factor lies within one size of the view. True where exactly one result comes out.
  bool ByPlaceInSomeOrder(std::vector<ViewSize>& out, Sym product) {
    std::vector<std::vector<Factor>> dims;
    std::vector<bool> fixed;
    int64_t orders = 1;
    for (size_t i = 0; i < from_.size(); ++i) {
      std::vector<Factor> factors;
      const std::vector<Sym> known = order_(from_[i]);
      for (Sym f : known.empty() ? FactorsOf(from_[i]) : known) {
        auto v = value_(f);
        if (!v || *v <= 0) return false;
        factors.push_back({f, *v});
        if (known.empty()) orders *= static_cast<int64_t>(factors.size());
      }
      if (orders > 120) return false;
      dims.push_back(std::move(factors));
      fixed.push_back(!known.empty());
    }
    std::vector<std::vector<int>> order(dims.size());
    for (size_t i = 0; i < dims.size(); ++i)
      for (size_t f = 0; f < dims[i].size(); ++f) order[i].push_back(static_cast<int>(f));
    std::vector<std::vector<ViewSize>> found;
    while (true) {
      std::vector<Factor> all;
      for (size_t i = 0; i < dims.size(); ++i)
        for (int f : order[i]) all.push_back(dims[i][f]);
      std::vector<ViewSize> sizes = out;
      if (ByPlace(all, sizes) && ir::ProvablyEqual(Product(sizes), product)) {
        const auto same = [&](const std::vector<ViewSize>& w) {
          for (size_t j = 0; j < w.size(); ++j)
            if (!(w[j].expr == sizes[j].expr)) return false;
          return true;
        };
        if (std::none_of(found.begin(), found.end(), same)) found.push_back(std::move(sizes));
      }
      size_t i = 0;
      while (i < order.size() && (fixed[i] || !std::next_permutation(order[i].begin(), order[i].end()))) ++i;
      if (i == order.size()) break;
    }
    if (found.size() != 1) return false;
    out = found[0];
    return true;
  }
  // Each factor that is no number lies within one size of the view.
  bool ByPlace(const std::vector<Factor>& from, std::vector<ViewSize>& out) {
    std::vector<Sym> factor(to_.size(), Sym(1));
    std::vector<int64_t> taken(to_.size(), 1), reached(to_.size(), 0);
    std::vector<std::vector<Sym>> parts(to_.size());  // innermost first
    int64_t inner = 1;
    for (auto f = from.rbegin(); f != from.rend(); ++f) {
      const int64_t low = inner, high = inner * f->value;
      inner = high;
      if (f->expr.is_constant()) continue;
      int64_t low_to = 1;
      int found = -1;
      for (int j = static_cast<int>(to_.size()) - 1; j >= 0; --j) {
        const int64_t high_to = low_to * to_[j];
        if (to_[j] != 1 && low_to <= low && high <= high_to && low % low_to == 0 && high_to % high == 0) found = j;
        low_to = high_to;
      }
      if (found < 0) return false;
      factor[found] = f->expr * factor[found];
      taken[found] *= f->value;
      // What lies below it in the same size is a number.
      int64_t begin = reached[found];
      if (begin == 0) {
        begin = 1;
        for (size_t j = found + 1; j < to_.size(); ++j) begin *= to_[j];
      }
      if (low > begin) parts[found].push_back(Sym(low / begin));
      parts[found].push_back(f->expr);
      reached[found] = high;
    }
    int64_t end = 1;
    for (int j = static_cast<int>(to_.size()) - 1; j >= 0; --j) {
      end *= to_[j];
      if (to_[j] % taken[j] != 0) return false;
      out[j].expr = Sym(to_[j] / taken[j]) * factor[j];
      if (reached[j] != 0 && end > reached[j]) parts[j].push_back(Sym(end / reached[j]));
      out[j].factors.assign(parts[j].rbegin(), parts[j].rend());
    }
    return true;
  }

  // The factors of the product are dealt to the sizes. The number of ways that fit, at most 2; the sizes are those of
  // the one way, or of the one that keeps the order of the dimensions.
  int ByFactors(Sym product, std::vector<ViewSize>& out) {
    std::vector<Sym> factors;
    int64_t constant = 1;
    for (Sym f : FactorsOf(product)) {
      if (auto k = f.constant())
        constant *= *k;
      else
        factors.push_back(f);
    }
    std::vector<int64_t> values;
    for (Sym f : factors) {
      auto v = value_(f);
      if (!v || *v <= 0) return 0;
      values.push_back(*v);
    }
    if (factors.empty() || std::pow(static_cast<double>(to_.size()), static_cast<double>(factors.size())) > 5000)
      return 0;
    std::vector<int> chosen(factors.size(), 0);
    std::vector<std::vector<Sym>> ways;
    while (true) {
      std::vector<int64_t> left(to_.begin(), to_.end());
      std::vector<Sym> expr(to_.size(), Sym(1));
      bool fits = true;
      for (size_t f = 0; f < factors.size() && fits; ++f) {
        fits = left[chosen[f]] % values[f] == 0;
        left[chosen[f]] /= values[f];
        expr[chosen[f]] = expr[chosen[f]] * factors[f];
      }
      if (fits) {
        int64_t rest = 1;
        for (size_t j = 0; j < to_.size(); ++j) {
          rest *= left[j];
          expr[j] = expr[j] * Sym(left[j]);
        }
        if (rest == constant) ways.push_back(std::move(expr));
      }
      size_t f = 0;
      while (f < chosen.size() && ++chosen[f] == static_cast<int>(to_.size())) chosen[f++] = 0;
      if (f == chosen.size()) break;
    }
    if (ways.empty()) return 0;
    if (ways.size() > 1) {
      if (factors.size() > 1) return 2;  // the product of two sizes is not divided by guess
      // A size that is one factor alone is likelier than a number that happens to divide it.
      auto plain = [&](const std::vector<Sym>& w) {
        int n = 0;
        for (Sym s : w) n += std::find(factors.begin(), factors.end(), s) != factors.end();
        return n;
      };
      std::stable_sort(ways.begin(), ways.end(), [&](const auto& a, const auto& b) { return plain(a) > plain(b); });
      if (plain(ways[0]) == plain(ways[1])) return 2;
    }
    for (size_t j = 0; j < to_.size(); ++j) out[j].expr = ways[0][j];
    return 1;
  }
};

}  // namespace

std::optional<ViewSizes> SolveView(absl::Span<const Sym> from, absl::Span<const int64_t> to, const SizeOf& value,
                                   const Order& order) {
  std::vector<int64_t> from_values, to_values(to.begin(), to.end());
  int64_t elements = 1;
  for (Sym s : from) {
    auto v = value(s);
    if (!v || *v <= 0 || __builtin_mul_overflow(elements, *v, &elements)) return std::nullopt;
    from_values.push_back(*v);
  }
  int64_t known = 1;
  int unknown = -1;
  for (size_t j = 0; j < to.size(); ++j) {
    if (to[j] == -1)
      unknown = static_cast<int>(j);
    else if (to[j] <= 0 || __builtin_mul_overflow(known, to[j], &known))
      return std::nullopt;
  }
  if (elements % known != 0) return std::nullopt;
  if (unknown >= 0)
    to_values[unknown] = elements / known;
  else if (elements != known)
    return std::nullopt;
  auto groups = Groups(from_values, to_values);
  if (!groups) return std::nullopt;
  ViewSizes out;
  for (const Group& g : *groups) {
    const int n = g.to_end - g.to, m = g.from_end - g.from;
    std::vector<ViewSize> sizes;
    std::optional<Sym> open;
    GroupSolver solver(from.subspan(g.from, m), absl::MakeSpan(from_values).subspan(g.from, m),
                       absl::MakeSpan(to_values).subspan(g.to, n), value, order);
    if (!solver.Solve(sizes, open)) return std::nullopt;
    if (open && unknown >= g.to && unknown < g.to_end) {
      // -1 takes what the numbers beside it leave.
      Sym rest = 1;
      for (int j = 0; j < n; ++j) {
        sizes[j] = {Sym(to_values[g.to + j])};
        if (g.to + j != unknown) rest = rest * sizes[j].expr;
      }
      sizes[unknown - g.to].expr = ir::FloorDiv(*open, rest);
      open.reset();
    }
    if (open) out.open.push_back({static_cast<int>(out.sizes.size()), n, *open});
    out.sizes.insert(out.sizes.end(), sizes.begin(), sizes.end());
  }
  return out;
}

}  // namespace slipway::dynamic_shapes
