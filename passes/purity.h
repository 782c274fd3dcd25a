// Which nodes give the same results for the same arguments, every time, and do nothing else: those may be computed
// early, once instead of twice, or not at all.
#ifndef SLIPWAY_PASSES_PURITY_H_
#define SLIPWAY_PASSES_PURITY_H_

#include "ir/graph.h"

namespace slipway::passes {

// Whether a node draws random numbers as it stands: dropout outside training does not.
bool IsRandom(const ir::Node& n);

// A known operator that neither draws random numbers nor writes its arguments, has results, and owns no subgraph.
bool IsPure(const ir::Node& n);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_PURITY_H_
