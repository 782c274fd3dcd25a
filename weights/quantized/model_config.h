// What the files beside a checkpoint say of how it is quantized: transformers' config.json with its
// quantization_config, or what older tools wrote in files of their own.
#ifndef SLIPWAY_WEIGHTS_QUANTIZED_MODEL_CONFIG_H_
#define SLIPWAY_WEIGHTS_QUANTIZED_MODEL_CONFIG_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "importers/json.h"
#include "ir/dtype.h"

namespace slipway::weights::quantized {

struct ModelConfig {
  std::string file;                       // that the quantization is described in: "config.json"
  std::string method;                     // "gptq"
  std::string model_type;                 // "llama"; "" where nothing says it
  ir::DType dtype = ir::DType::kUnknown;  // of the model in float: f32, f16, bf16; kUnknown where nothing says it
  importers::json::Value quantization;    // the object
  std::shared_ptr<importers::json::Document> document;  // that it is a part of

  // Members of `quantization`; the other value where there is none or null. InvalidArgument for another type.
  absl::StatusOr<int64_t> Int(std::string_view key, int64_t otherwise) const;
  absl::StatusOr<bool> Bool(std::string_view key, bool otherwise) const;
  absl::StatusOr<std::string> Text(std::string_view key, std::string_view otherwise) const;
  const importers::json::Value* Find(std::string_view key) const;  // nullptr for null, too
};

// Of the model in `folder`; nullopt where it is not quantized, or nothing says so. InvalidArgument for what is
// malformed.
absl::StatusOr<std::optional<ModelConfig>> ReadModelConfig(const std::string& folder);

// config.json without what says that the model is quantized, and with `dtype` as its type where it states one.
absl::StatusOr<std::string> WithoutQuantization(std::string_view config_json, ir::DType dtype);
// The same with another quantization_config, an object in JSON, and the type that it states.
absl::StatusOr<std::string> WithQuantization(std::string_view config_json, std::string_view quantization);

}  // namespace slipway::weights::quantized

#endif  // SLIPWAY_WEIGHTS_QUANTIZED_MODEL_CONFIG_H_
