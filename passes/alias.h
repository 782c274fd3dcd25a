// What the results of a node share with its arguments, and how a write to a view reaches what it views. Only
// functionalization asks: afterwards nothing aliases.
#ifndef SLIPWAY_PASSES_ALIAS_H_
#define SLIPWAY_PASSES_ALIAS_H_

#include <functional>

#include "absl/status/statusor.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace slipway::passes {

// Operators like reshape and to() view or copy depending on strides and dtypes; kUnknown where the types do not tell.
enum class Sharing : uint8_t { kNone, kShares, kUnknown };

// The argument whose storage a result shares: args()[arg], or its element `element` when that is a list.
struct View {
  Sharing sharing = Sharing::kNone;
  ir::Value* parent = nullptr;
  int arg = -1, element = -1;
};

// What result `i` of `n` views; for operators that do not write. Results an operator makes itself are kNone.
View ViewOf(const ir::Node& n, int i);

// Whether a tensor of this type lies in memory row by row without gaps. kShares: yes, kNone: no.
Sharing IsContiguous(const ir::Type& t);

// The parent after `value` was written to result `i` of the view node `n`: `parent` is its value before. `sibling`
// gives the present value of another result of the same node. Unimplemented, naming the operator, where the write
// cannot be expressed.
absl::StatusOr<ir::Value*> WriteThrough(const ir::Node& n, int i, ir::Value* parent, ir::Value* value, ir::Builder& b,
                                        const std::function<absl::StatusOr<ir::Value*>(ir::Value*)>& sibling);

// The sizes of a tensor as arguments: constants where known, else sym_size nodes.
ir::SymInts SizeArgs(ir::Builder& b, ir::Value* x);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_ALIAS_H_
