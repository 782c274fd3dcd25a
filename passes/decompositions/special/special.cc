// Decompositions: the gamma function and its kin, the zeta function, error functions and normal distributions. Formulas
// are cited by their numbers in the Digital Library of Mathematical Functions (DLMF); they are evaluated in binary64.
#include "passes/decompositions/special/special.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "base/text.h"
#include "passes/decompositions/special/expression.h"
#include "passes/decompositions/util.h"
#include "passes/float_constants.h"

namespace slipway::passes {
namespace {

const double kHalfLogTwoPi = 0.5 * std::log(2 * kPi);

// ---- Gamma functions

// log |gamma(x)|: near 1 and 2 by a polynomial with those zeros, beyond by Stirling's series after a shift (DLMF 5.5.1,
// 5.11.1), below 1/2 by reflection (5.5.3).
Expr LogGamma(Expr x) {
  Expr low = x < 0.5, y = Where(low, 1.0 - x, x);
  Expr past1 = y >= 1.5, z = y - past1.Cast(DType::kFloat64) - 1.0;
  Expr near = z * Eval(kLogGammaNear2, z);
  near = Where(past1, near, near - Log1p(z));
  Expr small = y < 9.0, product = y;
  for (int i = 1; i < 6; ++i) product = product * (y + i);
  Expr w = Where(small, y + 6.0, y), v = 1.0 / (w * w);
  Expr far = (w - 0.5) * (Log(w) - 1.0) + Horner(kStirlingTerms, v) / w + (kHalfLogTwoPi - 0.5);
  far = far - Where(small, Log(product), 0.0);
  Expr value = Where(y <= 2.5, near, far);
  Expr reflected = std::log(kPi) - Log(Abs(Sin((x - Round(x)) * kPi))) - value;
  return Where(IsInf(x), kInf, Where(low, reflected, value));
}

// The logarithmic derivative of gamma: DLMF 5.5.2, 5.5.4 and 5.11.2. Negative integers give NaN, zeros the infinity of
// the other sign.
Expr Digamma(Expr x) {
  Expr low = x < 0.0, y = Where(low, 1.0 - x, x);
  constexpr int kShift = 8;
  Expr sum = 1.0 / y;
  for (int i = 1; i < kShift; ++i) sum = sum + 1.0 / (y + i);
  Expr w = y + kShift, v = 1.0 / (w * w);
  Expr value = Log(w) - 0.5 / w - v * Horner(kDigammaTailTerms, v) - sum;
  Expr r = x - Round(x), angle = r * kPi;
  Expr reflected = value - kPi * (Cos(angle) / Sin(angle));
  return Where(low, Where(Equal(r, 0.0), kNan, reflected), value);
}

// sum of (q + k)^-s over k >= 0 for q > 0 by Euler and Maclaurin (DLMF 25.11.5). s is a number or a tensor. NaN for an
// infinite q, as torch's zeta gives.
template <typename S>
Expr HurwitzZeta(S s, Expr q) {
  auto power = [&](Expr a) { return Pow(a, -s); };
  constexpr int kDirect = 10;
  Expr sum = power(q);
  for (int i = 1; i < kDirect; ++i) sum = sum + power(q + i);
  Expr w = q + kDirect, last = power(w), inverse = 1.0 / w;
  sum = sum + last * w / (s - 1.0) + 0.5 * last;
  Expr rising = last * inverse * s;  // s (s + 1) … (s + 2k - 2) w^(1 - s - 2k)
  for (size_t k = 1; k <= std::size(kEulerMaclaurinTerms); ++k) {
    sum = sum + kEulerMaclaurinTerms[k - 1] * rising;
    const double n = 2 * static_cast<double>(k);
    if (k < std::size(kEulerMaclaurinTerms)) rising = rising * (s + (n - 1)) * (s + n) * inverse * inverse;
  }
  return sum;
}

// sum of (x + k)^-s over all integers k, as a polynomial in cot(pi x): pi^s Q_s(c), where Q_1 = c and
// Q_(s+1) = (1 + c^2) Q_s' / s. All coefficients are positive.
std::vector<double> CotangentPolynomial(int s) {
  std::vector<double> q = {0, 1};  // lowest power first
  for (int k = 1; k < s; ++k) {
    std::vector<double> next(q.size() + 1, 0.0);
    for (size_t i = 1; i < q.size(); ++i) {
      const double slope = static_cast<double>(i) * q[i] / k;
      next[i - 1] += slope;
      next[i + 1] += slope;
    }
    q = std::move(next);
  }
  for (double& v : q) v *= std::pow(kPi, s);
  std::reverse(q.begin(), q.end());
  return q;
}

// (-1)^(n+1) n! sum of (x + k)^-(n+1) over k >= 0 (DLMF 5.15.1, 25.11.12).
void PolygammaOp(Decomposer& d) {
  const int64_t n = d.i("n");
  constexpr int64_t kMaxOrder = 100;
  if (n < 0) return d.Fail("polygamma of a negative order");
  if (n > kMaxOrder) return d.Unsupported(text::StrCat("polygamma of an order above ", kMaxOrder));
  const DType t = d.compute_dtype();
  Expr narrow = NarrowInput(d, "self"), x = narrow.Cast(DType::kFloat64);
  if (n == 0) return Result(d, Digamma(x));
  if (n == 1) {
    // torch reflects below 1/2, with the sine of the product rounded to its type: that gives integers finite values.
    const double pi = t == DType::kFloat64 ? kPi : static_cast<float>(kPi);
    Expr low = x < 0.5, s = Sin((narrow * pi).Cast(DType::kFloat64));
    Expr value = Where(IsInf(x), 0.0, HurwitzZeta(2.0, Where(low, 1.0 - x, x)));
    return Result(d, Where(low, pi * pi / (s * s) - value, value));
  }
  const int s = static_cast<int>(n) + 1;
  Expr low = x <= 0.0, r = x - Round(x), angle = r * kPi;
  Expr value = HurwitzZeta(static_cast<double>(s), Where(low, 1.0 - x, x));
  Expr both = Horner(CotangentPolynomial(s), Cos(angle) / Sin(angle));
  Expr below = Where(Equal(Floor(x), x), kInf, s % 2 == 0 ? both - value : both + value);
  // The factorial is of the type, whose range it may leave.
  const double order = static_cast<double>(n) + 1;
  const double factorial =
      t == DType::kFloat64 ? std::exp(std::lgamma(order)) : std::exp(std::lgamma(static_cast<float>(order)));
  Result(d, Where(low, below, value).Cast(t) * (n % 2 ? factorial : -factorial));
}

// DLMF 35.3.5: the sum of log gamma(x - j / 2) over j < p, and a constant.
void MultivariateLogGamma(Decomposer& d) {
  const int64_t p = d.i("p");
  if (p < 1) return d.Fail("mvlgamma of order below 1");
  Value* x = NarrowInput(d, "self").v;
  const double steps = static_cast<double>(p);
  Value* shifts = d.b.Call("aten.arange.start_step", {0, p, 1}, {{"dtype", x->dtype()}});
  Expr y{&d.b, d.Sub(Unsqueeze(d, x, x->rank()), d.Mul(shifts, 0.5))};
  Expr sum{&d.b, d.Sum(LogGamma(y.Cast(DType::kFloat64)).v, {x->rank()})};
  Result(d, sum + steps * (steps - 1) / 4 * std::log(kPi));
}

// P(a, x) or Q(a, x): x^a e^-x / gamma(a) times a Laplace integral, by the trapezoidal rule after the double
// exponential substitution t = exp(u - exp(-u)) (Takahasi and Mori), at a scale by which the integrand decays:
//   Q: integral of exp(-x t) (1 + t)^(a - 1) (DLMF 8.6.5), for x >= max(a, 1),
//   P: integral of exp(x (1 - e^-t) - a t) (DLMF 8.6.3), elsewhere.
void IncompleteGamma(Decomposer& d, bool upper) {
  auto [a, x] = Broadcast(Input(d, "self"), Input(d, "other"));
  constexpr double kStep = 0.1, kFirst = -3.6;
  constexpr int kNodes = 80;
  Expr u =
      Expr{&d.b, d.b.Call("aten.arange.start_step", {0, kNodes, 1}, {{"dtype", DType::kFloat64}})} * kStep + kFirst;
  Expr decay = Exp(-u), t0 = Exp(u - decay), w0 = t0 * (decay + 1.0) * kStep;
  const int rank = a.v->rank();
  auto wide = [&](Expr e) { return Expr{&d.b, Unsqueeze(d, e.v, rank)}; };

  Expr valid = (a > 0.0) & (x > 0.0) & (a < kInf) & (x < kInf);
  Expr a1 = Where(valid, a, 1.0), x1 = Where(valid, x, 1.0);
  Expr tail = (x1 >= 1.0) & (!(x1 < a1));
  auto larger = [](Expr p, Expr q) { return p.Call("maximum", {q.v}); };
  Expr scale = 1.0 / Where(tail, larger(x1 - a1 + 1.0, Sqrt(x1)), Where(a1 < 1.0, a1, larger(a1 - x1, Sqrt(a1))));
  Expr t = wide(scale) * t0, wa = wide(a1), wx = wide(x1);
  Expr integrand = Where(wide(tail), (wa - 1.0) * Log1p(t) - wx * t, -(wx * Expm1(-t)) - wa * t);
  Expr integral{&d.b, d.Sum((Exp(integrand) * w0).v, {rank})};
  Expr part = Exp(a1 * Log(x1) - x1 - LogGamma(a1)) * scale * integral;  // Q where tail, else P
  Expr value = upper ? Where(tail, part, 1.0 - part) : Where(tail, 1.0 - part, part);

  // The borders of the domain, as torch decides them in turn.
  const double none = upper ? 1 : 0, all = 1 - none;
  value = Where(IsNan(x) | IsNan(a), kNan, value);
  value = Where(IsInf(x), all, value);
  value = Where(IsInf(a), Where(IsInf(x), a.Like(kNan), none), value);
  value = Where(Equal(x, 0.0), none, value);
  value = Where(Equal(a, 0.0), Where(x > 0.0, x.Like(all), kNan), value);
  Result(d, Where((x < 0.0) | (a < 0.0), kNan, value));
}

// sum of (q + k)^-s over k >= 0 where defined. Terms of a negative q are added one by one, as many as it takes to get
// past zero: s is then an integer.
void Zeta(Decomposer& d) {
  auto [s, q] = Broadcast(Input(d, "self"), Input(d, "other"));
  Expr whole_q = Equal(Floor(q), q), whole_s = Equal(Floor(s), s);
  Expr shifted = (q < 0.0) & (!whole_q) & whole_s & (s > 1.0);
  Expr start = Where(shifted, q, 1.0);
  Expr none = start * 0.0;
  Exprs end = While(
      d.b, {start, none}, {s},
      [](const Exprs& in) { return Expr{in[0].b, in[0].b->Call("aten.any.default", {(in[0] < 0.0).v})}; },
      [](const Exprs& in) -> Exprs {
        Expr more = in[0] < 0.0;
        return {Where(more, in[0] + 1.0, in[0]), Where(more, in[1] + Pow(in[0], -in[2]), in[1])};
      });
  Expr value = HurwitzZeta(s, Where(shifted, end[0], q)) + Where(shifted, end[1], 0.0);
  value = Where(q <= 0.0, Where(whole_q, q.Like(kInf), Where(whole_s, value, kNan)), value);
  Result(d, Where(s < 1.0, kNan, Where(Equal(s, 1.0), kInf, value)));
}

// ---- Error functions (DLMF 7) and normal distributions

// exp(x^2) erfc(x) for x >= 0.
Expr ScaledErfcOfPositive(Expr x) {
  constexpr double kMiddle = 3.75;
  return Eval(kScaledErfc, 1.0 - 2 * kMiddle / (x + kMiddle)) / (x * 2.0 + 1.0);
}
Expr Erfcx(Expr x) {
  Expr value = ScaledErfcOfPositive(Abs(x));
  return Where(x < 0.0, 2.0 * Exp(x * x) - value, value);
}
Expr Erfc(Expr x) {
  Expr value = Exp(-(x * x)) * ScaledErfcOfPositive(Abs(x));
  return Where(x < 0.0, 2.0 - value, value);
}
Expr LogNdtr(Expr x) {
  Expr t = x * std::numbers::sqrt2 * 0.5;
  return Where(x < -1.0, Log(ScaledErfcOfPositive(-t) * 0.5) - t * t, Log1p(Erfc(t) * -0.5));
}
// erfinv(x) / x as a function of w = -log(1 - x^2).
Expr ErfinvRatio(Expr w) {
  Expr s = Sqrt(w);
  return Where(w < 6.0, Eval(kErfinvNear, w), Where(w < 49.0, Eval(kErfinvFar, s), s * Eval(kErfinvTail, 1.0 / s)));
}
Expr Erfinv(Expr x) { return x * ErfinvRatio(-Log((1.0 - x) * (1.0 + x))); }
// The inverse of the normal distribution: sqrt 2 erfinv(2 p - 1), from the nearer end.
Expr Ndtri(Expr p) {
  Expr low = p < 0.5, q = 2.0 * Where(low, p, 1.0 - p);
  Expr value = (1.0 - q) * ErfinvRatio(-Log(q * (2.0 - q))) * std::numbers::sqrt2;
  return Where(low, -value, value);
}
Expr Ndtr(Expr x) { return 0.5 * Erfc(x * (-0.5 * std::numbers::sqrt2)); }
Expr Entropy(Expr x) {
  Expr value = Where(x > 0.0, -(x * Log(x)), Where(x < 0.0, x.Like(-kInf), 0.0));
  return Where(IsNan(x), x, value);
}

template <Expr (*f)(Expr)>
void Of(Decomposer& d) {
  Result(d, f(Input(d)));
}

constexpr DecomposeRow kGammaRows[] = {
    {"aten.lgamma.default", Of<LogGamma>},
    {"aten.digamma.default", Of<Digamma>},
    {"aten.polygamma.default", PolygammaOp},
    {"aten.mvlgamma.default", MultivariateLogGamma},
    {"aten.igamma.default", [](Decomposer& d) { IncompleteGamma(d, false); }},
    {"aten.igammac.default", [](Decomposer& d) { IncompleteGamma(d, true); }},
    {"aten.special_zeta.default", Zeta},
    {"aten.special_zeta.self_scalar", Zeta},
    {"aten.special_zeta.other_scalar", Zeta},
    {"aten.erfc.default", Of<Erfc>},
    {"aten.special_erfcx.default", Of<Erfcx>},
    {"aten.erfinv.default", Of<Erfinv>},
    {"aten.special_ndtr.default", Of<Ndtr>},
    {"aten.special_log_ndtr.default", Of<LogNdtr>},
    {"aten.special_ndtri.default", Of<Ndtri>},
    {"aten.special_entr.default", Of<Entropy>},
};

}  // namespace

absl::Span<const DecomposeRow> GammaDecompositions() { return kGammaRows; }

absl::Span<const DecomposeRow> SpecialDecompositions() {
  static const auto& rows = *[] {
    auto* all = new std::vector<DecomposeRow>();
    for (auto part :
         {GammaDecompositions(), BesselDecompositions(), PolynomialDecompositions(), NumberDecompositions()})
      all->insert(all->end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

}  // namespace slipway::passes
