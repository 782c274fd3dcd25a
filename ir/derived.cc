// A part of a dimension is read as whole rows of the tensor that it is a part of, of which the rest is left out.
#include "ir/derived.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace slipway::ir {
namespace {

constexpr int64_t kMostRead = int64_t{1} << 22;  // elements of the whole tensor at once

class Part : public DerivedValues {
 public:
  Part(std::shared_ptr<const DerivedValues> whole, DType dtype, int64_t row, int64_t start, int64_t length)
      : whole_(std::move(whole)), dtype_(dtype), row_(row), start_(start), length_(length) {}

  void Read(int64_t from, int64_t count, uint8_t* to) const override {
    const int64_t item = ByteSize(dtype_);
    std::vector<uint8_t> rows;
    while (count > 0) {
      const int64_t row = from / length_, column = from % length_;
      if (column != 0 || count < length_ || length_ == row_) {  // within one row, or rows that are whole
        const int64_t n = length_ == row_ ? count : std::min(count, length_ - column);
        whole_->Read(row * row_ + start_ + column, n, to);
        from += n, count -= n, to += n * item;
        continue;
      }
      const int64_t n = std::max<int64_t>(std::min(count / length_, kMostRead / row_), 1);
      rows.resize(static_cast<size_t>(n * row_ * item));
      whole_->Read(row * row_, n * row_, rows.data());
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(to + i * length_ * item, rows.data() + (i * row_ + start_) * item,
                    static_cast<size_t>(length_ * item));
      from += n * length_, count -= n * length_, to += n * length_ * item;
    }
  }
  int64_t step() const override {
    const int64_t rows = std::max<int64_t>(whole_->step() / row_, 1);
    return std::min(rows * length_, std::max(whole_->step(), int64_t{1}));
  }
  std::shared_ptr<const DerivedValues> As(DType dtype) const override {
    auto whole = whole_->As(dtype);
    return whole ? std::make_shared<Part>(std::move(whole), dtype, row_, start_, length_) : nullptr;
  }
  Losses losses() const override { return whole_->losses(); }
  absl::Span<const TensorRef> sources() const override { return whole_->sources(); }

 private:
  const std::shared_ptr<const DerivedValues> whole_;
  const DType dtype_;
  // Elements below and with the dimension: of the whole, before the part, and of the part.
  const int64_t row_, start_, length_;
};

}  // namespace

std::shared_ptr<const DerivedValues> NarrowValues(std::shared_ptr<const DerivedValues> values, DType dtype,
                                                  const std::vector<int64_t>& sizes, size_t dim, int64_t start,
                                                  int64_t length) {
  int64_t inner = 1;
  for (size_t d = dim + 1; d < sizes.size(); ++d) inner *= sizes[d];
  return std::make_shared<Part>(std::move(values), dtype, sizes[dim] * inner, start * inner,
                                std::max<int64_t>(length * inner, 1));
}

}  // namespace slipway::ir
