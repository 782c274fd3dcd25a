// SmoothQuant: with X the largest magnitude of an input feature and V that of its column of the weight, both plus
// 2^-23,
//
//   f = X^alpha / V^(1 - alpha)
//
// W · diag(f) is quantized and activations are multiplied by 1 / f, rounded to the weight's dtype as torchao keeps
// them.
#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "quantizer/methods/methods.h"

namespace slipway::quantizer {

absl::StatusOr<Calibrated> QuantizeSmooth(const CalibratedWeight& q) {
  const auto columns = static_cast<size_t>(q.k());
  std::vector<float> least(columns), greatest(columns), unused(columns);
  ASSIGN_OR_RETURN(RowReader reader, RowReader::Open(q.w));
  for (absl::Span<const float> rows = reader.Next(); !rows.empty(); rows = reader.Next()) {
    float low, high;
    if (!BestLoops().min_max(rows.data(), 1, static_cast<int64_t>(rows.size()), &low, &high)) return NotFinite();
    BestLoops().columns(rows.data(), static_cast<int64_t>(rows.size()) / q.k(), q.k(), least.data(), greatest.data(),
                        unused.data());
  }
  const auto alpha = static_cast<float>(q.scheme.config().smooth_alpha);
  const Rounding t = q.rounding();
  std::vector<float> factors(columns);
  for (size_t i = 0; i < columns; ++i) {
    const float x = RoundTo(t, std::max(-q.statistics.least()[i], q.statistics.greatest()[i]) + 0x1p-23f);
    const float v = RoundTo(t, std::max(-least[i], greatest[i]) + 0x1p-23f);
    factors[i] = RoundTo(t, RoundTo(t, std::pow(x, alpha)) / RoundTo(t, std::pow(v, 1 - alpha)));
    // What a dtype of few bits makes of extremes: nothing can be divided by it.
    if (!(factors[i] > 0) || !std::isfinite(factors[i]) || !std::isfinite(RoundTo(t, 1 / factors[i])))
      return absl::InvalidArgumentError(
          "the range of a feature is too large or too small to be smoothed in the weight's type");
  }
  return QuantizeScaled(q, factors);
}

}  // namespace slipway::quantizer
