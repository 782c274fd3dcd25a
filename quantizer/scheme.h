// How one weight becomes integers or small floats with scales, number for number as torchao 0.18 does it on a CPU. Each
// family of configurations is one file in schemes/; the formulas, with their sources, are stated there.
//
// A weight is [n, k], k the input features. It goes by in chunks of whole rows, so that memory does not grow with it;
// what is kept are the scales. A scheme that needs something of the whole tensor first (one scale for all; HQQ's
// stopping rule) sees all rows twice.
#ifndef SLIPWAY_QUANTIZER_SCHEME_H_
#define SLIPWAY_QUANTIZER_SCHEME_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/floats.h"
#include "ir/dtype.h"
#include "quantizer/config.h"
#include "quantizer/loops/loops.h"

namespace slipway::quantizer {

// A tensor of a quantized weight, as torchao's tensor subclass names it: "qdata", "scale", "zero_point",
// "per_tensor_scale".
struct Part {
  std::string_view name;
  ir::DType dtype;
  std::vector<int64_t> sizes;
  uint64_t numel() const;
  uint64_t nbytes() const { return numel() * static_cast<uint64_t>(ir::ByteSize(dtype)); }
};

// What is the same for all schemes of a weight.
struct Shape {
  int64_t n = 0, k = 0;
  int64_t group = 0;                            // weights of a row that share a scale
  bool whole = false;                           // one scale for the tensor; `group` is then k
  ir::DType dtype = ir::DType::kFloat32;        // the weight's: f32, bf16 or f16
  int64_t groups() const { return k / group; }  // of a row
  Rounding rounding() const;
};

class Scheme {
 public:
  struct Options {
    bool eps_of_0_14 = false;  // --numerics 0.14: Intx scales are at least the dtype's epsilon, as in torchao 0.14.1
  };
  // InvalidArgument where torchao raises for such a weight, FailedPrecondition where it leaves it in float; the message
  // says the rule. Unimplemented for weights of other dtypes than f32, bf16, f16.
  static absl::StatusOr<std::unique_ptr<Scheme>> Make(const Config& config, ir::DType dtype, int64_t n, int64_t k,
                                                      const Options& options);
  virtual ~Scheme() = default;
  // Another of the same, which has seen no weight yet.
  std::unique_ptr<Scheme> Again() const;

  const Config& config() const { return config_; }
  const Shape& shape() const { return shape_; }
  // qdata is the first.
  absl::Span<const Part> parts() const { return parts_; }

  // Allocates what is kept of the rows, and gives it back. Before Start() and after Finish() a scheme costs nothing.
  virtual void Start();
  virtual void Finish();

  // Whether Observe() must have seen all rows before Quantize() sees any.
  virtual bool observes() const { return shape_.whole; }
  virtual void Observe(const float* /*rows*/, int64_t /*row*/, int64_t /*count*/) {}
  // After the last row was observed.
  virtual void Settle() {}

  // Codes, one in a byte, of rows [row, row + count), and the numbers that they stand for, rounded to the weight's
  // dtype, where `numbers` is not null. False where there is an infinity or NaN among them.
  virtual bool Quantize(const float* rows, int64_t row, int64_t count, int8_t* codes, float* numbers) = 0;

  // Codes as the part "qdata" holds them, and how many bytes a row takes of it.
  virtual void Pack(const int8_t* codes, int64_t count, uint8_t* qdata) const;
  int64_t packed_row() const;
  // The bytes of the other parts; of parts()[i], i > 0. After the last row.
  virtual std::string Values(size_t i) const = 0;

  // The scale and zero point of each group, [n, groups()] (one of each for a whole tensor): number = (code - zero) ·
  // scale, with float_zero() (code - 8) · scale + zero.
  const std::vector<float>& scales() const { return scale_; }
  const std::vector<float>& zeros() const { return zero_; }
  virtual bool float_zero() const { return false; }
  // What scales are stored as.
  virtual ir::DType scale_dtype() const { return ir::DType::kFloat32; }

  // Chooses scale and zero point for one group from its least and greatest, as Quantize() would, and the number of the
  // code
  // nearest to x with them: for GPTQ, which quantizes column by column. A scale of the tensor beside those of groups
  // must have been observed. Of the schemes that GPTQ goes around (CheckConfig); safe on several threads.
  virtual void Choose(float min, float max, float* scale, float* zero) const;
  virtual float Nearest(float x, float scale, float zero) const;
  // As Quantize(), with scales and zero points that are given, [count, groups()].
  virtual void QuantizeWith(const float* rows, int64_t row, int64_t count, const float* scale, const float* zero,
                            int8_t* codes, float* numbers);

 protected:
  Scheme(const Config& config, const Shape& shape) : config_(config), shape_(shape), loops_(BestLoops()) {}
  // The least and greatest of the tensor, of what has been observed.
  void ObserveRange(const float* rows, int64_t count);
  // low_of_ and high_of_: the least and greatest of each group. False where there is an infinity or NaN.
  bool FindRanges(const float* w, int64_t groups);

  const Config config_;
  const Shape shape_;
  Options options_;
  const Loops& loops_;
  std::vector<Part> parts_;
  std::vector<float> scale_, zero_;
  std::vector<float> low_of_, high_of_;  // of the chunk at hand
  float least_ = 0, greatest_ = 0;
  bool any_ = false;
};

// The files of schemes/.
std::unique_ptr<Scheme> MakeAffine(const Config& config, const Shape& shape, const Scheme::Options& options);
std::unique_ptr<Scheme> MakeInt4(const Config& config, const Shape& shape);
std::unique_ptr<Scheme> MakeFloat8(const Config& config, const Shape& shape);
std::unique_ptr<Scheme> MakeMx(const Config& config, const Shape& shape);
std::unique_ptr<Scheme> MakeNvfp4(const Config& config, const Shape& shape);

// One rounding to a dtype, as a float.
inline float RoundTo(Rounding r, float x) {
  switch (r) {
    case Rounding::kF32: return x;
    case Rounding::kBF16: return static_cast<float>(BF16(x));
    case Rounding::kF16: return static_cast<float>(F16(x));
  }
  return x;
}
inline Rounding RoundingOf(ir::DType t) {
  return t == ir::DType::kBFloat16 ? Rounding::kBF16 : t == ir::DType::kFloat16 ? Rounding::kF16 : Rounding::kF32;
}
// Floats as bytes of f32, bf16 or f16.
std::string Encode(absl::Span<const float> numbers, ir::DType t);
// Scales of blocks [rows, columns], a byte each, in the order of NVIDIA's block-scaled products: tiles of 128 x 4, row
// by row, in each the byte of (r, c) at (r % 32) · 16 + (r / 32) · 4 + c; zeros beyond the edges.
std::string Swizzle(absl::Span<const uint8_t> bytes, int64_t rows, int64_t columns);
// The sizes of what that is, as torchao declares it: [32 * tiles down, 16 * tiles across].
std::vector<int64_t> SwizzledSizes(int64_t rows, int64_t columns);

}  // namespace slipway::quantizer

#endif  // SLIPWAY_QUANTIZER_SCHEME_H_
