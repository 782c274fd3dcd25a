// The evaluation of one expression. Overflow, division by zero and roots of negative numbers have no value, and neither
// has what is made of them; kMul by zero and the operand that kSelect does not take are the exceptions.
#include "kernels/executor/expression.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace slipway::kernels {
namespace {

// The quotient rounded down; false where there is none.
bool FloorDiv(int64_t a, int64_t b, int64_t* q) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return false;
  *q = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  return true;
}

Scalar FromReal(double v) { return v >= -0x1p63 && v < 0x1p63 ? Scalar::Int(static_cast<int64_t>(v)) : Scalar{}; }

Scalar Pow(int64_t base, int64_t exponent) {
  if (exponent < 0) return {};
  int64_t result = 1;
  for (;;) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return {};
    exponent >>= 1;
    if (exponent == 0) return Scalar::Int(result);
    if (__builtin_mul_overflow(base, base, &base)) return {};
  }
}

}  // namespace

int Operands(Expr::Op op) {
  switch (op) {
    case Expr::kInt:
    case Expr::kReal:
    case Expr::kSymbol: return 0;
    case Expr::kSqrt:
    case Expr::kTruncReal:
    case Expr::kToReal:
    case Expr::kTruncToInt:
    case Expr::kFloorToInt:
    case Expr::kCeilToInt:
    case Expr::kRoundToInt:
    case Expr::kNot: return 1;
    case Expr::kSelect: return 3;
    default: return 2;
  }
}

Scalar Evaluate(const Expr& e, std::span<const Scalar> values, std::span<const Scalar> symbols) {
  Scalar x, y;
  switch (Operands(e.op)) {
    case 3: {  // what is not chosen need not have a value
      const Scalar& condition = values[e.a];
      return condition.known ? values[condition.bits != 0 ? e.b : e.c] : Scalar{};
    }
    case 2:
      y = values[e.b];
      x = values[e.a];
      if (e.op == Expr::kMul && ((x.known && x.bits == 0) || (y.known && y.bits == 0))) return Scalar::Int(0);
      if (!y.known || !x.known) return {};
      break;
    case 1:
      x = values[e.a];
      if (!x.known) return {};
      break;
    default: break;
  }
  const int64_t a = x.bits, b = y.bits;
  const double p = x.real(), q = y.real();
  int64_t r = 0;
  switch (e.op) {
    case Expr::kInt:
    case Expr::kReal: return {e.value, true};
    case Expr::kSymbol: return symbols[static_cast<size_t>(e.value)];
    case Expr::kAdd: return __builtin_add_overflow(a, b, &r) ? Scalar{} : Scalar::Int(r);
    case Expr::kMul: return __builtin_mul_overflow(a, b, &r) ? Scalar{} : Scalar::Int(r);
    case Expr::kFloorDiv: return FloorDiv(a, b, &r) ? Scalar::Int(r) : Scalar{};
    case Expr::kCeilDiv: return FloorDiv(a, b, &r) ? Scalar::Int(r + (a % b != 0 ? 1 : 0)) : Scalar{};
    case Expr::kMod:
      if (!FloorDiv(a, b, &r)) return {};
      r = a % b;  // with the divisor's sign
      return Scalar::Int(r != 0 && (r < 0) != (b < 0) ? r + b : r);
    case Expr::kPow: return Pow(a, b);
    case Expr::kMax: return Scalar::Int(std::max(a, b));
    case Expr::kMin: return Scalar::Int(std::min(a, b));
    case Expr::kBitAnd: return Scalar::Int(a & b);
    case Expr::kBitOr: return Scalar::Int(a | b);
    case Expr::kBitXor: return Scalar::Int(a ^ b);
    case Expr::kAddReal: return Scalar::Real(p + q);
    case Expr::kMulReal: return Scalar::Real(p * q);
    case Expr::kDivReal: return q == 0 ? Scalar{} : Scalar::Real(p / q);
    case Expr::kPowReal: return Scalar::Real(std::pow(p, q));
    case Expr::kMaxReal: return Scalar::Real(p != p || p > q ? p : q);
    case Expr::kMinReal: return Scalar::Real(p != p || p < q ? p : q);
    case Expr::kModReal: {
      if (q == 0) return {};
      const double m = std::fmod(p, q);
      return Scalar::Real(m != 0 && (m < 0) != (q < 0) ? m + q : m);
    }
    case Expr::kSqrt: return p >= 0 ? Scalar::Real(std::sqrt(p)) : Scalar{};
    case Expr::kTruncReal: return Scalar::Real(std::trunc(p));
    case Expr::kToReal: return Scalar::Real(static_cast<double>(a));
    case Expr::kDivInts: {  // of integers that doubles hold, so that it is rounded once
      constexpr int64_t kExact = int64_t{1} << 53;
      if (b == 0 || a < -kExact || a > kExact || b < -kExact || b > kExact) return {};
      return Scalar::Real(static_cast<double>(a) / static_cast<double>(b));
    }
    case Expr::kTruncToInt: return FromReal(std::trunc(p));
    case Expr::kFloorToInt: return FromReal(std::floor(p));
    case Expr::kCeilToInt: return FromReal(std::ceil(p));
    case Expr::kRoundToInt: return FromReal(std::nearbyint(p));
    case Expr::kEq: return Scalar::Int(a == b);
    case Expr::kLt: return Scalar::Int(a < b);
    case Expr::kLe: return Scalar::Int(a <= b);
    case Expr::kEqReal: return Scalar::Int(p == q);
    case Expr::kLtReal: return Scalar::Int(p < q);
    case Expr::kLeReal: return Scalar::Int(p <= q);
    case Expr::kAnd: return Scalar::Int(a != 0 && b != 0);
    case Expr::kOr: return Scalar::Int(a != 0 || b != 0);
    case Expr::kNot: return Scalar::Int(a == 0);
    case Expr::kSelect: break;
  }
  return {};
}

}  // namespace slipway::kernels
