// Experts that a checkpoint holds one by one and a program as one tensor: transformers 5 fuses them while it loads.
#ifndef SLIPWAY_WEIGHTS_FUSED_EXPERTS_H_
#define SLIPWAY_WEIGHTS_FUSED_EXPERTS_H_

#include <string>
#include <vector>

#include "ir/graph.h"
#include "weights/sources.h"

namespace slipway::weights {

// Puts "….experts.gate_up_proj", [experts, 2 x rows, columns], in the place of "….experts.0.gate_proj.weight" and
// "….experts.0.up_proj.weight", …, and so on, where the program has weights of such a name and the files have none. The
// tensors are by reference, in pieces. What is not whole (an expert lacks, sizes or types differ, values that are
// computed) stays as it is.
void FuseExperts(const ir::Program& p, GivenTensors* given, std::vector<std::string>* notes);

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_FUSED_EXPERTS_H_
