// Pillow's resampling, since a network calibrated on other numbers than it is used with loses more than the last bit: a
// triangle as wide as the step between output pixels (never narrower than two input pixels), weights of 22 fractional
// bits, and bytes between the pass along rows and the one along columns.
#include <algorithm>
#include <cmath>
#include <vector>

#include "importers/image/image.h"

namespace slipway::importers {
namespace {

constexpr int kFraction = 22;
constexpr int32_t kHalf = 1 << (kFraction - 1);

// What one output pixel is made of: `weights` of the input pixels from `first` on.
struct Taps {
  int64_t first;
  std::vector<int32_t> weights;
  int64_t end() const { return first + static_cast<int64_t>(weights.size()); }
};

// Those of output pixels [begin, begin + count) of `out`, in one direction.
std::vector<Taps> TapsOf(int64_t in, int64_t out, int64_t begin, int64_t count) {
  const double step = static_cast<double>(in) / static_cast<double>(out);
  const double width = std::max(step, 1.0);  // of half the triangle
  std::vector<Taps> taps;
  std::vector<double> weights;
  for (int64_t i = begin; i < begin + count; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * step;
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - width + 0.5), 0);
    const int64_t last = std::min(static_cast<int64_t>(center + width + 0.5), in);
    weights.clear();
    double sum = 0;
    for (int64_t x = first; x < last; ++x) {
      const double distance = std::abs((static_cast<double>(x) - center + 0.5) * (1.0 / width));
      weights.push_back(distance < 1 ? 1 - distance : 0);
      sum += weights.back();
    }
    Taps t{first, {}};
    for (double w : weights) {
      const double scaled = (sum == 0 ? w : w / sum) * (1 << kFraction);
      t.weights.push_back(static_cast<int32_t>(scaled + 0.5));
    }
    taps.push_back(std::move(t));
  }
  return taps;
}

uint8_t ToByte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kFraction, 0, 255)); }

// One row of the image, at the columns' taps.
void ResizeRow(const uint8_t* row, const std::vector<Taps>& columns, uint8_t* to) {
  for (const Taps& t : columns) {
    const uint8_t* from = row + 3 * t.first;
    int32_t sums[3] = {kHalf, kHalf, kHalf};
    for (const int32_t w : t.weights)
      for (int c = 0; c < 3; ++c) sums[c] += w * *from++;
    for (const int32_t sum : sums) *to++ = ToByte(sum);
  }
}

}  // namespace

Image Resize(const Image& image, int64_t width, int64_t height, const Window& window) {
  const std::vector<Taps> columns = TapsOf(image.width, width, window.left, window.width);
  const std::vector<Taps> rows = TapsOf(image.height, height, window.top, window.height);
  const auto bytes = static_cast<size_t>(3 * window.width);
  // A row of the image is added to the few rows that it is a part of: however tall the image is, no copy of it is kept.
  std::vector<int32_t> sums(bytes * rows.size(), kHalf);
  std::vector<uint8_t> row(bytes);
  size_t first = 0;
  for (int64_t y = rows.front().first; y < rows.back().end(); ++y) {
    ResizeRow(image.rgb.data() + 3 * y * image.width, columns, row.data());
    while (rows[first].end() <= y) ++first;
    for (size_t i = first; i < rows.size() && rows[i].first <= y; ++i) {
      const int32_t w = rows[i].weights[static_cast<size_t>(y - rows[i].first)];
      int32_t* sum = sums.data() + i * bytes;
      for (size_t x = 0; x < bytes; ++x) sum[x] += w * row[x];
    }
  }
  Image out{window.width, window.height, std::vector<uint8_t>(sums.size())};
  std::transform(sums.begin(), sums.end(), out.rgb.begin(), ToByte);
  return out;
}

}  // namespace slipway::importers
