// The verifier: what every pass may rely on and must leave behind.
#ifndef SLIPWAY_IR_VERIFY_H_
#define SLIPWAY_IR_VERIFY_H_

#include "absl/status/status.h"
#include "ir/graph.h"

namespace slipway::ir {

// Checks, in the root graph and all subgraphs: values are defined before they are used and belong to their graph; use
// lists agree with arguments; names are distinct; every value has a type; arguments fit the operator's declaration and
// none that is required is missing; results fit its returns; subgraphs take and give what their operator passes; the
// signature is as long as the graph's inputs and outputs; weights lie in their storages and fit the graph's inputs; a
// functional program has no node that writes its arguments.
//
// InvalidArgument, naming program, graph and node, for the first that does not hold.
absl::Status Verify(const Program& p);

// Whether the known sizes of a tensor are at least 0 and their product, zeros left out, below 2^60: what follows counts
// bytes in 64 bits. True for other types.
bool HasElementCount(const Type& t);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_VERIFY_H_
