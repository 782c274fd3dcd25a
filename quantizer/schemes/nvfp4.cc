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

class Nvfp4 : public Scheme {
 public:
  Nvfp4(const Config& c, const Shape& s) : Scheme(c, s) {
    parts_ = {{"qdata", DType::kUInt8, {s.n, s.k / 2}},
              {"scale", DType::kFloat8E4M3FN, SwizzledSizes(s.n, s.groups())}};
    if (c.per_tensor_scale) parts_.push_back({"per_tensor_scale", DType::kFloat32, {}});
  }
  void Start() override {
    Scheme::Start();
    blocks_.assign(scale_.size(), 0);
  }
  void Finish() override {
    Scheme::Finish();
    blocks_.clear();
    blocks_.shrink_to_fit();
  }

  bool observes() const override { return config_.per_tensor_scale; }
  void Observe(const float* rows, int64_t, int64_t count) override { ObserveRange(rows, count); }
  void Settle() override { tensor_ = std::max(-least_, greatest_) / (448.0f * 6.0f); }

  bool Quantize(const float* w, int64_t row, int64_t count, int8_t* codes, float* numbers) override {
    const int64_t groups = count * shape_.groups();
    const size_t first = static_cast<size_t>(row * shape_.groups()), many = static_cast<size_t>(groups);
    by_.resize(many);
    if (!FindRanges(w, groups)) return false;
    for (size_t j = 0; j < many; ++j) by_[j] = BlockScale(low_of_[j], high_of_[j]);
    Convert(w, first, groups, by_.data(), codes, numbers);
    return true;
  }

  // The scale is the block's, without the tensor's.
  void Choose(float min, float max, float* scale, float* zero) const override {
    *scale = static_cast<float>(F8<kE4M3FN>(BlockScale(min, max)));
    *zero = 0;
  }
  float Nearest(float x, float scale, float) const override {
    const float by = (1 / Tensor()) / scale;
    return static_cast<float>(F8<kE2M1>(std::clamp(x * by, -6.0f, 6.0f))) / by;
  }
  void QuantizeWith(const float* w, int64_t row, int64_t count, const float* scale, const float*, int8_t* codes,
                    float* numbers) override {
    by_.resize(static_cast<size_t>(count * shape_.groups()));
    Convert(w, static_cast<size_t>(row * shape_.groups()), count * shape_.groups(), scale, codes, numbers);
  }

  void Pack(const int8_t* codes, int64_t count, uint8_t* qdata) const override {
    loops_.pack4(codes, count * shape_.k, 0, qdata);
  }
  std::string Values(size_t i) const override {
    return i == 1 ? Swizzle(blocks_, shape_.n, shape_.groups()) : Encode({&tensor_, 1}, DType::kFloat32);
  }

 private:
  // The tensor's scale. A tensor of zeros has 1: its blocks get the least scale, not 0 / 0.
  float Tensor() const { return config_.per_tensor_scale && tensor_ > 0 ? tensor_ : 1.0f; }
  // Of a block, before it is rounded.
  float BlockScale(float min, float max) const {
    return std::clamp(std::max(-min, max) / 6.0f / Tensor(), 0x1p-6f, 448.0f);
  }
  // With scales of blocks, which are rounded here; `first` is the first block's place.
  void Convert(const float* w, size_t first, int64_t groups, const float* scale, int8_t* codes, float* numbers) {
    constexpr float kOne = 1;
    loops_.to_float8(scale, 1, groups, &kOne, true, false, &blocks_[first]);
    loops_.from_float8(&blocks_[first], 1, groups, &kOne, false, Rounding::kF32, by_.data());
    const float inverse = 1 / Tensor();
    for (size_t j = 0; j < static_cast<size_t>(groups); ++j) {
      scale_[first + j] = config_.per_tensor_scale ? by_[j] * tensor_ : by_[j];
      by_[j] = inverse / by_[j];
    }
    auto* q = reinterpret_cast<uint8_t*>(codes);
    loops_.to_float4(w, groups, shape_.group, by_.data(), true, q);
    if (numbers) loops_.from_float4(q, groups, shape_.group, &scale_[first], shape_.rounding(), numbers);
  }

  float tensor_ = 0;
  std::vector<uint8_t> blocks_;
  std::vector<float> by_;
};

}  // namespace

std::unique_ptr<Scheme> MakeNvfp4(const Config& config, const Shape& shape) {
  return std::make_unique<Nvfp4>(config, shape);
}

}  // namespace slipway::quantizer
