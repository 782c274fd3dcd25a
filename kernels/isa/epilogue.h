// What is applied to the accumulators of a convolution before they are stored: scale and bias, a residual, an
// activation and post-ops. One description for all layouts; each micro-kernel reads the part it supports.
#ifndef SLIPWAY_KERNELS_ISA_EPILOGUE_H_
#define SLIPWAY_KERNELS_ISA_EPILOGUE_H_

#include <cstdint>

namespace slipway::kernels {

enum class Activation : uint8_t { kNone, kClamp, kSilu, kHardSwish, kHardSigmoid, kLeakyRelu };

// y[o, i] = activation(acc[o, i] · scale[o] + bias[o] + residual[o, i]) · post_scale[o] + post_bias[o]
//           + post_residual[o, i]
//
// scale, bias, post_scale and post_bias have an element per output channel, residual and post_residual have the layout
// of the output. A null pointer leaves its term out; post_bias counts only with post_scale.
struct Epilogue {
  const float *scale = nullptr, *bias = nullptr, *residual = nullptr;
  Activation activation = Activation::kNone;
  float min = 0, max = 0;  // of kClamp, NaN stays NaN; `min` is the slope of kLeakyRelu
  const float *post_scale = nullptr, *post_bias = nullptr, *post_residual = nullptr;

  bool has_post() const { return post_scale != nullptr || post_residual != nullptr; }
  bool empty() const {
    return scale == nullptr && bias == nullptr && residual == nullptr && activation == Activation::kNone;
  }
  // Whether the tiles of the NCHW GEMM apply the activation themselves.
  bool in_tiles() const { return activation == Activation::kNone || activation == Activation::kClamp; }
  // What remains of it once scale and bias have been applied.
  Epilogue AfterAffine() const {
    Epilogue rest = *this;
    rest.scale = rest.bias = nullptr;
    return rest;
  }
  // For outputs that begin at channel `channel` and `offset` elements into the output tensor.
  Epilogue At(int64_t channel, int64_t offset) const {
    Epilogue e = *this;
    if (e.scale != nullptr) e.scale += channel;
    if (e.bias != nullptr) e.bias += channel;
    if (e.residual != nullptr) e.residual += offset;
    if (e.post_scale != nullptr) e.post_scale += channel;
    if (e.post_bias != nullptr) e.post_bias += channel;
    if (e.post_residual != nullptr) e.post_residual += offset;
    return e;
  }
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_EPILOGUE_H_
