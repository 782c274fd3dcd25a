// Tensors of nothing but zeros: how caches begin. None of their bytes is held or written.
#ifndef SLIPWAY_IR_ZEROS_H_
#define SLIPWAY_IR_ZEROS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "ir/tensor.h"

namespace slipway::ir {

// A tensor of zeros, whose storage is a rule.
inline TensorRef ZeroTensor(DType dtype, std::vector<int64_t> sizes) {
  TensorRef t;
  t.dtype = dtype, t.sizes = std::move(sizes), t.strides = ContiguousStrides(t.sizes);
  Storage s;
  s.bytes = Splat{0}, s.size = static_cast<uint64_t>(t.nbytes());
  t.storage = std::make_shared<const Storage>(std::move(s));
  return t;
}

// Whether all bits are 0. Reads a dense tensor's bytes; false for what is not dense, and for a rule but that of zeros.
inline bool IsZeros(const TensorRef& t) {
  if (const auto* splat = std::get_if<Splat>(&t.storage->bytes))
    return splat->value == 0 && !std::signbit(splat->value);
  const absl::Span<const uint8_t> bytes = MappedBytes(*t.storage);
  const auto offset = static_cast<uint64_t>(t.offset), size = static_cast<uint64_t>(t.nbytes());
  if (!t.is_contiguous() || offset > bytes.size() || size > bytes.size() - offset) return false;
  return std::all_of(bytes.begin() + t.offset, bytes.begin() + t.offset + t.nbytes(), [](uint8_t b) { return b == 0; });
}

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_ZEROS_H_
