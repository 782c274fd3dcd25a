// AWQ. With x̄ the mean magnitude of each input feature, S ratios r = 0, 1/S, ... are tried:
//
//   c = max(x̄^r, 1e-4), c = c / sqrt(max(c) · min(c))
//
// and that is taken whose quantized layer, (x / c) · Q(W · diag(c))ᵀ, comes first nearest to x · Wᵀ in the mean of
// squares, over the sample of inputs. Where the scheme has integer activations, x / c goes through them, too. Ratios
// are tried at the same time, each with a scheme of its own; a chunk of the weight's rows is in memory for each thread.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/status_macros.h"
#include "kernels/gemm/gemm.h"
#include "quantizer/methods/methods.h"

namespace slipway::quantizer {
namespace {

using S = Config::Scheme;

// c of a ratio; none where the weight's dtype has no such numbers.
std::vector<float> Factors(absl::Span<const float> mean, float ratio, Rounding t) {
  std::vector<float> c;
  c.reserve(mean.size());
  for (float x : mean) c.push_back(std::max(RoundTo(t, std::pow(RoundTo(t, x), ratio)), RoundTo(t, 1e-4f)));
  const auto [least, greatest] = std::minmax_element(c.begin(), c.end());
  const float middle = RoundTo(t, std::sqrt(RoundTo(t, *greatest * *least)));
  for (float& x : c) {
    x = RoundTo(t, x / middle);
    if (!(x > 0) || !std::isfinite(x) || !std::isfinite(RoundTo(t, 1 / x))) return {};
  }
  return c;
}

// The sum of squares of what the layer's outputs change by, on the sample.
absl::StatusOr<double> Loss(const CalibratedWeight& q, absl::Span<const float> factors) {
  const Loops& loops = BestLoops();
  const std::unique_ptr<Scheme> scheme = q.scheme.Again();
  scheme->Start();
  const int64_t k = q.k(), rows = q.statistics.sample_rows();
  const Config& c = scheme->config();
  std::vector<float> inverse, scaled;
  for (float f : factors) inverse.push_back(1 / f);

  // Activations that are integers differ from the float ones: -x / c as the layer sees it.
  std::vector<float> seen;
  if (c.scheme == S::kInt8Dynamic || c.scheme == S::kInt8Static) {
    seen = q.statistics.sample();
    loops.times(seen.data(), inverse.data(), rows, k, q.rounding(), seen.data());
    const ActivationGrid grid = c.scheme == S::kInt8Static ? StaticGrid(q, inverse) : ActivationGrid();
    FakeQuantize(c, q.rounding(), c.scheme == S::kInt8Static ? &grid : nullptr, rows, k, seen);
    for (float& x : seen) x = -x;
  }

  const auto scale = [&](absl::Span<const float> w) {
    scaled.resize(w.size());
    loops.times(w.data(), factors.data(), static_cast<int64_t>(w.size()) / k, k, q.rounding(), scaled.data());
    return scaled.data();
  };
  if (scheme->observes()) {
    ASSIGN_OR_RETURN(RowReader reader, RowReader::Open(q.w));
    int64_t row = 0;
    for (absl::Span<const float> w = reader.Next(); !w.empty(); w = reader.Next()) {
      const int64_t count = static_cast<int64_t>(w.size()) / k;
      scheme->Observe(scale(w), row, count);
      row += count;
    }
    scheme->Settle();
  }
  ASSIGN_OR_RETURN(RowReader reader, RowReader::Open(q.w));
  kernels::Scratch scratch;
  std::vector<int8_t> codes;
  std::vector<float> numbers, difference;
  double loss = 0;
  int64_t row = 0;
  for (absl::Span<const float> w = reader.Next(); !w.empty(); w = reader.Next()) {
    const int64_t count = static_cast<int64_t>(w.size()) / k;
    codes.resize(w.size());
    numbers.resize(w.size());
    difference.resize(static_cast<size_t>(rows * count));
    if (!scheme->Quantize(scale(w), row, count, codes.data(), numbers.data()))
      return std::numeric_limits<double>::infinity();
    kernels::GemmParams g;
    g.m = rows, g.n = count, g.k = k;
    g.a = {q.statistics.sample().data(), kernels::DType::kF32, k, 1};
    g.b = {w.data(), kernels::DType::kF32, 1, k};
    g.c = difference.data(), g.c_stride = count;
    if (seen.empty()) {
      // x · (W - Q / c)ᵀ
      loops.times(numbers.data(), inverse.data(), count, k, Rounding::kF32, numbers.data());
      for (size_t i = 0; i < w.size(); ++i) numbers[i] = w[i] - numbers[i];
      g.b.data = numbers.data();
      kernels::GemmF32(g, nullptr, scratch);
    } else {
      kernels::GemmF32(g, nullptr, scratch);
      g.a.data = seen.data(), g.b.data = numbers.data(), g.accumulate = true;
      kernels::GemmF32(g, nullptr, scratch);
    }
    for (float d : difference) loss += static_cast<double>(d) * d;
    row += count;
  }
  return loss;
}

}  // namespace

absl::StatusOr<Calibrated> QuantizeAwq(const CalibratedWeight& q) {
  const std::vector<float> mean = q.statistics.mean_magnitude();
  const int tries = q.scheme.config().awq_search_space;
  std::vector<double> losses(static_cast<size_t>(tries), std::numeric_limits<double>::infinity());
  const auto factors = [&](size_t i) {
    return Factors(mean, static_cast<float>(static_cast<double>(i) / tries), q.rounding());
  };
  RETURN_IF_ERROR(InParallel(q.threads, losses.size(), [&](size_t i) -> absl::Status {
    const std::vector<float> c = factors(i);
    if (c.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(losses[i], Loss(q, c));
    return absl::OkStatus();
  }));
  // The ratio 0, all factors 1, is one of them: nothing is worse than rounding to the nearest. NaN is no minimum.
  size_t best = 0;
  for (size_t i = 1; i < losses.size(); ++i)
    if (losses[i] < losses[best]) best = i;
  return QuantizeScaled(q, factors(best));
}

}  // namespace slipway::quantizer
