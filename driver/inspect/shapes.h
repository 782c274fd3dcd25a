// `slipway shapes`: what became of each dimension of a program's inputs; and what --dynamic, --unify, --dim-names and
// --require-dynamic ask of any conversion.
#ifndef SLIPWAY_DRIVER_INSPECT_SHAPES_H_
#define SLIPWAY_DRIVER_INSPECT_SHAPES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "driver/convert/options.h"
#include "driver/edge/reader.h"
#include "dynamic_shapes/ledger.h"
#include "ir/graph.h"
#include "passes/pass.h"

namespace slipway::driver {

// Does to the programs what the flags ask, none without them. Ledgers, one a program, of those that were changed: empty
// where nothing was asked. Errors: 2 for what has no meaning or contradicts the program, quoting it; 4 for a dimension
// of --require-dynamic that is static, and for programs that are not one model at several sizes, with the reason.
absl::StatusOr<std::vector<dynamic_shapes::Ledger>> ApplyShapes(ir::Archive& archive, const ConvertOptions& o,
                                                                const Reader& reader, passes::PassContext& context);

struct ShapesReport {
  ir::Archive archive;  // owns the symbols that the ledgers show
  struct Program {
    std::string name;
    dynamic_shapes::Ledger ledger;
    std::vector<std::string> outputs;  // "linear: f32[batch,8]"
    std::vector<std::string> guards;   // as the program states them
  };
  std::vector<Program> programs;
};

// The ledgers of the programs of o.inputs[0], after what the other flags ask.
absl::StatusOr<ShapesReport> Shapes(const ConvertOptions& o, const Reader& reader = Reader());

std::string ToTable(const ShapesReport& r);
std::string ToJson(const ShapesReport& r);  // schemas/shapes.schema.json

// The line of a dimension that is static although it was asked for; "" for others.
std::string LostDim(const dynamic_shapes::DimFact& f);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_INSPECT_SHAPES_H_
