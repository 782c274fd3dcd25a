// Fourier transforms. ONNX has complex numbers as a last dim of two, ATen as a type.
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {
namespace {

// The transform along a dim of real numbers, or of complex ones.
Value* Transform(Call& c, Value* x, int64_t axis, bool inverse, bool onesided) {
  if (x->dtype() == DType::kComplex64 || x->dtype() == DType::kComplex128)
    return c.b.Call("aten._fft_c2c.default", {x, Arg(Ints{axis}), inverse ? 2 : 0, !inverse});
  if (!inverse) return c.b.Call("aten._fft_r2c.default", {x, Arg(Ints{axis}), 0, onesided});
  Value* zeros = c.b.Call("aten.mul.Scalar", {x, 0.0});
  Value* both = c.b.Call("aten.view_as_complex.default", {c.b.Call("aten.stack.default", {Arg(Values{x, zeros}), -1})});
  return c.b.Call("aten._fft_c2c.default", {both, Arg(Ints{axis}), 2, false});
}

// A tensor of pairs, or of single numbers in a last dim of one, as ATen has it.
Value* WithoutLast(Call& c, Value* x) {
  const auto last = x->rank() > 0 ? x->sizes().back().constant() : std::nullopt;
  if (last == 2) return c.b.Call("aten.view_as_complex.default", {x});
  if (last == 1) return c.b.Call("aten.squeeze.dims", {x, Arg(Ints{-1})});
  c.Refuse("of a last dim that is not known to be 1 or 2");
  return x;
}

// `length` elements of a dim: less are cut off, more are zeros.
Value* OfLength(Call& c, Value* x, int64_t axis, const IntOrValue& length) {
  Ints front;
  SymInts pads;
  for (int64_t d = x->rank() - 1; d > axis; --d) pads.emplace_back(0), pads.emplace_back(0);
  pads.emplace_back(0), pads.push_back(c.b.Sub(length, c.b.Size(x, static_cast<int>(axis))));
  return c.b.Call("aten.constant_pad_nd.default", {x, Arg(pads), 0.0});
}

void Dft(Call& c) {
  Value* x = c.in(0);
  int64_t axis = c.integer("axis", 1);
  if (c.opset >= 20) {
    axis = -2;
    if (c.has(2)) {
      const Ints given = c.constants(2, "an axis");
      if (given.size() != 1) return c.Wrong("other than one axis");
      axis = given[0];
    }
  }
  axis = c.axis(axis, x->rank());
  if (!c.ok()) return;
  if (axis == x->rank() - 1) return c.Wrong("an axis that is the one of real and imaginary parts");
  const bool inverse = c.integer("inverse", 0) != 0, onesided = c.integer("onesided", 0) != 0;
  std::optional<IntOrValue> length;
  if (c.has(1)) {
    const SymInts given = c.ints(1, "a length");
    if (given.size() != 1) return c.Wrong("other than one length");
    length = given[0];
  }
  if (onesided && inverse) {  // back to real numbers
    if (x->sizes().back().constant() != 2) return c.Refuse("one-sided and inverse, of real numbers");
    const IntOrValue n = length ? *length : c.b.Mul(c.b.Sub(c.b.Size(x, static_cast<int>(axis)), 1), 2);
    Value* half = OfLength(c, x, axis, c.b.Add(c.b.FloorDiv(n, 2), 1));
    half = c.b.Call("aten.view_as_complex.default", {half});
    Value* y = c.b.Call("aten._fft_c2r.default", {half, Arg(Ints{axis}), 2, Arg(n)});
    return c.Give(c.b.Call("aten.unsqueeze.default", {y, -1}));
  }
  if (length) x = OfLength(c, x, axis, *length);
  x = WithoutLast(c, x);
  if (!c.ok()) return;
  const bool complex = x->dtype() == DType::kComplex64 || x->dtype() == DType::kComplex128;
  if (onesided && complex) return c.Wrong("one-sided of complex numbers");
  c.Give(c.b.Call("aten.view_as_real.default", {Transform(c, x, axis, inverse, onesided)}));
}

// Frames of the signal, each times the window, transformed.
void Stft(Call& c) {
  Value* x = c.in(0);
  if (x->rank() == 3) x = WithoutLast(c, x);
  const Ints step = c.constants(1, "a step");
  const bool onesided = c.integer("onesided", 1) != 0;
  Value* window = c.opt_in(2);
  std::optional<int64_t> length;
  if (c.has(3)) {
    const Ints given = c.constants(3, "a length");
    if (given.size() == 1) length = given[0];
  } else if (window && window->rank() == 1) {
    length = window->sizes()[0].constant();
  }
  if (!c.ok()) return;
  if (step.size() != 1 || step[0] < 1 || !length || *length < 1 || x->rank() != 2)
    return c.Wrong("no step or length, or a signal of another rank");
  const bool complex = x->dtype() == DType::kComplex64 || x->dtype() == DType::kComplex128;
  Value* frames = c.b.Call("aten.unfold.default", {x, -1, *length, step[0]});
  if (window) frames = c.b.Call("aten.mul.Tensor", {frames, window});
  c.Give(c.b.Call("aten.view_as_real.default", {Transform(c, frames, 2, false, onesided && !complex)}));
}

// The axis was an attribute before opset 20.
void AxisAsInput(Call& c, int written, Values& inputs, std::vector<ir::NamedArg>& attributes) {
  if (c.opset >= 20 || written < 20) return;
  inputs.resize(3);
  inputs[2] = c.TensorOf(Elements{.values = {IntOrValue(c.integer("axis", 1))}, .scalar = true});
  std::erase_if(attributes, [](const ir::NamedArg& a) { return a.name == "axis"; });
}

constexpr Row kSpectrumRows[] = {
    {"DFT", Dft, 1, nullptr, Always, AxisAsInput},
    {"STFT", Stft, 1, nullptr, Always},
};

}  // namespace

absl::Span<const Row> SpectrumRows() { return kSpectrumRows; }

}  // namespace slipway::importers::onnx_in
