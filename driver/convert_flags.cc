// See convert_flags.h.
#include "driver/convert_flags.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace slipway::driver {
namespace {

template <bool ConvertOptions::*field>
bool Switch(ConvertOptions& o, std::string_view value) {
  if (value != "true" && value != "false") return false;
  o.*field = value == "true";
  return true;
}

template <int ConvertOptions::*field>
bool Number(ConvertOptions& o, std::string_view value) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < 0) return false;
  o.*field = number;
  return true;
}

template <std::string ConvertOptions::*field>
bool Text(ConvertOptions& o, std::string_view value) {
  o.*field = value;
  return true;
}

template <std::string ConvertOptions::*field, const auto& words>
bool Word(ConvertOptions& o, std::string_view value) {
  if (std::find(std::begin(words), std::end(words), value) == std::end(words)) return false;
  o.*field = value;
  return true;
}

template <std::vector<std::string> ConvertOptions::*field>
bool Several(ConvertOptions& o, std::string_view value) {
  (o.*field).emplace_back(value);
  return true;
}

template <std::vector<std::string> ConvertOptions::*field>
bool List(ConvertOptions& o, std::string_view value) {
  for (std::string_view part : text::Split(value, ',')) (o.*field).emplace_back(part);
  return true;
}

bool State(ConvertOptions& o, std::string_view value) {
  if (value != "drop" && value != "io") return false;
  o.state_io = value == "io";
  return true;
}

bool Metadata(ConvertOptions& o, std::string_view value) {
  const size_t eq = value.find('=');
  if (eq == value.npos || eq == 0) return false;
  o.metadata.emplace_back(value.substr(0, eq), value.substr(eq + 1));
  return true;
}

constexpr std::string_view kWhen[] = {"auto", "always", "never"};
constexpr std::string_view kFloats[] = {"bf16", "f16", "f32"};
constexpr std::string_view kTorches[] = {"2.9", "2.6"};
constexpr char kTrueFalse[] = "true or false";
constexpr char kAny[] = "any text";

using O = ConvertOptions;
constexpr ConvertFlag kFlags[] = {
    {"allow-missing", Switch<&O::allow_missing>, kTrueFalse},
    {"check-crc", Switch<&O::check_crc>, kTrueFalse},
    {"custom-op", Several<&O::custom_ops>, kAny},
    {"dry-run", Switch<&O::dry_run>, kTrueFalse},
    {"dtype", Word<&O::dtype, kFloats>, "bf16, f16 or f32"},
    {"exclude", Several<&O::exclude>, kAny},
    {"external-data", Word<&O::external_data, kWhen>, "auto, always or never"},
    {"functions", Switch<&O::functions>, kTrueFalse},
    {"include", Several<&O::include>, kAny},
    {"input-names", List<&O::input_names>, kAny},
    {"key", Text<&O::key>, kAny},
    {"max-shard-size", Text<&O::max_shard_size>, kAny},
    {"metadata", Metadata, "KEY=VALUE"},
    {"no-weights", Switch<&O::no_weights>, kTrueFalse},
    {"opset", Number<&O::opset>, "a number"},
    {"output-names", List<&O::output_names>, kAny},
    {"plugin", Several<&O::plugins>, kAny},
    {"rename", Several<&O::rename>, kAny},
    {"shards", Number<&O::shards>, "a number"},
    {"state", State, "drop or io"},
    {"strict-types", Switch<&O::strict_types>, kTrueFalse},
    {"to", Text<&O::to>, kAny},
    {"torch", Word<&O::torch, kTorches>, "2.9 or 2.6"},
    {"tp", Number<&O::tp>, "a number"},
    {"tp-rules", Text<&O::tp_rules>, kAny},
    {"verify-each", Switch<&O::verify_each>, kTrueFalse},
    {"weights", Several<&O::weights>, kAny},
    {"with-program", Switch<&O::with_program>, kTrueFalse},
};

}  // namespace

absl::Span<const ConvertFlag> ConvertFlags() { return kFlags; }

absl::Status SetConvertFlag(ConvertOptions& o, std::string_view name, std::string_view value) {
  for (const ConvertFlag& flag : kFlags) {
    if (flag.name != name) continue;
    if (flag.set(o, value)) return absl::OkStatus();
    return absl::InvalidArgumentError(text::StrCat(name, " '", value, "': ", flag.values));
  }
  return absl::InvalidArgumentError(text::StrCat("no flag of convert is named '", name, "'"));
}

}  // namespace slipway::driver
