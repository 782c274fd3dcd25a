// The instruction sets by name, for those who report on a machine.
#ifndef SLIPWAY_KERNELS_ISA_NAMES_H_
#define SLIPWAY_KERNELS_ISA_NAMES_H_

namespace slipway::kernels {

// The i-th of this build's instruction sets, from the oldest to the newest; null behind the last.
const char* IsaName(int i);
// Whether this processor has it.
bool IsaPresent(int i);
// The one that micro-kernels are taken from, SLIPWAY_ISA's cap included.
const char* BestIsaName();

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_NAMES_H_
