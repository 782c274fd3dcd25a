// Values of a tensor that no file holds as they are: they are computed from other tensors each time they are read, as
// the weights of a quantized checkpoint are. A reader gets them a window at a time, so that they cost little memory.
#ifndef SLIPWAY_IR_DERIVED_H_
#define SLIPWAY_IR_DERIVED_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "ir/dtype.h"
#include "ir/tensor.h"

namespace slipway::ir {

// Immutable; safe on several threads at once.
class DerivedValues {
 public:
  virtual ~DerivedValues() = default;
  // Elements [from, from + count) of the tensor in row-major order, side by side, which lie inside it. Whoever made the
  // object has checked that this cannot fail.
  virtual void Read(int64_t from, int64_t count, uint8_t* to) const = 0;
  // How many elements to read at once, from multiples of this on, so that nothing is computed twice.
  virtual int64_t step() const = 0;
  // The same tensor in another dtype, computed in it rather than cast to it; null where there is no such way.
  virtual std::shared_ptr<const DerivedValues> As(DType dtype) const = 0;
  // Of what has been read so far: finite numbers that their last rounding made infinite, and others than zero that it
  // made zero.
  struct Losses {
    uint64_t infinite = 0, zero = 0;
  };
  virtual Losses losses() const = 0;
  // What the values are computed from.
  virtual absl::Span<const TensorRef> sources() const = 0;
};

// The part [start, start + length) of dimension `dim` of a tensor of these sizes.
std::shared_ptr<const DerivedValues> NarrowValues(std::shared_ptr<const DerivedValues> values, DType dtype,
                                                  const std::vector<int64_t>& sizes, size_t dim, int64_t start,
                                                  int64_t length);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_DERIVED_H_
