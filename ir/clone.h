// Copies of whole programs.
#ifndef SLIPWAY_IR_CLONE_H_
#define SLIPWAY_IR_CLONE_H_

#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace slipway::ir {

// A program that shares nothing with `p` but the storages of its weights, so that one may be rewritten while the other
// stays. Made through the text form; Internal for a program that the form cannot hold.
absl::StatusOr<std::unique_ptr<Program>> Clone(const Program& p);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_CLONE_H_
