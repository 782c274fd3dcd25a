// What passes ask of the nodes and values around one that they look for.
#ifndef SLIPWAY_PASSES_MATCH_H_
#define SLIPWAY_PASSES_MATCH_H_

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "ir/graph.h"

namespace slipway::passes {

class StoredWeights;

// Whether a node, which may be null, is one of an operator.
inline bool Is(const ir::Node* n, std::string_view op) { return n && n->op_name() == op; }
inline bool IsOneOf(const ir::Node* n, std::initializer_list<std::string_view> ops) {
  return n && std::find(ops.begin(), ops.end(), n->op_name()) != ops.end();
}
// Whether nodes read a value so many times in all, and the graph does not return it.
inline bool IsOnlyUse(const ir::Value* v, size_t uses = 1) {
  return v->users().size() == uses && !v->graph()->IsOutput(v);
}
inline bool IsOnlyUsedBy(const ir::Value* v, const ir::Node* n) { return IsOnlyUse(v) && v->users()[0] == n; }

// A number in whatever way it is given: as a constant, as a tensor of one element that is filled with it or, with
// `weights`, stored.
std::optional<double> ReadNumber(const ir::Arg& a, const StoredWeights* weights = nullptr);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_MATCH_H_
