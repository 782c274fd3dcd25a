// --weights of convert, and the few helpers that all its targets use.
#include <sys/stat.h>

#include <map>
#include <set>

#include "base/text.h"
#include "driver/convert_internal.h"
#include "driver/tensors.h"

namespace slipway::driver {

Outcome Fail(Outcome o, const absl::Status& s, std::string place, std::string help) {
  o.code = ExitCodeOf(s);
  o.diagnostics.push_back(FromStatus(s, std::move(place), std::move(help)));
  return o;
}

Outcome FailWeights(Outcome o, const absl::Status& s, const std::string& place) {
  o = Fail(std::move(o), s, place);
  o.diagnostics.back().id = id::kMissingWeights;
  return o;
}

Outcome Usage(std::string cause, std::string help, const char* id) {
  return {kUsage, {{Severity::kError, id, std::move(cause), "", std::move(help)}}};
}

std::string FormatOfOutput(const std::string& path) {
  struct stat info;
  if (path.ends_with('/') || (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))) return "safetensors";
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(dot + 1);
}

absl::Status JoinWeights(ir::Program& p, const ConvertOptions& o, ConvertSummary& summary) {
  std::map<std::string, ir::TensorRef> given;
  for (const std::string& path : o.weights) {
    auto set = ReadTensors(path, o.key);
    if (!set.ok()) return set.status();
    for (auto& [name, t] : set->tensors) {
      if (!given.emplace(name, std::move(t)).second)
        return absl::InvalidArgumentError(text::StrCat("--weights: '", name, "' is in more than one file"));
    }
  }
  std::vector<std::string> missing, wrong;
  std::set<std::string> used;
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::InputSpec& s = p.input_specs[i];
    if (s.kind != ir::InputSpec::kParameter && s.kind != ir::InputSpec::kBuffer) continue;
    auto it = given.find(s.target);
    if (it == given.end()) {
      if ((!p.weights.contains(s.target) && !p.objects.contains(s.target)) || (s.persistent && !o.allow_missing)) missing.push_back(s.target);
      continue;
    }
    used.insert(s.target);
    if (p.objects.contains(s.target)) {
      wrong.push_back(text::StrCat(s.target, " is a tensor subclass in the program"));
      continue;
    }
    const ir::Type& t = p.graph->inputs()[i]->type();
    auto sizes = t.StaticSizes();
    if (t.dtype != it->second.dtype || !sizes || *sizes != it->second.sizes) {
      ir::Type found = ir::Type::Tensor(it->second.dtype, ir::Sizes(it->second.sizes.begin(), it->second.sizes.end()));
      wrong.push_back(text::StrCat(s.target, " is ", found.ToString(), ", the program wants ", t.ToString()));
      continue;
    }
    p.weights.insert_or_assign(s.target, it->second);
  }
  if (!wrong.empty()) return absl::InvalidArgumentError(text::StrCat("--weights: ", text::Join(wrong, "; ")));
  if (!missing.empty())
    return absl::InvalidArgumentError(
        text::StrCat("--weights: ", missing.size(), " names of the program are missing: ", text::Join(missing, ", ")));
  if (size_t unused = given.size() - used.size(); unused > 0) {
    std::vector<std::string> names;
    for (const auto& [name, t] : given)
      if (!used.contains(name)) names.push_back(name);
    summary.lines.push_back(text::StrCat(unused, " tensors of --weights are not used: ", text::Join(names, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace slipway::driver
