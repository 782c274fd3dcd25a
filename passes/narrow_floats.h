// A program of f32 as one that computes in f16 or bf16: for targets that are asked for it.
#ifndef SLIPWAY_PASSES_NARROW_FLOATS_H_
#define SLIPWAY_PASSES_NARROW_FLOATS_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace slipway::passes {

struct NarrowOptions {
  ir::DType to = ir::DType::kFloat16;  // or kBFloat16
  bool keep_io_types = false;          // the user's inputs and outputs stay f32, with casts behind and before them
  // What the target keeps between runs, which is no input or output of the user's: names of inputs, indices of outputs.
  std::set<std::string> state_inputs;
  std::set<size_t> state_outputs;
  // State among the weights becomes `to` where updates only replace elements by others; else it stays f32.
  bool narrow_state = false;
  // Makes the program's weights of these names `to`; tied ones stay so. Null: only weights that are rules can be.
  std::function<absl::Status(const std::vector<std::string>& names)> cast;
  // Whether the target computes a node of halves in f32 and rounds its results once: no casts stand around it then, and
  // attention is left whole. Null: no node.
  std::function<bool(const ir::Node&)> rounds_once;
};

struct NarrowReport {
  int weights = 0;                            // that are `to` now, states too
  int kept = 0;                               // weights that stay f32, since only what is computed in f32 reads them
  int wide = 0;                               // nodes that compute in f32 of those that read floats
  std::map<std::string, int> wide_operators;  // which these are, by name without namespace and overload
  std::vector<std::string> small;             // weights that are `to` now and all of whose values lose digits in it
  bool changed = false;                       // whether any value was f32
};

// f32 becomes `to`, but where halves overflow or lose too much (narrow_floats.cc says where). All other types stay, and
// so does state that the program updates. InvalidArgument, naming them, for weights with finite values that `to` has
// not. Functional form.
absl::StatusOr<NarrowReport> NarrowFloats(ir::Program& p, const NarrowOptions& options);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_NARROW_FLOATS_H_
