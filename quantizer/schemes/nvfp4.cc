// NVFP4 as torchao writes it: e2m1 in blocks of 16 along k, a scale of e4m3 a block and one of f32 for the tensor.
//
//   p = max|w| of the tensor / (448 · 6)                     1 where the configuration has no tensor scale
//   s = e4m3(clamp((max|w| of the block / 6) / p, 2^-6, 448))
//   q = e2m1(clamp(w · ((1 / p) / s), ±6)),  number = q · (s · p)
//
// Scales are stored swizzled (scheme.h), two codes in a byte, the even column low.
#include <algorithm>

#include "base/floats.h"
#include "quantizer/scheme.h"

namespace slipway::quantizer {
namespace {

using ir::DType;
using E4M3 = F8<kE4M3FN>;

class Nvfp4 : public Scheme {
 public:
  Nvfp4(const Config& c, const Shape& s) : Scheme(c, s) {
    const int64_t down = (s.n + 127) / 128, across = (s.groups() + 3) / 4;
    parts_ = {{"qdata", DType::kUInt8, {s.n, s.k / 2}}, {"scale", DType::kFloat8E4M3FN, {32 * down, 16 * across}}};
    if (c.per_tensor_scale) parts_.push_back({"per_tensor_scale", DType::kFloat32, {}});
    blocks_.resize(scale_.size());
  }

  bool observes() const override { return config_.per_tensor_scale; }
  void Observe(const float* rows, int64_t, int64_t count) override { ObserveRange(rows, count); }
  void Settle() override { tensor_ = std::max(-least_, greatest_) / (448.0f * 6.0f); }

  bool Quantize(const float* w, int64_t row, int64_t count, int8_t* codes, float* numbers) override {
    const int64_t groups = count * shape_.groups();
    const size_t first = static_cast<size_t>(row * shape_.groups()), many = static_cast<size_t>(groups);
    low_of_.resize(many), high_of_.resize(many), by_.resize(many);
    if (!loops_.min_max(w, groups, shape_.group, low_of_.data(), high_of_.data())) return false;
    for (size_t j = 0; j < many; ++j) {
      const float block = std::max(-low_of_[j], high_of_[j]) / 6.0f;
      // A tensor of zeros: its blocks get the least scale, not 0 / 0.
      const float ratio = !config_.per_tensor_scale ? block : tensor_ > 0 ? block / tensor_ : 0.0f;
      const E4M3 s(std::clamp(ratio, 0x1p-6f, 448.0f));
      blocks_[first + j] = s.bits;
      const float number = static_cast<float>(s);
      by_[j] = !config_.per_tensor_scale ? 1 / number : tensor_ > 0 ? (1 / tensor_) / number : 1 / number;
      scale_[first + j] = config_.per_tensor_scale ? number * tensor_ : number;
    }
    auto* q = reinterpret_cast<uint8_t*>(codes);
    loops_.to_float4(w, groups, shape_.group, by_.data(), true, q);
    if (numbers) loops_.from_float4(q, groups, shape_.group, &scale_[first], shape_.rounding(), numbers);
    return true;
  }

  void Pack(const int8_t* codes, int64_t count, uint8_t* qdata) const override { loops_.pack4(codes, count * shape_.k, 0, qdata); }
  std::string Values(size_t i) const override {
    return i == 1 ? Swizzle(blocks_, shape_.n, shape_.groups()) : Encode({&tensor_, 1}, DType::kFloat32);
  }

 private:
  float tensor_ = 0;
  std::vector<uint8_t> blocks_;
  std::vector<float> low_of_, high_of_, by_;
};

}  // namespace

std::unique_ptr<Scheme> MakeNvfp4(const Config& config, const Shape& shape) { return std::make_unique<Nvfp4>(config, shape); }

}  // namespace slipway::quantizer
