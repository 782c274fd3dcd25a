// Calibration of programs: runs the float program on samples and collects what quantizing needs to know of the inputs
// of its linear layers (quantizer/calibrate.h).
#ifndef SLIPWAY_DRIVER_QUANTIZE_CALIBRATE_H_
#define SLIPWAY_DRIVER_QUANTIZE_CALIBRATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "driver/convert/options.h"
#include "ir/graph.h"
#include "quantizer/calibrate.h"
#include "quantizer/config.h"

namespace slipway::driver {

struct CalibrationOptions {
  quantizer::LayerStatistics::Options statistics;  // the seed is each layer's own
  // bytes of statistics that are collected at a time; one layer's are always
  uint64_t statistics_memory = uint64_t{1} << 30;
  uint64_t memory_limit = uint64_t{1} << 34;  // bytes of a run's temporaries
  int threads = 1;
};

// What becomes of the statistics of a layer, by its weight's name. They are gone afterwards.
using UseStatistics =
    std::function<absl::Status(const std::string& weight, const quantizer::LayerStatistics& statistics)>;

// Runs `p` on all samples that `o` gives and calls `use` once for each of `layers`: weights by name, each with
// the configuration that says what to collect. The program is run once for as many layers as `statistics_memory`
// allows, as far as these layers need; layers with the same input and configuration share their statistics.
//
// A file holds samples as `input.N`, the sizes of the program's input N behind one more that counts samples (or
// exactly those sizes: one sample, as `slipway run` takes it), or as `sampleM.input.N`, each with sizes of its own.
// docs/quantize.md describes it.
//
// Returns the weights of layers that nothing of what the program gives depends on (BERT's pooler beside its last hidden
// state): there is nothing to observe, and `use` is not called for them.
//
// InvalidArgument, with what the program wants, for a file that holds anything else, for inputs that are not finite and
// for layers that no sample reaches; Unimplemented naming weights that no linear layer of the program's main graph has,
// or the operator that cannot be computed; the first error of `use`.
absl::StatusOr<std::vector<std::string>> Calibrate(const ir::Program& p,
                                                   const std::map<std::string, const quantizer::Config*>& layers,
                                                   const ConvertOptions& o, const CalibrationOptions& options,
                                                   const UseStatistics& use);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_CALIBRATE_H_
