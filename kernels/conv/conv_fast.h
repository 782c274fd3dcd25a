// Convolutions of dense f32 (f16 and bf16 by way of it): direct ones as products of matrices over blocks of patches,
// Winograd's for 3 × 3 (winograd.h), depthwise ones by taps. FastConv takes the way that costs least.
#ifndef SLIPWAY_KERNELS_CONV_CONV_FAST_H_
#define SLIPWAY_KERNELS_CONV_CONV_FAST_H_

#include <algorithm>
#include <cstdint>

#include "kernels/attributes.h"
#include "kernels/conv/padded.h"
#include "kernels/isa/conv.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// [n, c, d, h, w] by [o, c / groups, kd, kh, kw]; the sizes agree and strides and dilations are positive.
struct ConvShape {
  int64_t groups = 1;
  int64_t stride[3], pad[3], dilation[3];
};
inline ConvShape ShapeOf(const ConvAttributes<>& a) {
  ConvShape s;
  s.groups = a.groups;
  std::copy_n(a.stride, 3, s.stride);
  std::copy_n(a.padding, 3, s.pad);
  std::copy_n(a.dilation, 3, s.dilation);
  return s;
}

// What becomes of the sums, while they are near: sum · scale[o] + shift[o] + add[n, o, …], through a function. Any of
// the pointers may be null. The vectors have an element for each output channel, `add` has the result's sizes.
struct ConvEpilogue {
  const float *scale = nullptr, *shift = nullptr, *add = nullptr;
  Activation activation = Activation::kNone;
  float low = 0, high = 0;  // as Finish has them
  // What follows the function: · post_scale[o] + post_shift[o] + post_add[n, o, …]. Only loops over channels last do it
  // with the rest.
  const float *post_scale = nullptr, *post_shift = nullptr, *post_add = nullptr;

  bool has_post() const { return post_scale != nullptr || post_add != nullptr; }

  bool empty() const {
    return scale == nullptr && shift == nullptr && add == nullptr && activation == Activation::kNone;
  }
  // What a tile can do of it itself; the functions of the others come after.
  bool in_tiles() const { return activation == Activation::kNone || activation == Activation::kClamp; }
  // What is left where sums have been scaled and shifted.
  ConvEpilogue AfterAffine() const {
    ConvEpilogue rest = *this;
    rest.scale = rest.shift = nullptr;
    return rest;
  }
  // For channel `o`, whose elements begin `at` elements into the result.
  Finish For(int64_t o, int64_t at) const {
    return {scale != nullptr ? scale[o] : 1.0f,
            shift != nullptr ? shift[o] : 0.0f,
            add != nullptr ? add + at : nullptr,
            activation,
            low,
            high};
  }
};

// False where the tensors are not dense, of another type than f32, f16 and bf16, or the padded image would not fit;
// nothing is written then. Threads share images, channels and positions; the bits do not depend on them. Where
// `scratch` counts, allocations are all that happens.
bool FastConv(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape, const ConvEpilogue& epilogue,
              const Workers* workers, Scratch& scratch);

// How FastConv would take it, for people; null where it would not. The epilogue does not matter.
const char* FastConvWay(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_CONV_FAST_H_
