// `slipway convert`: from a model file to another format.
#ifndef SLIPWAY_DRIVER_CONVERT_CONVERT_H_
#define SLIPWAY_DRIVER_CONVERT_CONVERT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "driver/convert/options.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/reader.h"
#include "driver/quantize/report.h"
#include "ir/graph.h"

namespace slipway::driver {

// The closing summary.
struct ConvertSummary {
  int nodes_before = 0, nodes_after = 0;
  std::vector<std::string> dims;
  int tensors = 0;  // of conversions of weights; 0 for programs
  uint64_t weight_bytes = 0, bytes_written = 0;
  double seconds = 0;
  uint64_t peak_rss = 0;                      // bytes
  std::vector<std::string> lines;             // further remarks
  std::shared_ptr<QuantizeReport> quantized;  // what became of weights, with --quantize
};

// The summary as `convert --json` prints it (schemas/convert.schema.json).
std::string ToJson(const ConvertOptions& o, const ConvertSummary& summary);

// Replaces the program's weights by those of the files of o.weights; notes go to the summary. Errors as of
// OpenTensors() and weights::JoinWeights().
absl::Status JoinWeightFiles(ir::Program& p, const ConvertOptions& o, ConvertSummary& summary);

// Fills in the time and the peak memory of a summary when it goes out of scope.
class SummaryClock {
 public:
  explicit SummaryClock(ConvertSummary* summary) : summary_(summary) {}
  ~SummaryClock();
  SummaryClock(const SummaryClock&) = delete;
  SummaryClock& operator=(const SummaryClock&) = delete;

 private:
  ConvertSummary* summary_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Finds the target, reads, runs its passes, writes. A flag in options.given that the target does not take is an error.
Outcome Convert(const ConvertOptions& options, ConvertSummary* summary, const Reader& reader = Reader());

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_CONVERT_H_
