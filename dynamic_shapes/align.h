// Two exports of one model, node by node: which value of one is which of the other.
#ifndef SLIPWAY_DYNAMIC_SHAPES_ALIGN_H_
#define SLIPWAY_DYNAMIC_SHAPES_ALIGN_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "dynamic_shapes/size_args.h"
#include "ir/graph.h"

namespace slipway::dynamic_shapes {

struct Alignment {
  absl::flat_hash_map<const ir::Value*, const ir::Value*> values;
  absl::flat_hash_map<const ir::Node*, const ir::Node*> nodes;

  // The integer of the other program.
  int64_t NumberAt(const SizeArg& a) const;
};

// Nodes stand in the same order in both; operators, values, dtypes, ranks and constants are the same, but for sizes and
// for the integers of SizeArgsOf(). InvalidArgument names the first place where they are not.
absl::StatusOr<Alignment> Align(ir::Program& p, const ir::Program& other);

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_ALIGN_H_
