// Attention in f32 that a program writes out becomes aten.scaled_dot_product_attention:
//
//   softmax(q · kᵀ, scaled by numbers anywhere, + mask) · v
//
// which keeps no matrix of queries by keys. Where a row has no key at all (-inf everywhere) that operator gives 0 and
// the softmax NaN; so a mask must be known not to reach it, or the program itself must replace such NaN by 0.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "ir/builder.h"
#include "ir/ops/args.h"
#include "ir/ops/op_table.h"
#include "passes/match.h"
#include "passes/pass.h"
#include "passes/replace_recognized.h"
#include "passes/stored_weights.h"

namespace slipway::passes {
namespace {

using ir::Arg;
using ir::DType;
using ir::Node;
using ir::Value;

constexpr int64_t kMostNumbers = int64_t{1} << 20;  // of a stored mask that is read
constexpr int kDeepest = 24;                        // nodes of a mask's computation that are looked through

Value* Self(const Node* n) { return n->Get("self").value(); }

// Between what numbers all elements of a value are.
struct Bounds {
  double low = 0, high = 0;
};

class AttentionRecognizer {
 public:
  explicit AttentionRecognizer(ir::Program& p) : weights_(p) {}
  Value* Recognize(Node* n, ir::Builder& b);

 private:
  StoredWeights weights_;

  std::optional<Bounds> BoundsOf(const Value* v, int depth) const;
  std::optional<Bounds> BoundsOf(const Arg& a, int depth) const;
  std::optional<Bounds> Computed(const Node& n, int depth) const;
  std::optional<double> NumberIn(const Arg& a) const { return ReadNumber(a, &weights_); }
  // Scores of which a number takes the place where a mask says so.
  struct Filled {
    Value *scores = nullptr, *where = nullptr;
    double number = 0;
    bool inside = false;  // where the mask is true
  };
  std::optional<Filled> ReadFilled(const Value* v) const;
  // x of x · number, whose number goes into *scale; a value that is nothing of the kind as it is.
  Value* Unscaled(Value* v, double* scale) const;
};

// As f32 has them; nothing where they are no numbers.
std::optional<Bounds> Rounded(double low, double high) {
  constexpr double kMost = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<double>::infinity();
  if (std::isnan(low) || std::isnan(high)) return std::nullopt;
  const auto rounded = [](double d) { return d > kMost ? kInfinity : d < -kMost ? -kInfinity : d; };
  return Bounds{rounded(low), rounded(high)};
}

std::optional<Bounds> AttentionRecognizer::BoundsOf(const Arg& a, int depth) const {
  if (const bool* x = a.get<bool>()) return *x ? Bounds{1, 1} : Bounds{0, 0};
  if (const auto number = NumberIn(a)) return Rounded(*number, *number);
  return a.value() ? BoundsOf(a.value(), depth) : std::nullopt;
}

std::optional<Bounds> AttentionRecognizer::BoundsOf(const Value* v, int depth) const {
  if (!v->type().is_tensor()) return std::nullopt;
  if (v->producer())
    if (const auto computed = depth > 0 ? Computed(*v->producer(), depth - 1) : std::nullopt) return computed;
  // Integers that masks are made of say which keys there are, 0 and 1 as a rule. A row in which all are negative would
  // be 0 instead of NaN.
  if (v->dtype() == DType::kBool) return Bounds{0, 1};
  if (ir::IsIntegral(v->dtype())) return Bounds{0, 0x1p64};
  const std::string* name = weights_.NameOf(v);
  if (!name || weights_.Tensor(*name).numel() > kMostNumbers) return std::nullopt;
  const auto numbers = weights_.Read(*name);
  if (!numbers.ok() || numbers->empty()) return std::nullopt;
  if (std::any_of(numbers->begin(), numbers->end(), [](double d) { return std::isnan(d); })) return std::nullopt;
  const auto [low, high] = std::minmax_element(numbers->begin(), numbers->end());
  return Rounded(*low, *high);
}

// Of what masks are made of.
std::optional<Bounds> AttentionRecognizer::Computed(const Node& n, int depth) const {
  const std::string_view op = n.op_name();
  const auto of = [&](std::string_view argument) { return BoundsOf(n.Get(argument), depth); };
  const auto hull = [](std::optional<Bounds> a, std::optional<Bounds> b) -> std::optional<Bounds> {
    if (!a || !b) return std::nullopt;
    return Bounds{std::min(a->low, b->low), std::max(a->high, b->high)};
  };
  const auto sum = [](std::optional<Bounds> a, std::optional<Bounds> b, double sign) -> std::optional<Bounds> {
    if (!a || !b) return std::nullopt;
    return sign < 0 ? Rounded(a->low - b->high, a->high - b->low) : Rounded(a->low + b->low, a->high + b->high);
  };
  const auto is_one = [&](std::string_view argument) {
    return n.Get(argument).is_none() || NumberIn(n.Get(argument)) == 1.0;
  };
  if (op == "aten.full.default") return of("fill_value");
  if (op == "aten.zeros.default" || op == "aten.zeros_like.default") return Bounds{0, 0};
  if (op == "aten.ones.default" || op == "aten.ones_like.default") return Bounds{1, 1};
  const ir::OpTraits& traits = n.op().traits;
  for (std::string_view argument : {traits.identity, traits.cast})
    if (!argument.empty()) return of(argument);
  if (traits.chooses_elements && !n.args().empty()) {
    const Arg& first = n.args()[0].arg;
    const auto* list = first.get<ir::Values>();
    if (!list) return BoundsOf(first, depth);
    std::optional<Bounds> all;
    for (size_t i = 0; i < list->size(); ++i) {
      const auto one = (*list)[i] ? BoundsOf((*list)[i], depth) : std::nullopt;
      all = i == 0 ? one : hull(all, one);
    }
    return all;
  }
  if (op == "aten.where.self") return hull(of("self"), of("other"));
  if (op == "aten.masked_fill.Scalar" || op == "aten.masked_fill.Tensor") return hull(of("self"), of("value"));
  if (op == "aten.tril.default" || op == "aten.triu.default") return hull(of("self"), Bounds{0, 0});
  if (op == "aten.neg.default") return sum(Bounds{0, 0}, of("self"), -1);
  if (op == "aten.add.Tensor" || op == "aten.add.Scalar")
    return is_one("alpha") ? sum(of("self"), of("other"), 1) : std::nullopt;
  if (op == "aten.sub.Tensor" || op == "aten.sub.Scalar")
    return is_one("alpha") ? sum(of("self"), of("other"), -1) : std::nullopt;
  if (op == "aten.rsub.Scalar" || op == "aten.rsub.Tensor")
    return is_one("alpha") ? sum(of("other"), of("self"), -1) : std::nullopt;
  if (op == "aten.mul.Tensor" || op == "aten.mul.Scalar") {
    const auto a = of("self"), b = of("other");
    if (!a || !b) return std::nullopt;
    const double products[] = {a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high};
    if (std::any_of(std::begin(products), std::end(products), [](double d) { return std::isnan(d); }))
      return std::nullopt;
    return Rounded(*std::min_element(std::begin(products), std::end(products)),
                   *std::max_element(std::begin(products), std::end(products)));
  }
  return std::nullopt;
}

Value* AttentionRecognizer::Unscaled(Value* v, double* scale) const {
  for (const Node* n = v->producer(); n && IsOnlyUse(v); n = v->producer()) {
    const bool product = Is(n, "aten.mul.Tensor") || Is(n, "aten.mul.Scalar"),
               quotient = Is(n, "aten.div.Tensor") || Is(n, "aten.div.Scalar");
    if (!product && !quotient) break;
    Value *x = Self(n), *other = n->Get("other").value();
    std::optional<double> number = NumberIn(n->Get("other"));
    if (!number && product && other) number = NumberIn(n->Get("self")), x = other;
    if (!number || *number == 0 || !x || !x->type().is_tensor() || x->dtype() != v->dtype() || x->rank() != v->rank())
      break;
    *scale *= product ? *number : 1 / *number;
    v = x;
  }
  return v;
}

std::optional<AttentionRecognizer::Filled> AttentionRecognizer::ReadFilled(const Value* v) const {
  const Node* n = v->producer();
  Filled f;
  std::optional<double> found;
  if (Is(n, "aten.where.self")) {
    f.where = n->Get("condition").value();
    found = NumberIn(n->Get("other")), f.scores = Self(n);
    if (!found) found = NumberIn(n->Get("self")), f.scores = n->Get("other").value(), f.inside = true;
  } else if (Is(n, "aten.masked_fill.Scalar") || Is(n, "aten.masked_fill.Tensor")) {
    f = {.scores = Self(n), .where = n->Get("mask").value(), .inside = true};
    found = NumberIn(n->Get("value"));
  }
  if (!found || !f.scores || !f.where || !f.scores->type().is_tensor() || !f.where->type().is_tensor() ||
      f.where->dtype() != DType::kBool)
    return std::nullopt;
  f.number = *found;
  return f;
}

// What is in front of the replacement of NaN by 0, where v is one.
Value* Guarded(Value* v) {
  const Node* n = v->producer();
  if (!Is(n, "aten.where.self") || !IsOnlyUse(v)) return nullptr;
  const Value* condition = n->Get("condition").value();
  Value* probabilities = n->Get("other").value();
  if (!condition || !probabilities || !Is(condition->producer(), "aten.isnan.default") || !IsOnlyUse(condition) ||
      Self(condition->producer()) != probabilities)
    return nullptr;
  return probabilities;
}

bool HasSizesOf(const Value* a, const Value* b) {
  if (a->rank() != b->rank()) return false;
  for (int d = 0; d < a->rank(); ++d)
    if (!ir::ProvablyEqual(a->sizes()[static_cast<size_t>(d)], b->sizes()[static_cast<size_t>(d)])) return false;
  return true;
}

bool IsF32(const Value* v, int rank) {
  return v && v->type().is_tensor() && v->dtype() == DType::kFloat32 && v->rank() == rank;
}

bool IsProduct(const Node* n) { return Is(n, "aten.matmul.default") || Is(n, "aten.bmm.default"); }
Value* Right(const Node* product) { return product->Get(Is(product, "aten.bmm.default") ? "mat2" : "other").value(); }

Value* AttentionRecognizer::Recognize(Node* n, ir::Builder& b) {
  if (!IsProduct(n)) return nullptr;
  Value *probabilities = Self(n), *values = Right(n);
  const int rank = n->output()->type().is_tensor() ? n->output()->rank() : 0;
  if (rank < 3 || !IsF32(probabilities, rank) || !IsF32(values, rank)) return nullptr;

  bool guarded = false;
  size_t uses = 1;
  if (Value* inner = Guarded(probabilities)) {
    const auto zero = NumberIn(probabilities->producer()->Get("self"));
    if (zero != 0.0) return nullptr;
    probabilities = inner, guarded = true, uses = 2;
  }
  const Node* softmax = probabilities->producer();
  if (!softmax || !IsOnlyUse(probabilities, uses)) return nullptr;
  const bool safe = Is(softmax, "aten._safe_softmax.default");
  if (!safe && !Is(softmax, "aten.softmax.int") && !Is(softmax, "aten._softmax.default")) return nullptr;
  ir::ArgReader args(*softmax);
  Value* scores = args.tensor("self");
  if (!args.ok() || !IsF32(scores, rank) || args.dim("dim", rank) != rank - 1 || !args.ok()) return nullptr;
  guarded = guarded || safe;

  double scale = 1;
  Value* mask = nullptr;
  if (Is(scores->producer(), "aten.add.Tensor") && IsOnlyUse(scores)) {
    const Node* add = scores->producer();
    Value *left = Self(add), *right = add->Get("other").value();
    ir::ArgReader add_args(*add);
    const ir::Scalar alpha = add_args.scalar("alpha");
    if (!left || !right || !add_args.ok() || !alpha.is_constant() || alpha.d != 1) return nullptr;
    // The scores are the side that is a product, of the sum's sizes.
    double ignored = 1;
    if (!IsProduct(Unscaled(left, &ignored)->producer()) || !IsOnlyUse(left)) std::swap(left, right);
    if (!IsF32(left, rank) || !HasSizesOf(left, scores) || !IsOnlyUse(left) || !right->type().is_tensor() ||
        right->dtype() != DType::kFloat32 || right->rank() < 2)
      return nullptr;
    mask = right, scores = left;
  }
  if (!IsOnlyUse(scores)) return nullptr;
  std::optional<Filled> filled;
  if (!mask) filled = ReadFilled(scores);
  if (filled) {
    // A number that swallows every score is one that is added; without such, places are left out.
    constexpr double kSwallows = -1e30;
    const bool none = filled->number == -std::numeric_limits<double>::infinity();
    if (!IsF32(filled->scores, rank) || !HasSizesOf(filled->scores, scores) || !IsOnlyUse(filled->scores) ||
        filled->where->rank() < 2 || !(filled->number <= kSwallows) || (none && !guarded))
      return nullptr;
    scores = filled->scores;
  }
  scores = Unscaled(scores, &scale);
  const Node* product = scores->producer();
  if (!IsProduct(product) || !IsOnlyUse(scores)) return nullptr;
  Value *query = Self(product), *keys = Right(product);
  if (!query || !keys) return nullptr;
  query = Unscaled(query, &scale), keys = Unscaled(keys, &scale);
  if (!IsF32(query, rank) || !IsF32(keys, rank) || !(scale > 0) || std::isinf(scale)) return nullptr;
  for (int d = 0; d < rank - 2; ++d) {
    const auto i = static_cast<size_t>(d);
    for (const Value* v : {static_cast<const Value*>(keys), static_cast<const Value*>(values)})
      if (!ir::ProvablyEqual(query->sizes()[i], v->sizes()[i])) return nullptr;
  }
  if (mask && !guarded) {
    const auto bounds = BoundsOf(mask, kDeepest);
    if (!bounds || std::isinf(bounds->low)) return nullptr;
  }
  if (filled && std::isinf(filled->number)) {
    mask = filled->inside ? b.Call("aten.logical_not.default", {filled->where}) : filled->where;
  } else if (filled) {
    Value *fill = b.ScalarTensor(Arg(filled->number), DType::kFloat32),
          *zero = b.ScalarTensor(Arg(0.0), DType::kFloat32);
    mask = b.Call("aten.where.self", {filled->where, filled->inside ? fill : zero, filled->inside ? zero : fill});
  }
  Value* rows = b.Call("aten.transpose.int", {keys, -2, -1});
  return b.Call("aten.scaled_dot_product_attention.default",
                {query, rows, values, mask ? Arg(mask) : Arg(), 0.0, false}, {{"scale", Arg(scale)}});
}

}  // namespace

absl::Status RecognizeAttention(ir::Program& p) {
  AttentionRecognizer recognizer(p);
  return ReplaceRecognized(p, [&](Node* n, ir::Builder& b) { return recognizer.Recognize(n, b); });
}

}  // namespace slipway::passes
