// Statistics of a layer's inputs. GPTQ's sum of products is what costs: inputs are collected until a product of
// matrices of them is worth the while, and only the upper triangle is computed.
#include "quantizer/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "kernels/gemm/gemm.h"
#include "quantizer/methods/methods.h"

namespace slipway::quantizer {
namespace {

using Method = Config::Method;
using S = Config::Scheme;

// Inputs that are added to GPTQ's sum together, and rows of it that are computed together.
constexpr int64_t kTogether = 512, kBlock = 256;

bool IsStatic(const Config& c) { return c.scheme == S::kInt8Static; }
// Whether the ranges and magnitudes of features are kept.
bool KeepsColumns(const Config& c) { return c.method != Method::kGptq; }
bool KeepsHistogram(const Config& c, const LayerStatistics::Options& o) {
  return IsStatic(c) && c.method == Method::kRoundToNearest && o.percentile < 100;
}

// SplitMix64 (Steele et al. 2014).
uint64_t Next(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

}  // namespace

void Histogram::Widen() {
  std::vector<uint64_t> wider(kBins);
  for (int64_t j = 0; j < kBins; ++j) wider[static_cast<size_t>(kBins / 4 + j / 2)] += counts_[static_cast<size_t>(j)];
  counts_ = std::move(wider);
  limit_ *= 2;
}

void Histogram::Add(const float* x, int64_t n) {
  float low, high;
  BestLoops().min_max(x, 1, n, &low, &high);
  while (std::max(-static_cast<double>(low), static_cast<double>(high)) >= limit_) Widen();
  const double by = kBins / 2 / limit_;
  for (int64_t i = 0; i < n; ++i) {
    const auto bin = static_cast<int64_t>(std::floor(static_cast<double>(x[i]) * by)) + kBins / 2;
    ++counts_[static_cast<size_t>(std::clamp<int64_t>(bin, 0, kBins - 1))];
  }
  total_ += static_cast<uint64_t>(n);
}

double Histogram::Edge(double tail, bool high) const {
  const double most = tail * static_cast<double>(total_), width = 2 * limit_ / kBins;
  double beyond = 0;
  for (int64_t j = 0; j < kBins; ++j) {
    const int64_t bin = high ? kBins - 1 - j : j;
    beyond += static_cast<double>(counts_[static_cast<size_t>(bin)]);
    if (beyond > most) return -limit_ + width * static_cast<double>(high ? bin + 1 : bin);
  }
  return 0;
}

double Histogram::Magnitude(double tail) const {
  const double most = tail * static_cast<double>(total_), width = 2 * limit_ / kBins;
  double beyond = 0;
  for (int64_t j = 0; j < kBins / 2; ++j) {
    beyond += static_cast<double>(counts_[static_cast<size_t>(j)] + counts_[static_cast<size_t>(kBins - 1 - j)]);
    if (beyond > most) return limit_ - width * static_cast<double>(j);
  }
  return 0;
}

bool LayerStatistics::Needed(const Config& c) { return c.method != Method::kRoundToNearest || IsStatic(c); }

uint64_t LayerStatistics::Bytes(const Config& c, int64_t k, const Options& o) {
  const auto columns = static_cast<uint64_t>(k);
  if (c.method == Method::kGptq) return (columns * columns + columns * kTogether) * sizeof(float);
  return columns * 20 +
         (c.method == Method::kAwq ? columns * static_cast<uint64_t>(o.sample_rows) * sizeof(float) : 0) + 16384;
}

absl::StatusOr<std::unique_ptr<LayerStatistics>> LayerStatistics::Make(const Config& c, int64_t k, const Options& o) {
  if (!Needed(c)) return absl::InvalidArgumentError(text::StrCat(ShortName(c), " needs no calibration data"));
  if (k <= 0) return absl::InvalidArgumentError("a layer without input features");
  if (o.sample_rows < 1 || !(o.percentile > 0 && o.percentile <= 100))
    return absl::InvalidArgumentError("a percentile lies above 0 and at most at 100, and a sample has a row or more");
  return std::unique_ptr<LayerStatistics>(new LayerStatistics(c, k, o));
}

LayerStatistics::LayerStatistics(const Config& c, int64_t k, const Options& o)
    : config_(c), k_(k), options_(o), random_(o.seed) {
  const auto columns = static_cast<size_t>(k);
  if (KeepsColumns(c)) {
    least_.assign(columns, std::numeric_limits<float>::infinity());
    greatest_.assign(columns, -std::numeric_limits<float>::infinity());
    magnitude_.resize(columns);
    magnitudes_.resize(columns);
  }
  if (c.method == Method::kGptq) hessian_.resize(columns * columns);
  if (KeepsHistogram(c, o)) histogram_.emplace();
}

absl::Status LayerStatistics::Add(const float* x, int64_t rows, const kernels::Workers* workers) {
  if (settled_) return absl::InternalError("inputs after the last");
  if (rows <= 0) return absl::OkStatus();
  float low, high;
  if (!BestLoops().min_max(x, 1, rows * k_, &low, &high))
    return absl::InvalidArgumentError("inputs of the layer have infinities or NaN");
  if (KeepsColumns(config_)) {
    constexpr int64_t kRows = 64;  // of which a sum of floats is taken
    for (int64_t at = 0; at < rows; at += kRows) {
      std::fill(magnitude_.begin(), magnitude_.end(), 0.0f);
      BestLoops().columns(x + at * k_, std::min(kRows, rows - at), k_, least_.data(), greatest_.data(),
                          magnitude_.data());
      for (size_t i = 0; i < magnitude_.size(); ++i) magnitudes_[i] += magnitude_[i];
    }
  }
  if (config_.method == Method::kAwq) Sample(x, rows);
  if (histogram_) histogram_->Add(x, rows * k_);
  rows_ += rows;
  if (config_.method == Method::kGptq)
    for (int64_t at = 0; at < rows;) {
      const int64_t count = std::min(rows - at, kTogether - static_cast<int64_t>(pending_.size()) / k_);
      pending_.insert(pending_.end(), x + at * k_, x + (at + count) * k_);
      at += count;
      if (static_cast<int64_t>(pending_.size()) == kTogether * k_) AddToHessian(workers);
    }
  return absl::OkStatus();
}

// Each input is in the sample with the same probability (Vitter's algorithm R).
void LayerStatistics::Sample(const float* x, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    const auto seen = static_cast<uint64_t>(rows_ + i), most = static_cast<uint64_t>(options_.sample_rows);
    const uint64_t place = seen < most ? seen : Next(random_) % (seen + 1);
    if (place >= most) continue;
    if (place == static_cast<uint64_t>(sample_rows())) sample_.resize(sample_.size() + static_cast<size_t>(k_));
    std::copy_n(x + i * k_, k_, sample_.begin() + static_cast<int64_t>(place) * k_);
  }
}

void LayerStatistics::AddToHessian(const kernels::Workers* workers) {
  const int64_t rows = static_cast<int64_t>(pending_.size()) / k_;
  kernels::Scratch scratch;
  for (int64_t i = 0; i < k_; i += kBlock) {
    kernels::GemmParams g;
    g.m = std::min(kBlock, k_ - i), g.n = k_ - i, g.k = rows;
    g.a = {pending_.data() + i, kernels::DType::kF32, 1, k_};
    g.b = {pending_.data() + i, kernels::DType::kF32, k_, 1};
    g.c = hessian_.data() + i * k_ + i;
    g.c_stride = k_;
    g.accumulate = true;
    kernels::GemmF32(g, workers, scratch);
  }
  pending_.clear();
}

absl::Status LayerStatistics::Settle(const kernels::Workers* workers) {
  if (rows_ == 0) return absl::InvalidArgumentError("no calibration data reached the layer");
  if (!pending_.empty()) AddToHessian(workers);
  pending_ = {};
  settled_ = true;
  return absl::OkStatus();
}

std::vector<float> LayerStatistics::mean_magnitude() const {
  std::vector<float> out(magnitudes_.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(magnitudes_[i] / static_cast<double>(rows_));
  return out;
}

void LayerStatistics::StaticRange(bool symmetric, double* low, double* high) const {
  *low = *std::min_element(least_.begin(), least_.end());
  *high = *std::max_element(greatest_.begin(), greatest_.end());
  if (!histogram_) return;
  const double outside = 1 - options_.percentile / 100;
  if (symmetric) {
    const double most = std::min(histogram_->Magnitude(outside), std::max(-*low, *high));
    *low = -most, *high = most;
  } else {
    *low = std::max(*low, histogram_->Low(outside / 2));
    *high = std::min(*high, histogram_->High(outside / 2));
  }
}

absl::StatusOr<Calibrated> QuantizeCalibrated(const ir::ShardedTensor& w, Scheme& scheme,
                                              const LayerStatistics& statistics, int threads, bool codes_as_they_are,
                                              const PartSink& sink) {
  const Config& c = scheme.config();
  if (!statistics.settled()) return absl::InvalidArgumentError("no calibration data reached the layer");
  if (statistics.k() != scheme.shape().k)
    return absl::InvalidArgumentError(
        text::StrCat("the weight has ", scheme.shape().k, " input features and the calibration data ", statistics.k()));
  scheme.Start();
  const absl::Cleanup finish = [&] { scheme.Finish(); };
  const CalibratedWeight q{w, scheme, statistics, std::max(1, threads), codes_as_they_are, sink};
  switch (c.method) {
    case Method::kAwq: return QuantizeAwq(q);
    case Method::kSmoothQuant: return QuantizeSmooth(q);
    case Method::kGptq: return QuantizeGptq(q);
    case Method::kRoundToNearest: break;
  }
  if (IsStatic(c)) return QuantizeStatic(q);
  ASSIGN_OR_RETURN(const Error error, QuantizeWeight(w, scheme, codes_as_they_are, sink));
  return Calibrated{error};
}

}  // namespace slipway::quantizer
