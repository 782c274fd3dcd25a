// --weights: files and folders whose tensors the weights of a program take.
#include "weights/join.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/convert.h"
#include "driver/convert/missing_weights.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/format.h"
#include "driver/edge/quantized_input.h"
#include "driver/edge/target.h"
#include "importers/json.h"
#include "io/mapped_file.h"
#include "weights/fused_experts.h"
#include "weights/names.h"
#include "weights/sources.h"
#include "weights/transformers_names.h"

namespace slipway::driver {
namespace {

bool SaysTied(const importers::json::Value& config) {
  const importers::json::Value* tied = config.is_object() ? config.Find("tie_word_embeddings") : nullptr;
  return tied && tied->is_bool() && *tied->AsBool();
}

// Whether the config.json beside a checkpoint says that the last layer has the values of the embedding: such
// checkpoints hold them once.
bool HasTiedEmbeddings(const std::string& path) {
  constexpr uint64_t kMost = uint64_t{1} << 24;
  const auto file = OpenConfigBeside(path);
  if (!file.ok() || (*file)->size() > kMost) return false;
  const absl::Span<const uint8_t> data = (*file)->data();
  const auto config = importers::json::Document::Parse({reinterpret_cast<const char*>(data.data()), data.size()});
  if (!config.ok() || !config->root().is_object()) return false;
  const importers::json::Value* text = config->root().Find("text_config");
  return SaysTied(config->root()) || (text && SaysTied(*text));
}

// Quantized weights of the source at `path` become plain ones. A program of quantized layers takes their parts as they
// are: names that it `wants`. What is not understood need not be, where the program takes what is there.
absl::Status TakePlain(const std::string& path, const std::set<std::string_view>& wants,
                       const weights::NameRules& names, ir::TensorSet* set, std::vector<std::string>* lines) {
  std::set<std::string, std::less<>> held;
  for (const auto& [name, t] : set->tensors) held.insert(*names.Apply(name));
  for (const auto& [name, t] : set->sharded) held.insert(*names.Apply(name));
  const auto as_they_are = [&](const std::string& name) { return wants.contains(*names.Apply(name)); };
  const absl::Status plain = DequantizeTensors(path, ir::DType::kUnknown, as_they_are, set, lines).status();
  const bool complete = std::all_of(wants.begin(), wants.end(), [&](std::string_view t) { return held.contains(t); });
  return plain.ok() || complete ? absl::OkStatus() : WithPlace(plain, path);
}

// Adds the names that transformers' model class, which the source at `path` states, gives tensors, where they are
// others and the values the same: programs that transformers 5 exported have those.
void AddModelNames(const std::string& path, const weights::GivenTensors& given,
                   std::map<std::string, std::string>* names) {
  const std::string config = ConfigBeside({path});
  const auto model = weights::TransformersNames::For(config);
  if (!model.ok() || !*model) return;
  for (const auto& [name, t] : given)
    if (weights::TransformersNames::Loaded loaded = (*model)->Load(name); !loaded.converted && loaded.name != name)
      names->emplace(name, std::move(loaded.name));
}

// The sources of the program's weights: by the names that tensors have or, where more are found so, by `model_names`,
// under which `given` has them then.
absl::StatusOr<weights::Sources> SourcesByEitherName(const ir::Program& p, const weights::SourceOptions& options,
                                                     const std::map<std::string, std::string>& model_names,
                                                     weights::GivenTensors* given, std::vector<std::string>* lines) {
  auto sources = weights::FindSources(p, *given, options);
  if (model_names.empty() || (sources.ok() && sources->missing.empty())) return sources;
  weights::GivenTensors renamed;
  for (const auto& [name, t] : *given) {
    const auto it = model_names.find(name);
    if (!renamed.emplace(it == model_names.end() ? name : it->second, t).second) return sources;
  }
  auto by_model = weights::FindSources(p, renamed, options);
  if (!by_model.ok() || (sources.ok() && sources->missing.size() <= by_model->missing.size())) return sources;
  *given = std::move(renamed);
  lines->push_back(text::StrCat("--weights: ", model_names.size(), " tensors go by the names of ",
                                weights::TransformersNames::Version()));
  return by_model;
}

// The next step where names are missing, of which some have no values in the program either.
std::string HowToComplete(const ir::Program& p, const std::vector<std::string>& missing) {
  if (missing.empty()) return "slipway diff compares both";
  if (const std::string made = HowToMakeBuffers(p, missing); !made.empty()) return made;
  const bool kept =
      std::all_of(missing.begin(), missing.end(), [&](const std::string& name) { return p.weights.contains(name); });
  return kept ? "slipway diff compares both; --allow-missing keeps the archive's values of those that are missing"
              : "slipway inspect --weights lists the names of a file; --rename changes those of --weights, which takes "
                "several files";
}

}  // namespace

absl::Status JoinWeightFiles(ir::Program& p, const ConvertOptions& o, ConvertSummary& summary) {
  weights::GivenTensors given;
  auto names = weights::NameRules::Parse({}, {}, o.rename);
  if (!names.ok()) return UsageError(std::string(names.status().message()));
  weights::SourceOptions options{.allow_missing = o.allow_missing};
  std::set<std::string_view> wanted;
  for (const ir::InputSpec& s : p.input_specs)
    if (s.is_weight()) wanted.insert(s.target);
  for (const std::string& path : o.weights) {
    auto set = OpenTensors(path, o.key);
    if (!set.ok()) return set.status();
    std::erase_if(set->unreadable, [&](const auto& t) { return !wanted.contains(*names->Apply(t.first)); });
    if (absl::Status s = CheckReadable(*set); !s.ok()) return WithPlace(s, path);
    for (std::string& note : set->notes) summary.lines.push_back(text::StrCat(path, ": ", note));
    RETURN_IF_ERROR(TakePlain(path, wanted, *names, &*set, &summary.lines));
    for (auto& [name, t] : set->tensors) set->sharded.emplace(name, std::move(t));
    for (auto& [name, t] : set->sharded)
      if (const std::string now = *names->Apply(name); !given.emplace(now, std::move(t)).second)
        return absl::InvalidArgumentError(text::StrCat("--weights: '", now, "' is there twice"));
    options.tied_embeddings |= HasTiedEmbeddings(path);
  }
  weights::FuseExperts(p, &given, &summary.lines);
  std::map<std::string, std::string> model_names;
  if (o.rename.empty())
    for (const std::string& path : o.weights) AddModelNames(path, given, &model_names);
  const auto refuse = [&](absl::Status s, std::string_view how) {
    return WithHelp(WithPlace(WithId(std::move(s), id::kMissingWeights), o.weights.size() == 1 ? o.weights[0] : ""),
                    how);
  };
  auto sources = SourcesByEitherName(p, options, model_names, &given, &summary.lines);
  if (!sources.ok())
    return refuse(absl::InvalidArgumentError(text::StrCat("--weights: ", sources.status().message())),
                  "--rename '^BEGINNING=>' chooses one, with what is before NAME there");
  // Beside the output, which may be a folder that is yet to be made.
  std::string_view output = o.output;
  while (output.size() > 1 && output.ends_with('/')) output.remove_suffix(1);
  const std::string folder = output.empty() ? "." : FolderOf(std::string(output));
  absl::Status s = weights::JoinWeights(p, given, *sources, folder, &summary.lines);
  if (!absl::IsInvalidArgument(s)) return s;
  if (const std::string rename = weights::RenameThatFits(p, given, sources->missing); !rename.empty())
    return refuse(std::move(s), text::StrCat("--rename '", rename, "' gives the missing names values"));
  return refuse(std::move(s), HowToComplete(p, sources->missing));
}

}  // namespace slipway::driver
