// 4 bits, asymmetric, with zero points that are floats: number = (q - 8) · scale + zero. Zero itself is not kept.
//
//   Int4WeightOnlyConfig, PLAIN (in f32; the routine that torchao takes from its GPU library)
//     scale = max(max - min, 1e-6) / 15, zero = min + 8 · scale, q = clamp(round((w - min) / scale), 0, 15)
//   PrototypeInt4WeightOnlyConfig ("tinygemm", every step in the weight's dtype)
//     scale = max((max - min) / 15, 1e-6), zero = min + scale · 8, q = clamp(round((w - (zero - scale · 8)) / scale),
//     0, 15)
//   HQQ: scale and zero such that q = w · scale + zero, zero moved by up to 20 steps of a proximal solver while the
//   mean error of
//     the tensor falls (loops.h, hqq_step); stored as 1 / scale and (8 - zero) / scale.
//
// Stored as torchao's Int4Tensor: q - 8, two in a byte, the even column low; scale and zero point transposed, [k /
// group, n].
#include <algorithm>
#include <cmath>

#include "quantizer/scheme.h"

namespace slipway::quantizer {
namespace {

using ir::DType;

class Int4 : public Scheme {
 public:
  Int4(const Config& c, const Shape& s) : Scheme(c, s), rounding_(c.int4_cpu ? s.rounding() : Rounding::kF32) {
    const std::vector<int64_t> blocks = {s.groups(), s.n};
    parts_ = {{"qdata", DType::kInt8, {s.n, s.k / 2}}, {"scale", s.dtype, blocks}, {"zero_point", s.dtype, blocks}};
  }
  bool float_zero() const override { return true; }
  DType scale_dtype() const override { return shape_.dtype; }

  bool Quantize(const float* w, int64_t row, int64_t count, int8_t* codes, float* numbers) override {
    const int64_t groups = count * shape_.groups();
    const size_t first = static_cast<size_t>(row * shape_.groups()), many = static_cast<size_t>(groups);
    exact_.resize(many);
    if (!FindRanges(w, groups)) return false;
    const Rounding t = rounding_;
    for (size_t j = 0; j < many; ++j) {
      float& scale = scale_[first + j];
      float& zero = zero_[first + j];
      if (config_.int4_cpu) {
        scale = std::max(RoundTo(t, RoundTo(t, high_of_[j] - low_of_[j]) / 15), RoundTo(t, 1e-6f));
        const float eight = RoundTo(t, scale * 8);
        zero = RoundTo(t, low_of_[j] + eight);
        low_of_[j] = RoundTo(t, zero - eight);
        exact_[j] = scale;
      } else {
        exact_[j] = std::max(high_of_[j] - low_of_[j], 1e-6f) / 15;
        zero = RoundTo(shape_.rounding(), low_of_[j] + exact_[j] * 8);
        scale = RoundTo(shape_.rounding(), exact_[j]);
      }
    }
    loops_.to_uint4(w, groups, shape_.group, low_of_.data(), exact_.data(), t, codes);
    if (numbers)
      loops_.from_uint4(codes, groups, shape_.group, &scale_[first], &zero_[first], shape_.rounding(), numbers);
    return true;
  }

  void Choose(float min, float max, float* scale, float* zero) const override {
    const float exact = std::max(max - min, 1e-6f) / 15;
    *scale = RoundTo(shape_.rounding(), exact);
    *zero = RoundTo(shape_.rounding(), min + exact * 8);
  }
  float Nearest(float x, float scale, float zero) const override {
    const float q = std::clamp(std::rint((x - (zero - 8 * scale)) / scale), 0.0f, 15.0f);
    return RoundTo(shape_.rounding(), RoundTo(shape_.rounding(), (q - 8) * scale) + zero);
  }
  void QuantizeWith(const float* w, int64_t row, int64_t count, const float* scale, const float* zero, int8_t* codes,
                    float* numbers) override {
    const int64_t groups = count * shape_.groups();
    const size_t first = static_cast<size_t>(row * shape_.groups()), many = static_cast<size_t>(groups);
    low_of_.resize(many);
    for (size_t j = 0; j < many; ++j) {
      scale_[first + j] = scale[j], zero_[first + j] = zero[j];
      low_of_[j] = zero[j] - 8 * scale[j];
    }
    loops_.to_uint4(w, groups, shape_.group, low_of_.data(), scale, Rounding::kF32, codes);
    if (numbers) loops_.from_uint4(codes, groups, shape_.group, scale, zero, shape_.rounding(), numbers);
  }

  void Pack(const int8_t* codes, int64_t count, uint8_t* qdata) const override {
    loops_.pack4(codes, count * shape_.k, -8, qdata);
  }
  std::string Values(size_t i) const override {
    const std::vector<float>& from = i == 1 ? scale_ : zero_;
    std::vector<float> turned(from.size());
    const int64_t groups = shape_.groups();
    for (int64_t r = 0; r < shape_.n; ++r)
      for (int64_t c = 0; c < groups; ++c)
        turned[static_cast<size_t>(c * shape_.n + r)] = from[static_cast<size_t>(r * groups + c)];
    return Encode(turned, shape_.dtype);
  }

 protected:
  const Rounding rounding_;
  std::vector<float> exact_;
};

// Only the last row says how many rounds there are. The zeros after each round are kept as long as that costs little
// memory; of larger weights the rounds are taken again.
class Int4Hqq : public Int4 {
 public:
  using Int4::Int4;
  void Start() override {
    Int4::Start();
    rounds_ = kRounds;
    std::fill(std::begin(error_), std::end(error_), 0.0);
    if (scale_.size() <= kMostKept) kept_.resize(scale_.size() * kRounds);
  }
  void Finish() override {
    Int4::Finish();
    std::vector<float>().swap(kept_);
  }
  bool observes() const override { return true; }
  void Observe(const float* w, int64_t row, int64_t count) override {
    Fit(w, count, kRounds, error_, kept_.empty() ? nullptr : &kept_[static_cast<size_t>(row * shape_.groups())]);
  }
  // As long as the mean error falls; the step at which it does not has been taken.
  void Settle() override {
    const double count = static_cast<double>(shape_.n) * static_cast<double>(shape_.k);
    double best = 1e4;
    for (rounds_ = 1; rounds_ < kRounds && error_[rounds_ - 1] / count < best; ++rounds_)
      best = error_[rounds_ - 1] / count;
  }
  bool Quantize(const float* w, int64_t row, int64_t count, int8_t* codes, float* numbers) override {
    const int64_t groups = count * shape_.groups();
    const size_t first = static_cast<size_t>(row * shape_.groups());
    if (!Fit(w, count, kept_.empty() ? rounds_ : 0, nullptr, nullptr)) return false;
    if (!kept_.empty())
      std::copy_n(&kept_[static_cast<size_t>(rounds_ - 1) * scale_.size() + first], groups, zeros_.begin());
    loops_.to_uint4_hqq(w, groups, shape_.group, exact_.data(), zeros_.data(), codes);
    for (size_t j = 0; j < static_cast<size_t>(groups); ++j) {
      const float scale = 1 / exact_[j];
      zero_[first + j] = RoundTo(shape_.rounding(), (8 - zeros_[j]) * scale);
      scale_[first + j] = RoundTo(shape_.rounding(), scale);
    }
    if (numbers)
      loops_.from_uint4(codes, groups, shape_.group, &scale_[first], &zero_[first], shape_.rounding(), numbers);
    return true;
  }

 private:
  static constexpr int kRounds = 20;
  static constexpr size_t kMostKept = size_t{1} << 19;  // groups: 40 MiB of zeros

  // exact_, the inverse scales, and zeros_ of these rows, after so many rounds; after each of them to `kept`, a round
  // every scale_.size().
  bool Fit(const float* w, int64_t count, int rounds, double* error, float* kept) {
    const int64_t groups = count * shape_.groups();
    const size_t many = static_cast<size_t>(groups);
    exact_.resize(many), zeros_.resize(many);
    if (!FindRanges(w, groups)) return false;
    for (size_t j = 0; j < many; ++j) {
      exact_[j] = std::min(15 / (high_of_[j] - low_of_[j]), 2e4f);
      zeros_[j] = std::rint(-low_of_[j] * exact_[j]);
    }
    float beta = 10;
    for (int round = 0; round < rounds; ++round) {
      const double sum = loops_.hqq_step(w, groups, shape_.group, exact_.data(), zeros_.data(), beta, zeros_.data());
      if (error) error[round] += sum;
      if (kept) std::copy_n(zeros_.begin(), groups, kept + static_cast<size_t>(round) * scale_.size());
      beta *= 1.01f;
    }
    return true;
  }

  int rounds_ = kRounds;
  std::vector<float> zeros_, kept_;
  double error_[kRounds] = {};
};

}  // namespace

std::unique_ptr<Scheme> MakeInt4(const Config& config, const Shape& shape) {
  if (config.hqq) return std::make_unique<Int4Hqq>(config, shape);
  return std::make_unique<Int4>(config, shape);
}

}  // namespace slipway::quantizer
