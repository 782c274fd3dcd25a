// See join_weights.h; and the few helpers that all targets of convert use.
#include "driver/join_weights.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "driver/convert_internal.h"
#include "driver/make_weights.h"
#include "driver/open.h"
#include "driver/tensors.h"
#include "exporters/safetensors/cast.h"

namespace slipway::driver {

Outcome Fail(Outcome o, const absl::Status& s, std::string place, std::string help) {
  o.code = ExitCodeOf(s);
  o.diagnostics.push_back(FromStatus(s, std::move(place), std::move(help)));
  return o;
}

Outcome FailUnsupported(Outcome o, const std::vector<passes::Unsupported>& unsupported, std::string_view where) {
  std::vector<std::string> names;
  for (const passes::Unsupported& u : unsupported) {
    o.diagnostics.push_back({Severity::kError, id::kUnsupportedOps,
                             text::StrCat(u.count > 1 ? text::StrCat(u.count, " × ") : "", u.reason), u.first_place, ""});
    if (std::find(names.begin(), names.end(), u.reason) == names.end()) names.push_back(u.reason);
  }
  o.code = kNotSupported;
  o.diagnostics.push_back({Severity::kError, id::kUnsupportedOps,
                           text::StrCat("not supported ", where, ": ", text::Join(names, "; ")), "", ""});
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

absl::Status FitsWeight(const ir::Program& p, size_t input, ir::DType dtype, const std::vector<int64_t>& sizes) {
  const std::string& name = p.input_specs[input].target;
  if (p.objects.contains(name)) return absl::InvalidArgumentError(text::StrCat(name, " is a tensor subclass in the program"));
  const ir::Type& t = p.graph->inputs()[input]->type();
  const auto wanted = t.StaticSizes();
  if (t.dtype == dtype && wanted && *wanted == sizes) return absl::OkStatus();
  const ir::Type found = ir::Type::Tensor(dtype, ir::Sizes(sizes.begin(), sizes.end()));
  return absl::InvalidArgumentError(text::StrCat(name, " is ", found.ToString(), ", the program wants ", t.ToString()));
}

absl::Status JoinWeights(ir::Program& p, const ConvertOptions& o, ConvertSummary& summary) {
  std::map<std::string, ir::ShardedTensor> given;
  for (const std::string& path : o.weights) {
    auto set = ReadShardedTensors(path, o.key);
    if (!set.ok()) return set.status();
    for (std::string& note : set->notes) summary.lines.push_back(text::StrCat(path, ": ", note));
    for (auto& [name, t] : set->tensors) set->sharded.emplace(name, std::move(t));
    for (auto& [name, t] : set->sharded)
      if (!given.emplace(name, std::move(t)).second)
        return absl::InvalidArgumentError(text::StrCat("--weights: '", name, "' is in more than one file"));
  }
  std::vector<std::string> missing, wrong;
  std::map<std::string, ir::TensorRef> taken;  // as they are
  std::vector<std::string> made_names;
  std::vector<WeightToMake> made;
  int casts = 0;
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
    const ir::ShardedTensor& from = it->second;
    // Another floating-point type is cast where it would fit otherwise.
    const ir::DType wanted = p.graph->inputs()[i]->type().dtype;
    const bool cast = exporters::FindCast(from.dtype, wanted) != nullptr;
    if (absl::Status fits = FitsWeight(p, i, cast ? wanted : from.dtype, from.sizes); !fits.ok()) {
      wrong.emplace_back(fits.message());
    } else if (cast || !from.whole()) {
      casts += cast;
      made_names.push_back(s.target);
      made.push_back({from, cast ? wanted : from.dtype, {}});
    } else {
      taken[s.target] = *from.whole();
    }
  }
  if (!wrong.empty()) return absl::InvalidArgumentError(text::StrCat("--weights: ", text::Join(wrong, "; ")));
  if (!missing.empty())
    return absl::InvalidArgumentError(
        text::StrCat("--weights: ", missing.size(), " names of the program are missing: ", text::Join(missing, ", ")));
  if (absl::Status s = MakeWeights(made, o.output.empty() ? "." : FolderOf(o.output)); !s.ok()) return s;
  for (size_t i = 0; i < made.size(); ++i) taken[made_names[i]] = std::move(made[i].made);
  if (casts > 0) summary.lines.push_back(text::StrCat(casts, " tensors of --weights are cast to the program's types"));
  for (auto& [name, t] : taken) p.weights.insert_or_assign(name, std::move(t));
  if (size_t unused = given.size() - used.size(); unused > 0) {
    std::vector<std::string> names;
    for (const auto& [name, t] : given)
      if (!used.contains(name)) names.push_back(name);
    summary.lines.push_back(text::StrCat(unused, " tensors of --weights are not used: ", text::Join(names, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace slipway::driver
