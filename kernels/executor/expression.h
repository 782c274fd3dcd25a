// Numbers that a plan knows only when it runs: a table of expressions over symbols, each entry over entries before it.
// Integers are of 64 bits and never wrap: what overflows, or divides by zero, has no value, and neither has what is
// made of it. Division and remainder round towards minus infinity, as torch's symbolic sizes do.
#ifndef SLIPWAY_KERNELS_EXECUTOR_EXPRESSION_H_
#define SLIPWAY_KERNELS_EXECUTOR_EXPRESSION_H_

#include <bit>
#include <cstdint>
#include <span>

namespace slipway::kernels {

struct Expr {
  enum Op : uint8_t {
    kInt,     // value
    kReal,    // value: the bits of a double
    kSymbol,  // value: the symbol's index
    // Of integers.
    kAdd,
    kMul,
    kFloorDiv,
    kCeilDiv,
    kMod,
    kPow,
    kMax,
    kMin,
    kBitAnd,
    kBitOr,
    kBitXor,
    // Of reals.
    kAddReal,
    kMulReal,
    kDivReal,
    kPowReal,
    kMaxReal,
    kMinReal,
    kModReal,
    kSqrt,
    kTruncReal,
    // From one to the other.
    kToReal,
    kDivInts,  // the real quotient of integers
    kTruncToInt,
    kFloorToInt,
    kCeilToInt,
    kRoundToInt,  // halves to even
    // Conditions: 0 or 1.
    kEq,
    kLt,
    kLe,
    kEqReal,
    kLtReal,
    kLeReal,
    kAnd,
    kOr,
    kNot,
    kSelect,  // a ? b : c
  };
  static constexpr int kOps = kSelect + 1;
  Op op = kInt;
  int32_t a = -1, b = -1, c = -1;  // operands: indices of earlier entries
  int64_t value = 0;
};

// How many operands an operation takes, and whether its value and its operands are reals (a condition and the first
// operand of kSelect are integers; kSelect's others and its value are of one kind, either).
int Operands(Expr::Op op);

// A value: an integer, or the bits of a double.
struct Scalar {
  int64_t bits = 0;
  bool known = false;
  static Scalar Int(int64_t v) { return {v, true}; }
  static Scalar Real(double v) { return {std::bit_cast<int64_t>(v), true}; }
  double real() const { return std::bit_cast<double>(bits); }
};

// The value of `e`, whose operands' values are in `values`.
Scalar Evaluate(const Expr& e, std::span<const Scalar> values, std::span<const Scalar> symbols);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_EXECUTOR_EXPRESSION_H_
