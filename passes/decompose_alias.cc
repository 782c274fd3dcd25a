// Decompositions: alias.
#include "passes/decompose.h"

namespace slipway::passes {

absl::Span<const DecomposeRow> AliasDecompositions() { return {}; }

}  // namespace slipway::passes
