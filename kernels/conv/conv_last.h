// Convolutions of f32 images whose channels are last in memory: [n, c, 1, h, w] with a stride of 1 along c. Pointwise
// ones are products of the image as it lies, depthwise ones keep the sums of a row's places in registers, others go
// over bands of rows with their border, which stay in the second-level cache. Filters are packed (filters.h), in the
// model or in the call.
#ifndef SLIPWAY_KERNELS_CONV_CONV_LAST_H_
#define SLIPWAY_KERNELS_CONV_CONV_LAST_H_

#include "kernels/conv/conv_fast.h"

namespace slipway::kernels {

// Whether channels are last in a tensor [n, c, 1, h, w], places of a row are neighbours and rows, too.
bool ChannelsLast(const Tensor& t);

// Whether a convolution goes this way: its result or its image is such a tensor and not a dense one, or its filters are
// packed.
bool WantsConvLast(const Tensor& x, const Tensor& w, const Tensor& out);

// As FastConv. The weights may be packed; x and out lie as they like; epilogue.add lies as out does. False, with
// nothing written, where the sizes, the padding or the types are not for these loops.
bool ConvLast(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape, const ConvEpilogue& epilogue,
              const Workers* workers, Scratch& scratch);
// Whether planes of few channels, whose result is planes, too, take less time by way of it.
bool ConvFewChannels(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);
// Whether it stores each element of the result once, after it has read that of epilogue.add: both may be the same
// memory.
bool ConvLastOverwrites(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);
// ConvLast for depthwise convolutions of dense planes of f32.
bool ConvDepthwisePlanes(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
                         const ConvEpilogue& epilogue, const Workers* workers, Scratch& scratch);
bool TakesConvDepthwisePlanes(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);
const char* ConvLastWay(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_CONV_LAST_H_
