// What a program calls things may be any bytes (the text form can say them); files that others read hold UTF-8.
#ifndef SLIPWAY_EXPORTERS_PROGRAM_NAMES_H_
#define SLIPWAY_EXPORTERS_PROGRAM_NAMES_H_

#include "absl/status/status.h"
#include "ir/graph.h"

namespace slipway::exporters {

// InvalidArgument naming the first of the program, its inputs, outputs and weights whose name is not UTF-8.
absl::Status CheckProgramNames(const ir::Program& p);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_PROGRAM_NAMES_H_
