// Activations are rounded to 8 bits in front of products with quantized weights, which the program multiplies as
// floats: the products are of integers then, several times faster where there are many rows. Each row has a scale of
// its own, symmetric, as torchao's Int8DynamicActivation configurations choose it. It changes numbers, by some tenths
// of a per cent, so only users ask for it.
#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

using ir::Node;
using ir::Value;

// What torchao bounds scales by.
constexpr double kLeastActivationScale = 0x1p-23;

absl::Status Round(Node* linear, int& count) {
  const auto m = ReadMatrix(*linear);
  ir::ArgReader a(*linear);
  Value *x = a.tensor("input"), *bias = a.opt_tensor("bias");
  const int64_t block = a.i("block_size");
  if (!a.ok() || !m || m->float_zero_point || x->rank() == 0) return absl::OkStatus();
  const auto k = m->input->sizes().back().constant();
  auto is_byte = [](const Value* v) { return v->dtype() == ir::DType::kInt8 || v->dtype() == ir::DType::kUInt8; };
  auto is_float = [](ir::DType t) { return t == ir::DType::kFloat32 || ir::IsLowPrecision(t); };
  if (!k || !is_byte(m->input) || !is_float(x->dtype()) || !is_float(m->scale->dtype()) ||
      (m->zero_point && m->zero_point->dtype() != m->input->dtype()) ||
      (block != -1 && block != *k && (block < 1 || block % 8 != 0)))
    return absl::OkStatus();
  ir::Builder b(*linear->graph(), linear, linear->source());
  const ir::Values rows = b.CallMulti("slipway.quantize_rows.default", {x, false, -128, 127, kLeastActivationScale});
  if (!b.ok()) return b.status();
  auto wide = [&](Value* v) -> Value* { return v ? b.Cast(v, ir::DType::kFloat32) : nullptr; };
  Value* y = b.Call("slipway.integer_linear.default", {rows[0], rows[1], nullptr, m->input, wide(m->scale),
                                                       m->zero_point, wide(bias), block == *k ? -1 : block});
  y = b.Cast(y, linear->output()->dtype());
  if (!b.ok()) return b.status();
  ReplaceNode(linear, {y});
  ++count;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> QuantizeActivations(ir::Program& p) {
  std::vector<Node*> linears;
  for (Node* n : *p.graph)
    if (n->op_name() == "slipway.quantized_linear.default") linears.push_back(n);
  int count = 0;
  for (Node* n : linears)
    if (absl::Status s = Round(n, count); !s.ok()) return s;
  if (absl::Status s = MergeCommonSubexpressions(p); !s.ok()) return s;
  if (absl::Status s = EliminateDeadCode(p); !s.ok()) return s;
  return count;
}

}  // namespace slipway::passes
