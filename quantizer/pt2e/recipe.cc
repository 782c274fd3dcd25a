// The names of recipes and of their keys are two tables; reading and printing walk them.
#include "quantizer/pt2e/recipe.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/utf8.h"

namespace slipway::quantizer::pt2e {
namespace {

using Quantizer = Recipe::Quantizer;

// `key` or `key=value`, which sets what differs from the default.
struct Setting {
  std::string_view key, value;  // no value: a flag
  bool x86, xnnpack;            // which of the two take it
  void (*set)(Recipe*);
  bool (*is_set)(const Recipe&);
};

template <bool Recipe::*kMember, bool kValue>
constexpr Setting FlagSetting(std::string_view key, bool x86, bool xnnpack) {
  return {key,
          "",
          x86,
          xnnpack,
          [](Recipe* r) { r->*kMember = kValue; },
          [](const Recipe& r) { return (r.*kMember) == kValue; }};
}
template <Recipe::Observer kObserver>
constexpr Setting ObserverSetting(std::string_view value) {
  return {"observer",
          value,
          true,
          true,
          [](Recipe* r) { r->observer = kObserver; },
          [](const Recipe& r) { return r.observer == kObserver; }};
}
template <bool kValue>
constexpr Setting MatchSetting(std::string_view value) {
  return {"match",
          value,
          true,
          true,
          [](Recipe* r) { r->by_operator = kValue; },
          [](const Recipe& r) { return r.by_operator == kValue; }};
}

constexpr Setting kSettings[] = {
    FlagSetting<&Recipe::per_channel, false>("per-tensor", true, false),
    FlagSetting<&Recipe::per_channel, true>("per-channel", false, true),
    FlagSetting<&Recipe::reduce_range, true>("reduce-range", true, false),
    FlagSetting<&Recipe::dynamic, true>("dynamic", true, false),
    ObserverSetting<Recipe::Observer::kHistogram>("histogram"),
    ObserverSetting<Recipe::Observer::kMinMax>("min-max"),
    ObserverSetting<Recipe::Observer::kMovingAverage>("moving-average"),
    MatchSetting<false>("modules"),
    MatchSetting<true>("operators"),
};

struct RecipeName {
  std::string_view name, class_name;
  Recipe recipe;
  bool Takes(const Setting& s) const { return recipe.quantizer == Quantizer::kX86 ? s.x86 : s.xnnpack; }
};
constexpr RecipeName kRecipeNames[] = {
    {"pt2e-x86", "X86InductorQuantizer", {}},
    {"pt2e-xnnpack", "XNNPACKQuantizer", {.quantizer = Quantizer::kXnnpack, .per_channel = false}},
};

const RecipeName& RecipeNameOf(const Recipe& r) { return kRecipeNames[r.quantizer == Quantizer::kX86 ? 0 : 1]; }

// Names of people's have underscores at times.
std::string WithHyphens(std::string_view s) {
  std::string out(text::Strip(s));
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

void ReadSetting(std::string_view item, const RecipeName& name, Recipe* r, std::vector<std::string>* wrong) {
  const size_t equals = item.find('=');
  const std::string key(text::Strip(item.substr(0, equals)));
  const std::string value(equals == std::string_view::npos ? "" : text::Strip(item.substr(equals + 1)));
  std::vector<std::string_view> keys, values;
  for (const Setting& s : kSettings) {
    if (!name.Takes(s)) continue;
    if (s.key == key && s.value == value && (!value.empty() || equals == std::string_view::npos)) return s.set(r);
    keys.push_back(s.key);
    if (s.key == key) values.push_back(s.value);
  }
  if (values.empty())
    wrong->push_back(text::StrCat(
        "unknown key '", text::Printable(key), "' of ", name.name,
        key == "dynamic" ? ": activations have scales of calibration data only" : text::Suggestion(key, keys)));
  else if (values[0].empty())
    wrong->push_back(text::StrCat("'", key, "' takes no value"));
  else
    wrong->push_back(text::StrCat("unknown value '", key, "=", text::Printable(value), "' of ", name.name, ": ",
                                  text::Join(values, ", ")));
}

}  // namespace

Integers Recipe::activations() const {
  if (quantizer == Quantizer::kXnnpack) return {ir::DType::kInt8, -128, 127};
  return {ir::DType::kUInt8, 0, reduce_range ? 127 : 255};
}

Integers Recipe::weights() const { return {ir::DType::kInt8, quantizer == Quantizer::kXnnpack ? -127 : -128, 127}; }

bool IsRecipe(std::string_view name) { return WithHyphens(name).starts_with("pt2e"); }

absl::StatusOr<Recipe> ParseRecipe(std::string_view given) {
  const std::string s = WithHyphens(given);
  const size_t colon = s.find(':');
  const std::string name(text::Strip(std::string_view(s).substr(0, colon)));
  std::vector<std::string_view> names;
  for (const RecipeName& n : kRecipeNames) {
    names.push_back(n.name);
    if (n.name != name) continue;
    Recipe r = n.recipe;
    std::vector<std::string> wrong;
    if (colon != std::string::npos)
      for (std::string_view item : text::Split(std::string_view(s).substr(colon + 1), ','))
        ReadSetting(text::Strip(item), n, &r, &wrong);
    if (r.dynamic && r.observer != n.recipe.observer)
      wrong.emplace_back("'dynamic' observes no activations, and takes no observer");
    if (!wrong.empty()) return absl::InvalidArgumentError(text::Join(wrong, "; "));
    return r;
  }
  return absl::InvalidArgumentError(
      text::StrCat("unknown configuration '", text::Printable(name), "'", text::Suggestion(name, names)));
}

std::string ShortName(const Recipe& r) {
  const RecipeName& name = RecipeNameOf(r);
  std::string out(name.name);
  for (const Setting& s : kSettings)
    if (name.Takes(s) && s.is_set(r) && !s.is_set(name.recipe))
      text::StrAppend(&out, out.size() == name.name.size() ? ":" : ",", s.key, s.value.empty() ? "" : "=", s.value);
  return out;
}

std::vector<ShortNameRow> RecipeNames() {
  std::vector<ShortNameRow> rows;
  for (const RecipeName& n : kRecipeNames) {
    std::vector<std::string> keys;
    std::string_view last;
    for (const Setting& s : kSettings) {
      if (!n.Takes(s)) continue;
      if (s.value.empty())
        keys.emplace_back(s.key);
      else if (s.key == last)
        text::StrAppend(&keys.back(), "|", s.value);
      else
        keys.push_back(text::StrCat(s.key, "=", s.value));
      last = s.key;
    }
    rows.push_back({n.name, text::Join(keys, ", "), n.class_name});
  }
  return rows;
}

}  // namespace slipway::quantizer::pt2e
