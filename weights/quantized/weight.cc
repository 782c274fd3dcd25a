// Windows of a weight: blocks of whole rows where they fit, parts of a row where one is longer than a window. What was
// read of the stored tensors is released now and then, so that what is resident does not grow with the weight.
#include "weights/quantized/weight.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "io/byte_source.h"
#include "weights/cast.h"

namespace slipway::weights::quantized {
namespace {

using ir::DType;

constexpr int64_t kWindow = int64_t{1} << 18;           // elements
constexpr int64_t kScatteredWindow = int64_t{1} << 22;  // elements: 16 MiB of floats
constexpr int64_t kScatteredColumns = 2048;          // of the window that are computed before what was read is released
constexpr int64_t kReleaseAfter = int64_t{1} << 24;  // elements

class Dequantized : public ir::DerivedValues {
 public:
  Dequantized(std::shared_ptr<const Weight> weight, DType to)
      : weight_(std::move(weight)), to_(to), cast_(FindCast(DType::kFloat32, to)),
        count_losses_(FindCountLosses(DType::kFloat32, to)) {}

  void Read(int64_t from, int64_t count, uint8_t* to) const override {
    const int64_t columns = weight_->columns(), item = ir::ByteSize(to_);
    const int64_t window = weight_->scattered ? kScatteredWindow : kWindow;
    std::vector<float> floats;
    while (count > 0) {
      Block b;
      b.row = from / columns;
      b.column = from % columns;
      if (b.column != 0 || count < columns || columns > window) {
        b.rows = 1;
        b.columns = std::min({count, columns - b.column, window});
      } else {
        b.rows = std::min(count / columns, window / columns);
        b.columns = columns;
      }
      b.stride = b.columns;
      const int64_t n = b.rows * b.columns;
      floats.resize(static_cast<size_t>(n));
      Compute(b, floats.data());
      const auto* numbers = reinterpret_cast<const uint8_t*>(floats.data());
      if (cast_ == nullptr) {  // f32
        std::memcpy(to, numbers, static_cast<size_t>(n * item));
      } else {
        cast_(numbers, to, static_cast<uint64_t>(n));
        CastLosses lost;
        count_losses_(numbers, to, static_cast<uint64_t>(n), &lost);
        infinite_ += lost.infinite, zero_ += lost.zero;
      }
      from += n, count -= n, to += n * item;
      if ((read_ += n) >= kReleaseAfter || from == weight_->rows() * columns) Release();
    }
  }

  int64_t step() const override {
    const int64_t window = weight_->scattered ? kScatteredWindow : kWindow, columns = weight_->columns();
    return columns > window ? window : window / columns * columns;
  }

  std::shared_ptr<const DerivedValues> As(DType dtype) const override {
    if (dtype != DType::kFloat32 && FindCast(DType::kFloat32, dtype) == nullptr) return nullptr;
    if (dtype == DType::kFloat64) return nullptr;
    return std::make_shared<Dequantized>(weight_, dtype);
  }
  Losses losses() const override { return {infinite_, zero_}; }
  absl::Span<const ir::TensorRef> sources() const override { return weight_->stored; }

 private:
  const std::shared_ptr<const Weight> weight_;
  const DType to_;
  const CastFunction cast_;
  const CountLossesFunction count_losses_;
  mutable std::atomic<uint64_t> infinite_ = 0, zero_ = 0;
  mutable std::atomic<int64_t> read_ = 0;  // elements since the last release

  void Release() const {
    read_ = 0;
    for (const ir::TensorRef& t : weight_->stored)
      if (const auto* bytes = std::get_if<io::Bytes>(&t.storage->bytes))
        if (const io::FileRange* range = bytes->file_range())
          range->file->Release(range->offset + static_cast<uint64_t>(t.offset), static_cast<uint64_t>(t.nbytes()));
  }

  void Compute(const Block& block, float* out) const {
    const int64_t step = weight_->scattered ? kScatteredColumns : block.columns;
    for (int64_t done = 0; done < block.columns; done += step) {
      Block part = block;
      part.column += done;
      part.columns = std::min(step, block.columns - done);
      weight_->numbers(part, to_, out + done);
      if (weight_->scattered) Release();
    }
  }
};

template <size_t n>
std::array<float, n> Table(const SmallFloat& format) {
  std::array<float, n> out;
  for (size_t i = 0; i < n; ++i) out[i] = Decode(format, static_cast<unsigned>(i));
  return out;
}

}  // namespace

int64_t Weight::rows() const {
  int64_t n = 1;
  for (size_t d = 0; d + 1 < sizes.size(); ++d) n *= sizes[d];
  return n;
}

ir::ShardedTensor TensorOf(std::shared_ptr<const Weight> weight, DType to) {
  ir::ShardedTensor t;
  t.dtype = to;
  t.sizes = weight->sizes;
  t.derived = std::make_shared<Dequantized>(std::move(weight), to);
  return t;
}

float Values::Float(int64_t i) const {
  switch (tensor_.dtype) {
    case DType::kFloat16: return At<F16>(i);
    case DType::kBFloat16: return At<BF16>(i);
    case DType::kFloat8E8M0FNU: return NumberOfE8M0(data_[i]);
    default: return At<float>(i);
  }
}

void RoundTo(DType t, float* numbers, int64_t count) {
  if (t == DType::kBFloat16) {
    for (int64_t i = 0; i < count; ++i) numbers[i] = BF16(numbers[i]);
  } else if (t == DType::kFloat16) {
    for (int64_t i = 0; i < count; ++i) numbers[i] = F16(numbers[i]);
  }
}

void RoundTo(DType t, const Block& block, float* out) {
  if (t == DType::kFloat32) return;
  for (int64_t r = 0; r < block.rows; ++r) RoundTo(t, out + r * block.stride, block.columns);
}

const float* NumbersOfE4M3() {
  static const std::array<float, 256> table = Table<256>(kE4M3FN);
  return table.data();
}
const float* NumbersOfE5M2() {
  static const std::array<float, 256> table = Table<256>(kE5M2);
  return table.data();
}
const float* NumbersOfE2M1() {
  static const std::array<float, 16> table = Table<16>(kE2M1);
  return table.data();
}

float NumberOfE8M0(uint8_t code) {
  return code == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, code - 127);
}

}  // namespace slipway::weights::quantized
