// ONNX's types, which the importer shares, under their names in the exporter.
#ifndef SLIPWAY_EXPORTERS_ONNX_TYPES_H_
#define SLIPWAY_EXPORTERS_ONNX_TYPES_H_

#include "onnx_model/schemas.h"
#include "onnx_model/types.h"

namespace slipway::exporters::onnx_out {

using onnx_model::Describe;
using onnx_model::ElementType;
using onnx_model::FindSchema;
using onnx_model::FromOnnxType;
using onnx_model::OnnxType;
using onnx_model::RegistryMutex;
using onnx_model::SchemaTypeName;

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_TYPES_H_
