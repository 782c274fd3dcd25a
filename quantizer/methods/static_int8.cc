// Activations as integers of 8 bits. torchao chooses their scale and zero point as it does those of weights
// (choose_qparams_affine, with an eps of 2^-23): for each token or for all while a model runs, or, static, once before.
//
// torchao keeps a static scale in the shape of the granularity, and one for each token only fits inputs of as many
// tokens as there were. Here a static scale is one for all.
#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "quantizer/methods/methods.h"

namespace slipway::quantizer {

ActivationGrid GridFor(const Config& c, Rounding t, float min, float max) {
  ActivationGrid g;
  if (c.reduce_range) g.low = -64, g.high = 63;
  const float eps = RoundTo(t, 0x1p-23f);
  min = std::min(min, 0.0f), max = std::max(max, 0.0f);
  if (c.act_mapping == Mapping::kAsymmetric) {
    g.scale = std::max(RoundTo(t, RoundTo(t, max - min) / (g.high - g.low)), eps);
    g.zero = std::clamp(RoundTo(t, g.low - std::rint(RoundTo(t, min / g.scale))), g.low, g.high);
  } else {
    g.scale = std::max(RoundTo(t, std::max(-min, max) / ((g.high - g.low) / 2)), eps);
  }
  return g;
}

void FakeQuantize(const Config& c, Rounding t, const ActivationGrid* grid, int64_t rows, int64_t k,
                  std::vector<float>& x) {
  const Loops& loops = BestLoops();
  const bool by_rows = !grid && c.act_granularity.kind == Granularity::kRow;
  const int64_t groups = by_rows ? rows : 1, each = by_rows ? k : rows * k;
  const auto count = static_cast<size_t>(groups);
  std::vector<float> low(count), high(count), scale(count), inverse(count), zero(count);
  if (!grid) loops.min_max(x.data(), groups, each, low.data(), high.data());
  ActivationGrid g;
  for (size_t i = 0; i < count; ++i) {
    g = grid ? *grid : GridFor(c, t, low[i], high[i]);
    scale[i] = g.scale, inverse[i] = 1 / g.scale, zero[i] = g.zero;
  }
  std::vector<int8_t> codes(x.size());
  loops.to_int(x.data(), groups, each, inverse.data(), zero.data(), Rounding::kF32, g.low, g.high, codes.data());
  loops.from_int(codes.data(), groups, each, scale.data(), zero.data(), Rounding::kF32, x.data());
}

ActivationGrid StaticGrid(const CalibratedWeight& q, absl::Span<const float> factors) {
  double low, high;
  const Config& c = q.scheme.config();
  if (factors.empty()) {
    q.statistics.StaticRange(c.act_mapping == Mapping::kSymmetric, &low, &high);
  } else {
    // Factors are positive: the extremes of a feature stay its extremes.
    low = high = 0;
    for (size_t i = 0; i < factors.size(); ++i) {
      low = std::min(low, static_cast<double>(q.statistics.least()[i] * factors[i]));
      high = std::max(high, static_cast<double>(q.statistics.greatest()[i] * factors[i]));
    }
  }
  return GridFor(c, q.rounding(), RoundTo(q.rounding(), static_cast<float>(low)),
                 RoundTo(q.rounding(), static_cast<float>(high)));
}

absl::StatusOr<Calibrated> QuantizeStatic(const CalibratedWeight& q) {
  Calibrated out;
  ASSIGN_OR_RETURN(out.error, QuantizeWeight(q.w, q.scheme, q.codes_as_they_are, q.sink));
  const ActivationGrid grid = StaticGrid(q, {});
  out.act_scale = grid.scale;
  out.act_zero_point = static_cast<int>(grid.zero);
  return out;
}

absl::StatusOr<Calibrated> QuantizeScaled(const CalibratedWeight& q, absl::Span<const float> factors) {
  Calibrated out;
  ASSIGN_OR_RETURN(out.error, QuantizeWeight(q.w, q.scheme, q.codes_as_they_are, q.sink, factors));
  out.act_pre_scale.reserve(factors.size());
  for (float f : factors) out.act_pre_scale.push_back(RoundTo(q.rounding(), 1 / f));
  if (q.scheme.config().scheme == Config::Scheme::kInt8Static) {
    const ActivationGrid grid = StaticGrid(q, out.act_pre_scale);
    out.act_scale = grid.scale;
    out.act_zero_point = static_cast<int>(grid.zero);
  }
  return out;
}

}  // namespace slipway::quantizer
