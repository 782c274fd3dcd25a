// Integers as early as the program's numbers allow. Programs quantize a tensor in front of the operator that wants
// integers, and what lies between it and the product that made it is computed in floats: bounds of an activation,
// views, pools, concatenations. Rounding never puts two numbers in another order, so that all of these give the same
// integers behind it: a product is then next to its quantize, where runtimes look for it, and a quarter of the bytes is
// moved.
#include <cmath>
#include <limits>
#include <optional>

#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/match.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"
#include "passes/replace_recognized.h"

namespace slipway::passes {
namespace {

using ir::Builder;
using ir::Node;

// Operators that bound their operand: by arguments, or by numbers where those have no name.
struct ClampRow {
  std::string_view op, low_argument, high_argument;
  double low = -HUGE_VAL, high = HUGE_VAL;
};
constexpr ClampRow kClamps[] = {
    {"aten.relu.default", "", "", 0},
    {"aten.relu6.default", "", "", 0, 6},
    {"aten.hardtanh.default", "min_val", "max_val"},
    {"aten.clamp.default", "min", "max"},
    {"aten.clamp_min.default", "min", ""},
    {"aten.clamp_max.default", "", "max"},
};
struct ClampBounds {
  double low, high;
};
// Of an operator of those that bound, with numbers that are known.
std::optional<ClampBounds> ReadBounds(const Node& n) {
  for (const ClampRow& row : kClamps) {
    if (row.op != n.op_name()) continue;
    ClampBounds bounds = {row.low, row.high};
    for (const auto& [name, bound] : {std::pair(row.low_argument, &bounds.low), {row.high_argument, &bounds.high}}) {
      if (name.empty() || n.Get(name).is_none()) continue;
      ir::ArgReader a(n);
      const ir::Scalar s = a.scalar(name);
      if (!a.ok() || !s.is_constant()) return std::nullopt;
      *bound = s.d;
    }
    return bounds.low <= bounds.high ? std::optional(bounds) : std::nullopt;
  }
  return std::nullopt;
}

bool IsQuantizableProduct(const Node& n) {
  return n.op().traits.product || n.op().traits.autocast == ir::AutocastClass::kLower ||
         n.op_name() == "slipway.quantized_linear.default";
}

class QuantizeMover {
 public:
  explicit QuantizeMover(Builder& b) : b_(b) {}

  // The integers of x: made where x is, or of what x is made of. `changed` where it is not the former.
  Value* Integers(Value* x, NumberedQuantize q) {
    if (const auto d = ReadDequantized(x); d && Undoes(*d, q) && HasRange(d->input, q)) return changed = true, d->input;
    Node* n = x->producer();
    if (n && IsOnlyUse(x) && x->dtype() == DType::kFloat32) {
      if (const auto bounds = ReadBounds(*n); bounds && FirstArgument(*n)->dtype() == DType::kFloat32) {
        const int64_t low = q.Of(bounds->low), high = q.Of(bounds->high);
        q.low = low, q.high = high, changed = true;
        return Integers(FirstArgument(*n), q);
      }
      if (n->op().traits.chooses_elements && n->outputs().size() == 1 && IsSmallEnough(*n, x) && PadsWithLeast(q))
        return changed = true, Selected(*n, q);
    }
    return b_.Call("slipway.quantize.default", {x, q.scale, q.zero_point, ir::Ints(static_cast<size_t>(x->rank()), -1),
                                                DType::kFloat32, q.dtype, q.low, q.high});
  }

  bool changed = false;

 private:
  // Whether integers that were made before are in the range that is asked for.
  static bool HasRange(const Value* integers, const NumberedQuantize& q) {
    if (q.IsAllOfType()) return true;
    const auto made = ReadNumberedQuantize(integers);
    return made && made->low >= q.low && made->high <= q.high;
  }
  // What a pool has around its operand is the least number there is: the least integer then.
  static bool PadsWithLeast(const NumberedQuantize& q) { return q.low == (q.dtype == DType::kUInt8 ? 0 : -128); }

  // Operands that are larger than the result are rounded as a whole only where a product may give integers itself.
  static bool IsSmallEnough(const Node& n, const Value* x) {
    if (IsCat(n) || IsReshape(n) || ReadPermutation(x).source) return true;
    const Value* from = FirstArgument(n);
    if (!from) return true;  // of a list, all of whose elements are in the result
    const auto before = from->type().StaticNumel(), behind = x->type().StaticNumel();
    if (before && behind && *before <= *behind) return true;
    while (from->producer() && IsOnlyUse(from) && ReadBounds(*from->producer()))
      from = FirstArgument(*from->producer());
    return from->producer() && IsOnlyUse(from) && IsQuantizableProduct(*from->producer());
  }

  // The same operator on integers.
  Value* Selected(const Node& n, const NumberedQuantize& q) {
    std::vector<std::pair<std::string_view, Arg>> named;
    for (const ir::NamedArg& a : n.args()) {
      Arg arg = a.arg;
      if (Value* v = arg.value(); v && v->type().is_tensor()) {
        arg = Integers(v, q);
      } else if (const Values* list = arg.get<Values>()) {
        Values made;
        for (Value* v : *list) made.push_back(v->type().is_tensor() ? Integers(v, q) : v);
        arg = std::move(made);
      }
      named.emplace_back(a.name, std::move(arg));
    }
    return b_.Call(n.op_name(), {}, std::move(named));
  }

  Builder& b_;
};

Value* Move(Node* n, Builder& b) {
  const auto q = n->output() ? ReadNumberedQuantize(n->output()) : std::nullopt;
  if (!q) return nullptr;
  QuantizeMover mover(b);
  Value* integers = mover.Integers(q->input, *q);
  return mover.changed ? integers : nullptr;
}

}  // namespace

absl::Status MoveQuantizes(ir::Program& p) { return ReplaceRecognized(p, Move); }

}  // namespace slipway::passes
