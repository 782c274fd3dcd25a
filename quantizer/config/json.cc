// Configurations in JSON: torchao's classes as tables of fields, read with all problems of a document named at once,
// and written as config_to_dict() gives them; around them FqnToConfig and transformers' quantization_config.
//
// torchao writes an object as {"_type": class, "_version": n, "_data": {field: value}}, members of enumerations and
// dtypes as {"_type": type, "_data": name}. Fields that are absent have the class's default; a `_version` that is
// absent is 1.
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "importers/json.h"
#include "quantizer/config.h"
#include "quantizer/config/json_internal.h"

namespace slipway::quantizer {

using importers::json::Document;

namespace {

using SchemeKind = Config::Scheme;

// the second is the first's older name
constexpr std::string_view kMapClasses[] = {"FqnToConfig", "ModuleFqnToConfig"};

bool IsMapClass(std::string_view name) { return name == kMapClasses[0] || name == kMapClasses[1]; }

std::optional<Config> ReadConfig(JsonReader& r, const Value& v);

// Reads the members of _data into `c`, which has the class's defaults.
void ReadVersionAndFields(JsonReader& r, const ConfigClass& cls, const Tagged& tagged, Config* c) {
  const JsonReader::At at_class(&r, cls.name);
  if (tagged.version != cls.version)
    r.Wrong(tagged.versioned
                ? text::StrCat("_version ", tagged.version, " is not one that torchao 0.18 takes: write ", cls.version)
                : text::StrCat("_version is missing, which means 1: write ", cls.version));
  const auto members = r.Object(*tagged.data);
  if (!members) return;
  if (cls.method != kPlainMethod) {
    const Value* base = tagged.data->Find(kBaseConfig.name);
    if (base == nullptr) return r.Wrong("base_config is missing");
    const JsonReader::At at(&r, kBaseConfig.name);
    const auto config = ReadConfig(r, *base);
    if (!config) return;
    if (config->method != kPlainMethod) return r.Wrong("methods go around a scheme, not around one another");
    *c = *config;
    c->method = cls.method;
  }
  r.activation_element.reset();
  for (const Member& m : *members) {
    const ConfigField* field = nullptr;
    for (const ConfigField& f : cls.fields)
      if (f.name == m.key) field = &f;
    if (field == nullptr) {
      r.Unknown("field", m.key, NamesOf(cls.fields));
    } else if (field->read != nullptr) {
      const JsonReader::At at(&r, field->name);
      field->read(r, m.value, c);
    }
  }
}

// What a class's fields say together.
void CheckFields(JsonReader& r, const ConfigClass& cls, const Config& c) {
  bool has_activations = false;
  for (const ConfigField& f : cls.fields) has_activations |= f.name == "activation_dtype";
  const ir::DType activations = r.activation_element.value_or(DefaultConfig(c.scheme).element);
  if (has_activations && activations != c.element) {
    const std::string what = text::StrCat(cls.name, ": activation_dtype and weight_dtype differ, ",
                                          ir::Name(activations), " and ", ir::Name(c.element));
    if (c.scheme == SchemeKind::kMx)
      r.Wrong(what);
    else
      r.NotTaken(what);
  }
  if (const absl::Status status = CheckConfig(c); !status.ok()) r.Wrong(text::FromAbsl(status.message()));
}

std::optional<Config> ReadConfig(JsonReader& r, const Value& v) {
  const size_t problems = r.count();
  const auto tagged = ReadTagged(r, v);
  if (!tagged) return std::nullopt;
  const ConfigClass* cls = FindClass(tagged->type);
  if (cls == nullptr) {
    if (IsMapClass(tagged->type)) {
      r.Wrong(text::StrCat(tagged->type, " stands outermost only"));
      return std::nullopt;
    }
    for (const OtherClass& other : OtherClasses()) {
      if (other.name != tagged->type) continue;
      r.NotTaken(text::StrCat(other.name, " is not supported", other.instead.empty() ? "" : "; near to it is ",
                              other.instead));
      return std::nullopt;
    }
    std::vector<std::string_view> names;
    for (const ConfigClass& row : Classes()) names.push_back(row.name);
    names.insert(names.end(), std::begin(kMapClasses), std::end(kMapClasses));
    r.Unknown("configuration", tagged->type, names);
    return std::nullopt;
  }
  Config c = DefaultConfig(cls->scheme);
  c.int4_cpu = cls->int4_cpu;
  ReadVersionAndFields(r, *cls, *tagged, &c);
  if (r.count() == problems) CheckFields(r, *cls, c);
  if (r.count() > problems) return std::nullopt;
  return c;
}

// The members of fqn_to_config, which are in the order of the document.
std::vector<ConfigMap::Entry> ReadEntries(JsonReader& r, const Value& v) {
  std::vector<ConfigMap::Entry> out;
  const auto members = r.Object(v);
  if (!members) return out;
  out.reserve(members->size());
  for (const Member& m : *members) {
    const JsonReader::At at(&r, ShownName(m.key));
    out.push_back({std::string(m.key), m.value.is_null() ? std::nullopt : ReadConfig(r, m.value)});
  }
  return out;
}

// torchao compares dicts, whose order does not count.
bool SameEntries(const std::vector<ConfigMap::Entry>& a, const std::vector<ConfigMap::Entry>& b) {
  if (a.size() != b.size()) return false;
  text::ViewMap<const ConfigMap::Entry*> by_key;
  for (const ConfigMap::Entry& e : a) by_key[e.key] = &e;
  for (const ConfigMap::Entry& e : b) {
    const auto it = by_key.find(e.key);
    if (it == by_key.end() || it->second->config != e.config) return false;
  }
  return true;
}

// torchao writes the map twice, under the field's name and its older one.
constexpr std::string_view kMapFields[] = {"fqn_to_config", "module_fqn_to_config"};

void ReadMap(JsonReader& r, const Tagged& tagged, ConfigMap* out) {
  const JsonReader::At at(&r, tagged.type);
  if (tagged.version != 1)
    r.Wrong(text::StrCat("_version ", tagged.version, " is not one that torchao 0.18 takes: write 1"));
  const auto members = r.Object(*tagged.data);
  if (!members) return;
  std::vector<ConfigMap::Entry> entries[2];
  for (size_t i = 0; i < 2; ++i) {
    const Value* field = tagged.data->Find(kMapFields[i]);
    // the second would only repeat what is wrong with the first
    if (field == nullptr || (i == 1 && r.count() > 0)) continue;
    const JsonReader::At at_field(&r, kMapFields[i]);
    entries[i] = ReadEntries(r, *field);
  }
  for (const Member& m : *members)
    if (m.key != kMapFields[0] && m.key != kMapFields[1]) r.Unknown("field", m.key, kMapFields);
  if (r.count() == 0 && !entries[0].empty() && !entries[1].empty() && !SameEntries(entries[0], entries[1]))
    r.Wrong("fqn_to_config and module_fqn_to_config differ");
  out->entries = std::move(entries[entries[0].empty() ? 1 : 0]);
}

// A configuration or a map of them.
void ReadTorchao(JsonReader& r, const Value& v, ConfigMap* out) {
  if (v.is_object() && IsTagged(v)) {
    const Value& type = *v.Find("_type");
    if (type.is_string() && IsMapClass(*type.AsString())) {
      if (const auto tagged = ReadTagged(r, v)) ReadMap(r, *tagged, out);
      return;
    }
  }
  if (const auto c = ReadConfig(r, v)) out->entries = ConfigMap::Of(*c).entries;
}

// quant_type as a name, with the fields of its class in quant_type_kwargs: how transformers wrote before it took
// torchao's configurations.
struct LegacyType {
  std::string_view name, class_name;
};

constexpr LegacyType kLegacyTypes[] = {
    {"int8_weight_only", "Int8WeightOnlyConfig"},
    {"int4_weight_only", "Int4WeightOnlyConfig"},
    {"int8_dynamic_activation_int8_weight", "Int8DynamicActivationInt8WeightConfig"},
};

void ReadLegacy(JsonReader& r, std::string_view name, const Value* arguments, ConfigMap* out) {
  const ConfigClass* cls = nullptr;
  std::vector<std::string_view> names;
  for (const LegacyType& t : kLegacyTypes) {
    names.push_back(t.name);
    if (t.name == name) cls = FindClass(t.class_name);
  }
  if (name == "autoquant") return r.NotTaken("autoquant, which measures on the device, is not supported");
  if (cls == nullptr) return r.Unknown("quant_type", name, names);
  Config c = DefaultConfig(cls->scheme);
  const size_t problems = r.count();
  if (arguments != nullptr) {
    const JsonReader::At at(&r, "quant_type_kwargs");
    const auto members = r.Object(*arguments);
    if (!members) return;
    std::vector<std::string_view> known = NamesOf(cls->fields);
    known.push_back("layout");
    if (cls->scheme == SchemeKind::kInt4WeightOnly) known.push_back("use_hqq");
    for (const Member& m : *members) {
      const JsonReader::At at_member(&r, ShownName(m.key));
      const ConfigField* field = nullptr;
      for (const ConfigField& f : cls->fields)
        if (f.name == m.key) field = &f;
      if (m.key == "layout") continue;  // how a kernel wants the integers to lie
      if (m.key == "use_hqq" && cls->scheme == SchemeKind::kInt4WeightOnly) c.hqq = r.Bool(m.value).value_or(false);
      // int8 too, then
      else if (m.key == "group_size" && field != nullptr && m.value.is_int())
        ReadGroupSize(r, m.value, &c);
      else if (field != nullptr)
        field->read(r, m.value, &c);
      else
        r.Unknown("argument", m.key, known);
    }
  }
  if (const absl::Status status = CheckConfig(c); !status.ok()) r.Wrong(text::FromAbsl(status.message()));
  if (r.count() == problems) out->entries = ConfigMap::Of(c).entries;
}

// The fields of transformers' quantization_config.
constexpr std::string_view kTransformersKeys[] = {
    "include_input_output_embeddings", "modules_to_not_convert", "quant_method", "quant_type", "quant_type_kwargs",
    "untie_embedding_weights"};

void ReadTransformers(JsonReader& r, const Value& v, ConfigMap* out) {
  const auto members = r.Object(v);
  if (!members) return;
  if (const Value* method = v.Find("quant_method"); method != nullptr) {
    const JsonReader::At at(&r, "quant_method");
    const auto name = r.String(*method);
    if (!name) return;
    if (*name != "torchao")
      return r.NotTaken(text::StrCat("is ", ShownName(*name), "; slipway reads configurations of torchao"));
  }
  out->keep_head = true;
  const Value* arguments = v.Find("quant_type_kwargs");
  if (v.Find("quant_type") == nullptr) r.Wrong("quant_type is missing");
  for (const Member& m : *members) {
    const JsonReader::At at(&r, ShownName(m.key));
    if (m.key == "modules_to_not_convert") {
      if (m.value.is_null()) continue;
      const auto names = r.Array(m.value);
      if (!names) continue;
      out->keep_head = false;
      for (const Value& name : *names)
        if (const auto s = r.String(name)) out->skip.emplace_back(*s);
    } else if (m.key == "include_input_output_embeddings") {
      out->embeddings = r.Bool(m.value).value_or(false);
    } else if (m.key == "untie_embedding_weights") {
      out->untie = r.Bool(m.value).value_or(false);
    } else if (m.key == "quant_type" && m.value.is_string()) {
      ReadLegacy(r, *m.value.AsString(), arguments, out);
    } else if (m.key == "quant_type") {
      const auto types = r.Object(m.value);
      if (!types) continue;
      const Value* only = m.value.Find("default");
      if (only == nullptr || types->size() != 1)
        r.Wrong("has one key, default");
      else
        ReadTorchao(r, *only, out);
      if (arguments != nullptr && arguments->is_object() && !arguments->AsObject()->empty())
        r.Wrong("quant_type_kwargs go with a quant_type that is a name");
    } else if (m.key != "quant_method" && m.key != "quant_type_kwargs") {
      r.Unknown("key", m.key, kTransformersKeys);
    }
  }
}

}  // namespace

void WriteClass(Writer& w, const ConfigClass& cls, const Config& c) {
  w.BeginObject().Key("_type").String(cls.name).Key("_version").Int(cls.version).Key("_data").BeginObject();
  for (const ConfigField& f : cls.fields) {
    w.Key(f.name);
    if (f.write != nullptr)
      f.write(w, c);
    else
      WriteClass(w, ClassOf(kPlainMethod, c), c);
  }
  w.EndObject().EndObject();
}

namespace {

void WriteTorchao(Writer& w, const ConfigMap& map) {
  const std::vector<ConfigMap::Entry>& entries = map.entries;
  if (entries.size() == 1 && entries[0].key == "_default" && entries[0].config)
    return WriteClass(w, ClassOf(entries[0].config->method, *entries[0].config), *entries[0].config);
  w.BeginObject().Key("_type").String(kMapClasses[0]).Key("_version").Int(1).Key("_data").BeginObject();
  for (const std::string_view field : kMapFields) {
    w.Key(field).BeginObject();
    for (const ConfigMap::Entry& e : entries) {
      w.Key(e.key);
      if (e.config)
        WriteClass(w, ClassOf(e.config->method, *e.config), *e.config);
      else
        w.Null();
    }
    w.EndObject();
  }
  w.EndObject().EndObject();
}

}  // namespace

std::string_view ClassName(const Config& c) { return ClassOf(c.method, c).name; }

std::string ToJson(const Config& c) {
  Writer w;
  WriteClass(w, ClassOf(c.method, c), c);
  return w.Take();
}

std::string ToJson(const ConfigMap& map) {
  if (!map.skip.empty() || map.keep_head || map.embeddings || map.untie) return ToQuantizationConfigJson(map);
  Writer w;
  WriteTorchao(w, map);
  return w.Take();
}

std::string ToQuantizationConfigJson(const ConfigMap& map) {
  Writer w;
  w.BeginObject();
  w.Key("include_input_output_embeddings").Bool(map.embeddings);
  w.Key("modules_to_not_convert");
  if (map.keep_head) {
    w.Null();
  } else {
    w.BeginArray();
    for (const std::string& name : map.skip) w.String(name);
    w.EndArray();
  }
  w.Key("quant_method").String("torchao");
  w.Key("quant_type").BeginObject().Key("default");
  WriteTorchao(w, map);
  w.EndObject();
  w.Key("quant_type_kwargs").BeginObject().EndObject();
  w.Key("untie_embedding_weights").Bool(map.untie);
  w.EndObject();
  return w.Take();
}

absl::StatusOr<ConfigMap> ParseConfigJson(std::string_view json) {
  ASSIGN_OR_RETURN(const Document document, Document::Parse(json, {.max_depth = kMaxDepth}));
  const Value& root = document.root();
  JsonReader r;
  ConfigMap out;
  if (root.Find("_type") != nullptr) {
    ReadTorchao(r, root, &out);
  } else if (root.Find("quant_method") != nullptr || root.Find("quant_type") != nullptr) {
    ReadTransformers(r, root, &out);
  } else if (const Value* inner = root.Find("quantization_config")) {
    const JsonReader::At at(&r, "quantization_config");
    ReadTransformers(r, *inner, &out);
  } else {
    r.Wrong("has no configuration: neither torchao's _type nor transformers' quantization_config or quant_type");
  }
  RETURN_IF_ERROR(r.ToStatus());
  return out;
}

}  // namespace slipway::quantizer
