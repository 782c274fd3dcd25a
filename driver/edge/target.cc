// The table of targets. A new one is a row here, its bit and flags in convert_options.h, and a file with its functions.
#include "driver/edge/target.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/nearest.h"
#include "base/text.h"

namespace slipway::driver {

absl::StatusOr<Legality> OnnxLegality(const ConvertOptions& o);    // convert_onnx.cc
absl::StatusOr<Legality> NativeLegality(const ConvertOptions& o);  // convert_native.cc
absl::Status WriteOnnx(Conversion& c);
absl::Status WriteLibrary(Conversion& c);
absl::Status WritePackage(Conversion& c);
absl::Status WritePt2(Conversion& c);      // convert_pt2.cc
absl::Status WriteTensors(Conversion& c);  // convert_weights.cc
absl::Status WriteCheckpoint(Conversion& c);

namespace {

constexpr const passes::Pipeline* kOnnxPasses[] = {
    &passes::kPreparation,    &passes::kAlgebra,    &passes::kNormAlgebra,  &passes::kLinearAlgebra,
    &passes::kIntegerTensors, &passes::kRelaxation, &passes::kLegalization, &passes::kOutlining};
// The planner legalizes as it plans. Callers of packages set weights by name, also those of convolutions and their
// norms.
constexpr const passes::Pipeline* kLibraryPasses[] = {&passes::kPreparation, &passes::kAlgebra, &passes::kNormAlgebra,
                                                      &passes::kSumAlgebra, &passes::kActivationIntegers};
constexpr const passes::Pipeline* kPackagePasses[] = {&passes::kPreparation, &passes::kAlgebra, &passes::kSumAlgebra,
                                                      &passes::kActivationIntegers};

constexpr Target kTargets[] = {
    {"onnx", kOnnx, ".onnx", "ONNX", Target::kOneProgram, kOnnxPasses, OnnxLegality, {}, WriteOnnx},
    {"pt2", kPt2, ".pt2", "a PT2 archive", Target::kSeveralPrograms, {}, nullptr, {}, WritePt2},
    {"so", kSo, ".so", "a library", Target::kOneProgram, kLibraryPasses, NativeLegality, passes::kFoldForSpeed,
     WriteLibrary},
    {"native-pt2", kNativePt2, "", "a library", Target::kOneProgram, kPackagePasses, NativeLegality,
     passes::kFoldForSpeed, WritePackage},
    {"safetensors", kSafetensors, ".safetensors", "safetensors", Target::kTensors, {}, nullptr, {}, WriteTensors},
    {"torch", kTorch, ".pt|.bin|.pth", "a torch.save checkpoint", Target::kTensors, {}, nullptr, {}, WriteCheckpoint},
};

std::vector<std::string_view> SuffixesOf(const Target& t) {
  return t.suffix.empty() ? std::vector<std::string_view>() : text::Split(t.suffix, '|');
}

}  // namespace

absl::Span<const Target> Targets() { return kTargets; }

const Target* FindTarget(std::string_view name) {
  const auto it =
      std::find_if(std::begin(kTargets), std::end(kTargets), [&](const Target& t) { return t.name == name; });
  return it == std::end(kTargets) ? nullptr : it;
}

bool IsFolder(const std::string& output) {
  struct stat info;
  return output.ends_with('/') || (stat(output.c_str(), &info) == 0 && S_ISDIR(info.st_mode));
}

std::string OutputOf(const ConvertOptions& o) {
  struct stat info;
  const size_t name = o.output.rfind('/') + 1, dot = o.output.rfind('.');
  std::vector<std::string_view> suffixes;
  for (const Target& t : kTargets)
    for (std::string_view suffix : SuffixesOf(t)) suffixes.push_back(suffix);
  const bool folder =
      o.to.empty() && !o.output.empty() && o.output != "-" && name < o.output.size() && !o.inputs.empty() &&
      std::all_of(o.inputs.begin(), o.inputs.end(), [](const std::string& input) { return IsFolder(input); }) &&
      (dot == o.output.npos || dot < name || text::Nearest(std::string_view(o.output).substr(dot), suffixes).empty()) &&
      stat(o.output.c_str(), &info) != 0;
  return folder ? o.output + "/" : o.output;
}

absl::StatusOr<const Target*> TargetOf(const ConvertOptions& o) {
  if (o.output == "-")
    return UsageError("standard output is not written to: outputs appear whole or not at all",
                      "-o ./- names a file of that name");
  if (const Target* named = FindTarget(o.to)) return named;
  const auto it = std::find_if(std::begin(kTargets), std::end(kTargets), [&](const Target& t) {
    const auto suffixes = SuffixesOf(t);
    return std::any_of(suffixes.begin(), suffixes.end(),
                       [&](std::string_view suffix) { return o.output.ends_with(suffix); });
  });
  const bool suffixed = o.to.empty() && it != std::end(kTargets);
  if (suffixed && IsFolder(o.output))
    return UsageError(
        text::StrCat("'", o.output, "' is a folder, and its suffix that of ", it->title),
        "for a folder of shards end the name in /, or give --to safetensors; else name what is not a folder");
  if (suffixed) return it;
  if (o.to.empty() && IsFolder(o.output)) return FindTarget("safetensors");
  std::vector<std::string_view> suffixes;
  for (const Target& t : kTargets)
    for (std::string_view suffix : SuffixesOf(t)) suffixes.push_back(suffix);
  const size_t dot = o.output.rfind('.');
  const std::string_view meant =
      dot == o.output.npos ? "" : text::Nearest(std::string_view(o.output).substr(dot), suffixes);
  return UsageError(
      text::StrCat("the output format is not known from '", o.output, "'",
                   meant.empty() ? "" : text::StrCat("; did you mean '", meant, "'?")),
      text::StrCat("end the name in ", text::Join(suffixes, ", "), ", or in / for a folder of shards, or give --to"),
      id::kUnknownFormat);
}

std::string FlagTargets(const ConvertFlag& flag) {
  std::vector<std::string_view> names;
  for (const Target& t : kTargets)
    if (t.bit & flag.targets) names.push_back(t.name);
  return names.size() == std::size(kTargets) ? "" : text::Join(names, ", ");
}

absl::Status CheckFlags(const ConvertOptions& o, const Target& target) {
  std::vector<std::string> refused;
  for (const ConvertFlag& flag : kConvertFlags)
    if (o.given.contains(flag.name) && !(flag.targets & target.bit))
      refused.push_back(text::StrCat("--", flag.name, " (a flag of ", FlagTargets(flag), ")"));
  if (refused.empty()) return absl::OkStatus();
  return UsageError(text::StrCat("--to ", target.name, " does not take ", text::Join(refused, ", ")));
}

}  // namespace slipway::driver
