// What a program calls its results: the keys of the container that it returns, where it has keys (a dict, a named
// tuple, a dataclass, transformers' ModelOutput: "last_hidden_state"), else the name of the value.
#ifndef SLIPWAY_DRIVER_CONVERT_OUTPUT_NAMES_H_
#define SLIPWAY_DRIVER_CONVERT_OUTPUT_NAMES_H_

#include <string>
#include <vector>

#include "ir/graph.h"

namespace slipway::driver {

// Of passes::UserOutputs(p), in their order; "" for a result that is no value. Names come from p.out_spec: the path
// from the first key on, joined as torch joins the names of inputs ("parts_1_k"). Where these are not distinct, or the
// text is not that of a container of so many results, the values' names stand.
std::vector<std::string> OutputNames(const ir::Program& p);

// Gives the values that are results these names, as OutputNames() gave them before passes replaced values. A value that
// is an input or has a name already keeps that; another value that has the name gets a number.
void NameOutputs(ir::Program& p, const std::vector<std::string>& names);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_OUTPUT_NAMES_H_
