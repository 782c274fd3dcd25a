// Decompositions: Bessel functions and the Airy function, by series about zero and by their asymptotic forms, both
// fitted (special_tables.h).
#include <cmath>
#include <limits>
#include <numbers>

#include "passes/decompositions/special/expression.h"
#include "passes/decompositions/special/special.h"
#include "passes/float_constants.h"

namespace slipway::passes {
namespace {

constexpr double kNear = 8;  // where the fits about zero end

struct Hankel {
  Expr p, q, sin, cos, scale;
};
// What J and Y are made of for large x (DLMF 10.17.3, 10.17.4). The angle is rounded to torch's type as torch rounds
// it.
Hankel LargeArgument(Decomposer& d, int order, Expr x) {
  Expr z = kNear / x, z2 = z * z;
  Expr angle = (x.Cast(d.compute_dtype()) - (order * kPi / 2 + kPi / 4)).Cast(DType::kFloat64);
  return {Eval(order ? kBesselP1 : kBesselP0, z2), z * Eval(order ? kBesselQ1 : kBesselQ0, z2), Sin(angle), Cos(angle),
          Sqrt(2 / kPi / x)};
}
Expr BesselJNear(int order, Expr x) { return order ? x * Eval(kBesselJ1, x * x) : Eval(kBesselJ0, x * x); }
template <int order>
void BesselJ(Decomposer& d) {
  Expr x = Input(d), y = Abs(x);
  Hankel h = LargeArgument(d, order, y);
  Expr value = Where(y <= kNear, BesselJNear(order, y), h.scale * (h.p * h.cos - h.q * h.sin));
  Result(d, order ? Where(x < 0.0, -value, value) : value);
}
template <int order>
void BesselY(Decomposer& d) {
  Expr x = Input(d);
  Hankel h = LargeArgument(d, order, x);
  Expr near = order ? x * Eval(kBesselY1, x * x) + 2 / kPi * (Log(x) * BesselJNear(1, x) - 1.0 / x)
                    : Eval(kBesselY0, x * x) + 2 / kPi * (Log(x) * BesselJNear(0, x));
  Expr value = Where(x <= kNear, near, h.scale * (h.p * h.sin + h.q * h.cos));
  Result(d, Where(Equal(x, 0.0), -kInf, Where(x < 0.0, kNan, value)));
}

// exp(-|x|) I(x).
Expr ScaledI(int order, Expr x) {
  Expr y = Abs(x), z = kNear / y;
  Expr near = order ? x * Eval(kBesselI1Near, y) : Eval(kBesselI0Near, y);
  Expr far = Eval(order ? kBesselI1Far : kBesselI0Far, z) / Sqrt(y);
  return Where(y <= kNear, near, order ? Where(x < 0.0, -far, far) : far);
}
template <int order>
void ScaledBesselI(Decomposer& d) {
  Result(d, ScaledI(order, Input(d)));
}
template <int order>
void BesselI(Decomposer& d) {
  Expr x = Input(d);
  // The exponential leaves the range of torch's type before the product does.
  Result(d, Exp(Abs(x)).Cast(d.compute_dtype()).Cast(DType::kFloat64) * ScaledI(order, x));
}

// K(x), or exp(x) K(x).
template <int order, bool scaled>
void BesselK(Decomposer& d) {
  Expr x = Input(d), log = Log(x * 0.5), i = ScaledI(order, x) * Exp(x);
  Expr near = order ? log * i + Eval(kBesselK1Near, x * x) / x : Eval(kBesselK0Near, x * x) - log * i;
  Expr far = Eval(order ? kBesselK1Far : kBesselK0Far, 2.0 / x) / Sqrt(x);
  Expr value = Where(x <= 2.0, scaled ? near * Exp(x) : near, scaled ? far : far * Exp(-x));
  Result(d, Where(Equal(x, 0.0), kInf, Where(x < 0.0, kNan, value)));
}

void SphericalBesselJ0(Decomposer& d) {
  Expr x = Input(d), zero = Equal(x, 0.0);
  Expr safe = Where(zero, 1.0, x);
  Result(d, Where(IsInf(x), 0.0, Where(zero, 1.0, Sin(safe) / safe)));
}

void AiryAi(Decomposer& d) {
  Expr x = Input(d), y = Abs(x), root = Sqrt(y);
  Expr zeta = 2.0 / 3.0 * y * root, fourth = Sqrt(root), z2 = 1.0 / (zeta * zeta), angle = zeta - kPi / 4;
  Expr decay = Exp(-zeta) * Eval(kAiryDecay, 1.0 / zeta) / (2 * std::sqrt(kPi) * fourth);
  Expr wave = (Eval(kAiryP, z2) * Cos(angle) + Eval(kAiryQ, z2) * Sin(angle) / zeta) / (std::sqrt(kPi) * fourth);
  Expr value = Where(x > 2.0, decay, Where(x < -4.0, wave, Eval(kAiryNear, x)));
  Result(d, Where(IsInf(x), kNan, Where(x > 103.892, 0.0, value)));
}

constexpr DecomposeRow kBesselRows[] = {
    {"aten.special_bessel_j0.default", BesselJ<0>},
    {"aten.special_bessel_j1.default", BesselJ<1>},
    {"aten.special_bessel_y0.default", BesselY<0>},
    {"aten.special_bessel_y1.default", BesselY<1>},
    {"aten.i0.default", BesselI<0>},
    {"aten.special_i0e.default", ScaledBesselI<0>},
    {"aten.special_i1.default", BesselI<1>},
    {"aten.special_i1e.default", ScaledBesselI<1>},
    {"aten.special_modified_bessel_i0.default", BesselI<0>},
    {"aten.special_modified_bessel_i1.default", BesselI<1>},
    {"aten.special_modified_bessel_k0.default", BesselK<0, false>},
    {"aten.special_modified_bessel_k1.default", BesselK<1, false>},
    {"aten.special_scaled_modified_bessel_k0.default", BesselK<0, true>},
    {"aten.special_scaled_modified_bessel_k1.default", BesselK<1, true>},
    {"aten.special_spherical_bessel_j0.default", SphericalBesselJ0},
    {"aten.special_airy_ai.default", AiryAi},
};

}  // namespace

absl::Span<const DecomposeRow> BesselDecompositions() { return kBesselRows; }

}  // namespace slipway::passes
