// Functionalization: in-place nodes and views become pure SSA.
#include "base/text.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::passes {

absl::Status Functionalize(ir::Program& p) {
  for (ir::Node* n : *p.graph)
    if (n->op().mutates()) return absl::UnimplementedError(text::StrCat(n->op_name(), ": in-place operators"));
  p.form = ir::Form::kFunctional;
  return absl::OkStatus();
}

}  // namespace slipway::passes
