// Which weights a program reads follows from its graph after the passes: what they dropped needs no values.
#include "driver/convert/missing_weights.h"

#include <algorithm>

#include "base/list_error.h"
#include "driver/edge/diagnostic.h"

namespace slipway::driver {

std::vector<std::string> WeightsWithoutValues(const ir::Program& p) {
  std::vector<std::string> names;
  for (size_t i = 0; i < p.graph->inputs().size() && i < p.input_specs.size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    const ir::InputSpec& s = p.input_specs[i];
    if (s.is_weight() && !p.weights.contains(s.target) && (!v->users().empty() || p.graph->IsOutput(v)))
      names.push_back(s.target);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());  // inputs of a weight's name share it
  return names;
}

std::string HowToMakeBuffers(const ir::Program& p, const std::vector<std::string>& names) {
  for (const ir::InputSpec& s : p.input_specs) {
    if ((s.kind != ir::InputSpec::kBuffer || s.persistent) && s.kind != ir::InputSpec::kTensorConstant) continue;
    if (std::find(names.begin(), names.end(), s.target) == names.end()) continue;
    return text::StrCat("no checkpoint holds '", s.target,
                        "', which the model computes when it is made: export with buffers on the CPU "
                        "(accelerate.init_empty_weights(include_buffers=False)), or give its values in another file of "
                        "--weights");
  }
  return "";
}

absl::Status MissingWeights(const std::vector<std::string>& names, std::string_view how) {
  const std::string what =
      names.size() == 1 ? "1 weight has no values" : text::StrCat(names.size(), " weights have no values");
  return WithHelp(WithId(ListError(what, names), id::kMissingWeights), how);
}

absl::Status MissingWeights(const ir::Program& p, const std::vector<std::string>& names, std::string_view how) {
  const std::string made = HowToMakeBuffers(p, names);
  return MissingWeights(names, made.empty() ? how : text::StrCat(how, "; ", made));
}

absl::Status OrMissingWeights(const ir::Program& p, const std::vector<std::string>& names, absl::Status refusal,
                              std::string_view how) {
  return absl::IsUnimplemented(refusal) && !names.empty() ? MissingWeights(p, names, how) : refusal;
}

}  // namespace slipway::driver
