// MX formats (Open Compute Project, Microscaling Formats 1.0) as torchao writes them: blocks of 32 along k share a
// power of two, an E8M0 byte e that stands for 2^(e - 127). With the largest |w| of the block (in f32) and the
// element's largest number and largest power of two p:
//
//   rceil  d = max / largest; e = clamp(ceil(log2 d), -127, 127) + 127, 0 for d = 0; w · 2^(127 - e), by 1 where e = 0
//   floor  e = exponent(max) - p; ceil: one more if max is no power of two; even: max rounded to the element's mantissa
//          first
//          w / 2^(e - 127), at least 2^-126
//   then clamped to the largest number and rounded to nearest even
//
// Scales are stored swizzled (scheme.h), two codes of e2m1 in a byte, the even column low.
#include <algorithm>
#include <bit>
#include <cmath>

#include "quantizer/scheme.h"

namespace slipway::quantizer {
namespace {

using ir::DType;

// ceil(log2 d) of a positive number. Only where d is a hair above a power of two does the rounding of log2 in f32,
// which torch takes, decide.
float CeilLog2(float d) {
  const uint32_t u = std::bit_cast<uint32_t>(d);
  const uint32_t mantissa = u & 0x7fffff;
  if (u < 0x800000 || (mantissa != 0 && mantissa < 256)) return std::ceil(std::log2(d));
  return static_cast<float>(static_cast<int>(u >> 23) - 127 + (mantissa != 0));
}

class Mx : public Scheme {
 public:
  Mx(const Config& c, const Shape& s)
      : Scheme(c, s), four_(c.element == DType::kFloat4E2M1), e5m2_(c.element == DType::kFloat8E5M2),
        largest_(four_   ? 6.0f
                 : e5m2_ ? 57344.0f
                         : 448.0f),
        power_(four_   ? 2
               : e5m2_ ? 15
                       : 8),
        mantissa_(four_   ? 1
                  : e5m2_ ? 2
                          : 3) {
    parts_ = {{"qdata", four_ ? DType::kUInt8 : c.element, {s.n, four_ ? s.k / 2 : s.k}},
              {"scale", DType::kFloat8E8M0FNU, SwizzledSizes(s.n, s.groups())}};
  }
  void Start() override {
    Scheme::Start();
    exponents_.assign(scale_.size(), 0);
  }
  void Finish() override {
    Scheme::Finish();
    exponents_.clear();
    exponents_.shrink_to_fit();
  }

  bool Quantize(const float* w, int64_t row, int64_t count, int8_t* codes, float* numbers) override {
    const int64_t groups = count * shape_.groups();
    const size_t first = static_cast<size_t>(row * shape_.groups()), many = static_cast<size_t>(groups);
    by_.resize(many);
    if (!FindRanges(w, groups)) return false;
    const bool rceil = config_.mx_scaling == MxScaling::kRceil;
    for (size_t j = 0; j < many; ++j) {
      const int e = Exponent(std::max(-low_of_[j], high_of_[j]));
      exponents_[first + j] = static_cast<uint8_t>(e);
      scale_[first + j] = std::ldexp(1.0f, e - 127);
      by_[j] = rceil ? (e == 0 ? 1.0f : std::ldexp(1.0f, 127 - e)) : std::max(scale_[first + j], 0x1p-126f);
    }
    auto* q = reinterpret_cast<uint8_t*>(codes);
    if (four_)
      loops_.to_float4(w, groups, shape_.group, by_.data(), rceil, q);
    else
      loops_.to_float8(w, groups, shape_.group, by_.data(), rceil, e5m2_, q);
    if (!numbers) return true;
    if (four_)
      loops_.from_float4(q, groups, shape_.group, &scale_[first], shape_.rounding(), numbers);
    else
      loops_.from_float8(q, groups, shape_.group, &scale_[first], e5m2_, shape_.rounding(), numbers);
    return true;
  }

  void Pack(const int8_t* codes, int64_t count, uint8_t* qdata) const override {
    four_ ? loops_.pack4(codes, count * shape_.k, 0, qdata) : Scheme::Pack(codes, count, qdata);
  }
  std::string Values(size_t) const override { return Swizzle(exponents_, shape_.n, shape_.groups()); }

 private:
  int Exponent(float max) const {
    if (config_.mx_scaling == MxScaling::kRceil) {
      const float d = max / largest_;
      return d == 0 ? 0 : static_cast<int>(std::clamp(CeilLog2(d), -127.0f, 127.0f)) + 127;
    }
    uint32_t u = std::bit_cast<uint32_t>(max);
    if (config_.mx_scaling == MxScaling::kEven) u = (u + (1u << (23 - mantissa_ - 1))) & 0xff800000u;
    int e = static_cast<int>(u >> 23 & 255) - 127;
    if (config_.mx_scaling == MxScaling::kCeil) e += (u & 0x7fffff) != 0;
    return std::clamp(e - power_, -127, 128) + 127;
  }

  const bool four_, e5m2_;
  const float largest_;
  const int power_, mantissa_;
  std::vector<uint8_t> exponents_;
  std::vector<float> by_;
};

}  // namespace

std::unique_ptr<Scheme> MakeMx(const Config& config, const Shape& shape) { return std::make_unique<Mx>(config, shape); }

}  // namespace slipway::quantizer
