// Steps round as torch's do on f32 tensors; the room's code is compiled without contraction.
#include "quantizer/pt2e/observers.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "quantizer/loops/loops.h"
#include "quantizer/pt2e/histogram.h"

namespace slipway::quantizer::pt2e {
namespace {

absl::Status NotANumber() { return absl::InvalidArgumentError("activations with NaN have no range"); }
absl::Status TooWide() { return absl::InvalidArgumentError("activations whose range is not finite in f32"); }

// The extremes of finite numbers.
absl::Status FiniteRange(const float* x, int64_t n, float* low, float* high) {
  if (BestLoops().min_max(x, 1, n, low, high)) return absl::OkStatus();
  return std::any_of(x, x + n, [](float v) { return std::isnan(v); }) ? NotANumber() : TooWide();
}

class MinMax : public ActivationObserver {
 public:
  absl::Status Add(const float* x, int64_t n) override {
    if (n == 0) return absl::OkStatus();
    Range now;
    RETURN_IF_ERROR(FiniteRange(x, n, &now.low, &now.high));
    Join(now);
    return absl::OkStatus();
  }

 protected:
  Range range() const override { return range_; }
  virtual void Join(const Range& now) { range_ = {std::min(range_.low, now.low), std::max(range_.high, now.high)}; }
  Range range_;
};

class MovingAverage : public MinMax {
  static constexpr float kConstant = 0.01f;  // how much of the average is the newest
  void Join(const Range& now) override {
    if (range_.low > range_.high)
      range_ = now;
    else
      range_ = {range_.low + kConstant * (now.low - range_.low), range_.high + kConstant * (now.high - range_.high)};
  }
};

class Histogram : public ActivationObserver {
 public:
  absl::Status Add(const float* x, int64_t n) override {
    if (n == 0) return absl::OkStatus();
    float low, high;
    std::vector<float> finite;
    if (!BestLoops().min_max(x, 1, n, &low, &high)) {
      for (int64_t i = 0; i < n; ++i) {
        if (std::isnan(x[i])) return NotANumber();
        if (!std::isinf(x[i])) finite.push_back(x[i]);
      }
      if (finite.empty()) return absl::OkStatus();
      x = finite.data(), n = static_cast<int64_t>(finite.size());
      BestLoops().min_max(x, 1, n, &low, &high);
    }
    // Bins are found by multiplying with their number.
    const float width = std::max(high, histogram_.max()) - std::min(low, histogram_.min());
    if (!std::isfinite(width * 4096)) return TooWide();
    histogram_.Add(x, n, low, high);
    return absl::OkStatus();
  }

 private:
  Range range() const override {
    if (histogram_.empty()) return {};
    const auto [low, high] = histogram_.Search();
    return {low, high};
  }
  RangeHistogram histogram_;
};

}  // namespace

std::unique_ptr<ActivationObserver> ActivationObserver::Make(Recipe::Observer kind) {
  switch (kind) {
    case Recipe::Observer::kMinMax: return std::make_unique<MinMax>();
    case Recipe::Observer::kMovingAverage: return std::make_unique<MovingAverage>();
    case Recipe::Observer::kHistogram: break;
  }
  return std::make_unique<Histogram>();
}

absl::StatusOr<Parameters> ActivationObserver::Finish(const Integers& integers) const {
  const Range r = range();
  if (r.low > r.high) return absl::InvalidArgumentError("no sample has a number of it");
  const float low = std::min(r.low, 0.0f), high = std::max(r.high, 0.0f);
  Parameters p;
  p.scale = std::max((high - low) / static_cast<float>(integers.high - integers.low), kLeastScale);
  const auto steps = static_cast<int64_t>(std::nearbyint(low / p.scale));
  p.zero_point = std::clamp(integers.low - steps, integers.low, integers.high);
  return p;
}

WeightObserver::WeightObserver(int64_t channels, int64_t size)
    : channel_size_(std::max<int64_t>(size / std::max<int64_t>(channels, 1), 1)),
      low_(static_cast<size_t>(channels), std::numeric_limits<float>::infinity()),
      high_(static_cast<size_t>(channels), -std::numeric_limits<float>::infinity()) {}

absl::Status WeightObserver::Add(const float* x, int64_t from, int64_t n) {
  while (n > 0) {
    const auto channel = static_cast<size_t>(from / channel_size_);
    const int64_t count = std::min(n, channel_size_ - from % channel_size_);
    float low, high;
    if (!BestLoops().min_max(x, 1, count, &low, &high)) return absl::InvalidArgumentError("it has infinities or NaN");
    low_[channel] = std::min(low_[channel], low);
    high_[channel] = std::max(high_[channel], high);
    x += count, from += count, n -= count;
  }
  return absl::OkStatus();
}

std::vector<float> WeightObserver::Scales(const Integers& integers) const {
  std::vector<float> scales(low_.size());
  const float half = static_cast<float>(integers.high - integers.low) / 2;
  for (size_t c = 0; c < scales.size(); ++c)
    scales[c] = std::max(std::max(-std::min(low_[c], 0.0f), std::max(high_[c], 0.0f)) / half, kLeastScale);
  return scales;
}

void Quantize(const float* x, int64_t n, float scale, int64_t zero_point, const Integers& integers, int8_t* to) {
  // Of quotients in f64 that are rounded to f32 the one of two floats is the quotient in f32 (Figueroa 1995).
  const float inverse = 1 / scale, zero = static_cast<float>(zero_point);
  const auto low = static_cast<float>(integers.low), high = static_cast<float>(integers.high);
  const bool is_signed = integers.dtype == ir::DType::kInt8;
  for (int64_t i = 0; i < n; ++i) {
    const float q = std::clamp(std::nearbyint(x[i] * inverse) + zero, low, high);
    to[i] = is_signed ? static_cast<int8_t>(q) : static_cast<int8_t>(static_cast<uint8_t>(q));
  }
}

}  // namespace slipway::quantizer::pt2e
