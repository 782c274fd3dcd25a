// Conditions and counters are read off the model's own nodes: `limit` may be a size, which the loop then has as many
// turns as, or a number that a run computes.
#include "importers/onnx/lowerings/trip_count.h"

#include <cmath>
#include <string>
#include <utility>

#include "importers/onnx/graph_lowering.h"
#include "onnx_model/onnx_graph.h"
#include "onnx_model/onnx_graph_internal.h"

namespace slipway::importers::onnx_in {
namespace {

using ir::Graph;
using ir::Sym;
using onnx_model::InputsOf;

constexpr int kMostSteps = 32;  // nodes between a comparison and what it compares

// The type of an operator of ONNX's own; nothing of others.
std::string TypeOf(const ir::Node& n) {
  onnx_model::Operator op = onnx_model::OperatorOf(n.op_name());
  return op.domain.empty() || op.domain == "ai.onnx" ? op.type : std::string();
}

const Value* InputOf(const ir::Node& n, size_t i) {
  const ir::Values* inputs = InputsOf(n);
  return inputs && i < inputs->size() ? (*inputs)[i] : nullptr;
}

// Whether a node gives the number that its first input is, in another form or type.
bool KeepsNumber(const ir::Node& n) {
  const std::string type = TypeOf(n);
  if (type == "Identity" || type == "Squeeze" || type == "Unsqueeze" || type == "Reshape") return true;
  if ((type != "Cast" && type != "CastLike") || !n.output() || !n.output()->type().is_tensor()) return false;
  const DType to = n.output()->dtype();
  return to == DType::kInt32 || to == DType::kInt64 || to == DType::kFloat32 || to == DType::kFloat64;
}

std::optional<int64_t> Integer(std::optional<double> x) {
  if (!x || *x != std::floor(*x) || std::abs(*x) > 1e15) return std::nullopt;
  return static_cast<int64_t>(*x);
}

// The one number that a Constant gives.
std::optional<int64_t> ConstantOf(const ir::Node& n) {
  for (const ir::NamedArg& a : n.args()) {
    if (a.name == "value_int")
      return a.arg.get<int64_t>() ? std::optional<int64_t>(*a.arg.get<int64_t>()) : std::nullopt;
    const auto* bytes = a.name == "#value" ? a.arg.get<std::string>() : nullptr;
    onnx::AttributeProto message;
    if (!bytes || !message.ParseFromString(*bytes) || !message.has_t()) continue;
    const auto shape = onnx_model::ShapeOf(message.t());
    if (!shape.ok() || !*shape || (*shape)->numel() != 1) return std::nullopt;
    std::string data = onnx_model::DenseText(message.t(), (*shape)->dtype);
    if (data.size() != static_cast<size_t>((*shape)->nbytes())) return std::nullopt;
    return Integer(Call::NumberOf(ir::OwnedTensor((*shape)->dtype, (*shape)->sizes, std::move(data))));
  }
  return std::nullopt;
}

// A number inside a loop: that of the loop's input `counter` when a turn begins, or the number `outside`, which stays,
// or none of both; and a constant added to it.
struct Number {
  std::optional<size_t> counter;
  Value* outside = nullptr;
  int64_t offset = 0;
};

class TripCountReader {
 public:
  TripCountReader(Call& c, const Graph& body)
      : c_(c), body_(body), captured_(onnx_model::CapturedBy(c.node())),
        own_(body.inputs().size() - (captured_ ? captured_->size() : 0)) {}

  std::optional<Number> Inside(const Value* v, int depth = 0) const {
    for (; v && depth < kMostSteps; ++depth) {
      const ir::Node* n = v->producer();
      if (!n) return OfInput(static_cast<size_t>(v->index()));
      const std::string type = TypeOf(*n);
      if (KeepsNumber(*n)) {
        v = InputOf(*n, 0);
      } else if (type == "Constant") {
        const auto x = ConstantOf(*n);
        return x ? std::optional<Number>(Number{.offset = *x}) : std::nullopt;
      } else if (type == "Add" || type == "Sub") {
        auto a = Inside(InputOf(*n, 0), depth + 1);
        const auto b = Inside(InputOf(*n, 1), depth + 1);
        if (!a || !b) return std::nullopt;
        return type == "Add" ? Sum(*a, *b) : Difference(*a, *b);
      } else {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  // A number in front of the loop: a constant or a size, or with `computed` one that a run reads.
  std::optional<IntOrValue> Outside(Value* v, bool computed) const {
    GraphLowering& graph = c_.graph();
    Value* at = v;
    for (int depth = 0; at && depth < kMostSteps; ++depth) {
      if (const auto e = graph.ElementsOf(at))
        return e->values.size() == 1 ? std::optional(e->values[0]) : std::nullopt;
      if (const auto x = Integer(Stored(at))) return IntOrValue(*x);
      const ir::Node* n = at->producer();
      if (!n || !KeepsNumber(*n)) break;
      at = const_cast<Value*>(InputOf(*n, 0));
    }
    if (!computed) return std::nullopt;
    Value* t = graph.Tensor(v, c_.b);
    if (!t || !t->type().is_tensor() || (t->dtype() != DType::kInt64 && t->dtype() != DType::kInt32) ||
        t->type().StaticNumel() != 1)
      return std::nullopt;
    return IntOrValue(c_.b.Call("aten.item.default", {t}));
  }

  std::optional<IntOrValue> Resolve(const Number& n, bool computed) const {
    if (!n.outside) return IntOrValue(n.offset);
    const auto x = Outside(n.outside, computed);
    return x ? std::optional(c_.b.Add(*x, n.offset)) : std::nullopt;
  }

  size_t own() const { return own_; }

 private:
  std::optional<Number> OfInput(size_t i) const {
    if (i == 1) return std::nullopt;
    if (i >= own_) return Number{.outside = (*captured_)[i - own_]};
    if (i == 0 || !Stays(body_, i)) return Number{.counter = i};
    return Number{.outside = const_cast<Value*>(InputOf(c_.node(), i))};
  }
  // Of a number and a constant. A constant outside is one.
  std::optional<int64_t> Constant(const Number& n) const {
    if (n.counter) return std::nullopt;
    if (!n.outside) return n.offset;
    const auto x = Outside(n.outside, false);
    return x && !x->value ? std::optional(x->constant + n.offset) : std::nullopt;
  }
  std::optional<Number> Sum(Number a, Number b) const {
    if (Constant(a)) std::swap(a, b);
    const auto added = Constant(b);
    if (!added || std::abs(*added) > (int64_t{1} << 40)) return std::nullopt;
    a.offset += *added;
    return a;
  }
  std::optional<Number> Difference(Number a, const Number& b) const {
    const auto taken = Constant(b);
    if (!taken || std::abs(*taken) > (int64_t{1} << 40)) return std::nullopt;
    a.offset -= *taken;
    return a;
  }
  std::optional<double> Stored(const Value* v) const {
    const ir::TensorRef* t = c_.graph().Stored(v);
    return t ? Call::NumberOf(*t) : std::nullopt;
  }

  Call& c_;
  const Graph& body_;
  const ir::Values* captured_;
  size_t own_;
};

// left < right, or left <= right.
struct Comparison {
  const Value *left = nullptr, *right = nullptr;
  bool equal = false;
};
std::optional<Comparison> ComparisonOf(const Value* v) {
  for (int depth = 0; v && v->producer() && depth < kMostSteps; ++depth) {
    const ir::Node& n = *v->producer();
    const std::string type = TypeOf(n);
    const Value *a = InputOf(n, 0), *b = InputOf(n, 1);
    if (type == "Less" || type == "LessOrEqual") return Comparison{a, b, type == "LessOrEqual"};
    if (type == "Greater" || type == "GreaterOrEqual") return Comparison{b, a, type == "GreaterOrEqual"};
    const bool truth = type == "Cast" && n.output()->type().is_tensor() && n.output()->dtype() == DType::kBool;
    if (!truth && type != "Identity" && type != "Squeeze" && type != "Reshape") return std::nullopt;
    v = a;
  }
  return std::nullopt;
}

// What a number was before it got other forms and types.
const Value* Root(const Value* v) {
  for (int depth = 0; v && v->producer() && KeepsNumber(*v->producer()) && depth < kMostSteps; ++depth)
    v = InputOf(*v->producer(), 0);
  return v;
}

bool Same(const IntOrValue& a, const IntOrValue& b) { return ProvablyEqual(ir::ExprOf(a), ir::ExprOf(b)); }

}  // namespace

bool Stays(const Graph& body, size_t i) {
  if (i < 2 || i - 1 >= body.outputs.size()) return false;
  const Value* v = body.outputs[i - 1].value();
  for (int depth = 0; v && v->producer() && depth < kMostSteps; ++depth)
    v = TypeOf(*v->producer()) == "Identity" ? InputOf(*v->producer(), 0) : nullptr;
  return v && v == body.inputs()[i];
}

std::optional<IntOrValue> TripCount(Call& c, const Graph& body, std::optional<bool> begins) {
  if (begins == false) return IntOrValue(0);
  const auto again = body.outputs.empty() ? std::nullopt : ComparisonOf(body.outputs[0].value());
  if (!again) return std::nullopt;
  const TripCountReader reader(c, body);
  const auto next = reader.Inside(again->left), most = reader.Inside(again->right);
  if (!next || !next->counter || !most || most->counter || !most->outside) return std::nullopt;
  int64_t step = 1;
  IntOrValue start = 0;
  if (const size_t k = *next->counter; k > 0) {
    const auto stepped = k - 1 < body.outputs.size() ? reader.Inside(body.outputs[k - 1].value()) : std::nullopt;
    if (!stepped || stepped->counter != k || stepped->offset < 1) return std::nullopt;
    step = stepped->offset;
    Value* from = const_cast<Value*>(InputOf(c.node(), k));
    const auto first = from ? reader.Outside(from, false) : std::nullopt;
    if (!first) return std::nullopt;
    start = *first;
  }
  if (!begins) {
    // The same comparison in front of the loop: of the counter's first value, whose next one the body compares.
    const auto before = ComparisonOf(InputOf(c.node(), 1));
    if (!before || before->equal != again->equal || next->offset != step) return std::nullopt;
    const auto from = reader.Outside(const_cast<Value*>(before->left), false);
    const bool same_limit = Root(before->right) == Root(most->outside) && most->offset == 0;
    const auto to = same_limit ? std::nullopt : reader.Outside(const_cast<Value*>(before->right), false);
    const auto limit = same_limit ? std::nullopt : reader.Resolve(*most, false);
    if (!from || !Same(*from, start) || (!same_limit && (!to || !limit || !Same(*to, *limit)))) return std::nullopt;
  }
  const auto limit = reader.Resolve(*most, true);
  if (!limit) return std::nullopt;
  // The turns behind the first comparison that ends the loop.
  const IntOrValue from = begins ? c.b.Add(start, next->offset) : start;
  IntOrValue count = c.b.Add(c.b.Sub(*limit, from), (again->equal ? 1 : 0) + step - 1);
  if (step > 1) count = c.b.FloorDiv(count, step);
  if (!count.value)
    count.constant = std::max<int64_t>(count.constant, 0);
  else if (RangeOf(ir::ExprOf(count)).min < 0)
    count = c.b.Call("torch.sym_max", {Arg(count), Arg(0)});
  return begins ? c.b.Add(count, 1) : count;
}

}  // namespace slipway::importers::onnx_in
