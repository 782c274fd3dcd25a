// Checkpoints that come quantized, read as what they stand for: plain tensors, whose values are computed as they are
// read. One table (quantized.cc) has the formats; docs/dequantize.md lists them with what their numbers are.
#ifndef SLIPWAY_WEIGHTS_QUANTIZED_QUANTIZED_H_
#define SLIPWAY_WEIGHTS_QUANTIZED_QUANTIZED_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/dtype.h"
#include "ir/tensor_set.h"
#include "weights/quantized/model_config.h"
#include "weights/quantized/weight.h"

namespace slipway::weights::quantized {

// In the metadata that slipway writes for torchao's tensors: an object of the weights' names in transformers' model
// class, for which the metadata has entries, too, and their names in the file. Without a dot: transformers reads what
// has one as a weight's.
inline constexpr char kModelNames[] = "slipway_model_names";

struct Checkpoint {
  std::string title;                                   // "GPTQ 4 bits, group 128"
  ir::DType dtype = ir::DType::kUnknown;               // of the model in float, as its configuration has it
  std::vector<std::shared_ptr<const Weight>> weights;  // by name
  std::vector<std::string> left_out;                   // tensors that mean nothing once weights are plain, by name
};

// The quantized weights of a set, which is a whole checkpoint or one file of several; nullopt where the set says
// nothing of being quantized: no configuration, and none of the tensors by which formats are known without one.
// InvalidArgument, naming a tensor, for what does not fit together; Unimplemented, naming it, for a method or a variant
// that is not read.
absl::StatusOr<std::optional<Checkpoint>> Find(const ir::TensorSet& set, const std::optional<ModelConfig>& config,
                                               bool whole);

// Puts the weights in the place of their parts, as tensors of `to` (f32, f16, bf16; kUnknown: the model's type, or that
// of the format). Those whose parts `keep` wants as they are stay as they are; it may be empty. The metadata loses what
// says that they are quantized. The number of weights that were put in.
int Replace(const Checkpoint& checkpoint, ir::DType to, const std::function<bool(const Weight&)>& keep,
            ir::TensorSet* set);

// For help texts: what is read.
extern const std::string_view kFormats;

}  // namespace slipway::weights::quantized

#endif  // SLIPWAY_WEIGHTS_QUANTIZED_QUANTIZED_H_
