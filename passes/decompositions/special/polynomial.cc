// Decompositions: orthogonal polynomials of an order that may be a tensor, by their recurrences (DLMF 18.9) in torch's
// type, with the closed forms, limits and special points that torch has (which overflow and round as they do there).
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "passes/decompositions/special/expression.h"
#include "passes/decompositions/special/special.h"
#include "passes/decompositions/util.h"
#include "passes/float_constants.h"

namespace slipway::passes {
namespace {

// The order as an integer: what torch's conversion makes of it, -1 where it is not finite.
Expr Order(Expr n) {
  Expr held = (n > -1.0) & (n < 0x1p62);
  return Where(held, n, -1.0).Cast(DType::kInt64);
}
Expr Odd(Expr n) { return Equal(Expr{n.b, n.b->Call("aten.bitwise_and.Scalar", {n.v, 1})}, 1.0); }

// The order, when it is a number of the program.
std::optional<int64_t> KnownOrder(Decomposer& d) {
  const Arg& a = d.node().Get("n");
  if (auto i = a.get<int64_t>()) return *i;
  if (auto f = a.get<double>(); f && std::abs(*f) < 0x1p53) return static_cast<int64_t>(*f);
  return std::nullopt;
}

// The polynomial of order n from those of orders 0, which is 1, and 1: step(j, before, last, parts) is that of order
// j + 1. `parts` are tensors the step needs. An order below 2 gives `first`.
using RecurrenceStep = std::function<Expr(Expr j, Expr before, Expr last, const Exprs& parts)>;
Expr Recur(Decomposer& d, Expr n, Expr first, const Exprs& parts, const RecurrenceStep& step) {
  constexpr int64_t kUnrolled = 64;
  const DType t = first.dtype();
  Expr one = first * 0.0 + 1.0;  // NaN where the argument is
  if (std::optional<int64_t> known = KnownOrder(d); known && *known <= kUnrolled) {
    Expr before = one, last = first;
    for (int64_t j = 1; j < *known; ++j) {
      Expr next = step(last.Like(static_cast<double>(j)), before, last, parts);
      before = last;
      last = next;
    }
    return last;
  }
  Expr j{&d.b, d.b.ScalarTensor(1, DType::kInt64)};
  Exprs captured = {n};
  captured.insert(captured.end(), parts.begin(), parts.end());
  return While(
      d.b, {j, one, first}, captured,
      [](const Exprs& in) {
        Expr more = (in[0] < in[3]) & (!IsNan(in[2]));
        return Expr{more.b, more.b->Call("aten.any.default", {more.v})};
      },
      [&](const Exprs& in) -> Exprs {
        Expr more = in[0] < in[3];
        Expr next = step(in[0].Cast(t), in[1], in[2], Exprs(in.begin() + 4, in.end()));
        return {in[0] + 1.0, Where(more, in[2], in[1]), Where(more, next, in[2])};
      })[2];
}

struct Operands {
  Expr x, n;  // of one shape; n is i64
};
Operands Read(Decomposer& d) {
  auto [x, n] = Broadcast(NarrowInput(d, "x"), NarrowInput(d, "n"));
  return {x, Order(n)};
}
// Orders below 1 are the same for all: 1 at zero, and 0 below.
void ReturnPolynomial(Decomposer& d, const Operands& o, Expr value) {
  value = Where(Equal(o.n, 0.0), 1.0, value);
  Result(d, Where(o.n < 0.0, 0.0, value));
}
Expr Alternating(Expr n, Expr x) { return Where(Odd(n), x.Like(-1), 1.0); }

// Chebyshev polynomials of four kinds in x, or shifted: in 2 x - 1.
struct Chebyshev {
  std::string_view name;
  char kind;
  bool shifted;
  int closed_above;  // torch uses cosines within (-1, 1) for orders above this
};
constexpr Chebyshev kChebyshev[] = {
    {"special_chebyshev_polynomial_t", 't', false, 6},        {"special_chebyshev_polynomial_u", 'u', false, 8},
    {"special_chebyshev_polynomial_v", 'v', false, 8},        {"special_chebyshev_polynomial_w", 'w', false, 8},
    {"special_shifted_chebyshev_polynomial_t", 't', true, 6}, {"special_shifted_chebyshev_polynomial_u", 'u', true, 6},
    {"special_shifted_chebyshev_polynomial_v", 'v', true, 6}, {"special_shifted_chebyshev_polynomial_w", 'w', true, 4},
};
void ChebyshevOp(Decomposer& d) {
  const Chebyshev* family = nullptr;
  for (const Chebyshev& c : kChebyshev)
    if (c.name == d.node().op().base) family = &c;
  if (!family) return d.Fail("no such family of polynomials");
  const char kind = family->kind;
  Operands o = Read(d);
  const DType t = o.x.dtype();
  Expr y = family->shifted ? o.x + o.x - 1.0 : o.x, twice = y + y;
  Expr first = kind == 't' ? y : kind == 'u' ? twice : kind == 'v' ? twice - 1.0 : twice + 1.0;

  // At the ends of (-1, 1): the order's sign times 1, n + 1 or 2 n + 1.
  Expr n = o.n.Cast(t), sign = Alternating(o.n, y), odd_order = (o.n + o.n + 1.0).Cast(t);
  Expr at_one = kind == 'u' ? (o.n + 1.0).Cast(t) : kind == 'w' ? odd_order : n.Like(1);
  Expr at_minus_one = sign * (kind == 'u' ? (o.n + 1.0).Cast(t) : kind == 'v' ? odd_order : n.Like(1));
  Expr end = Equal(Abs(y), 1.0), skip = end;

  // Within: cosines of multiples of acos (DLMF 18.5.1 to 18.5.4). ONNX Runtime has no binary64 acos; there the
  // recurrence, which is as accurate, serves for all orders.
  std::optional<Expr> closed;
  Expr use_closed = end;
  if (t != DType::kFloat64) {
    use_closed = (o.n > static_cast<double>(family->closed_above)) & (Abs(y) < 1.0);
    skip = skip | use_closed;
    Expr angle = Where(Abs(y) < 1.0, y, 0.0).Call("acos"), half = angle / 2.0;
    if (kind == 't') closed = Cos(n * angle);
    if (kind == 'u') closed = Sin((o.n + 1.0).Cast(t) * angle) / Sin(angle);
    if (kind == 'v') closed = Where(Equal(Sin(half), 1.0), sign * odd_order, Cos((n + 0.5) * angle) / Cos(half));
    if (kind == 'w')
      closed = Where(Equal(Cos(half), 1.0), family->shifted ? sign : odd_order, Sin((n + 0.5) * angle) / Sin(half));
  }
  Expr steps = Where(skip, 0.0, o.n);
  Expr value = Recur(d, steps, first, {twice},
                     [](Expr, Expr before, Expr last, const Exprs& parts) { return parts[0] * last - before; });
  if (closed) value = Where(use_closed, *closed, value);
  ReturnPolynomial(d, o, Where(end, Where(y > 0.0, at_one, at_minus_one), value));
}

// Hermite polynomials; torch gives NaN for orders where its type is likely to overflow.
void Hermite(Decomposer& d, bool physicists) {
  Operands o = Read(d);
  Expr first = physicists ? o.x + o.x : o.x;
  const double limit = o.x.dtype() == DType::kFloat64 ? 512 : 128;
  Expr held = o.n <= limit;
  Expr steps = Where(held, o.n, 0.0);
  Expr value = Recur(d, steps, first, {first}, [=](Expr j, Expr before, Expr last, const Exprs& parts) {
    return parts[0] * last - (physicists ? j + j : j) * before;
  });
  ReturnPolynomial(d, o, Where(held, value, kNan));
}
void Laguerre(Decomposer& d) {
  Operands o = Read(d);
  Expr first = 1.0 - o.x, zero = Equal(o.x, 0.0);
  Expr steps = Where(zero, 0.0, o.n);
  Expr value = Recur(d, steps, first, {first}, [](Expr j, Expr before, Expr last, const Exprs& parts) {
    return ((j + j + parts[0]) * last - j * before) / (j + 1.0);
  });
  ReturnPolynomial(d, o, Where(zero, 1.0, value));
}
void Legendre(Decomposer& d) {
  Operands o = Read(d);
  Expr end = Equal(Abs(o.x), 1.0), steps = Where(end, 0.0, o.n);
  Expr value = Recur(d, steps, o.x, {o.x}, [](Expr j, Expr before, Expr last, const Exprs& parts) {
    return ((j + j + 1.0) * parts[0] * last - j * before) / (j + 1.0);
  });
  Expr at_end = Where(o.x > 0.0, 1.0, Alternating(o.n, o.x));
  ReturnPolynomial(d, o, Where(end, at_end, value));
}

struct Family {
  std::string_view name;
  DecomposeFn fn;
};
constexpr Family kFamilies[] = {
    {"special_hermite_polynomial_h", [](Decomposer& d) { Hermite(d, true); }},
    {"special_hermite_polynomial_he", [](Decomposer& d) { Hermite(d, false); }},
    {"special_laguerre_polynomial_l", Laguerre},
    {"special_legendre_polynomial_p", Legendre},
};

}  // namespace

absl::Span<const DecomposeRow> PolynomialDecompositions() {
  static const auto& rows = *[] {
    auto* all = new std::vector<DecomposeRow>();
    auto add = [&](std::string_view name, DecomposeFn fn) {
      for (std::string_view overload : {"default", "n_scalar", "x_scalar"})
        all->push_back({ir::GetOp(text::StrCat("aten.", name, ".", overload)).name, fn});
    };
    for (const Chebyshev& c : kChebyshev) add(c.name, ChebyshevOp);
    for (const Family& f : kFamilies) add(f.name, f.fn);
    return all;
  }();
  return rows;
}

}  // namespace slipway::passes
