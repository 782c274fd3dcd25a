// Planes of [d, h, w] with a border, so that every tap of a window reads neighbours: the last dim is split into the
// phases of its stride (column p of the padded row is element p / stride of phase p % stride).
#ifndef SLIPWAY_KERNELS_CONV_PADDED_H_
#define SLIPWAY_KERNELS_CONV_PADDED_H_

#include <algorithm>
#include <cstdint>

#include "kernels/isa/isa.h"

namespace slipway::kernels {

inline int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t RoundUp(int64_t n, int64_t to) { return Ceil(n, to) * to; }

// The taps [first, end) of a window of `taps`, `dilation` apart from `begin` on, that are in [0, in).
struct ValidKernelRange {
  int64_t first, end;
  ValidKernelRange(int64_t begin, int64_t in, int64_t taps, int64_t dilation) {
    first = begin < 0 ? std::min(taps, Ceil(-begin, dilation)) : 0;
    end = begin >= in ? first : std::clamp(Ceil(in - begin, dilation), first, taps);
  }
  int64_t count() const { return end - first; }
  bool operator==(const ValidKernelRange&) const = default;
};

struct Window {
  int64_t kernel[3], stride[3], pad[3], dilation[3];
};

class Padded {
 public:
  // Windows over planes of `in`, giving `to` elements. ok() is false where the sizes do not fit each other or the
  // padded plane has no size worth having. Kernels, strides and dilations are positive; pad may be anything.
  Padded(const int64_t* in, const int64_t* to, const Window& window);
  bool ok() const { return ok_; }

  // Floats of a plane, beside which `isa.width` more must be readable after the last.
  int64_t size() const { return size_; }
  int64_t line() const { return line_; }
  // Fills what Pad leaves of `planes` planes.
  void Border(float value, int64_t planes, float* to) const;
  // Copies `planes` planes that lie one after another.
  void Pad(const float* x, int64_t planes, float* to) const;
  // Where the window of an output row begins.
  int64_t Begin(int64_t z, int64_t y) const { return (z * w_.stride[0] * rows_ + y * w_.stride[1]) * line_; }
  // Floats between the windows of neighbouring output rows.
  int64_t row() const { return w_.stride[1] * line_; }
  // Of each tap of `planes` planes, from where a window begins: as many numbers as there are taps.
  void Offsets(int64_t planes, int64_t* to) const;
  int64_t taps() const { return w_.kernel[0] * w_.kernel[1] * w_.kernel[2]; }

 private:
  // Elements of the operand that lie in the padded plane, along dim d: those beyond are in no window.
  int64_t Inside(int d) const;

  Window w_;
  int64_t in_[3];
  bool ok_ = false;
  int64_t slices_ = 0, rows_ = 0, columns_ = 0;
  int64_t phase_ = 0, line_ = 0, size_ = 0;  // floats of a phase of a row, of a row, of a plane
  const ConvNchwMicrokernels& ukernels_ = BestIsa().conv_nchw;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_PADDED_H_
