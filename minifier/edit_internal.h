// What the files of edits share.
#ifndef SLIPWAY_MINIFIER_EDIT_INTERNAL_H_
#define SLIPWAY_MINIFIER_EDIT_INTERNAL_H_

#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "ir/graph.h"
#include "ir/ops/op_table.h"

namespace slipway::minifier {

// InvalidArgument: the edit does not apply to the program.
absl::Status InvalidEdit(std::string_view what);
bool SameType(const ir::Type& a, const ir::Type& b);
void ForEachGraph(ir::Graph& g, const std::function<void(ir::Graph&)>& f);
void ForEachType(ir::Program& p, const std::function<void(ir::Type&)>& f);
// Drops ranges of expressions whose symbols are gone.
void DropUnusedRanges(ir::Program& p);
// Drops inputs and weights that nothing uses.
void DropUnused(ir::Program& p);
// Results that nothing takes become outputs, so that every node counts; the first ones only unless `all`.
void AddOutputs(ir::Program& p, const ir::Node& n, bool all);
bool IsSize(const ir::ArgDef& d);

}  // namespace slipway::minifier

#endif  // SLIPWAY_MINIFIER_EDIT_INTERNAL_H_
