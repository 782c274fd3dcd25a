// The histogram behind torchao's HistogramObserver, and its search for the range that loses least when it is quantized.
// Kept apart from the other observers because all of its steps must round as torch's operators on f32 tensors do:
// bins, sums and ranges are then torch's to the bit.
#ifndef SLIPWAY_QUANTIZER_PT2E_HISTOGRAM_H_
#define SLIPWAY_QUANTIZER_PT2E_HISTOGRAM_H_

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace slipway::quantizer::pt2e {

class RangeHistogram {
 public:
  RangeHistogram() : counts_(kBins) {}

  // Counts finite numbers, of which there is at least one and `low` is the least and `high` the greatest.
  void Add(const float* x, int64_t n, float low, float high);

  bool empty() const { return min_ > max_; }
  // The range whose quantization to 256 numbers has the least squared error, as far as torchao's search looks. Not for
  // an empty histogram.
  std::pair<float, float> Search() const;

  float min() const { return min_; }
  float max() const { return max_; }
  const std::vector<float>& counts() const { return counts_; }

 private:
  static constexpr int kBins = 2048;
  static constexpr int kUpsampling = 16;  // parts of a bin when its count moves to wider bins
  static constexpr int kQuantized = 256;  // numbers of 8 bits

  void Widen(float low, float high, const std::vector<float>& added);
  double Error(int first, int last, double bin_width) const;

  float min_ = std::numeric_limits<float>::infinity(), max_ = -std::numeric_limits<float>::infinity();
  std::vector<float> counts_;
};

}  // namespace slipway::quantizer::pt2e

#endif  // SLIPWAY_QUANTIZER_PT2E_HISTOGRAM_H_
