// How the sizes of a view follow from those of what is viewed, where only their values are known: the row-major order
// of the elements decides which dimension went where.
#ifndef SLIPWAY_DYNAMIC_SHAPES_VIEW_RULE_H_
#define SLIPWAY_DYNAMIC_SHAPES_VIEW_RULE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "ir/graph.h"

namespace slipway::dynamic_shapes {

// One size of the view: an expression, or open: several expressions fit.
struct ViewSize {
  ir::Sym expr = 0;
  bool open = false;
  std::vector<ir::Sym> factors;  // of a product of several dimensions, outermost first, where the order is known
};

// `from` is viewed with sizes of the values `to`, one of which may be -1; `value` evaluates an expression of `from` for
// the example. Dimensions are grouped where the products of the sizes before them agree, as reshaping keeps such groups
// apart. In a group with one size, that is the product. A dimension whose span in row-major order lies within one size
// of the view is a factor of that size; where such a dimension is a product itself, `factors` may tell the order of
// what was merged into it. An expression that several sizes share is divided into its own factors. Sizes that can be
// divided in several ways are open, with their product in `open_product` (one for each group; the sizes of a group
// follow each other).
// nullopt: the elements are regrouped in a way that no sizes but the example's explain.
struct ViewSizes {
  std::vector<ViewSize> sizes;
  struct Open {
    int first = 0, count = 0;
    ir::Sym product = 0;
  };
  std::vector<Open> open;
};
std::optional<ViewSizes> SolveView(absl::Span<const ir::Sym> from, absl::Span<const int64_t> to,
                                   const std::function<std::optional<int64_t>(ir::Sym)>& value,
                                   const std::function<std::vector<ir::Sym>(ir::Sym)>& factors);

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_VIEW_RULE_H_
