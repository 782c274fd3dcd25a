// The instruction sets by name, for those who report on a machine.
#ifndef SLIPWAY_KERNELS_ISA_NAMES_H_
#define SLIPWAY_KERNELS_ISA_NAMES_H_

namespace slipway::kernels {

// The i-th of this build's instruction sets, from the oldest to the newest; null behind the last.
const char* IsaName(int i);
// Whether this processor has it.
bool IsaPresent(int i);
// The one that micro-kernels are taken from, SLIPWAY_ISA's cap included; "none" where there is none (IsaError()).
const char* BestIsaName();
// Whether this build has all sets of its architecture (SLIPWAY_ISAS of cmake/InstructionSets.cmake).
bool HasAllIsas();
// Why nothing can be computed: this build has no set that this processor has, too. Null where it has one. Micro-kernels
// end the process with it otherwise.
const char* IsaError();

// The choice among sets, from the oldest to the newest: the last one that is present, none newer than `cap`, which may
// be null; -1 where none is. A whole set requires the earlier ones that are; those between them, which extend them, may
// be missing.
struct IsaPresence {
  const char* name;
  bool whole, present;
};
int ChooseIsa(const IsaPresence* sets, int count, const char* cap);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_NAMES_H_
