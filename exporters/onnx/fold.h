// Nodes whose operands are small constants, where they only move elements or count: lowerings build shapes, indices and
// masks of such nodes, and what is known already is better written than computed in each run. Constants of the program
// itself are folded before, by passes/fold_constants.cc.
#ifndef SLIPWAY_EXPORTERS_ONNX_FOLD_H_
#define SLIPWAY_EXPORTERS_ONNX_FOLD_H_

#include <optional>
#include <string_view>
#include <vector>

#include "exporters/onnx/emitter.h"

namespace slipway::exporters::onnx_out {

// The largest result that is made, in bytes.
inline constexpr int64_t kMostFolded = int64_t{64} << 10;

// The result of a node with these operands (null: not known, or not given); nullopt where it has to be a node.
std::optional<Known> FoldNode(std::string_view type, const std::vector<const Known*>& in, const Attrs& attrs,
                              DType out);

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_FOLD_H_
