// Each line of arithmetic is one operator of torch on f32 tensors, whose Python numbers (f64) are rounded to f32 before
// they are used. The room's code is compiled without contraction, so products and sums round one after the other.
#include "quantizer/pt2e/histogram.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace slipway::quantizer::pt2e {
namespace {

// torch.sum() of contiguous floats on x86, whatever the processor has: four vectors of eight side by side, cascaded
// every 16 rows of them.
float SumAsTorch(const float* x, int64_t n) {
  constexpr int kRows = 4, kLevels = 4;
  constexpr int64_t kLanes = 8;
  using Vector = std::array<float, kLanes>;
  const int64_t vectors = n / kLanes, steps = vectors / kRows;
  int log = 0;
  while ((int64_t{1} << log) < steps) ++log;
  const int power = std::max(4, log / kLevels);
  const int64_t level = int64_t{1} << power;

  Vector sums[kLevels][kRows] = {};
  const auto add = [&](Vector& to, const float* from) {
    for (size_t l = 0; l < kLanes; ++l) to[l] += from[l];
  };
  const auto add_step = [&](int64_t i) {
    for (int r = 0; r < kRows; ++r) add(sums[0][r], x + (i * kRows + r) * kLanes);
  };
  int64_t i = 0;
  while (i + level <= steps) {
    for (int64_t j = 0; j < level; ++j) add_step(i++);
    for (int j = 1; j < kLevels; ++j) {
      for (int r = 0; r < kRows; ++r) {
        add(sums[j][r], sums[j - 1][r].data());
        sums[j - 1][r] = {};
      }
      if ((i & ((level - 1) << (j * power))) != 0) break;
    }
  }
  for (; i < steps; ++i) add_step(i);
  for (int j = 1; j < kLevels; ++j)
    for (int r = 0; r < kRows; ++r) add(sums[0][r], sums[j][r].data());
  Vector& total = sums[0][0];
  for (int64_t v = steps * kRows; v < vectors; ++v) add(total, x + v * kLanes);
  for (int r = 1; r < kRows; ++r) add(total, sums[0][r].data());

  float sum = 0;
  for (int64_t k = vectors * kLanes; k < n; ++k) sum += x[k];
  for (float partial : total) sum += partial;
  return sum;
}

// torch.linspace(), whose products and sums are contracted on every processor with such an instruction.
std::vector<float> Linspace(float from, float to, int steps) {
  std::vector<float> out(static_cast<size_t>(steps));
  const float step = (to - from) / static_cast<float>(steps - 1);
  for (int i = 0; i < steps; ++i)
    out[static_cast<size_t>(i)] = i < steps / 2 ? std::fma(step, static_cast<float>(i), from)
                                                : std::fma(-step, static_cast<float>(steps - i - 1), to);
  return out;
}

// torch.histc(): a range of one number counts as the one from it less 1 to it and 1.
void Count(const float* x, int64_t n, float low, float high, int bins, std::vector<float>* counts) {
  if (low == high) low -= 1, high += 1;
  const float width = high - low, number = static_cast<float>(bins);
  std::vector<uint64_t> found(static_cast<size_t>(bins) + 1);
  constexpr int64_t kChunk = 1024;
  std::array<int32_t, kChunk> bin;
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t count = std::min(kChunk, n - at);
    for (int64_t i = 0; i < count; ++i)
      bin[static_cast<size_t>(i)] = static_cast<int32_t>((x[at + i] - low) * number / width);
    for (int64_t i = 0; i < count; ++i) ++found[static_cast<size_t>(bin[static_cast<size_t>(i)])];
  }
  found[static_cast<size_t>(bins) - 1] += found[static_cast<size_t>(bins)];  // the last bin has its upper edge
  for (size_t b = 0; b < counts->size(); ++b) (*counts)[b] = static_cast<float>(found[b]);
}

// torch.div(a, b, rounding_mode="floor"), b > 0.
float FloorDivide(float a, float b) {
  const float mod = std::fmod(a, b);
  float quotient = (a - mod) / b;
  if (mod < 0) quotient -= 1;
  float floor = std::floor(quotient);
  if (quotient - floor > 0.5f) floor += 1;
  return quotient == 0 ? std::copysign(0.0f, a / b) : floor;
}

// A third of the difference of cubes: the integral of x² between the two.
float Cubes(float begin, float end) { return (end * end * end - begin * begin * begin) / 3; }

}  // namespace

void RangeHistogram::Add(const float* x, int64_t n, float low, float high) {
  if (empty()) {
    min_ = low, max_ = high;
    Count(x, n, low, high, kBins, &counts_);
    return;
  }
  low = std::min(low, min_), high = std::max(high, max_);
  std::vector<float> added(kBins);
  Count(x, n, low, high, kBins, &added);
  if (low != min_ || high != max_)
    Widen(low, high, added);
  else
    for (size_t b = 0; b < kBins; ++b) counts_[b] += added[b];
  min_ = low, max_ = high;
}

// Adds the counts so far, moved to bins from `low` to `high`, to those of `added`.
void RangeHistogram::Widen(float low, float high, const std::vector<float>& added) {
  std::vector<float> moved(kBins);
  if (min_ == max_) {
    const float all = SumAsTorch(counts_.data(), kBins);
    Count(&min_, 1, low, high, kBins, &moved);
    for (float& c : moved) c *= all;
  } else {
    constexpr int kParts = kBins * kUpsampling;
    const float size = (max_ - min_) / static_cast<float>(kParts);
    const std::vector<float> begins = Linspace(min_, max_, kParts + 1), edges = Linspace(low, high, kBins + 1);
    for (size_t i = 0; i < kParts; ++i) {
      const float middle = begins[i] + 0.5f * size;
      const auto above = std::upper_bound(edges.begin(), edges.end(), middle) - edges.begin();
      const auto bin = static_cast<size_t>(std::clamp<int64_t>(above - 1, 0, kBins - 1));
      moved[bin] += counts_[i / kUpsampling] / static_cast<float>(kUpsampling);
    }
  }
  for (size_t b = 0; b < kBins; ++b) counts_[b] = added[b] + moved[b];
}

// What the numbers counted lose when the range of the bins [first, last] becomes 256 numbers, each bin's being spread
// evenly over it.
double RangeHistogram::Error(int first, int last, double bin_width) const {
  const double step = bin_width * (last - first + 1) / kQuantized;
  if (step == 0) return 0;
  const auto width = static_cast<float>(bin_width), s = static_cast<float>(step), half = static_cast<float>(step / 2),
             least = static_cast<float>(-step / 2);
  const float whole = Cubes(least, half);
  std::vector<float> loss(kBins);
  for (int b = 0; b < kBins; ++b) {
    const float begin = static_cast<float>(b - first) * width, end = begin + width;
    const float of_begin = std::clamp(FloorDivide(begin, s), 0.0f, static_cast<float>(kQuantized - 1));
    const float of_end = std::clamp(FloorDivide(end, s), 0.0f, static_cast<float>(kQuantized - 1));
    const float begin_center = (of_begin + 0.5f) * s, end_center = of_end * s + half;
    const float density = counts_[static_cast<size_t>(b)] / width;
    float sum = density * Cubes(begin - begin_center, half);
    sum += (of_end - of_begin - 1) * (density * whole);
    sum += density * Cubes(least, end - end_center);
    loss[static_cast<size_t>(b)] = sum;
  }
  return SumAsTorch(loss.data(), kBins);
}

std::pair<float, float> RangeHistogram::Search() const {
  const float width = (max_ - min_) / static_cast<float>(kBins);
  const double exact_width = (static_cast<double>(max_) - static_cast<double>(min_)) / kBins;
  const double total = SumAsTorch(counts_.data(), kBins);
  std::vector<float> cumulated(kBins);
  double sum = 0;
  for (size_t b = 0; b < kBins; ++b) cumulated[b] = static_cast<float>(sum += static_cast<double>(counts_[b]));

  constexpr double kStep = 1e-5;  // of the quantiles that bound the range
  double alpha = 0, beta = 1, least = std::numeric_limits<double>::infinity();
  int first = 0, last = kBins - 1;
  while (alpha < beta) {
    const double next_alpha = alpha + kStep, next_beta = beta - kStep;
    const auto below = static_cast<float>(next_alpha * total), above = static_cast<float>(next_beta * total);
    int l = first, r = last;
    while (l < last && cumulated[static_cast<size_t>(l)] < below) ++l;
    while (r > first && cumulated[static_cast<size_t>(r)] > above) --r;
    int next_first = first, next_last = last;
    if (l - first > last - r)
      next_first = l, alpha = next_alpha;
    else
      next_last = r, beta = next_beta;
    if (next_first == first && next_last == last) continue;
    const double error = Error(next_first, next_last, exact_width);
    if (error > least) break;
    least = error, first = next_first, last = next_last;
  }
  return {min_ + width * static_cast<float>(first), min_ + width * static_cast<float>(last + 1)};
}

}  // namespace slipway::quantizer::pt2e
