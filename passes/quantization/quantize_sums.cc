// Results of convolutions as integers in front of an addition. pt2e leaves the sum of a convolution and a dequantized
// tensor in floats until it is quantized itself, for targets with one operator for all of it. Others have integer
// convolutions that end in integers only, so that every such convolution is one of floats.
//
// What a result needs to show is known: the sum y is rounded to integers in [y_low, y_high], and the other summand lies
// in [o_low, o_high], so that what is outside of [y_low - o_high, y_high - o_low] makes the sum saturate. In that range
// 8 bits have steps of the sum of both scales; where that is at most two steps of y, rounding changes y by at most one.
#include <cmath>
#include <optional>

#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

using ir::Node;

struct ValueRange {
  double low, high;
};
ValueRange RangeOf(DType integers, double scale, double zero, int64_t low, int64_t high) {
  const bool is_unsigned = integers == DType::kUInt8;
  low = std::max<int64_t>(low, is_unsigned ? 0 : -128), high = std::min<int64_t>(high, is_unsigned ? 255 : 127);
  return {(static_cast<double>(low) - zero) * scale, (static_cast<double>(high) - zero) * scale};
}

// Of a tensor that is dequantized with numbers.
std::optional<ValueRange> ReadSummand(const Value* v) {
  const auto d = ReadDequantized(v);
  if (!d || IsStored(d->input) || d->dtype != DType::kFloat32 || d->float_zero_point ||
      (d->input->dtype() != DType::kInt8 && d->input->dtype() != DType::kUInt8))
    return std::nullopt;
  const auto scale = FilledNumber(d->scale), zero = d->zero_point ? FilledNumber(d->zero_point) : std::optional(0.0);
  if (!scale || !zero || !(*scale > 0) || !std::isfinite(*scale)) return std::nullopt;
  return RangeOf(d->input->dtype(), *scale, *zero, -128, 255);
}

// A convolution of integers, which runtimes have.
bool IsIntegerConvolution(const Value* v) {
  const Node* n = v->producer();
  if (!n || !n->op().base.starts_with("conv") || v->users().size() != 1 || v->graph()->IsOutput(v)) return false;
  const auto weight = ReadDequantized(n->Get("weight").value());
  return ReadSummand(n->Get("input").value()) && weight && IsStored(weight->input);
}

// Rounds the convolution of a sum that is quantized; false where it is none.
absl::StatusOr<bool> Round(Node* quantize) {
  const auto y = ReadNumberedQuantize(quantize->output());
  Node* add = y ? y->input->producer() : nullptr;
  if (!add || add->op_name() != "aten.add.Tensor" || y->input->users().size() != 1 ||
      y->input->graph()->IsOutput(y->input))
    return false;
  ir::ArgReader a(*add);
  const ir::Scalar alpha = a.scalar("alpha");
  Value *self = add->Get("self").value(), *other = add->Get("other").value();
  if (!a.ok() || !alpha.is_constant() || alpha.d != 1 || !self || !other) return false;
  const bool second = IsIntegerConvolution(other);
  Value* conv = second ? other : self;
  const auto summand = ReadSummand(second ? self : other);
  if (!summand || !IsIntegerConvolution(conv)) return false;

  const ValueRange sum = RangeOf(y->dtype, y->scale_f32, static_cast<double>(y->zero), y->low, y->high);
  const double low = sum.low - summand->high, high = sum.high - summand->low;
  const auto scale = static_cast<float>((high - low) / 255);
  if (!(low < 0) || !(high > 0) || !(scale > 0) || scale > 2 * y->scale_f32) return false;
  const auto zero = static_cast<int64_t>(std::nearbyint(-low / scale));
  ir::Builder b(*add->graph(), add, conv->producer()->source());
  Value* scales = b.ScalarTensor(static_cast<double>(scale), DType::kFloat32);
  Value* zeros = b.ScalarTensor(zero, DType::kUInt8);
  const ir::Ints block(static_cast<size_t>(conv->rank()), -1);
  Dequantized d;
  d.input = b.Call("slipway.quantize.default", {conv, scales, zeros, block, DType::kFloat32, DType::kUInt8, 0, 255});
  d.scale = scales, d.zero_point = zeros, d.block_size = block;
  Value* rounded = Emit(b, d);
  if (!b.ok()) return b.status();
  add->SetArg(second ? "other" : "self", rounded);
  return true;
}

}  // namespace

absl::StatusOr<int> QuantizeSums(ir::Program& p) {
  std::vector<Node*> quantizes;
  for (Node* n : *p.graph)
    if (n->op_name() == "slipway.quantize.default") quantizes.push_back(n);
  int count = 0;
  for (Node* n : quantizes) {
    const auto rounded = Round(n);
    if (!rounded.ok()) return rounded.status();
    count += *rounded;
  }
  return count;
}

}  // namespace slipway::passes
