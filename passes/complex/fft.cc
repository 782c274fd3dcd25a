// Fourier transforms as pairs of reals. Everything is made of slipway.dft, the forward transform along one dimension
// without
// a factor: an inverse transform is the forward one with real and imaginary parts exchanged before and after. The
// conventions (which transform conjugates, what `norm` scales by) are those of torch.fft's documentation.
#include <cmath>
#include <optional>
#include <string>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "passes/complex/pairs.h"

namespace slipway::passes {
namespace {

using ir::Arg;
using ir::DType;
using ir::IntOrValue;
using ir::Type;
using ir::Value;
using ir::Values;

// A transform's arguments with their defaults filled in.
struct Plan {
  Pair x;
  std::vector<int> dims;                           // in the order they are transformed, the last one being halved
  std::vector<std::optional<IntOrValue>> lengths;  // of the signal along each, where given
  std::string norm;
};

// Integers and half floats are computed in f32.
Pair Floating(ComplexContext& c, Pair x, DType real) {
  return {c.b.Cast(x.re, real), x.im ? c.b.Cast(x.im, real) : nullptr};
}

int Rank(const Plan& p) { return p.x.re->rank(); }

Plan OneDim(ComplexContext& c) {
  Plan p{Floating(c, c.in("self"), c.real()), {}, {c.opt_sym("n")}, c.opt_str("norm").value_or("backward")};
  p.dims = {c.dim("dim", Rank(p))};
  return p;
}
Plan ManyDims(ComplexContext& c) {
  Plan p{Floating(c, c.in("self"), c.real()), {}, {}, c.opt_str("norm").value_or("backward")};
  auto s = c.opt_sym_ints("s");
  if (c.has("dim")) {
    p.dims = c.dims("dim", Rank(p), /*empty_is_all=*/false);
  } else {
    const int n = s ? static_cast<int>(s->size()) : Rank(p);
    for (int d = Rank(p) - n; d < Rank(p); ++d) p.dims.push_back(d);
  }
  for (size_t i = 0; i < p.dims.size(); ++i) {
    std::optional<IntOrValue> length;
    if (s && i < s->size() && !((*s)[i] == IntOrValue(-1))) length = (*s)[i];
    p.lengths.push_back(length);
  }
  if (p.dims.empty()) c.Unsupported("a transform of no dimension");
  return p;
}

// Trimmed or padded with zeros to `length` along `dim`.
Value* Resized(ComplexContext& c, Value* x, int dim, IntOrValue length) {
  if (!x || ir::ProvablyEqual(x->sizes()[dim], ir::ExprOf(length))) return x;
  auto have = x->sizes()[dim].constant();
  if (!have || length.value || *have < length.constant) {
    ir::SymInts zeros = c.b.SizesOf(x);
    zeros[dim] = length;
    x = c.b.Call("aten.cat.default", {Values{x, c.b.Full(zeros, 0.0, x->dtype())}, dim});
  }
  return c.b.Call("aten.slice.Tensor", {x, dim, 0, Arg(length)});
}
Pair Resized(ComplexContext& c, Pair x, int dim, IntOrValue length) {
  return {Resized(c, x.re, dim, length), Resized(c, x.im, dim, length)};
}

// Along one dimension, with or without the exchange that makes it the (unscaled) inverse.
Pair Transform(ComplexContext& c, Pair x, int dim, bool inverse) {
  if (inverse) x = {c.Im(x), x.re};
  const Type type = Type::Tensor(x.re->dtype(), x.re->sizes());
  Values y = c.b.CallTyped("slipway.dft.default", {x.re, Arg(x.im), dim}, {}, {type, type});
  return inverse ? Pair{y[1], y[0]} : Pair{y[0], y[1]};
}

// 1, 1/sqrt(n) or 1/n for a transform over n points, by its direction and norm; `n` is the product of the lengths.
Pair Scaled(ComplexContext& c, Pair x, const std::vector<IntOrValue>& lengths, const std::string& norm, bool inverse) {
  if (norm == (inverse ? "forward" : "backward")) return x;
  const bool root = norm == "ortho";
  if (!root && norm != (inverse ? "backward" : "forward")) {
    c.Fail(text::StrCat("norm '", norm, "'"));
    return x;
  }
  IntOrValue n = 1;
  for (const IntOrValue& length : lengths) n = c.b.Mul(n, length);
  const DType real = x.re->dtype();
  if (!n.value) {
    const double count = static_cast<double>(n.constant);
    return c.Scale(x, c.b.ScalarTensor(1 / (root ? std::sqrt(count) : count), real));
  }
  Value* count = c.b.ScalarTensor(n.value, real);
  if (root) count = c.b.Call("aten.sqrt.default", {count});
  return {c.Div(x.re, count), x.im ? c.Div(x.im, count) : nullptr};
}

// Over all of `dims`, each trimmed or padded first.
Pair Complex(ComplexContext& c, Plan p, bool inverse) {
  std::vector<IntOrValue> lengths;
  for (size_t i = 0; i < p.dims.size(); ++i) {
    lengths.push_back(p.lengths[i].value_or(c.b.Size(p.x.re, p.dims[i])));
    p.x = Resized(c, p.x, p.dims[i], lengths.back());
  }
  for (int d : p.dims) p.x = Transform(c, p.x, d, inverse);
  return Scaled(c, p.x, lengths, p.norm, inverse);
}
template <Plan (*kArguments)(ComplexContext&), bool kInverse>
void Fft(ComplexContext& c) {
  c.Return(Complex(c, kArguments(c), kInverse));
}

// The first half of the last dimension, n/2+1 points: the rest of a real signal's spectrum mirrors it.
Pair Half(ComplexContext& c, Pair x, int dim) {
  const IntOrValue n = c.b.Add(c.b.FloorDiv(c.b.Size(x.re, dim), 2), 1);
  auto half = [&](Value* v) { return c.b.Call("aten.slice.Tensor", {v, dim, 0, Arg(n)}); };
  return {half(x.re), x.im ? half(x.im) : nullptr};
}
// Of real signals; ihfft is its conjugate scaled as an inverse.
template <Plan (*kArguments)(ComplexContext&), bool kInverse>
void RealFft(ComplexContext& c) {
  Plan p = kArguments(c);
  if (p.x.im) return c.Fail("a real transform of complex numbers");
  const int last = p.dims.empty() ? 0 : p.dims.back();
  Pair y = Half(c, Complex(c, std::move(p), kInverse), last);
  c.Return(y);
}

// From half a spectrum to the real signal of `length` points: the other half is its mirrored conjugate.
Pair Mirrored(ComplexContext& c, Pair x, int dim, IntOrValue length) {
  const IntOrValue half = c.b.Add(c.b.FloorDiv(length, 2), 1);
  x = Resized(c, x, dim, half);
  const IntOrValue end = c.b.Add(c.b.Sub(length, half), 1);
  auto whole = [&](Value* v, bool negate) {
    Value* tail = c.b.Call("aten.slice.Tensor", {v, dim, 1, Arg(end)});
    tail = c.b.Call("aten.flip.default", {tail, ir::Ints{dim}});
    return c.b.Call("aten.cat.default", {Values{
                                             v,
                                             negate ? c.Neg(tail) : tail,
                                         },
                                         dim});
  };
  return {whole(x.re, false), x.im ? whole(x.im, true) : nullptr};
}
// irfft (inverse) and hfft (forward): to real signals.
template <Plan (*kArguments)(ComplexContext&), bool kInverse>
void ToReal(ComplexContext& c) {
  Plan p = kArguments(c);
  if (!c.ok()) return;
  const size_t last = p.dims.size() - 1;
  if (!p.lengths[last]) p.lengths[last] = c.b.Mul(c.b.Sub(c.b.Size(p.x.re, p.dims[last]), 1), 2);
  const IntOrValue n = *p.lengths[last];
  // The other dimensions first; the mirror holds only then.
  Plan rest{p.x, {p.dims.begin(), p.dims.end() - 1}, {p.lengths.begin(), p.lengths.end() - 1}, p.norm};
  Pair x = Complex(c, std::move(rest), kInverse);
  x = Mirrored(c, x, p.dims[last], n);
  x = Transform(c, x, p.dims[last], kInverse);
  c.Return(Scaled(c, {x.re, nullptr}, {n}, p.norm, kInverse).re);
}

// aten._fft_*: torch's inner forms. normalization: 0 none, 1 by the square root, 2 by the number of points.
std::string NormOf(ComplexContext& c, bool inverse) {
  switch (c.i("normalization")) {
    case 0: return inverse ? "forward" : "backward";
    case 1: return "ortho";
    case 2: return inverse ? "backward" : "forward";
    default: c.Fail("normalization is not 0, 1 or 2"); return "backward";
  }
}
Plan Inner(ComplexContext& c, bool inverse) {
  Plan p{Floating(c, c.in("self"), c.real()), {}, {}, NormOf(c, inverse)};
  p.dims = c.dims("dim", Rank(p), /*empty_is_all=*/false);
  p.lengths.resize(p.dims.size());
  if (p.dims.empty()) c.Unsupported("a transform of no dimension");
  return p;
}
void FftC2C(ComplexContext& c) {
  const bool inverse = !c.flag("forward");
  c.Return(Complex(c, Inner(c, inverse), inverse));
}
void FftR2C(ComplexContext& c) {
  Plan p = Inner(c, false);
  if (!c.ok()) return;
  const int last = p.dims.back();
  Pair y = Complex(c, std::move(p), false);
  c.Return(c.flag("onesided") ? Half(c, y, last) : y);
}
void FftC2R(ComplexContext& c) {
  Plan p = Inner(c, true);
  if (!c.ok()) return;
  p.lengths.back() = c.sym("last_dim_size");
  const IntOrValue n = *p.lengths.back();
  const int last = p.dims.back();
  Pair x =
      Complex(c, {p.x, {p.dims.begin(), p.dims.end() - 1}, {p.lengths.begin(), p.lengths.end() - 1}, p.norm}, true);
  x = Transform(c, Mirrored(c, x, last, n), last, true);
  c.Return(Scaled(c, {x.re, nullptr}, {n}, p.norm, true).re);
}

// What short-time transforms state: points of a frame, from frame to frame, of the window.
struct Frames {
  int64_t n = 0, hop = 0, length = 0;
  bool center = false;
};
std::optional<Frames> ReadFrames(ComplexContext& c) {
  Frames f{.n = c.i("n_fft")};
  f.hop = c.opt_i("hop_length").value_or(f.n / 4), f.length = c.opt_i("win_length").value_or(f.n);
  f.center = c.node().op().ArgIndex("center") >= 0 && c.flag("center");
  if (f.n <= 0 || f.hop <= 0 || f.length <= 0 || f.length > f.n)
    return c.Fail("n_fft, hop_length or win_length out of range"), std::nullopt;
  return f;
}
// The window in the middle of a frame, ones where none is given; none at all where that is the whole frame.
std::optional<Pair> Window(ComplexContext& c, const Frames& f, DType real) {
  Pair w;
  if (Value* given = c.opt_tensor("window"))
    w = c.Of(given);
  else if (f.length == f.n)
    return std::nullopt;
  else
    w.re = c.b.Full({f.length}, 1.0, real);
  if (f.length == f.n) return w;
  const int64_t left = (f.n - f.length) / 2;
  auto padded = [&](Value* v) {
    return v ? c.b.Call("aten.constant_pad_nd.default", {v, ir::Ints{left, f.n - f.length - left}}) : v;
  };
  return Pair{padded(w.re), padded(w.im)};
}

// Short-time transform: frames of n_fft points every hop, weighed by the window, each transformed.
void Stft(ComplexContext& c) {
  Pair x = c.in("self");
  const auto f = ReadFrames(c);
  if (!f) return;
  if (c.has("align_to_window") && c.flag("align_to_window")) return c.Unsupported("align_to_window");
  const DType real = x.re->dtype();
  auto framed = [&](Value* v) {
    if (!v) return v;
    if (f->center) {
      const std::string mode = c.opt_str("pad_mode").value_or("reflect");
      const int rank = v->rank();
      while (v->rank() < 3) v = c.b.Call("aten.unsqueeze.default", {v, 0});
      v = c.b.Call("aten.pad.default", {v, ir::Ints{f->n / 2, f->n / 2}, mode});
      while (v->rank() > rank) v = c.b.Call("aten.squeeze.dim", {v, 0});
    }
    return c.b.Call("aten.unfold.default", {v, -1, f->n, f->hop});  // (…, frames, n)
  };
  Pair frames{framed(x.re), framed(x.im)};
  if (auto window = Window(c, *f, real)) frames = c.Times(frames, *window);
  const int dim = frames.re->rank() - 1;
  const bool complex = frames.im != nullptr;
  Pair y = Transform(c, {c.b.Cast(frames.re, real), complex ? c.b.Cast(frames.im, real) : nullptr}, dim, false);
  if (c.has("onesided") ? c.flag("onesided") : !complex) y = Half(c, y, dim);
  if (c.flag("normalized")) y = c.Scale(y, c.b.ScalarTensor(1 / std::sqrt(static_cast<double>(f->n)), real));
  auto turned = [&](Value* z) { return c.b.Call("aten.transpose.int", {z, -1, -2}); };
  y = {turned(y.re), turned(y.im)};
  if (ir::IsComplex(c.node().output()->dtype())) return c.Return(y);
  c.Return(c.b.Call("aten.stack.default", {Values{y.re, y.im}, -1}));
}

// Its inverse: frames transformed back, weighed by the window and added up where they overlap, over the sum of the
// windows' squares.
void Istft(ComplexContext& c) {
  Pair x = c.in("self");
  const auto f = ReadFrames(c);
  if (!f) return;
  const DType real = x.re->dtype();
  const bool batched = x.re->rank() == 3, to_complex = c.flag("return_complex");
  auto turned = [&](Value* v) {
    if (!v) return v;
    if (!batched) v = c.b.Call("aten.unsqueeze.default", {v, 0});
    return c.b.Call("aten.transpose.int", {v, 1, 2});
  };
  x = {turned(x.re), turned(x.im)};  // (batch, frames, points)
  const auto points = x.re->sizes()[2].constant();
  if (!c.has("onesided") && !points)
    return c.Unsupported("a number of frequencies that is known at run time only, and no onesided");
  const bool onesided = c.has("onesided") ? c.flag("onesided") : *points != f->n;
  const std::string norm = c.flag("normalized") ? "ortho" : "backward";
  if (to_complex) {
    if (onesided) return c.Fail("a complex signal of one side");
    x = Scaled(c, Transform(c, x, 2, true), {f->n}, norm, true);
  } else {
    x = Transform(c, Mirrored(c, x, 2, f->n), 2, true);
    x = Scaled(c, {x.re, nullptr}, {f->n}, norm, true);
  }
  std::optional<Pair> window = Window(c, *f, real);
  if (!window) window = Pair{c.b.Full({f->n}, 1.0, real), nullptr};
  if (window->im && !to_complex) return c.Fail("a complex window of a real signal");
  x = c.Times(x, *window);
  const IntOrValue frames = c.b.Size(x.re, 1);
  const IntOrValue whole = c.b.Add(c.b.Mul(c.b.Sub(frames, 1), f->hop), f->n);
  auto added = [&](Value* v, IntOrValue rows) {
    return v ? c.b.Call("aten.unfold_backward.default", {v, Arg(ir::SymInts{rows, whole}), 1, f->n, f->hop}) : v;
  };
  auto spread = [&](Value* v) {
    return v ? c.b.Call("aten.expand.default", {v, Arg(ir::SymInts{1, frames, f->n})}) : v;
  };
  const Pair squares = c.Times(*window, *window);
  Pair envelope{added(spread(squares.re), 1), added(spread(squares.im), 1)};
  const IntOrValue rows = c.b.Size(x.re, 0);
  Pair y{added(x.re, rows), added(x.im, rows)};
  const int64_t start = f->center ? f->n / 2 : 0;
  const auto length = c.opt_i("length");
  const Arg end = length ? Arg(start + *length) : f->center ? Arg(-(f->n / 2)) : Arg();
  auto cut = [&](Value* v) { return v ? c.b.Call("aten.slice.Tensor", {v, 1, start, end}) : v; };
  y = c.Quotient({cut(y.re), cut(y.im)}, {cut(envelope.re), cut(envelope.im)});
  if (length) y = Resized(c, y, 1, *length);
  auto squeezed = [&](Value* v) { return v && !batched ? c.b.Call("aten.squeeze.dim", {v, 0}) : v; };
  c.Return(Pair{squeezed(y.re), squeezed(y.im)});
}

// clang-format off
constexpr ComplexRule kFourierRules[] = {
    {"aten.fft_fft", Fft<OneDim, false>}, {"aten.fft_ifft", Fft<OneDim, true>},
    {"aten.fft_fft2", Fft<ManyDims, false>}, {"aten.fft_ifft2", Fft<ManyDims, true>},
    {"aten.fft_fftn", Fft<ManyDims, false>}, {"aten.fft_ifftn", Fft<ManyDims, true>},
    {"aten.fft_rfft", RealFft<OneDim, false>}, {"aten.fft_ihfft", RealFft<OneDim, true>},
    {"aten.fft_rfft2", RealFft<ManyDims, false>}, {"aten.fft_ihfft2", RealFft<ManyDims, true>},
    {"aten.fft_rfftn", RealFft<ManyDims, false>}, {"aten.fft_ihfftn", RealFft<ManyDims, true>},
    {"aten.fft_irfft", ToReal<OneDim, true>}, {"aten.fft_hfft", ToReal<OneDim, false>},
    {"aten.fft_irfft2", ToReal<ManyDims, true>}, {"aten.fft_hfft2", ToReal<ManyDims, false>},
    {"aten.fft_irfftn", ToReal<ManyDims, true>}, {"aten.fft_hfftn", ToReal<ManyDims, false>},
    {"aten._fft_c2c", FftC2C}, {"aten._fft_r2c", FftR2C}, {"aten._fft_c2r", FftC2R}, {"aten.stft", Stft},
    {"aten.istft", Istft},
};
// clang-format on

}  // namespace

absl::Span<const ComplexRule> FourierRules() { return kFourierRules; }

}  // namespace slipway::passes
