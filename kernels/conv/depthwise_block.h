// A depthwise convolution with the pointwise one before it, the one after it, or both (inverted residuals, separable
// convolutions), of images with
// channels last, in turns: some rows at a time, which stay in the second-level cache until they have been read. The
// images between are never whole in memory. Where they are large, writing them and reading them back takes as long as
// the sums. Images are of f32, or of bf16 or f16 (conv_half.h): in f32 between, or in bf16 where those are multiplied.
#ifndef SLIPWAY_KERNELS_CONV_DEPTHWISE_BLOCK_H_
#define SLIPWAY_KERNELS_CONV_DEPTHWISE_BLOCK_H_

#include <optional>

#include "kernels/conv/conv_nchw.h"

namespace slipway::kernels {

struct DepthwiseBlock {
  // A convolution's weights, packed (filters.h) or not, and what follows its sums; only that of the last adds a tensor,
  // which lies as the result does, or has something behind its function.
  struct Layer {
    Tensor w;
    Epilogue epilogue;
  };
  std::optional<Layer> before, after;  // one of them at least
  Layer depthwise;
  ConvShape shape;  // of the depthwise one
  // What the last adds to a result of bf16 or f16, in place of its epilogue's.
  const uint16_t *residual = nullptr, *post_residual = nullptr;

  const Layer& last() const { return after ? *after : depthwise; }
};

// Whether the tensors and the sizes are such. Tensors may have no memory.
bool CanUseDepthwiseBlock(const Tensor& x, const DepthwiseBlock& block, const Tensor& out);

// Gives the bits that ConvNhwc (conv_nhwc.h) gives for one convolution after the other, or ConvBf16 (conv_bf16.h); of
// halves in f32, those of f32 rounded at the end. CanUseDepthwiseBlock() holds.
void RunDepthwiseBlock(const Tensor& x, const DepthwiseBlock& block, const Tensor& out, const Workers* workers,
                       Scratch& scratch);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_DEPTHWISE_BLOCK_H_
