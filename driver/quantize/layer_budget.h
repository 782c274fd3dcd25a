// --error-budget of recipes: which layers stay in float, so that the program's outputs on calibration data stay near
// those of the float program.
#ifndef SLIPWAY_DRIVER_QUANTIZE_LAYER_BUDGET_H_
#define SLIPWAY_DRIVER_QUANTIZE_LAYER_BUDGET_H_

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "driver/convert/options.h"
#include "driver/quantize/pt2e_values.h"
#include "driver/quantize/report.h"
#include "driver/quantize/samples.h"
#include "ir/graph.h"
#include "quantizer/pt2e/annotate.h"
#include "quantizer/pt2e/recipe.h"

namespace slipway::driver {

// The layers, nodes that read integers (additions and pools, too), to exclude beside those that `selection` excludes.
//
// The error of a program is ||y - q|| / ||y||, the largest of its floating-point outputs, all samples together: y are
// the float program's, q the quantized one's. Layers leave in the order of the error that each makes when it alone is
// quantized, on the first samples; how many, bisection finds with programs that are quantized and run as they will be
// on all samples. So the result is within the budget as measured, and with the next layer it was not.
//
// `values` are of `p`. `choice` is filled in. Exit code 1 where all layers but one in
// float are not enough; errors of running the program.
absl::StatusOr<absl::flat_hash_set<const ir::Node*>> LayersInFloat(const ir::Program& p,
                                                                   const quantizer::pt2e::Recipe& recipe,
                                                                   const quantizer::pt2e::Selection& selection,
                                                                   const ConvertOptions& o, const Samples& samples,
                                                                   Pt2eValues& values, QuantizeChoice* choice);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_LAYER_BUDGET_H_
