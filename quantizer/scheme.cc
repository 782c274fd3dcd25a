// Which scheme takes which weight: torchao's rules about shapes, and what schemes share.
#include "quantizer/scheme.h"

#include <algorithm>
#include <cstring>

#include "base/floats.h"
#include "base/text.h"
#include "kernels/isa/isa.h"

namespace slipway::quantizer {

using ir::DType;
using S = Config::Scheme;

extern const Loops k_base;
#if defined(__x86_64__)
extern const Loops k_avx2, k_avx512;
#endif

const Loops& BestLoops() {
  static const Loops& best = []() -> const Loops& {
#if defined(__x86_64__)
    const std::string_view isa = kernels::BestIsa().name;
    if (isa == k_avx512.name) return k_avx512;
    if (isa == k_avx2.name) return k_avx2;
#endif
    return k_base;
  }();
  return best;
}

Rounding Shape::rounding() const { return RoundingOf(dtype); }

std::string Encode(absl::Span<const float> numbers, DType t) {
  std::string out(numbers.size() * static_cast<size_t>(ir::ByteSize(t)), '\0');
  const auto fill = [&]<typename T>(T) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const T value = static_cast<T>(numbers[i]);
      std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
    }
  };
  switch (t) {
    case DType::kBFloat16: fill(BF16()); break;
    case DType::kFloat16: fill(F16()); break;
    case DType::kInt8: fill(int8_t{}); break;
    default: fill(float{}); break;
  }
  return out;
}

uint64_t Part::numel() const {
  uint64_t n = 1;
  for (int64_t size : sizes) n *= static_cast<uint64_t>(size);
  return n;
}

std::vector<int64_t> SwizzledSizes(int64_t rows, int64_t columns) {
  return {(rows + 127) / 128 * 32, (columns + 3) / 4 * 16};
}

std::string Swizzle(absl::Span<const uint8_t> bytes, int64_t rows, int64_t columns) {
  const std::vector<int64_t> sizes = SwizzledSizes(rows, columns);
  const int64_t tiles_across = sizes[1] / 16;
  std::string out(static_cast<size_t>(sizes[0] * sizes[1]), '\0');
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      out[static_cast<size_t>((r / 128 * tiles_across + c / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + c % 4)] =
          static_cast<char>(bytes[static_cast<size_t>(r * columns + c)]);
  return out;
}

void Scheme::Start() {
  const size_t count = shape_.whole ? 1 : static_cast<size_t>(shape_.n * shape_.groups());
  scale_.assign(count, 0);
  zero_.assign(count, 0);
  any_ = false;
}
void Scheme::Finish() {
  scale_.clear();
  scale_.shrink_to_fit();
  zero_.clear();
  zero_.shrink_to_fit();
}

int64_t Scheme::packed_row() const { return parts_[0].sizes[1] * ir::ByteSize(parts_[0].dtype); }

void Scheme::Pack(const int8_t* codes, int64_t count, uint8_t* qdata) const {
  std::memcpy(qdata, codes, static_cast<size_t>(count * shape_.k));
}

bool Scheme::FindRanges(const float* w, int64_t groups) {
  low_of_.resize(static_cast<size_t>(groups));
  high_of_.resize(static_cast<size_t>(groups));
  return loops_.min_max(w, groups, shape_.group, low_of_.data(), high_of_.data());
}

void Scheme::ObserveRange(const float* rows, int64_t count) {
  float low, high;
  loops_.min_max(rows, 1, count * shape_.k, &low, &high);
  least_ = any_ ? std::min(least_, low) : low;
  greatest_ = any_ ? std::max(greatest_, high) : high;
  any_ = true;
}

void Scheme::Choose(float, float, float* scale, float* zero) const { *scale = 1, *zero = 0; }
float Scheme::Nearest(float x, float, float) const { return x; }
void Scheme::QuantizeWith(const float* rows, int64_t row, int64_t count, const float*, const float*, int8_t* codes,
                          float* numbers) {
  Quantize(rows, row, count, codes, numbers);
}

namespace {

absl::StatusOr<std::unique_ptr<Scheme>> MakeScheme(const Config& c, DType dtype, int64_t n, int64_t k,
                                                   const Scheme::Options& options) {
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16 && dtype != DType::kFloat16)
    return absl::UnimplementedError(
        text::StrCat("weights of ", ir::Name(dtype), " are not quantized (f32, bf16 and f16 are)"));
  if (n <= 0 || k <= 0) return absl::FailedPreconditionError("an empty weight");
  Shape s{n, k, k, false, dtype};
  const bool mx = c.scheme == S::kMx, nvfp4 = c.scheme == S::kNvfp4WeightOnly || c.scheme == S::kNvfp4Dynamic;
  if (mx || nvfp4) {
    s.group = mx ? c.mx_block : 16;
  } else if (c.granularity.kind == Granularity::kGroup) {
    s.group = c.granularity.group;
  } else if (c.granularity.kind == Granularity::kTensor) {
    s.whole = true;
  }
  // int4 is left in float where torchao only logs it; the others raise.
  if (s.group <= 0 || k % s.group != 0) {
    const std::string why = text::StrCat(k, " input features are not a multiple of ",
                                         mx || nvfp4 ? "the block" : "the group", ", ", s.group);
    return c.scheme == S::kInt4WeightOnly ? absl::FailedPreconditionError(why) : absl::InvalidArgumentError(why);
  }
  switch (c.scheme) {
    case S::kInt8WeightOnly:
    case S::kInt8Dynamic:
    case S::kInt8Static:
    case S::kIntxWeightOnly:
    case S::kInt8DynamicIntx: return MakeAffine(c, s, options);
    case S::kInt4WeightOnly:
      if (k % 2 != 0) return absl::FailedPreconditionError(text::StrCat(k, " input features are not even"));
      return MakeInt4(c, s);
    case S::kFloat8Dynamic:
      if (n % 16 != 0 || k % 16 != 0)
        return absl::FailedPreconditionError(
            text::StrCat("[", n, ", ", k, "] is not a multiple of 16 in both dimensions"));
      if (c.granularity.kind == Granularity::kRow && dtype != DType::kBFloat16)
        return absl::InvalidArgumentError(
            text::StrCat("float8 with activations per row wants bf16 weights, not ", ir::Name(dtype)));
      return MakeFloat8(c, s);
    case S::kFloat8WeightOnly: return MakeFloat8(c, s);
    case S::kMx:
      if (dtype == DType::kFloat16) return absl::InvalidArgumentError("MX wants weights of f32 or bf16, not f16");
      return MakeMx(c, s);
    case S::kNvfp4WeightOnly:
    case S::kNvfp4Dynamic:
      if (dtype == DType::kFloat16) return absl::InvalidArgumentError("NVFP4 wants weights of f32 or bf16, not f16");
      if (n % 16 != 0) return absl::InvalidArgumentError(text::StrCat(n, " output features are not a multiple of 16"));
      return MakeNvfp4(c, s);
  }
  return absl::InternalError("no such scheme");
}

}  // namespace

std::unique_ptr<Scheme> Scheme::Again() const {
  return Make(config_, shape_.dtype, shape_.n, shape_.k, options_).value();
}

absl::StatusOr<std::unique_ptr<Scheme>> Scheme::Make(const Config& c, DType dtype, int64_t n, int64_t k,
                                                     const Options& options) {
  auto scheme = MakeScheme(c, dtype, n, k, options);
  if (scheme.ok()) (*scheme)->options_ = options;
  return scheme;
}

}  // namespace slipway::quantizer
