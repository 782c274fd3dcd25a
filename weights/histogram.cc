// One pass: the steps cover [-r, r], and where a value lies outside, r doubles and every two steps become one.
#include "weights/histogram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/status_macros.h"
#include "weights/cast.h"
#include "weights/compare.h"

namespace slipway::weights {
namespace {

using ir::DType;

constexpr int kSteps = 4096;  // over [-r, r] while reading
constexpr int kShownBins = 64;

class Spread {
 public:
  void Add(double v) {
    ++h_.elements;
    if (!std::isfinite(v)) {
      ++(std::isnan(v) ? h_.nan : h_.infinite);
      return;
    }
    h_.zeros += v == 0;
    if (finite_++ == 0) h_.min = h_.max = v;
    h_.min = std::min(h_.min, v);
    h_.max = std::max(h_.max, v);
    // Welford's sums: values far from zero lose no digits.
    const double delta = v - h_.mean;
    h_.mean += delta / static_cast<double>(finite_);
    squares_ += delta * (v - h_.mean);
    if (const double size = std::abs(v); size >= reach_ && size > 0) Widen(size);
    ++counts_[static_cast<size_t>(std::floor(v * per_unit_) + kSteps / 2)];
  }

  Histogram Take() {
    if (finite_ == 0) return h_;
    if (reach_ == 0) Widen(0.5);  // zeros alone
    h_.deviation = std::sqrt(squares_ / static_cast<double>(finite_));
    const auto used = [](int64_t n) { return n > 0; };
    auto first = std::find_if(counts_.begin(), counts_.end(), used) - counts_.begin();
    auto last = counts_.rend() - std::find_if(counts_.rbegin(), counts_.rend(), used);  // behind it
    int joined = 1;
    while ((last + joined - 1) / joined - first / joined > kShownBins) joined *= 2;
    h_.width = joined / per_unit_;
    h_.from = std::max(static_cast<double>(first / joined * joined - kSteps / 2) / per_unit_,
                       std::numeric_limits<double>::lowest());
    h_.counts.resize(static_cast<size_t>((last + joined - 1) / joined - first / joined));
    for (auto i = first; i < last; ++i) h_.counts[static_cast<size_t>(i / joined - first / joined)] += counts_[i];
    return std::move(h_);
  }

 private:
  Histogram h_;
  int64_t finite_ = 0;
  double squares_ = 0;
  int exponent_ = 0;  // r is two to this power
  double reach_ = 0;  // r as a number, infinity where it is above the greatest; 0: nothing but zeros yet
  double per_unit_ = 0;
  std::array<int64_t, kSteps> counts_ = {};

  // So that |v| = size is inside. Steps of the least numbers are no finer than that steps have normal numbers.
  void Widen(double size) {
    const int wanted = std::max(std::ilogb(size) + 1, -1000);
    if (reach_ == 0) exponent_ = wanted;
    for (; exponent_ < wanted; ++exponent_) {
      std::array<int64_t, kSteps> joined = {};
      for (int i = 0; i < kSteps; ++i) joined[kSteps / 4 + i / 2] += counts_[i];
      counts_ = joined;
    }
    reach_ = std::ldexp(1.0, exponent_);
    per_unit_ = std::ldexp(kSteps / 2, -exponent_);
  }
};

template <typename T>
void AddNumbers(const uint8_t* at, int64_t elements, Spread* spread) {
  for (int64_t i = 0; i < elements; ++i) {
    T v;
    std::memcpy(&v, at + i * static_cast<int64_t>(sizeof v), sizeof v);
    spread->Add(static_cast<double>(v));
  }
}

using AddFunction = void (*)(const uint8_t* at, int64_t elements, Spread* spread);

AddFunction NumbersOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8: return AddNumbers<uint8_t>;
    case DType::kInt8: return AddNumbers<int8_t>;
    case DType::kInt16: return AddNumbers<int16_t>;
    case DType::kUInt16: return AddNumbers<uint16_t>;
    case DType::kInt32: return AddNumbers<int32_t>;
    case DType::kUInt32: return AddNumbers<uint32_t>;
    case DType::kInt64: return AddNumbers<int64_t>;
    case DType::kUInt64: return AddNumbers<uint64_t>;
    case DType::kFloat64: return AddNumbers<double>;
    case DType::kFloat32: return AddNumbers<float>;
    default: return nullptr;
  }
}

}  // namespace

absl::StatusOr<std::optional<Histogram>> HistogramOf(const ir::ShardedTensor& t) {
  const AddFunction plain = NumbersOf(t.dtype);
  const CastFunction cast = plain ? nullptr : FindCast(t.dtype, DType::kFloat32);
  const std::vector<double> small = plain || cast ? std::vector<double>() : ValuesOfCodes(t.dtype);
  if (!plain && !cast && (small.empty() || ir::BitSize(t.dtype) != 8)) return std::nullopt;
  RETURN_IF_ERROR(ir::Validate(t));
  ASSIGN_OR_RETURN(ir::ElementReader reader, ir::ElementReader::Open(t));
  Spread spread;
  std::vector<float> floats;
  while (reader.left() > 0) {
    const absl::Span<const uint8_t> run = reader.NextDense(reader.step());
    const int64_t elements = static_cast<int64_t>(run.size()) / reader.item();
    if (plain) {
      plain(run.data(), elements, &spread);
    } else if (cast) {
      floats.resize(static_cast<size_t>(elements));
      cast(run.data(), reinterpret_cast<uint8_t*>(floats.data()), static_cast<uint64_t>(elements));
      for (float v : floats) spread.Add(v);
    } else {
      for (uint8_t code : run) spread.Add(small[code]);
    }
  }
  return spread.Take();
}

}  // namespace slipway::weights
