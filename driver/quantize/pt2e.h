// Whole programs, quantized in the manner of torchao's PT2E flow (quantizer/pt2e): batch norms are folded, the float
// program runs on calibration data, and activations and weights become integers where the recipe says so.
#ifndef SLIPWAY_DRIVER_QUANTIZE_PT2E_H_
#define SLIPWAY_DRIVER_QUANTIZE_PT2E_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "driver/convert/options.h"
#include "driver/quantize/report.h"
#include "ir/graph.h"

namespace slipway::driver {

// Whether the options ask for a recipe: by its name, or as `auto` with calibration data.
bool QuantizesByRecipe(const ConvertOptions& o);

// Replaces the program, which becomes functional, by one with nodes of torch's quantized_decomposed; o.quantize names
// the recipe. With --error-budget some layers stay in float (layer_budget.h). New weights are kept in scratch files in
// `folder`. Notes go to `lines`.
//
// Usage errors for options that do not go with a recipe, InvalidArgument where nothing of the program is quantized or
// the data do not fit, Unimplemented naming the operator that calibration cannot compute.
absl::StatusOr<std::shared_ptr<QuantizeReport>> QuantizeByRecipe(ir::Program& p, const ConvertOptions& o,
                                                                 const std::string& folder,
                                                                 std::vector<std::string>* lines);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_PT2E_H_
