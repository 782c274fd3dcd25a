// What the targets of `convert` share; each has a file of its own, convert.cc chooses between them.
#ifndef SLIPWAY_DRIVER_CONVERT_INTERNAL_H_
#define SLIPWAY_DRIVER_CONVERT_INTERNAL_H_

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "driver/convert.h"
#include "driver/join_weights.h"
#include "ir/graph.h"
#include "passes/refusals.h"

namespace slipway::driver {

Outcome ToPt2(const ConvertOptions& o, const Reader& reader, ConvertSummary* summary);
Outcome ToNative(const ConvertOptions& o, bool package, const Reader& reader, ConvertSummary* summary);
Outcome ToSafetensors(const ConvertOptions& o, const Reader& reader, ConvertSummary* summary);

// The format that an output's name asks for: its suffix, or "safetensors" for a folder ("dir/", or one that exists).
std::string FormatOfOutput(const std::string& path);

// `o` with the error of `s` at its end.
Outcome Fail(Outcome o, const absl::Status& s, std::string place = {}, std::string help = {});
Outcome FailWeights(Outcome o, const absl::Status& s, const std::string& place);
Outcome Usage(std::string cause, std::string help = {}, const char* id = id::kBadFlag);

// `o` with what a target cannot express, a diagnostic each, and at the end one that names all: "not supported `where`: …".
inline constexpr std::string_view kByKernels = "by native kernels";
Outcome FailUnsupported(Outcome o, const std::vector<passes::Unsupported>& unsupported, std::string_view where);

// The program's dims and their ranges, for the summary.
void NoteDims(const ir::Program& p, ConvertSummary& summary);

// torch.export.load runs whatever pickle it finds as sample inputs, so only those of tensors and plain containers are
// passed on; a line of the summary says why others are not.
void VetSampleInputs(ir::Program& p, ConvertSummary& summary);

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

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_INTERNAL_H_
