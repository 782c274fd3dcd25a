// RMS norms that a program writes out become aten.rms_norm:
//
//   x · rsqrt(mean(x · x over the last dim) + eps), and the product with a vector that may follow
//
// in f32 or f64, where a target's own operator gives the same numbers up to the order of a sum and the rounding of a
// root. Of narrower types the program's conversions stay around it: its roundings are not those of a norm of bf16.
#include <algorithm>
#include <optional>
#include <utility>

#include "ir/builder.h"
#include "ir/ops/args.h"
#include "passes/match.h"
#include "passes/pass.h"
#include "passes/replace_recognized.h"

namespace slipway::passes {
namespace {

using ir::DType;
using ir::Node;
using ir::Value;

// The two factors of a product of tensors.
std::pair<Value*, Value*> Factors(const Node* n) {
  if (!Is(n, "aten.mul.Tensor")) return {};
  return {n->Get("self").value(), n->Get("other").value()};
}

// What is squared.
Value* ReadSquare(const Value* v) {
  const Node* n = v->producer();
  if (Is(n, "aten.square.default")) return n->Get("self").value();
  if (Is(n, "aten.pow.Tensor_Scalar")) return ReadNumber(n->Get("exponent")) == 2.0 ? n->Get("self").value() : nullptr;
  const auto [a, b] = Factors(n);
  return a == b ? a : nullptr;
}

// 1 / sqrt(mean(x²) + eps) over the last dim, which is kept.
struct InverseRoot {
  Value* x = nullptr;
  double epsilon = 0;
};
std::optional<InverseRoot> ReadInverseRoot(Value* v) {
  const Node* n = v->producer();
  const bool root =
      Is(n, "aten.rsqrt.default") || (Is(n, "aten.pow.Tensor_Scalar") && ReadNumber(n->Get("exponent")) == -0.5);
  if (!root || !IsOnlyUse(v)) return std::nullopt;
  const Value* sum = n->Get("self").value();
  if (!sum || !IsOnlyUse(sum) || (!Is(sum->producer(), "aten.add.Tensor") && !Is(sum->producer(), "aten.add.Scalar")))
    return std::nullopt;
  ir::ArgReader add(*sum->producer());
  const ir::Scalar alpha = add.scalar("alpha");
  const Value* mean = add.tensor("self");
  const auto epsilon = ReadNumber(sum->producer()->Get("other"));
  if (!add.ok() || !epsilon || !alpha.is_constant() || alpha.d != 1 || !Is(mean->producer(), "aten.mean.dim") ||
      !IsOnlyUse(mean) || mean->dtype() != v->dtype() || sum->rank() != mean->rank())
    return std::nullopt;
  ir::ArgReader a(*mean->producer());
  const Value* square = a.tensor("self");
  const std::vector<int> dims = a.dims("dim", square->rank());
  if (!a.ok() || !a.b("keepdim") || dims != std::vector<int>{square->rank() - 1} || !IsOnlyUse(square))
    return std::nullopt;
  Value* x = ReadSquare(square);
  if (!x || x->dtype() != v->dtype() || x->rank() == 0) return std::nullopt;
  return InverseRoot{x, *epsilon};
}

// Norms without a vector, then those with one.
Value* RecognizeNorm(Node* n, ir::Builder& b) {
  auto [left, right] = Factors(n);
  if (!left || !right || !left->type().is_tensor() || !right->type().is_tensor()) return nullptr;
  for (auto [x, root] : {std::pair(left, right), {right, left}}) {
    const auto norm = ReadInverseRoot(root);
    if (!norm || norm->x != x || (x->dtype() != DType::kFloat32 && x->dtype() != DType::kFloat64)) continue;
    const auto size = x->sizes().back().constant();
    if (!size || *size < 1) return nullptr;
    return b.Call("aten.rms_norm.default", {x, ir::Ints{*size}, ir::Arg(), norm->epsilon});
  }
  for (auto [y, vector] : {std::pair(left, right), {right, left}}) {
    const Node* norm = y->producer();
    if (!Is(norm, "aten.rms_norm.default") || norm->Get("weight").value() || !IsOnlyUse(y) ||
        vector->dtype() != y->dtype() || vector->rank() > y->rank() || vector->rank() == 0)
      continue;
    const ir::Ints* shape = norm->Get("normalized_shape").get<ir::Ints>();
    if (!shape || shape->size() != 1 || vector->sizes().back().constant() != shape->back()) continue;
    if (!std::all_of(vector->sizes().begin(), vector->sizes().end() - 1, [](ir::Sym s) { return s.is(1); })) continue;
    if (vector->rank() > 1) vector = b.Call("aten.reshape.default", {vector, *shape});
    return b.Call("aten.rms_norm.default", {norm->Get("input"), *shape, vector, norm->Get("eps")});
  }
  return nullptr;
}

}  // namespace

absl::Status RecognizeNorms(ir::Program& p) { return ReplaceRecognized(p, RecognizeNorm); }

}  // namespace slipway::passes
