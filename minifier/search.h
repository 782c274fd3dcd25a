// The search for a smaller program that still fails: which edits are tried, in which order. It knows nothing of files
// and
// processes: an oracle says whether a candidate fails as the original did.
//
// The order is made for few questions. First all nodes are taken apart: where the fault is one node's, halving finds
// it. Else the
// fault is a path or a meeting of paths: the shortest prefix of the graph that fails, the shortest suffix of that, and
// then delta debugging over the graph, where a node goes by being bypassed or cut off. What is left is made simple: all
// at once if that still fails, else step by step.
#ifndef SLIPWAY_MINIFIER_SEARCH_H_
#define SLIPWAY_MINIFIER_SEARCH_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text.h"
#include "ir/graph.h"
#include "minifier/edit.h"

namespace slipway::minifier {

// Says whether programs fail. What it answers for a program stays so.
class Oracle {
 public:
  virtual ~Oracle() = default;
  // Applies each edit to a copy of the best program so far; the first, in order, whose copy is valid and fails becomes
  // the best one.
  // nullopt where none does. `what` is said in reports. Cancelled when there is no time left.
  virtual absl::StatusOr<std::optional<size_t>> FirstThatFails(const std::vector<Edit>& edits,
                                                               std::string_view what) = 0;
  virtual const ir::Program& best() const = 0;
};

struct SearchOptions {
  text::Map<int64_t> symbols;  // what a symbol is when it is made a number
};

// Reduces until nothing more goes. Cancelled when the oracle is; the best program is the oracle's.
absl::Status Search(Oracle& oracle, const StandIns& names, const SearchOptions& options);

}  // namespace slipway::minifier

#endif  // SLIPWAY_MINIFIER_SEARCH_H_
