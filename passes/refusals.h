// What legalization leaves behind for those who report it: exporters need this and no pass.
#ifndef SLIPWAY_PASSES_REFUSALS_H_
#define SLIPWAY_PASSES_REFUSALS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/graph.h"

namespace slipway::passes {

// Why decompositions were not taken, by the node that stays. For look-ups only: the order says nothing.
using Refusals = absl::flat_hash_map<const ir::Node*, absl::Status>;

// What a target cannot express, one entry a distinct operator and reason.
struct Unsupported {
  std::string op, reason, first_place;
  std::string first_line;  // "/home/u/model.py:12", where the export has it
  int count = 0;
};

// Whether it is there because the program was exported in training mode: its reason says so, or names attention's
// dropout.
bool IsOfTraining(const Unsupported& u);

// A node that is not supported, and why.
struct Problem {
  const ir::Node* node;  // null: an input of the program
  absl::Status status;
};

// By operator and reason, in the order of these; the place is that of the first.
std::vector<Unsupported> Group(absl::Span<const Problem> problems);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_REFUSALS_H_
