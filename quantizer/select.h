// Which tensors of a checkpoint, or parameters of a program, are weights of linear layers, and why the others are not.
//
// In a program the graph says it. A checkpoint holds names and shapes only; there a linear is a floating-point tensor
// of two dimensions called `MODULE.weight`, except
//
//   embeddings            the module's last name or the one before has "embed" or "embd", or is wte, wpe, lookup,
//                         shared (T5)
//   norms                 … has "norm", or is ln_1, ln_f and the like
//   convolutions of GPT-2's kind (Conv1D stores [in, out]; config.json's model_type says which models have them)
//   heads that are tied   `lm_head` and the like where config.json has tie_word_embeddings, or that share the
//                         embedding's values
//   nn.MultiheadAttention out_proj beside in_proj_weight, as in torchao
//   routers               of mixtures of experts: `mlp.gate`, `block_sparse_moe.gate`, `router` and the like. They
//   choose
//                         among experts by small differences, and transformers keeps most as plain parameters, which
//                         torchao leaves in float
//
// This is torchao's own rule (every nn.Linear) as far as names can tell it. `include` and `exclude` have the last word.
#ifndef SLIPWAY_QUANTIZER_SELECT_H_
#define SLIPWAY_QUANTIZER_SELECT_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/sharded.h"

namespace slipway::quantizer {

// A tensor that may be quantized.
struct Candidate {
  std::string name;  // "model.layers.0.mlp.up_proj.weight"
  ir::DType dtype;
  std::vector<int64_t> sizes;
  bool shares_embedding = false;  // its values are those of an embedding, too
  bool embedding = false;         // of an embedding, or of a head that is tied to one
};

// What config.json beside a checkpoint says.
struct ModelFacts {
  std::string model_type;
  bool tied_embeddings = false;
  static absl::StatusOr<ModelFacts> Read(std::string_view config_json);
};

// The module of a tensor called MODULE.weight; "" for other names.
std::string_view ModuleOf(std::string_view name);

// Whether a weight is a router's of a mixture of experts, by its name and shape.
bool IsRouter(const Candidate& t);

// Whether a weight is of several experts at once, [experts, …, …]: linear layers, though not two-dimensional.
bool IsOfExperts(const Candidate& t);

// Why the tensor is no weight of a linear layer; "" where it is one. `has` tells whether the checkpoint has a tensor of
// a name.
std::string WhyNotLinear(const Candidate& t, const ModelFacts& facts,
                         const std::function<bool(const std::string&)>& has);

// Whether a weight is the output projection of torch's nn.MultiheadAttention, which torchao leaves alone.
bool IsAttentionOutput(std::string_view name, const std::function<bool(const std::string&)>& has);

// Whether a tensor of a checkpoint that is no linear layer is an embedding, or a head tied to one; by its name.
bool IsEmbedding(const Candidate& t, const ModelFacts& facts);

// Whether a module is an embedding by its name.
bool IsEmbeddingName(std::string_view module);

}  // namespace slipway::quantizer

#endif  // SLIPWAY_QUANTIZER_SELECT_H_
