// Configurations as people type them: NAME[:key=value,...], and METHOD(NAME[:...])[:key=value,...] around one. Names
// are read, printed and documented from one table of names and one of keys.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/nearest.h"
#include "base/other_names.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "quantizer/config.h"

namespace slipway::quantizer {
namespace {

using SchemeKind = Config::Scheme;
using Method = Config::Method;

constexpr size_t kLongest = 1000;  // of a text, in bytes
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// What may be said after a name. Values are numbers: of a choice the place in `choices`, of a flag 1.
struct Key {
  enum Kind : uint8_t { kFlag, kChoice, kInt, kReal };
  std::string_view name;
  Kind kind;
  absl::Span<const std::string_view> choices;
  char about;  // keys about the same thing exclude each other
  void (*set)(Config*, double);
  double (*get)(const Config&);  // kNone where another key says it; null: an alias, never printed
};

constexpr Granularity Kind(double n) { return {n == 0 ? Granularity::kRow : Granularity::kTensor, 0}; }
double KindOf(const Granularity& g) {
  return g.kind == Granularity::kGroup ? kNone : g.kind == Granularity::kRow ? 0 : 1;
}
double Or(std::optional<double> x) { return x.value_or(kNone); }

constexpr std::string_view kRowOnly[] = {"row"};
constexpr std::string_view kRowTensor[] = {"row", "tensor"};
constexpr std::string_view kMappings[] = {"symmetric", "no-clipping", "asymmetric"};  // by Mapping
constexpr std::string_view kActMappings[] = {"symmetric", "asymmetric"};
constexpr std::string_view kScaleTypes[] = {"f32", "bf16", "f16"};
constexpr ir::DType kScaleDTypes[] = {ir::DType::kFloat32, ir::DType::kBFloat16, ir::DType::kFloat16};
constexpr std::string_view kElements[] = {"e4m3", "e5m2"};
constexpr std::string_view kScalings[] = {"floor", "rceil", "ceil", "even"};  // by MxScaling

template <bool Config::*kMember, bool kSet = true>
constexpr Key FlagKey(std::string_view name) {
  return {name,
          Key::kFlag,
          {},
          name[0],
          [](Config* c, double) { c->*kMember = kSet; },
          [](const Config& c) -> double { return c.*kMember == kSet; }};
}

void SetGranularity(Config* c, double n) { c->granularity = Kind(n); }
void SetBoth(Config* c, double n) { c->granularity = c->act_granularity = Kind(n); }
void SetActivations(Config* c, double n) { c->act_granularity = Kind(n); }
void SetGroup(Config* c, double n) { c->granularity = {Granularity::kGroup, static_cast<int64_t>(n)}; }
double GetGroup(const Config& c) {
  return c.granularity.kind == Granularity::kGroup ? static_cast<double>(c.granularity.group) : kNone;
}
double GetGranularity(const Config& c) { return KindOf(c.granularity); }
double GetActivations(const Config& c) {
  return c.act_granularity == c.granularity ? kNone : KindOf(c.act_granularity);
}
template <Mapping kMapping>
void SetMapping(Config* c, double) {
  c->mapping = kMapping;
}
void SetActMapping(Config* c, double n) { c->act_mapping = n == 0 ? Mapping::kSymmetric : Mapping::kAsymmetric; }

// Each key is said once; rows of names choose from these.
constexpr Key kGroup{"group", Key::kInt, {}, 'g', SetGroup, GetGroup};
constexpr Key kPer{"per", Key::kChoice, kRowTensor, 'g', SetGranularity, GetGranularity};
constexpr Key kPerRow{"per", Key::kChoice, kRowOnly, 'g', SetGranularity, GetGranularity};
constexpr Key kPerBoth{"per", Key::kChoice, kRowTensor, 'g', SetBoth, GetGranularity};
constexpr Key kActPer{"act-per", Key::kChoice, kRowTensor, 'p', SetActivations, GetActivations};
constexpr Key kBits{"bits",
                    Key::kInt,
                    {},
                    'b',
                    [](Config* c, double n) { c->bits = static_cast<int>(n); },
                    [](const Config& c) -> double { return c.bits; }};
constexpr Key kMapping{"mapping",
                       Key::kChoice,
                       kMappings,
                       'm',
                       [](Config* c, double n) { c->mapping = Mapping(int(n)); },
                       [](const Config& c) -> double { return static_cast<int>(c.mapping); }};
constexpr Key kSym{"sym", Key::kFlag, {}, 'm', SetMapping<Mapping::kSymmetric>, nullptr};
constexpr Key kAsym{"asym", Key::kFlag, {}, 'm', SetMapping<Mapping::kAsymmetric>, nullptr};
constexpr Key kAct{"act",         Key::kChoice,
                   kActMappings,  'a',
                   SetActMapping, [](const Config& c) -> double { return c.act_mapping == Mapping::kAsymmetric; }};
constexpr Key kActSym{"sym", Key::kFlag, {}, 'a', [](Config* c, double) { SetActMapping(c, 0); }, nullptr};
constexpr Key kActAsym{"asym", Key::kFlag, {}, 'a', [](Config* c, double) { SetActMapping(c, 1); }, nullptr};
constexpr Key kReduceRange = FlagKey<&Config::reduce_range>("reduce-range");
constexpr Key kHqq = FlagKey<&Config::hqq>("hqq");
constexpr Key kCpu = FlagKey<&Config::int4_cpu>("cpu");
constexpr Key kOneLevel = FlagKey<&Config::per_tensor_scale, false>("one-level");
constexpr Key kScale{"scale",
                     Key::kChoice,
                     kScaleTypes,
                     's',
                     [](Config* c, double n) { c->scale_dtype = kScaleDTypes[static_cast<size_t>(n)]; },
                     [](const Config& c) -> double {
                       for (size_t i = 0; i < std::size(kScaleDTypes); ++i)
                         if (c.scale_dtype == kScaleDTypes[i]) return static_cast<double>(i);
                       return kNone;
                     }};
constexpr Key kElement{
    "element",
    Key::kChoice,
    kElements,
    'e',
    [](Config* c, double n) { c->element = n == 0 ? ir::DType::kFloat8E4M3FN : ir::DType::kFloat8E5M2; },
    [](const Config& c) -> double { return c.element == ir::DType::kFloat8E5M2; }};
constexpr Key kScaling{"scaling",
                       Key::kChoice,
                       kScalings,
                       's',
                       [](Config* c, double n) { c->mx_scaling = MxScaling(int(n)); },
                       [](const Config& c) -> double { return static_cast<int>(c.mx_scaling); }};
constexpr Key kMxBlock{"block",
                       Key::kInt,
                       {},
                       'b',
                       [](Config* c, double n) { c->mx_block = static_cast<int64_t>(n); },
                       [](const Config& c) { return static_cast<double>(c.mx_block); }};
constexpr Key kLowerBound{"lb",
                          Key::kReal,
                          {},
                          'l',
                          [](Config* c, double x) { c->activation_value_lb = x; },
                          [](const Config& c) { return Or(c.activation_value_lb); }};
constexpr Key kUpperBound{"ub",
                          Key::kReal,
                          {},
                          'u',
                          [](Config* c, double x) { c->activation_value_ub = x; },
                          [](const Config& c) { return Or(c.activation_value_ub); }};
constexpr Key kSearch{"search",
                      Key::kInt,
                      {},
                      's',
                      [](Config* c, double n) { c->awq_search_space = static_cast<int>(n); },
                      [](const Config& c) -> double { return c.awq_search_space; }};
constexpr Key kAlpha{"alpha",
                     Key::kReal,
                     {},
                     'a',
                     [](Config* c, double x) { c->smooth_alpha = x; },
                     [](const Config& c) { return c.smooth_alpha; }};
constexpr Key kPercdamp{"percdamp",
                        Key::kReal,
                        {},
                        'p',
                        [](Config* c, double x) { c->gptq_percdamp = x; },
                        [](const Config& c) { return c.gptq_percdamp; }};
constexpr Key kGptqBlock{"block",
                         Key::kInt,
                         {},
                         'b',
                         [](Config* c, double n) { c->gptq_block = static_cast<int>(n); },
                         [](const Config& c) -> double { return c.gptq_block; }};

// In the order in which keys apply and are printed.
constexpr Key kInt8WeightOnlyKeys[] = {kPer, kGroup};
constexpr Key kInt8Keys[] = {kPerBoth, kActPer, kAct, kActSym, kActAsym, kReduceRange};
constexpr Key kInt4Keys[] = {kGroup, kHqq, kCpu};
constexpr Key kInt8DynamicIntxKeys[] = {kBits, kPerRow, kGroup, kMapping, kSym, kAsym, kAct, kScale, kHqq};
constexpr Key kIntxKeys[] = {kBits, kPerRow, kGroup, kMapping, kSym, kAsym, kScale, kHqq};
constexpr Key kFloat8WeightOnlyKeys[] = {kElement, kPer, kGroup};
constexpr Key kFloat8DynamicKeys[] = {kElement, kPerBoth, kLowerBound, kUpperBound};
constexpr Key kMxfp8Keys[] = {kElement, kScaling, kMxBlock};
constexpr Key kMxfp4Keys[] = {kScaling, kMxBlock};
constexpr Key kNvfp4Keys[] = {kOneLevel};

// A name is a scheme; where the short form begins elsewhere than torchao's class, `begin` says so.
struct NamedScheme {
  std::string_view name;
  SchemeKind scheme;
  void (*begin)(Config*);
  absl::Span<const Key> keys;
};
constexpr NamedScheme kShortNames[] = {
    {"int8-weight-only", SchemeKind::kInt8WeightOnly, nullptr, kInt8WeightOnlyKeys},
    {"int8-dynamic", SchemeKind::kInt8Dynamic, nullptr, kInt8Keys},
    {"int8-static", SchemeKind::kInt8Static, nullptr, kInt8Keys},
    {"int4-weight-only", SchemeKind::kInt4WeightOnly, nullptr, kInt4Keys},
    {"8da4w", SchemeKind::kInt8DynamicIntx, [](Config* c) { c->bits = 4; }, kInt8DynamicIntxKeys},
    {"intx", SchemeKind::kIntxWeightOnly, nullptr, kIntxKeys},
    {"float8-weight-only", SchemeKind::kFloat8WeightOnly, nullptr, kFloat8WeightOnlyKeys},
    {"float8-dynamic", SchemeKind::kFloat8Dynamic, nullptr, kFloat8DynamicKeys},
    {"mxfp8", SchemeKind::kMx, nullptr, kMxfp8Keys},
    {"mxfp4", SchemeKind::kMx, [](Config* c) { c->element = ir::DType::kFloat4E2M1; }, kMxfp4Keys},
    {"nvfp4", SchemeKind::kNvfp4WeightOnly, nullptr, kNvfp4Keys},
    {"nvfp4-dynamic", SchemeKind::kNvfp4Dynamic, nullptr, kNvfp4Keys},
};

constexpr Key kAwqKeys[] = {kSearch};
constexpr Key kSmoothQuantKeys[] = {kAlpha};
constexpr Key kGptqKeys[] = {kPercdamp, kGptqBlock};
struct MethodName {
  std::string_view name;
  Method method;
  absl::Span<const Key> keys;
};
constexpr MethodName kMethods[] = {
    {"awq", Method::kAwq, kAwqKeys},
    {"smoothquant", Method::kSmoothQuant, kSmoothQuantKeys},
    {"gptq", Method::kGptq, kGptqKeys},
};

Config Begin(const NamedScheme& name) {
  Config c = DefaultConfig(name.scheme);
  if (name.begin != nullptr) name.begin(&c);
  return c;
}

// The row that a configuration is printed as: of two rows of one scheme the one whose elements have as many bits.
const NamedScheme& ShortNameOf(const Config& c) {
  const bool fp4 = c.element == ir::DType::kFloat4E2M1;
  for (const NamedScheme& n : kShortNames)
    if (n.scheme == c.scheme && (n.scheme != SchemeKind::kMx || (Begin(n).element == ir::DType::kFloat4E2M1) == fp4))
      return n;
  return kShortNames[0];  // the table has all
}

std::string Quoted(std::string_view s) { return text::StrCat("'", text::Printable(s), "'"); }

// The value as a number; false, with a problem noted, where the key has no such value.
bool ReadValue(const Key& key, bool given, std::string_view value, double* out, std::vector<std::string>* wrong) {
  const std::string shown = text::StrCat(key.name, "=", text::Printable(value));
  switch (key.kind) {
    case Key::kFlag:
      *out = 1;
      if (given) wrong->push_back(text::StrCat("'", key.name, "' takes no value"));
      return !given;
    case Key::kChoice:
      for (size_t i = 0; i < key.choices.size(); ++i)
        if (value == key.choices[i]) return *out = static_cast<double>(i), true;
      wrong->push_back(text::StrCat("unknown value '", shown, "'", text::Suggestion(value, key.choices)));
      return false;
    case Key::kInt: {
      int32_t n = 0;
      if (text::ParseNumber(value, &n) && n >= 1) return *out = n, true;
      wrong->push_back(text::StrCat("'", shown, "' needs a whole number of 1 or more"));
      return false;
    }
    case Key::kReal:
      if (text::ParseNumber(value, out) && std::isfinite(*out)) return true;
      wrong->push_back(text::StrCat("'", shown, "' needs a number"));
      return false;
  }
  return false;
}

// Applies "group=32,hqq" to `c`, in the order of `keys`.
void ReadKeys(std::string_view items, std::string_view owner, absl::Span<const Key> keys, Config* c,
              std::vector<std::string>* wrong) {
  std::vector<std::string_view> names;
  for (const Key& key : keys) names.push_back(key.name);
  std::vector<const Key*> said(keys.size());
  std::vector<double> values(keys.size());
  for (std::string_view item : text::Split(items, ',')) {
    item = text::Strip(item);
    const size_t equals = item.find('=');
    const std::string_view name = text::Strip(item.substr(0, equals));
    const bool given = equals != std::string_view::npos;
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      wrong->push_back(text::StrCat("unknown key ", Quoted(name), " of ", owner, text::Suggestion(name, names)));
      continue;
    }
    const size_t i = at - names.begin();
    for (const Key* other : said)
      if (other != nullptr && other->about == keys[i].about)
        wrong->push_back(other->name == name
                             ? text::StrCat("'", name, "' is given twice")
                             : text::StrCat("'", name, "' and '", other->name, "' are about the same thing"));
    said[i] = &keys[i];
    if (!ReadValue(keys[i], given, given ? text::Strip(item.substr(equals + 1)) : std::string_view(), &values[i],
                   wrong))
      said[i] = nullptr;
  }
  for (size_t i = 0; i < keys.size(); ++i)
    if (said[i] != nullptr) keys[i].set(c, values[i]);
}

// A value of the key as people write it.
std::string PrintValue(const Key& key, double value) {
  if (key.kind == Key::kChoice) return std::string(key.choices[static_cast<size_t>(value)]);
  if (key.kind == Key::kInt) return text::StrCat(static_cast<int64_t>(value));
  char number[32];
  return std::string(number, std::to_chars(number, number + sizeof number, value).ptr);
}

// ":group=32,hqq": the keys whose values differ from those of `base`.
std::string PrintKeys(absl::Span<const Key> keys, const Config& base, const Config& c) {
  std::string out;
  for (const Key& key : keys) {
    if (key.get == nullptr) continue;
    const double value = key.get(c), usual = key.get(base);
    if (std::isnan(value) || value == usual || (key.kind == Key::kFlag && value == 0)) continue;
    text::StrAppend(&out, out.empty() ? ":" : ",", key.name);
    if (key.kind != Key::kFlag) text::StrAppend(&out, "=", PrintValue(key, value));
  }
  return out;
}

// NAME[:keys] without a method.
Config ReadScheme(std::string_view s, std::vector<std::string>* wrong) {
  const size_t colon = s.find(':');
  const std::string_view name = text::Strip(s.substr(0, colon));
  std::vector<std::string_view> names;
  for (const NamedScheme& n : kShortNames) {
    names.push_back(n.name);
    if (n.name != name) continue;
    Config c = Begin(n);
    if (colon != std::string_view::npos) ReadKeys(s.substr(colon + 1), name, n.keys, &c, wrong);
    return c;
  }
  for (const MethodName& m : kMethods) {
    if (m.name != name) continue;
    wrong->push_back(text::StrCat(name, " goes around a configuration: ", name, "(int4-weight-only)"));
    return {};
  }
  std::string meant;
  for (const NamedScheme& n : kShortNames)
    if (meant.empty() && ClassName(Begin(n)) == name) meant = n.name;
  std::vector<std::string_view> all = names;
  for (const MethodName& m : kMethods) all.push_back(m.name);
  if (meant.empty()) meant = text::Meant(text::NameKind::kConfiguration, name, all);
  wrong->push_back(
      text::StrCat("unknown configuration ", Quoted(name),
                   meant.empty() ? text::Suggestion(name, names) : text::StrCat("; did you mean '", meant, "'?")));
  return {};
}

// METHOD(NAME[:keys])[:keys].
Config ReadMethod(std::string_view s, size_t open, std::vector<std::string>* wrong) {
  const size_t close = s.rfind(')');
  const std::string_view name = text::Strip(s.substr(0, open));
  std::vector<std::string_view> names;
  const MethodName* method = nullptr;
  for (const MethodName& m : kMethods) {
    names.push_back(m.name);
    if (m.name == name) method = &m;
  }
  if (method == nullptr) wrong->push_back(text::StrCat("unknown method ", Quoted(name), text::Suggestion(name, names)));
  if (close == std::string_view::npos || close < open) {
    wrong->push_back("a ')' is missing");
    return {};
  }
  Config c = ReadScheme(text::Strip(s.substr(open + 1, close - open - 1)), wrong);
  std::string_view rest = text::Strip(s.substr(close + 1));
  if (method == nullptr) return c;
  c.method = method->method;
  if (text::ConsumePrefix(&rest, ":"))
    ReadKeys(rest, name, method->keys, &c, wrong);
  else if (!rest.empty())
    wrong->push_back(text::StrCat("after ')' comes ':', not ", Quoted(rest)));
  return c;
}

}  // namespace

absl::StatusOr<Config> ParseShortName(std::string_view given) {
  if (given.size() > kLongest) return absl::InvalidArgumentError("a configuration's name has at most 1000 bytes");
  std::string s(text::Strip(given));
  std::replace(s.begin(), s.end(), '_', '-');
  std::vector<std::string> wrong;
  const size_t open = s.find('(');
  const Config c = open == std::string::npos ? ReadScheme(s, &wrong) : ReadMethod(s, open, &wrong);
  if (!wrong.empty()) return absl::InvalidArgumentError(text::Join(wrong, "; "));
  RETURN_IF_ERROR(CheckConfig(c));
  return c;
}

absl::StatusOr<Config> ParseEmbeddingName(std::string_view text) {
  std::string name(text::Strip(text));
  constexpr std::string_view kInt = "int";
  const size_t bits = kInt.size();
  if (name.starts_with(kInt) && name.size() > bits && name[bits] >= '1' && name[bits] <= '8' &&
      (name.size() == bits + 1 || name[bits + 1] == ':'))
    name = text::StrCat("intx:bits=", name.substr(bits, 1), name.size() > bits + 1 ? "," : "",
                        name.size() > bits + 1 ? name.substr(bits + 2) : "");
  ASSIGN_OR_RETURN(Config c, ParseShortName(name));
  if (!TakesEmbeddings(c))
    return absl::InvalidArgumentError(
        text::StrCat(ShortName(c), ": embeddings take int8-weight-only, float8-weight-only, intx and int1 … int8"));
  return c;
}

std::string ShortName(const Config& c) {
  const NamedScheme& name = ShortNameOf(c);
  const std::string scheme = text::StrCat(name.name, PrintKeys(name.keys, Begin(name), c));
  for (const MethodName& m : kMethods)
    if (m.method == c.method) return text::StrCat(m.name, "(", scheme, ")", PrintKeys(m.keys, Config(), c));
  return scheme;
}

std::vector<ShortNameRow> ShortNames() {
  const auto describe = [](absl::Span<const Key> keys, const Config& base) {
    std::vector<std::string> out;
    for (const Key& key : keys) {
      std::string s(key.name);
      if (key.kind == Key::kChoice)
        text::StrAppend(&s, "=", text::Join(key.choices, "|"));
      else if (key.kind != Key::kFlag)
        s += key.kind == Key::kInt ? "=N" : "=X";
      if (key.kind != Key::kFlag && !std::isnan(key.get(base)))
        text::StrAppend(&s, " (", PrintValue(key, key.get(base)), ")");
      out.push_back(std::move(s));
    }
    return text::Join(out, ", ");
  };
  std::vector<ShortNameRow> rows;
  for (const NamedScheme& n : kShortNames) rows.push_back({n.name, describe(n.keys, Begin(n)), ClassName(Begin(n))});
  for (const MethodName& m : kMethods) {
    Config c;
    c.method = m.method;
    rows.push_back({m.name, describe(m.keys, c), ClassName(c)});
  }
  return rows;
}

}  // namespace slipway::quantizer
