// Integers with a scale and, where they are not symmetric, an integer zero point: torchao's choose_qparams_affine and
// quantize_affine (quantization/quant_primitives.py). With T the weight's dtype, every step rounded to it, min and max
// widened to hold 0:
//
//   symmetric                   scale = max(max(-min, max) / ((qmax - qmin) / 2), eps)     so 127.5 for int8
//   symmetric, no clipping      scale = max(min / qmin, max / qmax, eps)
//   asymmetric                  scale = max((max - min) / (qmax - qmin), eps), zero = clamp(qmin - round(min / scale))
//   q = clamp(round(w · (1 / scale)) + zero)        the reciprocal in the scale's dtype; the product in T where that is
//                                                   T, else f32
//
// eps is 2^-23 for Int8 configurations, the least normal number of T for Intx. HQQ_SCALE_ONLY starts from max|w| /
// 2^(bits - 1) and fits scale = Σ w·q / Σ q² up to 20 times, in f32, until no scale of the tensor changes by more than
// 1e-5 of itself.
#include <algorithm>
#include <cmath>

#include "quantizer/scheme.h"

namespace slipway::quantizer {
namespace {

using ir::DType;
using S = Config::Scheme;

class Affine : public Scheme {
 public:
  Affine(const Config& c, const Shape& s, const Options& options) : Scheme(c, s) {
    const bool intx = c.scheme == S::kIntxWeightOnly || c.scheme == S::kInt8DynamicIntx;
    const int bits = intx ? c.bits : c.reduce_range ? 7 : 8;
    low_ = static_cast<float>(-(1 << (bits - 1)));
    high_ = static_cast<float>((1 << (bits - 1)) - 1);
    mapping_ = intx ? c.mapping : Mapping::kSymmetric;
    scale_dtype_ = !intx ? DType::kFloat32 : c.scale_dtype.value_or(s.dtype);
    const float tiny = s.dtype == DType::kFloat16 ? 0x1p-14f : 0x1p-126f;
    const float eps_0_14 = s.dtype == DType::kFloat16 ? 0x1p-10f : s.dtype == DType::kBFloat16 ? 0x1p-7f : 0x1p-23f;
    eps_ = !intx ? RoundTo(s.rounding(), 0x1p-23f) : options.eps_of_0_14 ? eps_0_14 : tiny;
    product_ = scale_dtype_ == s.dtype ? s.rounding() : Rounding::kF32;
    const std::vector<int64_t> blocks = s.whole ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{s.n, s.groups()};
    parts_ = {
        {"qdata", DType::kInt8, {s.n, s.k}}, {"scale", scale_dtype_, blocks}, {"zero_point", DType::kInt8, blocks}};
  }

  void Observe(const float* rows, int64_t, int64_t count) override { ObserveRange(rows, count); }
  void Settle() override {
    if (shape_.whole) Choose(least_, greatest_, &scale_[0], &zero_[0]);
  }

  bool Quantize(const float* w, int64_t row, int64_t count, int8_t* codes, float* numbers) override {
    const int64_t groups = count * shape_.groups();
    const size_t first = static_cast<size_t>(row * shape_.groups());
    if (!FindRanges(w, groups)) return false;
    if (shape_.whole) {
      scales_.assign(static_cast<size_t>(groups), scale_[0]);
      zeros_.assign(static_cast<size_t>(groups), zero_[0]);
      Convert(w, groups, scales_.data(), zeros_.data(), codes, numbers);
      return true;
    }
    inverse_.resize(static_cast<size_t>(groups));
    ChooseAll(low_of_.data(), high_of_.data(), groups, &scale_[first], inverse_.data(), &zero_[first]);
    ConvertBy(w, groups, inverse_.data(), &scale_[first], &zero_[first], codes, numbers);
    return true;
  }

  void QuantizeWith(const float* w, int64_t row, int64_t count, const float* scale, const float* zero, int8_t* codes,
                    float* numbers) override {
    const int64_t groups = count * shape_.groups();
    std::copy_n(scale, groups, scale_.begin() + row * shape_.groups());
    std::copy_n(zero, groups, zero_.begin() + row * shape_.groups());
    Convert(w, groups, scale, zero, codes, numbers);
  }

  void Choose(float min, float max, float* scale, float* zero) const override {
    float inverse;
    ChooseAll(&min, &max, 1, scale, &inverse, zero);
  }

  float Nearest(float x, float scale, float zero) const override {
    const float inv = RoundTo(RoundingOf(scale_dtype_), 1 / scale);
    const float q = std::clamp(std::rint(RoundTo(product_, x * inv)) + zero, low_, high_);
    return RoundTo(shape_.rounding(), (q - zero) * scale);
  }

  std::string Values(size_t i) const override {
    return i == 1 ? Encode(scale_, scale_dtype_) : Encode(zero_, DType::kInt8);
  }
  DType scale_dtype() const override { return scale_dtype_; }

 protected:
  void Convert(const float* w, int64_t groups, const float* scale, const float* zero, int8_t* codes, float* numbers) {
    inverse_.resize(static_cast<size_t>(groups));
    for (int64_t j = 0; j < groups; ++j)
      inverse_[static_cast<size_t>(j)] = RoundTo(RoundingOf(scale_dtype_), 1 / scale[j]);
    ConvertBy(w, groups, inverse_.data(), scale, zero, codes, numbers);
  }
  void ConvertBy(const float* w, int64_t groups, const float* inverse, const float* scale, const float* zero,
                 int8_t* codes, float* numbers) {
    loops_.to_int(w, groups, shape_.group, inverse, zero, product_, low_, high_, codes);
    if (numbers) loops_.from_int(codes, groups, shape_.group, scale, zero, shape_.rounding(), numbers);
  }

  void ChooseAll(const float* min, const float* max, int64_t groups, float* scale, float* inverse, float* zero) const {
    loops_.choose_affine(min, max, groups, mapping_, low_, high_, eps_, shape_.rounding(), RoundingOf(scale_dtype_),
                         scale, inverse, zero);
  }

  float low_, high_, eps_;
  Mapping mapping_;
  DType scale_dtype_;
  Rounding product_;
  std::vector<float> inverse_, scales_, zeros_;
};

// Only the last row says after which round all groups stop. The scales after the last round are kept, and when a group
// had reached its
// own: those that had not by then are fitted again.
class HqqScaleOnly : public Affine {
 public:
  using Affine::Affine;
  void Start() override {
    Affine::Start();
    fitted_.assign(scale_.size(), 0);
    settled_.assign(scale_.size(), 0);
    rounds_ = kRounds;
    std::fill(std::begin(change_), std::end(change_), 0.0f);
  }
  void Finish() override {
    Affine::Finish();
    std::vector<float>().swap(fitted_);
    std::vector<uint8_t>().swap(settled_);
  }
  bool observes() const override { return true; }
  void Observe(const float* w, int64_t row, int64_t count) override {
    const int64_t groups = count * shape_.groups();
    float* fitted = &fitted_[static_cast<size_t>(row * shape_.groups())];
    if (First(w, groups, fitted))
      loops_.fit_scales(w, groups, shape_.group, low_, high_, kEps, kRounds, fitted, change_,
                        &settled_[static_cast<size_t>(row * shape_.groups())]);
  }
  void Settle() override {
    for (rounds_ = 1; rounds_ < kRounds && !(change_[rounds_ - 1] < 1e-5f);) ++rounds_;
  }

  // q from the fitted scale, by a true division; then the scale is rounded.
  bool Quantize(const float* w, int64_t row, int64_t count, int8_t* codes, float* numbers) override {
    const int64_t groups = count * shape_.groups();
    const size_t first = static_cast<size_t>(row * shape_.groups());
    scales_.resize(static_cast<size_t>(groups));
    if (!First(w, groups, scales_.data())) return false;
    for (int64_t j = 0; j < groups; ++j) {
      const size_t group = first + static_cast<size_t>(j);
      float& by = scales_[static_cast<size_t>(j)];
      const float* x = w + j * shape_.group;
      if (settled_[group] <= rounds_)
        by = fitted_[group];
      else
        loops_.fit_scales(x, 1, shape_.group, low_, high_, kEps, rounds_, &by, nullptr, nullptr);
      int8_t* q = codes + j * shape_.group;
      for (int64_t i = 0; i < shape_.group; ++i)
        q[i] = static_cast<int8_t>(std::clamp(std::rint(x[i] / by), low_, high_));
      scale_[group] = RoundTo(RoundingOf(scale_dtype_), RoundTo(shape_.rounding(), by));
    }
    if (numbers)
      loops_.from_int(codes, groups, shape_.group, &scale_[first], &zero_[first], shape_.rounding(), numbers);
    return true;
  }

 private:
  static constexpr int kRounds = 20;
  static constexpr float kEps = 0x1p-23f;

  // The scales to begin with; false where a weight is not finite.
  bool First(const float* w, int64_t groups, float* scales) {
    if (!FindRanges(w, groups)) return false;
    for (size_t j = 0; j < static_cast<size_t>(groups); ++j)
      scales[j] = std::max(std::max(-low_of_[j], high_of_[j]) / -low_, kEps);
    return true;
  }

  int rounds_ = kRounds;
  std::vector<float> fitted_;
  std::vector<uint8_t> settled_;
  float change_[kRounds] = {};
};

}  // namespace

std::unique_ptr<Scheme> MakeAffine(const Config& config, const Shape& shape, const Scheme::Options& options) {
  if (config.hqq) return std::make_unique<HqqScaleOnly>(config, shape, options);
  return std::make_unique<Affine>(config, shape, options);
}

}  // namespace slipway::quantizer
