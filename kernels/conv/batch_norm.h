// Batch norm in inference, as a kernel and as the epilogue of a convolution: per channel, x · scale + shift.
#ifndef SLIPWAY_KERNELS_CONV_BATCH_NORM_H_
#define SLIPWAY_KERNELS_CONV_BATCH_NORM_H_

#include <cstddef>
#include <cstdint>

#include "kernels/registry.h"
#include "kernels/scratch.h"

namespace slipway::kernels {

// A vector with an element for each channel.
inline bool IsPerChannel(const Tensor& t, int64_t channels) {
  return t.rank == 1 && t.sizes[0] == channels && IsFloating(t.dtype);
}

// Scale and shift of each channel: weight / sqrt(variance + epsilon), and bias - mean · scale. Read takes operands from
// in[first] on: its weight, its bias (those that `parts` has), mean, variance; false where they are not vectors of
// `channels` elements.
struct ChannelNorm {
  float *scale = nullptr, *bias = nullptr;
  bool Read(const Call& c, size_t first, int64_t parts, double epsilon, int64_t channels, Scratch& scratch);
};

// How many operands a batch norm of these parts has.
inline size_t NormOperands(int64_t parts) { return 2 + (parts & kNormWeight ? 1 : 0) + (parts & kNormBias ? 1 : 0); }

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_BATCH_NORM_H_
