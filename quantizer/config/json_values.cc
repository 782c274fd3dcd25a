// Values in torchao's JSON: tagged objects, members of enumerations, dtypes, granularities.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "importers/json.h"
#include "quantizer/config.h"
#include "quantizer/config/json_internal.h"

namespace slipway::quantizer {

std::string ShownName(std::string_view name) {
  constexpr size_t kLongest = 100;
  return text::StrCat("'", text::Printable(name.substr(0, kLongest)), name.size() > kLongest ? "…" : "", "'");
}

bool IsTagged(const Value& v) { return v.Find("_type") != nullptr && v.Find("_data") != nullptr; }

std::optional<Tagged> ReadTagged(JsonReader& r, const Value& v) {
  const auto members = r.Object(v);
  if (!members) return std::nullopt;
  constexpr std::string_view kKeys[] = {"_type", "_version", "_data"};
  Tagged out;
  bool typed = false;
  for (const Member& m : *members) {
    if (m.key == "_type") {
      const auto type = r.String(m.value);
      if (!type) return std::nullopt;
      out.type = *type;
      typed = true;
    } else if (m.key == "_version") {
      const auto version = r.Int(m.value);
      if (!version) return std::nullopt;
      out.version = *version;
      out.versioned = true;
    } else if (m.key == "_data") {
      out.data = &m.value;
    } else {
      r.Unknown("key", m.key, kKeys);
    }
  }
  if (typed && out.data != nullptr) return out;
  r.Wrong(typed ? "_data is missing" : "_type is missing");
  return std::nullopt;
}

void WriteTagged(Writer& w, std::string_view type, std::string_view data) {
  w.BeginObject().Key("_type").String(type).Key("_data").String(data).EndObject();
}

namespace {

bool SameLetters(std::string_view lower, std::string_view upper) {
  if (lower.size() != upper.size()) return false;
  for (size_t i = 0; i < lower.size(); ++i)
    if (lower[i] != (upper[i] >= 'A' && upper[i] <= 'Z' ? static_cast<char>(upper[i] - 'A' + 'a') : upper[i]))
      return false;
  return true;
}

}  // namespace

int ReadEnumeration(JsonReader& r, const Value& v, const Enumeration& e) {
  std::string_view name;
  const bool text = e.is_text && v.is_string();
  if (text) {
    name = *v.AsString();
  } else {
    const auto tagged = ReadTagged(r, v);
    if (!tagged) return -1;
    if (tagged->type != e.type) {
      r.Wrong(text::StrCat("is a ", ShownName(tagged->type), ", not a ", e.type));
      return -1;
    }
    const auto member = r.String(*tagged->data);
    if (!member) return -1;
    name = *member;
  }
  for (size_t i = 0; i < e.members.size(); ++i)
    if (text ? SameLetters(name, e.members[i]) : name == e.members[i]) return static_cast<int>(i);
  r.Unknown(e.type, name, e.members);
  return -1;
}

std::string_view ReadDType(JsonReader& r, const Value& v) {
  const auto tagged = ReadTagged(r, v);
  if (!tagged) return {};
  if (tagged->type != "torch.dtype") {
    r.Wrong(text::StrCat("is a ", ShownName(tagged->type), ", not a torch.dtype"));
    return {};
  }
  return r.String(*tagged->data).value_or(std::string_view());
}

namespace {

constexpr std::string_view kElementNames[] = {kElements[0].name, kElements[1].name, kElements[2].name};
constexpr std::string_view kElementsNotTaken[] = {"float8_e4m3fnuz", "float8_e5m2fnuz", "fp6_e2m3", "fp6_e3m2"};

}  // namespace

std::optional<ir::DType> ReadElement(JsonReader& r, const Value& v, size_t count) {
  // torchao has no dtype of 6 bits: text
  const std::string_view name = v.is_string() ? *v.AsString() : ReadDType(r, v);
  if (name.empty()) return std::nullopt;
  for (const NamedElement& e : absl::MakeConstSpan(kElements).first(count))
    if (name == e.name && !v.is_string()) return e.dtype;
  for (const std::string_view other : kElementsNotTaken) {
    if (name != other) continue;
    r.NotTaken(text::StrCat("elements of type ", name, " are not supported"));
    return std::nullopt;
  }
  r.Unknown("element type", name, absl::MakeConstSpan(kElementNames).first(count));
  return std::nullopt;
}

namespace {

struct GranularityRow {
  GranularityClass cls;
  std::string_view type;
  std::string_view field;  // its only one; empty where there is none
};

constexpr GranularityRow kGranularities[] = {
    {kPerRow, "PerRow", "dim"},    {kPerAxis, "PerAxis", "axis"},
    {kPerTensor, "PerTensor", ""}, {kPerGroup, "PerGroup", "group_size"},
    {kPerToken, "PerToken", ""},   {kPerBlock, "PerBlock", "block_size"},
};

constexpr std::string_view kGranularityNames[] = {"PerRow", "PerAxis", "PerTensor", "PerGroup", "PerToken", "PerBlock"};

}  // namespace

std::optional<Granularity> ReadGranularity(JsonReader& r, const Value& v, unsigned taken) {
  const auto tagged = ReadTagged(r, v);
  if (!tagged) return std::nullopt;
  const GranularityRow* row = nullptr;
  for (const GranularityRow& g : kGranularities)
    if (g.type == tagged->type) row = &g;
  if (row == nullptr) {
    r.Unknown("granularity", tagged->type, kGranularityNames);
    return std::nullopt;
  }
  const size_t problems = r.count();
  if (tagged->version != 1) r.Wrong(text::StrCat(row->type, " has version 1, not ", tagged->version));
  const auto members = r.Object(*tagged->data);
  if (!members) return std::nullopt;
  const Value* argument = nullptr;
  for (const Member& m : *members) {
    if (!row->field.empty() && m.key == row->field)
      argument = &m.value;
    else
      r.Unknown(text::StrCat("field of ", row->type), m.key,
                absl::MakeConstSpan(&row->field, row->field.empty() ? 0 : 1));
  }
  if (!(taken & row->cls)) {
    std::vector<std::string_view> names;
    for (const GranularityRow& g : kGranularities)
      if (taken & g.cls) names.push_back(g.type);
    const std::string what = text::StrCat("is ", row->type, "; there are ", text::Join(names, ", "));
    if (row->cls == kPerBlock)
      r.NotTaken(what);
    else
      r.Wrong(what);
    return std::nullopt;
  }
  if (argument == nullptr && (row->cls == kPerAxis || row->cls == kPerGroup))
    r.Wrong(text::StrCat(row->type, " needs its field ", row->field));
  Granularity out;
  if (row->cls == kPerTensor) out.kind = Granularity::kTensor;
  if (argument != nullptr) {
    const auto n = r.Int(*argument);
    if (!n) return std::nullopt;
    if (row->cls == kPerGroup) {
      out = {Granularity::kGroup, *n};
    } else if (row->cls == kPerAxis && *n != 0) {
      r.Wrong(text::StrCat("axis is 0, the output features, not ", *n));
    } else if (row->cls == kPerRow && *n != -1) {
      r.NotTaken(text::StrCat("dim is -1, the input features; ", *n, " is not supported"));
    }
  }
  if (r.count() > problems) return std::nullopt;
  return out;
}

void WriteGranularity(Writer& w, const Granularity& g, bool axis) {
  const GranularityClass cls = g.kind == Granularity::kTensor  ? kPerTensor
                               : g.kind == Granularity::kGroup ? kPerGroup
                               : axis                          ? kPerAxis
                                                               : kPerRow;
  for (const GranularityRow& row : kGranularities) {
    if (row.cls != cls) continue;
    w.BeginObject().Key("_type").String(row.type).Key("_version").Int(1).Key("_data").BeginObject();
    if (!row.field.empty()) w.Key(row.field).Int(cls == kPerGroup ? g.group : cls == kPerAxis ? 0 : -1);
    w.EndObject().EndObject();
  }
}

}  // namespace slipway::quantizer
