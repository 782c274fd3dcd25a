// Shape functions: Fourier transforms, and filters over time.
#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {

namespace {

enum class Spectrum { kComplex, kHalf, kReal };  // complex to complex, to the half spectrum, to real numbers

DType SpectrumDType(DType t, Spectrum kind) {
  t = FloatOf(t);
  return kind == Spectrum::kReal ? ToReal(t) : ToComplex(t);
}

// The transform's last dimension is halved or doubled.
Sym SpectrumSize(Sym in, std::optional<Sym> given, Spectrum kind) {
  switch (kind) {
    case Spectrum::kComplex: return given.value_or(in);
    case Spectrum::kHalf: return FloorDiv(given.value_or(in), 2) + 1;
    case Spectrum::kReal: return given.value_or(2 * (in - 1));
  }
  return in;
}

template <Spectrum kKind>
void Fft(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  if (x->rank() == 0) return c.Fail("transform of a 0-d tensor");
  auto n = c.opt_sym("n");
  Sym size = SpectrumSize(x->sizes()[dim], n ? std::optional<Sym>(ExprOf(*n)) : std::nullopt, kKind);
  c.Out(SpectrumDType(x->dtype(), kKind), WithDim(x->sizes(), dim, size));
}

template <Spectrum kKind>
void FftN(InferContext& c) {
  Value* x = Self(c);
  auto sizes = c.opt_sym_ints("s");
  std::vector<int> dims;
  if (c.has("dim")) {
    dims = c.dims("dim", x->rank(), /*empty_is_all=*/false);
  } else {
    int n = sizes ? static_cast<int>(sizes->size()) : x->rank();
    if (n > x->rank()) return c.Fail("more sizes than dimensions");
    for (int d = x->rank() - n; d < x->rank(); ++d) dims.push_back(d);
  }
  if (sizes && sizes->size() != dims.size()) return c.Fail("sizes and dims differ in number");
  Sizes out = x->sizes();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= x->rank()) return c.Fail("transform of a 0-d tensor");
    std::optional<Sym> given;
    if (sizes && !((*sizes)[i] == IntOrValue(-1))) given = ExprOf((*sizes)[i]);
    out[dims[i]] = SpectrumSize(out[dims[i]], given, i + 1 == dims.size() ? kKind : Spectrum::kComplex);
  }
  c.Out(SpectrumDType(x->dtype(), kKind), out);
}

void FftR2C(InferContext& c) {
  Value* x = Self(c);
  std::vector<int> dims = c.dims("dim", x->rank(), false);
  if (dims.empty() || x->rank() == 0) return c.Fail("no dimension to transform");
  Sizes out = x->sizes();
  if (c.b("onesided")) out[dims.back()] = FloorDiv(out[dims.back()], 2) + 1;
  c.Out(ToComplex(x->dtype()), out);
}

void FftC2R(InferContext& c) {
  Value* x = Self(c);
  std::vector<int> dims = c.dims("dim", x->rank(), false);
  if (dims.empty() || x->rank() == 0) return c.Fail("no dimension to transform");
  c.Out(ToReal(x->dtype()), WithDim(x->sizes(), dims.back(), ExprOf(c.sym("last_dim_size"))));
}

void FftFreq(InferContext& c) {
  int64_t n = c.i("n");
  if (n < 0) return c.Fail("a negative size");
  bool half = c.node().op().base == "fft_rfftfreq";
  c.Out(c.dtype("dtype").value_or(DType::kFloat32), {half ? n / 2 + 1 : n});
}

void Stft(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != 1 && x->rank() != 2) return c.Fail(text::StrCat("rank ", x->rank()));
  int64_t n_fft = c.i("n_fft");
  int64_t hop = c.opt_i("hop_length").value_or(n_fft / 4);
  Value* window = c.opt_tensor("window");
  if (n_fft <= 0 || n_fft > 1 << 28 || hop <= 0) return c.Fail("n_fft or hop_length is not positive");
  if (c.has("align_to_window") && c.b("align_to_window")) return c.Unsupported("align_to_window");
  bool complex = IsComplex(x->dtype()) || (window && IsComplex(window->dtype()));
  bool onesided = c.has("onesided") ? c.b("onesided") : !complex;
  bool centered = c.node().op().ArgIndex("center") >= 0 && c.b("center");
  Sym length = x->sizes().back() + (centered ? 2 * (n_fft / 2) : 0);
  Sizes out(x->sizes().begin(), x->sizes().end() - 1);
  out.push_back(onesided ? n_fft / 2 + 1 : n_fft);
  out.push_back(FloorDiv(length - n_fft, hop) + 1);
  bool as_complex = c.has("return_complex") ? c.b("return_complex") : complex;
  if (!as_complex) out.push_back(2);
  c.Out(as_complex ? ToComplex(x->dtype()) : ToReal(x->dtype()), out);
}

void Istft(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != 2 && x->rank() != 3) return c.Fail(text::StrCat("rank ", x->rank()));
  int64_t n_fft = c.i("n_fft");
  int64_t hop = c.opt_i("hop_length").value_or(n_fft / 4);
  if (n_fft <= 0 || n_fft > 1 << 28 || hop <= 0) return c.Fail("n_fft or hop_length is not positive");
  auto length = c.opt_i("length");
  Sym n = length ? Sym(*length) : (x->sizes().back() - 1) * hop + n_fft - (c.b("center") ? 2 * (n_fft / 2) : 0);
  Sizes out(x->sizes().begin(), x->sizes().end() - 2);
  out.push_back(n);
  c.Out(c.b("return_complex") ? x->dtype() : ToReal(x->dtype()), out);
}

void Lfilter(InferContext& c) {
  Value *x = Self(c), *a = TensorAt(c, 1), *y = TensorAt(c, 2);
  NeedRank(c, x, 3);
  NeedRank(c, a, 2);
  NeedRank(c, y, 3);
  NeedDType(c, x, IsFloating, "of floats");
  NeedSameDType(c, {x, a, y});
  if (!c.ok()) return;
  c.RequireEqual(a->sizes()[0], x->sizes()[1], "channels");
  NeedSameSizes(c, y->sizes(), {x->sizes()[0], x->sizes()[1], x->sizes()[2] + a->sizes()[1] - 1},
                "the result and the input");
  c.Out(y->dtype(), y->sizes());
}

void Overdrive(InferContext& c) {
  Value *x = Self(c), *temp = TensorAt(c, 1), *in = TensorAt(c, 2), *out = TensorAt(c, 3), *y = TensorAt(c, 4);
  NeedRank(c, x, 2);
  NeedDType(c, x, IsFloating, "of floats");
  NeedSameDType(c, {x, temp, in, out, y});
  if (!c.ok()) return;
  for (Value* v : {temp, y}) NeedSameSizes(c, v->sizes(), x->sizes(), "a waveform and the input");
  for (Value* v : {in, out})
    NeedSameSizes(c, v->sizes(), {x->sizes()[0]}, "what is left of the step before and the channels");
  for (Value* v : {in, out, y}) c.Out(v->dtype(), v->sizes());
}

constexpr ShapeFamily kSpectrumFamilies[] = {
    {Lfilter, "/torchaudio._lfilter_core_loop.default /torchaudio._lfilter_core_loop_functional.default"},
    {Overdrive, "/torchaudio._overdrive_core_loop.default /torchaudio._overdrive_core_loop_functional.default"},
    {Fft<Spectrum::kComplex>, "fft_fft fft_ifft"},
    {Fft<Spectrum::kHalf>, "fft_rfft fft_ihfft"},
    {Fft<Spectrum::kReal>, "fft_irfft fft_hfft"},
    {FftN<Spectrum::kComplex>, "fft_fftn fft_ifftn fft_fft2 fft_ifft2"},
    {FftN<Spectrum::kHalf>, "fft_rfftn fft_rfft2 fft_ihfftn fft_ihfft2"},
    {FftN<Spectrum::kReal>, "fft_irfftn fft_irfft2 fft_hfftn fft_hfft2"},
    {FftR2C, "_fft_r2c"},
    {FftC2R, "_fft_c2r"},
    {FftFreq, "fft_fftfreq fft_rfftfreq"},
    {Stft, "stft stft.center"},
    {Istft, "istft"},
};

}  // namespace

absl::Span<const ShapeRow> SpectrumShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kSpectrumFamilies);
  return rows;
}

}  // namespace slipway::ir
