// float8 with a scale a row, group or tensor, as torchao's Float8Tensor: scale = max|w| / largest, rounded to the
// weight's dtype; q = clamp(w / scale, ±largest), to nearest even.
//
// One difference, on purpose: where the scale is 0 (all weights are, or are so small that it rounds to 0) torchao
// divides by it, which gives NaN (pytorch/ao issue 4713). Here the scale is not rounded then, and at least the least
// normal f32, as proposed upstream (pull 4762).
#include <algorithm>

#include "quantizer/scheme.h"

namespace slipway::quantizer {
namespace {

using ir::DType;

class Float8 : public Scheme {
 public:
  Float8(const Config& c, const Shape& s) : Scheme(c, s), e5m2_(c.element == DType::kFloat8E5M2) {
    const std::vector<int64_t> blocks = s.whole ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{s.n, s.groups()};
    parts_ = {{"qdata", c.element, {s.n, s.k}}, {"scale", DType::kFloat32, blocks}};
  }

  void Observe(const float* rows, int64_t, int64_t count) override { ObserveRange(rows, count); }
  void Settle() override {
    float unused;
    Choose(least_, greatest_, &scale_[0], &unused);
  }
  bool Quantize(const float* w, int64_t row, int64_t count, int8_t* codes, float* numbers) override {
    const int64_t groups = count * shape_.groups();
    const size_t many = static_cast<size_t>(groups);
    scales_.resize(many);
    if (!FindRanges(w, groups)) return false;
    float unused;
    for (size_t j = 0; j < many; ++j) {
      if (shape_.whole)
        scales_[j] = scale_[0];
      else
        Choose(low_of_[j], high_of_[j], &scales_[j], &unused);
    }
    if (!shape_.whole) std::copy(scales_.begin(), scales_.end(), scale_.begin() + row * shape_.groups());
    Convert(w, groups, codes, numbers);
    return true;
  }
  void QuantizeWith(const float* w, int64_t row, int64_t count, const float* scale, const float*, int8_t* codes,
                    float* numbers) override {
    scales_.assign(scale, scale + count * shape_.groups());
    std::copy(scales_.begin(), scales_.end(), scale_.begin() + row * shape_.groups());
    Convert(w, count * shape_.groups(), codes, numbers);
  }
  void Choose(float min, float max, float* scale, float* zero) const override {
    const float exact = std::max(-min, max) / (e5m2_ ? 57344.0f : 448.0f), s = RoundTo(shape_.rounding(), exact);
    *scale = s > 0 ? s : std::max(exact, 0x1p-126f), *zero = 0;
  }
  float Nearest(float x, float scale, float) const override {
    uint8_t code;
    float number;
    loops_.to_float8(&x, 1, 1, &scale, false, e5m2_, &code);
    loops_.from_float8(&code, 1, 1, &scale, e5m2_, shape_.rounding(), &number);
    return number;
  }
  std::string Values(size_t) const override { return Encode(scale_, DType::kFloat32); }

 private:
  void Convert(const float* w, int64_t groups, int8_t* codes, float* numbers) {
    loops_.to_float8(w, groups, shape_.group, scales_.data(), false, e5m2_, reinterpret_cast<uint8_t*>(codes));
    if (numbers)
      loops_.from_float8(reinterpret_cast<const uint8_t*>(codes), groups, shape_.group, scales_.data(), e5m2_,
                         shape_.rounding(), numbers);
  }

  const bool e5m2_;
  std::vector<float> scales_;
};

}  // namespace

std::unique_ptr<Scheme> MakeFloat8(const Config& config, const Shape& shape) {
  return std::make_unique<Float8>(config, shape);
}

}  // namespace slipway::quantizer
