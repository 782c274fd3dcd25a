// Complex inputs and outputs as pairs of reals, for targets that take and give no complex numbers.
#ifndef SLIPWAY_PASSES_COMPLEX_IO_H_
#define SLIPWAY_PASSES_COMPLEX_IO_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ir/graph.h"

namespace slipway::passes {

// "input 'x'", "output 'y'": the user's inputs and outputs that are complex, in order.
std::vector<std::string> ComplexSignature(const ir::Program& p);

// Each of those becomes what torch.view_as_real gives of it: a real tensor with a last dim of two, under the same name.
// Unimplemented where the program writes to such an input.
absl::Status TakeComplexAsReal(ir::Program& p);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_COMPLEX_IO_H_
