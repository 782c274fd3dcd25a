// Observers of torchao's PT2E flow: what they keep of the numbers that they see, and the scale and zero point that they
// make of it, torchao's to the bit for the same numbers. None keeps the numbers themselves.
#ifndef SLIPWAY_QUANTIZER_PT2E_OBSERVERS_H_
#define SLIPWAY_QUANTIZER_PT2E_OBSERVERS_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "quantizer/pt2e/recipe.h"

namespace slipway::quantizer::pt2e {

// number = (integer - zero_point) · scale
struct Parameters {
  float scale = 1;
  int64_t zero_point = 0;
};

// The least scale: torchao's `eps` in the configurations of both quantizers.
inline constexpr float kLeastScale = 0x1p-12f;

// Observes one tensor, or several that share a scale; its numbers become all of `integers`, whatever their sign.
class ActivationObserver {
 public:
  static std::unique_ptr<ActivationObserver> Make(Recipe::Observer kind);
  virtual ~ActivationObserver() = default;
  // One tensor of a sample. Nothing happens where n is 0. InvalidArgument for NaN, and for infinities where the
  // observer's range would be infinite; a histogram leaves them out.
  virtual absl::Status Add(const float* x, int64_t n) = 0;
  // InvalidArgument where it has seen no number.
  absl::StatusOr<Parameters> Finish(const Integers& integers) const;

 protected:
  struct Range {
    float low = std::numeric_limits<float>::infinity(), high = -std::numeric_limits<float>::infinity();
  };
  virtual Range range() const = 0;  // as it is without numbers
};

// Observes a weight: the extremes of each of its channels, the indices of its first dimension, or of all of it.
class WeightObserver {
 public:
  // `size`: of the tensor's elements, in as many channels of one size; 1 channel: one scale for all.
  WeightObserver(int64_t channels, int64_t size);
  // Elements [from, from + n) of the tensor in row-major order. InvalidArgument where one is not finite.
  absl::Status Add(const float* x, int64_t from, int64_t n);
  // One symmetric scale a channel.
  std::vector<float> Scales(const Integers& integers) const;

 private:
  int64_t channel_size_;
  std::vector<float> low_, high_;
};

// clamp(round(x / scale) + zero point) as quantized_decomposed.quantize_per_tensor and per_channel compute it: with the
// reciprocal of the scale, which is rounded to f32.
void Quantize(const float* x, int64_t n, float scale, int64_t zero_point, const Integers& integers, int8_t* to);

}  // namespace slipway::quantizer::pt2e

#endif  // SLIPWAY_QUANTIZER_PT2E_OBSERVERS_H_
