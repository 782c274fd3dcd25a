// Decompositions: special.
#include "passes/decompose.h"

namespace slipway::passes {

absl::Span<const DecomposeRow> SpecialDecompositions() { return {}; }

}  // namespace slipway::passes
