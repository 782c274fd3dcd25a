// Convolutions of f32 NHWC images (channels last): tensors [n, c, 1, h, w] with stride 1 along c. nhwc/ has the
// algorithms: GEMM over pixels for pointwise ones, depthwise and grouped ones, Winograd, im2col, indirect GEMM. Filters
// are packed (filters.h), in the model or in the call.
#ifndef SLIPWAY_KERNELS_CONV_CONV_NHWC_H_
#define SLIPWAY_KERNELS_CONV_CONV_NHWC_H_

#include "kernels/conv/conv_nchw.h"

namespace slipway::kernels {

// Whether a tensor [n, c, 1, h, w] is NHWC: dense channels, pixels of a row evenly spaced, rows contiguous.
bool ChannelsLast(const Tensor& t);
// A dense NHWC tensor of these sizes, with what `t` has for data.
Tensor DenseNhwc(Tensor t);

// Whether a convolution is computed here: its output or its image is NHWC and not dense NCHW, or its filters are
// packed.
bool UsesConvNhwc(const Tensor& x, const Tensor& w, const Tensor& out);

// As ConvNchw. The weights may be packed; x and out may have any strides; epilogue.residual has the layout of out.
// False, with nothing written, where sizes, padding or dtypes are not supported.
bool ConvNhwc(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape, const Epilogue& epilogue,
              const Workers* workers, Scratch& scratch);
// Whether NCHW images of few channels and NCHW outputs take less time here.
bool CanUseDirectNchw(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);
// Whether each output is stored once, after its residual has been read: both may be the same memory.
bool ConvNhwcWritesOnce(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);
// Depthwise convolutions of dense f32 planes by panels of channels.
bool DepthwiseNchwByPanels(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
                           const Epilogue& epilogue, const Workers* workers, Scratch& scratch);
bool CanUseDepthwiseNchwByPanels(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);
// The algorithm's name for people; null where ConvNhwc is false.
const char* ConvNhwcAlgorithm(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_CONV_NHWC_H_
