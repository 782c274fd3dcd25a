// Quantizing with calibration data: what is kept of a linear layer's inputs, and the methods that use it (methods/).
//
//   AWQ          a factor for each input feature, x̄^r, of the r in 0, 1/S, ... whose quantized layer comes nearest to
//                the float one
//                (Lin et al. 2023; torchao.prototype.awq)
//   SmoothQuant  a factor for each input feature that shares the range between activations and weights (Xiao et al.
//                2022;
//                torchao.prototype.smoothquant)
//   GPTQ         weights column by column, each column's error made good by those after it (Frantar et al. 2022;
//                torchao.prototype.gptq)
//   static int8  one scale for a layer's inputs, chosen before
//
// All inputs of a layer go by; memory is bounded whatever their number.
#ifndef SLIPWAY_QUANTIZER_CALIBRATE_H_
#define SLIPWAY_QUANTIZER_CALIBRATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/sharded.h"
#include "kernels/parallel.h"
#include "quantizer/config.h"
#include "quantizer/quantize.h"
#include "quantizer/scheme.h"

namespace slipway::quantizer {

// How often numbers of which size occur, in 2048 bins that become twice as wide, two becoming one, when a larger number
// comes.
class Histogram {
 public:
  Histogram() : counts_(kBins) {}
  void Add(const float* x, int64_t n);
  // A number with at least the share `tail` of all numbers above it, and one with that share below; at the edge of a
  // bin.
  double High(double tail) const { return Edge(tail, true); }
  double Low(double tail) const { return Edge(tail, false); }
  // The same of magnitudes.
  double Magnitude(double tail) const;

 private:
  static constexpr int64_t kBins = 2048;
  double Edge(double tail, bool high) const;
  void Widen();
  double limit_ = 0x1p-20;  // bins cover [-limit_, limit_)
  std::vector<uint64_t> counts_;
  uint64_t total_ = 0;
};

// What a configuration's method needs to know of the inputs of a linear layer.
class LayerStatistics {
 public:
  struct Options {
    int64_t sample_rows = 256;  // AWQ: inputs that are kept to compare outputs on
    uint64_t seed = 0;          // which inputs those are
    // Static int8: share of inputs, in percent, that the scale covers; 100 covers the extremes. AWQ and SmoothQuant
    // around it cover the extremes always.
    double percentile = 100;
  };
  static bool Needed(const Config& config);
  // About how much memory they take.
  static uint64_t Bytes(const Config& config, int64_t k, const Options& options);
  // For a configuration that needs them and layers of k input features.
  static absl::StatusOr<std::unique_ptr<LayerStatistics>> Make(const Config& config, int64_t k, const Options& options);

  // Inputs [rows, k]. InvalidArgument where they are not finite.
  absl::Status Add(const float* x, int64_t rows, const kernels::Workers* workers = nullptr);
  // After the last inputs. InvalidArgument where there were none. Later calls change nothing.
  absl::Status Settle(const kernels::Workers* workers = nullptr);

  int64_t k() const { return k_; }
  int64_t rows() const { return rows_; }
  bool settled() const { return settled_; }
  // Of each feature: AWQ, SmoothQuant and static int8.
  const std::vector<float>& least() const { return least_; }
  const std::vector<float>& greatest() const { return greatest_; }
  std::vector<float> mean_magnitude() const;
  // AWQ's inputs, [sample_rows(), k].
  int64_t sample_rows() const { return static_cast<int64_t>(sample_.size()) / k_; }
  const std::vector<float>& sample() const { return sample_; }
  // GPTQ's Σ x xᵀ, [k, k], of which the upper triangle holds. Its scale does not matter to the method.
  const std::vector<float>& hessian() const { return hessian_; }
  // Static int8: the range that the scale covers.
  void StaticRange(bool symmetric, double* low, double* high) const;

 private:
  LayerStatistics(const Config& config, int64_t k, const Options& options);
  void Sample(const float* x, int64_t rows);
  void AddToHessian(const kernels::Workers* workers);

  const Config config_;
  const int64_t k_;
  const Options options_;
  int64_t rows_ = 0;
  bool settled_ = false;
  std::vector<float> least_, greatest_, magnitude_;
  std::vector<double> magnitudes_;
  std::vector<float> sample_;
  uint64_t random_;
  std::vector<float> hessian_, pending_;  // inputs that are not in the sum yet
  std::optional<Histogram> histogram_;
};

// A weight quantized with calibration data. The layer's inputs are to be multiplied by `act_pre_scale` first, where
// there is one (as numbers of the weight's dtype).
struct Calibrated {
  Error error;
  std::vector<float> act_pre_scale;  // k, or none
  std::optional<float> act_scale;    // of int8-static
  int act_zero_point = 0;
};

// Quantizes a weight [n, k] of the scheme's shape and dtype by the method of the scheme's configuration, or, where
// statistics are of no use to it, as QuantizeWeight() does. Parts go to the sink as there. InvalidArgument for weights
// or configurations that the method cannot take and for statistics without inputs or of another layer's size.
absl::StatusOr<Calibrated> QuantizeCalibrated(const ir::ShardedTensor& w, Scheme& scheme,
                                              const LayerStatistics& statistics, int threads, bool codes_as_they_are,
                                              const PartSink& sink);

}  // namespace slipway::quantizer

#endif  // SLIPWAY_QUANTIZER_CALIBRATE_H_
