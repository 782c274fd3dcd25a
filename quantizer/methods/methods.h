// The calibrated methods, one file each, and what they share.
#ifndef SLIPWAY_QUANTIZER_METHODS_METHODS_H_
#define SLIPWAY_QUANTIZER_METHODS_METHODS_H_

#include <vector>

#include "quantizer/calibrate.h"

namespace slipway::quantizer {

// A weight to quantize, and where it goes: the arguments of QuantizeCalibrated(), which has checked that they fit
// together.
struct CalibratedWeight {
  const ir::ShardedTensor& w;
  Scheme& scheme;
  const LayerStatistics& statistics;
  int threads;
  bool codes_as_they_are;
  const PartSink& sink;

  int64_t n() const { return scheme.shape().n; }
  int64_t k() const { return scheme.shape().k; }
  Rounding rounding() const { return scheme.shape().rounding(); }
};

absl::StatusOr<Calibrated> QuantizeAwq(const CalibratedWeight& q);
absl::StatusOr<Calibrated> QuantizeSmooth(const CalibratedWeight& q);
absl::StatusOr<Calibrated> QuantizeGptq(const CalibratedWeight& q);
absl::StatusOr<Calibrated> QuantizeStatic(const CalibratedWeight& q);

// W · diag(factors) quantized, with activations scaled by their inverse; the scale of static activations is for those.
absl::StatusOr<Calibrated> QuantizeScaled(const CalibratedWeight& q, absl::Span<const float> factors);

// The integers of activations, as torchao chooses them: -128 ... 127, or half of that (reduce_range).
struct ActivationGrid {
  float scale = 1, zero = 0, low = -128, high = 127;
};
ActivationGrid GridFor(const Config& config, Rounding rounding, float min, float max);
// What int8-dynamic and int8-static make of activations [rows, k], in place: with one grid, or, where it is null, one
// for each row or for all of them, as the configuration says.
void FakeQuantize(const Config& config, Rounding rounding, const ActivationGrid* grid, int64_t rows, int64_t k,
                  std::vector<float>& x);
// The grid of activations whose features are multiplied by `factors` first.
ActivationGrid StaticGrid(const CalibratedWeight& q, absl::Span<const float> factors);

}  // namespace slipway::quantizer

#endif  // SLIPWAY_QUANTIZER_METHODS_METHODS_H_
