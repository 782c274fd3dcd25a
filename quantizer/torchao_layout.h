// How torchao keeps quantized weights in safetensors (torchao.prototype.safetensors, 0.18), which transformers reads:
// the weight `a.b.weight` lies as `a.b._weight_qdata`, `a.b._weight_scale`, …, and the file's metadata has for each
// name of the model's state dict the class and attributes to make it of, and all names as `tensor_names`.
#ifndef SLIPWAY_QUANTIZER_TORCHAO_LAYOUT_H_
#define SLIPWAY_QUANTIZER_TORCHAO_LAYOUT_H_

#include <string>
#include <string_view>

#include "quantizer/config.h"
#include "quantizer/scheme.h"

namespace slipway::quantizer {

// "a.b._weight_qdata" of "a.b.weight" and "qdata".
std::string PartName(std::string_view weight, std::string_view part);

// The metadata of a quantized weight; and of a tensor that is none.
std::string TensorMetadata(const Config& config, const Scheme& scheme, bool act_pre_scale);
inline constexpr std::string_view kPlainTensorMetadata = R"({"_type": "Tensor"})";

}  // namespace slipway::quantizer

#endif  // SLIPWAY_QUANTIZER_TORCHAO_LAYOUT_H_
