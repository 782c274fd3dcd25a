// What the rewriting of complex numbers (lower_complex.cc) and the rules for operators (arithmetic.cc, functions.cc,
// fft.cc) share: each complex tensor is a pair of real tensors of its sizes.
#ifndef SLIPWAY_PASSES_COMPLEX_PAIRS_H_
#define SLIPWAY_PASSES_COMPLEX_PAIRS_H_

#include <optional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops/args.h"

namespace slipway::passes {

// A complex tensor. An imaginary part of null is zero: real numbers that were promoted.
struct Pair {
  ir::Value* re = nullptr;
  ir::Value* im = nullptr;
};

// What a rule sees of the node it rewrites: its arguments, a builder before it, and the pairs so far.
class ComplexContext : public ir::ArgReader {
 public:
  ComplexContext(const ir::Node& n, ir::Builder& b, absl::flat_hash_map<const ir::Value*, Pair>& pairs)
      : ArgReader(n), b(b), pairs_(pairs) {}

  ir::Builder& b;

  bool flag(std::string_view name) { return ArgReader::b(name); }  // `b` is the builder here
  // The parts of a value: those of a real one are itself and none.
  Pair Of(ir::Value* v);
  // A tensor argument.
  Pair in(std::string_view name) { return Of(tensor(name)); }
  // A tensor or number argument; numbers come as 0-d tensors of `real`.
  Pair Operand(std::string_view name, ir::DType real);
  // The real dtype of result 0's parts.
  ir::DType real() const { return ir::ToReal(node_.output()->dtype()); }
  // The imaginary part, zeros where it is none.
  ir::Value* Im(const Pair& p);

  // The result: parts where the node's result is complex, else the real part.
  void Return(Pair p) {
    if (ir::IsComplex(node_.output()->dtype())) p = {b.Cast(p.re, real()), p.im ? b.Cast(p.im, real()) : nullptr};
    pairs_[node_.output()] = p;
  }
  void Return(ir::Value* real) { Return(Pair{real, nullptr}); }
  void ReturnAt(size_t i, Pair p) { pairs_[node_.output(i)] = p; }  // result i, in its type

  // Shorthands.
  ir::Value* Add(ir::Value* x, ir::Value* y) { return b.Call("aten.add.Tensor", {x, y}); }
  ir::Value* Sub(ir::Value* x, ir::Value* y) { return b.Call("aten.sub.Tensor", {x, y}); }
  ir::Value* Mul(ir::Value* x, ir::Value* y) { return b.Call("aten.mul.Tensor", {x, y}); }
  ir::Value* Div(ir::Value* x, ir::Value* y) { return b.Call("aten.div.Tensor", {x, y}); }
  ir::Value* Neg(ir::Value* x) { return b.Call("aten.neg.default", {x}); }
  Pair Times(const Pair& x, const Pair& y);
  Pair Quotient(const Pair& x, const Pair& y);
  Pair Scale(const Pair& x, ir::Value* real) { return {Mul(x.re, real), x.im ? Mul(x.im, real) : nullptr}; }
  Pair Conj(const Pair& x) { return {x.re, x.im ? Neg(x.im) : nullptr}; }

 private:
  absl::flat_hash_map<const ir::Value*, Pair>& pairs_;
};

// A rule for an operator, by "namespace.name" and optionally an overload.
struct ComplexRule {
  std::string_view op;
  void (*fn)(ComplexContext& c);
};

// Construction, arithmetic, comparisons, products (arithmetic.cc).
absl::Span<const ComplexRule> ComplexArithmeticRules();
// Elementary functions, reductions (functions.cc).
absl::Span<const ComplexRule> ComplexFunctionRules();
// Fourier transforms over slipway.dft, the unnormalized forward transform along one dimension.
absl::Span<const ComplexRule> FourierRules();

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_COMPLEX_PAIRS_H_
