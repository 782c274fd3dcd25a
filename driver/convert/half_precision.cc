// Weights go through a scratch file beside the output, tied ones once, so that memory does not grow with them.
#include "driver/convert/half_precision.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/state.h"
#include "driver/edge/format.h"
#include "driver/edge/paths.h"
#include "driver/quantize/pt2e.h"
#include "passes/keep_state.h"
#include "passes/narrow_floats.h"
#include "planner/planner.h"
#include "weights/make_weights.h"

namespace slipway::driver {
namespace {

absl::Status CastWeights(const std::vector<std::string>& names, ir::DType to, const std::string& folder,
                         ir::Program& p) {
  std::map<std::tuple<const ir::Storage*, int64_t, std::vector<int64_t>, std::vector<int64_t>>, size_t> places;
  std::vector<weights::WeightToMake> make;
  std::vector<std::pair<ir::TensorRef*, size_t>> made;
  for (const std::string& name : names) {
    const auto w = p.weights.find(name);
    if (w == p.weights.end()) continue;  // the exporter names what has no values
    ir::TensorRef& t = w->second;
    const auto [at, fresh] = places.try_emplace({t.storage.get(), t.offset, t.sizes, t.strides}, make.size());
    if (fresh) make.push_back({ir::ShardedTensor(t), to, {}});
    made.emplace_back(&t, at->second);
  }
  RETURN_IF_ERROR(weights::MakeWeights(make, folder));
  for (const auto& [t, at] : made) *t = make[at].made;
  return absl::OkStatus();
}

// What a library keeps between runs is nobody's input or output.
absl::Status TakeStates(const Conversion& c, passes::NarrowOptions& options) {
  const std::string& state = c.options.state;
  options.narrow_state = state != "drop" && state != "io";
  if (!options.narrow_state || !c.options.keep_io_types) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto pairs, StatePairs(c));
  const auto states = passes::FindStates(*c.archive.programs[0], pairs);
  if (!states.ok()) return absl::OkStatus();  // said where states are made
  for (const auto& [input, output] : *states) {
    options.state_inputs.insert(input);
    options.state_outputs.insert(output);
  }
  return absl::OkStatus();
}

// "mean 3, exp 2", the most frequent first; the last of many is "others 4".
std::string Counts(const std::map<std::string, int>& operators) {
  constexpr size_t kMost = 8;
  std::vector<std::pair<std::string, int>> sorted(operators.begin(), operators.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> out;
  int others = 0;
  for (const auto& [name, count] : sorted) {
    if (out.size() < kMost)
      out.push_back(text::StrCat(name, " ", count));
    else
      others += count;
  }
  if (others > 0) out.push_back(text::StrCat("others ", others));
  return text::Join(out, ", ");
}

void Report(const passes::NarrowReport& report, const Target& target, Conversion& c) {
  const std::string& dtype = c.options.dtype;
  if (!report.changed) {
    c.summary.lines.push_back(text::StrCat("--dtype ", dtype, " changes nothing: no value of the program is f32"));
    return;
  }
  const std::string wide = Counts(report.wide_operators);
  std::string line = text::StrCat("f32 is ", dtype, ": ", report.weights, " weights cast; ");
  if (report.wide > 0)
    text::StrAppend(&line, report.wide, " nodes stay in f32 (", wide, ")");
  else
    text::StrAppend(&line, "no node stays in f32");
  if (report.kept > 0) text::StrAppend(&line, "; ", report.kept, " weights stay f32");
  c.summary.lines.push_back(std::move(line));
  if (!report.small.empty()) {
    std::vector<std::string> some(report.small.begin(),
                                  report.small.begin() + std::min<size_t>(report.small.size(), 5));
    if (some.size() < report.small.size()) some.push_back(text::StrCat(report.small.size() - some.size(), " more"));
    c.summary.lines.push_back(text::StrCat("weights have no value that ", dtype,
                                           " holds with all its digits, the smallest become 0: ",
                                           text::Join(some, ", "), "; --dtype bf16 has the range of f32"));
  }
  c.extra_metadata.emplace_back("slipway.dtype", dtype);
  if (report.wide > 0) c.extra_metadata.emplace_back("slipway.f32_nodes", wide);
  if (target.bit & kNative)
    c.summary.lines.push_back(text::StrCat("each rounding to ", dtype, " is off by up to ",
                                           dtype == "bf16" ? "0.4 %" : "0.05 %",
                                           "; `slipway verify` with the program and the output measures what becomes "
                                           "of it"));
}

}  // namespace

absl::Status CheckDtype(const Target& target, const ConvertOptions& o) {
  if (target.passes.empty()) return absl::OkStatus();  // of tensors
  if (o.dtype.empty()) return o.keep_io_types ? UsageError("--keep-io-types goes with --dtype") : absl::OkStatus();
  if (o.dtype == "f32")
    return WithHelp(absl::UnimplementedError("--dtype f32 for programs"), "f16 and bf16 narrow what is f32");
  if (target.bit & kNative && QuantizesByRecipe(o))
    return WithHelp(absl::UnimplementedError(text::StrCat("--dtype with --quantize ", o.quantize)),
                    "what the recipe quantizes computes in integers: leave --dtype out");
  return absl::OkStatus();
}

absl::Status NarrowFloats(const Target& target, Conversion& c) {
  const ConvertOptions& o = c.options;
  if (o.dtype.empty()) return absl::OkStatus();
  passes::NarrowOptions options;
  options.to = o.dtype == "f16" ? ir::DType::kFloat16 : ir::DType::kBFloat16;
  options.keep_io_types = o.keep_io_types;
  options.cast = [&](const std::vector<std::string>& names) {
    return CastWeights(names, options.to, FolderOf(o.output), c.program());
  };
  if (target.bit & kNative) {
    options.rounds_once = planner::RoundsOnce;
    RETURN_IF_ERROR(TakeStates(c, options));
  }
  auto report = passes::NarrowFloats(c.program(), options);
  if (absl::IsInvalidArgument(report.status()) && o.dtype == "f16")
    return WithHelp(report.status(), "--dtype bf16 has the range of f32");
  if (!report.ok()) return report.status();
  Report(*report, target, c);
  return absl::OkStatus();
}

}  // namespace slipway::driver
