// ONNX's operator schemas, built as they are asked for: registering an opset's whole set, as ONNX does, builds every
// version of every operator (15 ms), which is more than a small conversion takes.
#ifndef SLIPWAY_ONNX_MODEL_SCHEMAS_H_
#define SLIPWAY_ONNX_MODEL_SCHEMAS_H_

#include <shared_mutex>
#include <string>

#include "onnx/defs/schema.h"

namespace slipway::onnx_model {

// The operators on trial, of opset 1.
inline constexpr const char* kPreviewDomain = "ai.onnx.preview";

// The newest schema of an operator that an opset of its domain has ("" is the default one), or null; it and what its
// function body needs are in ONNX's registry from then on. Thread-safe.
const onnx::OpSchema* FindSchema(const std::string& type, int opset, const std::string& domain = "");

// Held shared while ONNX's own code looks schemas up, since another thread may be in FindSchema(). Not to be held when
// calling that.
std::shared_mutex& RegistryMutex();

}  // namespace slipway::onnx_model

#endif  // SLIPWAY_ONNX_MODEL_SCHEMAS_H_
