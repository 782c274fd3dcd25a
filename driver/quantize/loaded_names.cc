// A weight is found quantized where its parts, under the file's names, get to the model's module by the same rules as
// the weight itself would: the loader then asks the metadata for the model's name of it.
#include "driver/quantize/loaded_names.h"

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/target.h"
#include "quantizer/torchao_layout.h"

namespace slipway::driver {
namespace {

constexpr std::string_view kPart = "qdata";  // all weights have it; the rules do not tell parts apart

absl::Status NotKnown(std::string_view config_json) {
  return WithHelp(absl::UnimplementedError(text::StrCat(
                      "--names transformers: ", config_json.empty()
                                                    ? "there is no config.json beside the weights"
                                                    : text::StrCat("the model of config.json is none that ",
                                                                   weights::TransformersNames::Version(),
                                                                   " has, or has names that slipway cannot compute"))),
                  "--names file writes the names that the weights have");
}

}  // namespace

absl::StatusOr<LoadedNames> LoadedNames::Make(const ConvertOptions& o, std::string_view config_json,
                                              std::vector<std::string>* lines) {
  LoadedNames out;
  if (o.names == "file") return out;
  const bool asked = o.names == "transformers";
  if (!asked && (!IsFolder(o.output) || config_json.empty())) return out;
  if (config_json.empty()) return NotKnown(config_json);
  auto names = weights::TransformersNames::For(config_json);
  if (!names.ok()) return WithPlace(names.status(), "config.json");
  if (*names)
    out.names_ = **std::move(names);
  else if (asked)
    return NotKnown(config_json);
  else
    lines->push_back(text::StrCat("config.json names no model class of ", weights::TransformersNames::Version(),
                                  " whose names are known: weights have the file's"));
  return out;
}

std::string LoadedNames::Of(const std::string& name) const {
  if (!names_) return name;
  weights::TransformersNames::Loaded loaded = names_->Load(name);
  return loaded.converted ? name : std::move(loaded.name);
}

bool LoadedNames::IsOther(const std::string& name) const { return names_ && names_->IsOther(names_->Load(name).name); }

std::string LoadedNames::WhyNotLoaded(const std::string& name,
                                      const std::function<bool(const std::string&)>& has) const {
  if (!names_) return "";
  const weights::TransformersNames::Loaded loaded = names_->Load(name);
  if (loaded.converted) return "fused or split while transformers loads it";
  const weights::TransformersNames::Loaded part = names_->Load(quantizer::PartName(name, kPart));
  if (part.converted || part.name != quantizer::PartName(loaded.name, kPart) ||
      (loaded.name != name && has(loaded.name)))
    return "transformers does not find it quantized";
  return "";
}

absl::Status LoadedNames::Check(const std::vector<std::string>& names,
                                const std::function<bool(const std::string&)>& has) const {
  std::vector<std::string> wrong;
  std::string why;
  for (const std::string& name : names)
    if (const std::string reason = WhyNotLoaded(name, has); !reason.empty()) wrong.push_back(name), why = reason;
  if (wrong.empty()) return absl::OkStatus();
  return WithHelp(
      absl::UnimplementedError(text::StrCat("a folder with '", wrong[0], "'",
                                            wrong.size() > 1 ? text::StrCat(" and ", wrong.size() - 1, " more") : "",
                                            " quantized would not load as ", names_->model_class(), " of ",
                                            weights::TransformersNames::Version(), ": ", why)),
      "leave them out of --include and of the configuration; --names file quantizes them for other programs");
}

}  // namespace slipway::driver
