// Activations that are rounded to 8 bits are left to the target, which rounds them as its own kernels do. What is hard
// here is to
// be sure of the pattern: scales must be made of the very input that they are for, and weights and scales be stored.
// Products that are anything else keep their steps, and with them their numbers.
#include <algorithm>

#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

using ir::Node;
using ir::Value;

// quantize(x), to 8 bits, with a scale that is made of x; x is null for other values.
struct RoundedValue {
  Value *x = nullptr, *scale = nullptr, *zero_point = nullptr;
  bool whole = false;  // one scale for the whole tensor
};
RoundedValue ReadRounded(const Value* q) {
  const Node* quantize = Producer(q, "slipway.quantize.default");
  if (!quantize) return {};
  ir::ArgReader a(*quantize);
  RoundedValue r = {a.tensor("input"), a.tensor("scale"), a.opt_tensor("zero_point")};
  const auto to = a.dtype("dtype");
  const ir::Ints block = a.ints("block_size");
  r.whole = std::all_of(block.begin(), block.end(), [](int64_t size) { return size == -1; });
  if (!a.ok() || (to != ir::DType::kInt8 && to != ir::DType::kUInt8)) return {};
  const Node* made = Producer(r.scale, "torchao.choose_qparams_affine.default");
  return made && made->output(0) == r.scale && made->Get("input").value() == r.x ? r : RoundedValue{};
}

// linear(dequantize(quantize(x)), q) -> linear(x, q)
void TakeFloats(Node* linear) {
  const auto d = ReadDequantized(linear->Get("input").value());
  if (!d) return;
  const RoundedValue r = ReadRounded(d->input);
  if (!r.x || r.x->dtype() != d->dtype || r.scale != d->scale || r.zero_point != d->zero_point) return;
  linear->SetArg("input", r.x);
  if (r.whole) linear->SetArg("activations", d->input->dtype());
}

// What is behind views that keep the order of elements, and conversions.
Value* QuantizedSource(Value* v) {
  while (v->producer()) {
    Value* source = CastSource(v);
    if (!source && IsReshape(*v->producer())) source = FirstArgument(*v->producer());
    if (!source) break;
    v = source;
  }
  return v;
}
// The product that alone uses v, behind conversions to f32, and its other factor.
struct ScaledValue {
  Node* node = nullptr;
  Value* factor = nullptr;
};
ScaledValue OnlyProduct(Value* v) {
  for (;;) {
    if (v->users().size() != 1 || v->graph()->IsOutput(v)) return {};
    Node* user = v->users()[0];
    if (user->op_name() == "aten.mul.Tensor") {
      Value *a = user->Get("self").value(), *b = user->Get("other").value();
      return a && b && a != b ? ScaledValue{user, a == v ? b : a} : ScaledValue{};
    }
    if (!user->output() || CastSource(user->output()) != v || user->output()->dtype() != ir::DType::kFloat32) return {};
    v = user->output();
  }
}

// (quantize(x) · qᵀ) · scale of x · scale of q, in f32 -> linear(x, q), with integers of activations.
absl::Status JoinIntegers(Node* mm) {
  Value *rows = mm->Get("self").value(), *columns = mm->Get("mat2").value();
  Value* source = TransposedSource(columns);
  Value* stored = source ? source : columns;
  Value* q = QuantizedSource(rows);
  const RoundedValue r = ReadRounded(q);
  if (!r.x || r.zero_point || q->dtype() != ir::DType::kInt8 || r.x->dtype() != ir::DType::kFloat32 ||
      !StoredTensor(stored) || stored->dtype() != ir::DType::kInt8)
    return absl::OkStatus();
  const auto sizes = columns->type().StaticSizes();  // [k, n]
  const ScaledValue first = OnlyProduct(mm->output());
  if (!sizes || !first.node || QuantizedSource(first.factor) != r.scale) return absl::OkStatus();
  const ScaledValue second = OnlyProduct(first.node->output());
  if (!second.node || !IsStored(second.factor) || second.factor->dtype() != ir::DType::kFloat32 ||
      second.node->output()->dtype() != ir::DType::kFloat32)
    return absl::OkStatus();
  // One scale a row of the weight, or one for all, which lie along the last dim of a product of two.
  const auto scales = second.factor->type().StaticNumel();
  const bool shared = scales == 1,
             along = second.factor->rank() == 0 || second.factor->sizes().back().constant() == scales;
  if ((!shared && scales != (*sizes)[1]) || !along || second.node->output()->rank() != 2) return absl::OkStatus();

  ir::Builder b(*mm->graph(), second.node, second.node->source());
  Value* x = rows == q ? r.x : b.Call("aten.reshape.default", {r.x, ir::Ints{-1, (*sizes)[0]}});
  Value* weight = stored != columns ? stored : b.Call("aten.permute.default", {stored, ir::Ints{1, 0}});
  Value* scale = b.Call("aten.reshape.default", {second.factor, ir::Ints{shared ? 1 : (*sizes)[1], 1}});
  Value* y = b.Call("slipway.quantized_linear.default",
                    {x, weight, scale, nullptr, nullptr, -1, ir::DType::kFloat32, ir::DType::kFloat32},
                    {{"activations", ir::DType::kInt8}});
  if (!b.ok()) return b.status();
  ReplaceNode(second.node, {y});
  return absl::OkStatus();
}

}  // namespace

absl::Status RelaxActivations(ir::Program& p) {
  std::vector<Node*> products;
  for (Node* n : *p.graph) {
    if (n->op_name() == "slipway.quantized_linear.default") TakeFloats(n);
    if (n->op_name() == "aten._int_mm.default") products.push_back(n);
  }
  for (Node* n : products)
    if (absl::Status s = JoinIntegers(n); !s.ok()) return s;
  return EliminateDeadCode(p);
}

}  // namespace slipway::passes
