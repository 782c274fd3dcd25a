// Names as torch reads them, for programs that torch.export did not make: symbols are "s17" for a size of an input and
// "u3" for a number that a node computes, values are Python's identifiers.
#ifndef SLIPWAY_EXPORTERS_PT2_TORCH_NAMES_H_
#define SLIPWAY_EXPORTERS_PT2_TORCH_NAMES_H_

#include "absl/status/status.h"
#include "ir/graph.h"

namespace slipway::exporters {

// Gives such names to symbols and values that have others. An error where a range cannot be kept.
absl::Status NameForTorch(ir::Program& p);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_PT2_TORCH_NAMES_H_
