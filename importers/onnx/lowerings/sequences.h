// Sequences of as many members as the program computes: the rows of a tensor.
#ifndef SLIPWAY_IMPORTERS_ONNX_LOWERINGS_SEQUENCES_H_
#define SLIPWAY_IMPORTERS_ONNX_LOWERINGS_SEQUENCES_H_

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {

// Tensors one behind the other along their first dim, whose other dims are the same. Null and an error where they may
// differ.
Value* JoinedRows(Call& c, const Values& parts);

}  // namespace slipway::importers::onnx_in

#endif  // SLIPWAY_IMPORTERS_ONNX_LOWERINGS_SEQUENCES_H_
