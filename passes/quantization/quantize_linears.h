// Linear layers of a program, and quantized weights in their place: what makes a float program a quantized one. The
// weights come from the quantizer; what is computed with them is stated in the operators of quantization.h, as
// torchao's layers compute in eager mode.
#ifndef SLIPWAY_PASSES_QUANTIZATION_QUANTIZE_LINEARS_H_
#define SLIPWAY_PASSES_QUANTIZATION_QUANTIZE_LINEARS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/graph.h"

namespace slipway::passes {

// A product with a parameter [n, k]: aten.linear, or mm, addmm or matmul with its transpose.
struct LinearUse {
  ir::Node* node = nullptr;
  ir::Value* input = nullptr;  // [.., k]
  ir::Value* bias = nullptr;   // null where there is none, or where the product's scales of addmm are not 1
};
// Of a node of LinearLayer::uses, as it is now: quantizing the layer that makes its input replaces that.
LinearUse ReadLinear(ir::Node* n);
// A parameter, or buffer, of two dimensions that linear layers use, or embeddings, or both (a tied head).
struct LinearLayer {
  std::string weight;  // FQN
  ir::Value* value = nullptr;
  std::vector<ir::Node*> uses;
  std::vector<ir::Node*> lookups;  // aten.embedding
};
// Of the root graph, in the order of the program's inputs; a program in any form.
std::vector<LinearLayer> FindLinears(const ir::Program& p);

// Products with a stored matrix [k, n], which nothing else reads, become linear layers with its transpose, so that
// FindLinears() sees them: for models of ONNX's, whose linear layers are such. Torch's layers that are none of
// nn.Linear's stay.
absl::Status TurnMatrices(ir::Program& p);

// What takes the place of a layer's weight.
struct QuantizedLayer {
  ir::TensorRef codes;                               // [n, k]: i8, or float8
  ir::TensorRef scale;                               // one for each block
  std::optional<ir::TensorRef> zero_point;           // likewise; without where all are 0
  bool float_zero_point = false;                     // number = (code - 8) · scale + zero_point
  ir::Ints block_size;                               // {1, group}, {1, -1} or {-1, -1}
  std::optional<std::pair<int64_t, int64_t>> range;  // of the codes, where they are integers
  // The product is taken with the codes and its result scaled, as torchao does with symmetric int8 weights of a row or
  // tensor.
  bool scale_behind = false;

  // What becomes of the layer's inputs: nothing; quantized and dequantized again; or quantized, and the product one of
  // integers; or rounded to float8 of the codes' type, and the product one of these.
  enum class Activations { kFloat, kFakeQuantized, kInteger, kFloat8 } activations = Activations::kFloat;
  std::optional<double> act_low, act_high;                 // kFloat8: bounds of what scales are made of
  bool asymmetric = false;                                 // of the activations' scales
  std::pair<int64_t, int64_t> act_range = {-128, 127};     // of their integers
  bool per_tensor = false;                                 // one scale for all activations, not one a token
  std::optional<ir::TensorRef> act_scale, act_zero_point;  // static ones; else they are made of each input
  std::optional<ir::TensorRef> act_pre_scale;              // [k]: inputs are multiplied by it before
};

// Rewrites the uses and look-ups of one layer, and adds the tensors as buffers WEIGHT_qdata, WEIGHT_scale, …. The float
// weight stays for other uses; without one it goes.
absl::Status QuantizeLinear(ir::Program& p, const LinearLayer& layer, const QuantizedLayer& q);

// Makes slipway.* and torchao.* operators ATen's, for targets that take no others.
absl::Status SpellQuantizationInAten(ir::Program& p);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_QUANTIZATION_QUANTIZE_LINEARS_H_
