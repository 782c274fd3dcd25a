// config.json is looked for first; the other files count where it does not speak of quantization. Of models with
// several parts (text_config, vision_config) the quantization may stand in a part.
#include "weights/quantized/model_config.h"

#include <utility>

#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "io/io_error.h"
#include "io/mapped_file.h"

namespace slipway::weights::quantized {
namespace {

namespace json_in = importers::json;
using json_in::Value;

constexpr std::string_view kKeys[] = {"quantization_config", "compression_config"};
constexpr std::string_view kParts[] = {"text_config", "llm_config", "language_config", "thinker_config"};
constexpr std::string_view kDtypes[] = {"dtype", "torch_dtype"};

// Files that tools wrote before transformers had quantization_config, and the method where they do not name it.
struct OwnFile {
  std::string_view file, method;
};
constexpr OwnFile kOwnFiles[] = {{"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}};

const Value* Present(const Value* v) { return v && !v->is_null() ? v : nullptr; }

bool Has(const std::string_view* begin, const std::string_view* end, std::string_view key) {
  for (; begin != end; ++begin)
    if (*begin == key) return true;
  return false;
}

const Value* QuantizationIn(const Value& v) {
  for (std::string_view key : kKeys)
    if (const Value* q = Present(v.Find(key))) return q;
  return nullptr;
}

ir::DType DTypeIn(const Value& v) {
  for (std::string_view key : kDtypes) {
    const Value* t = Present(v.Find(key));
    if (!t || !t->is_string()) continue;
    std::string_view name = t->AsString().value();
    text::ConsumePrefix(&name, "torch.");
    const ir::DType dtype = ir::DTypeFromTorchName(name).value_or(ir::DType::kUnknown);
    if (dtype == ir::DType::kFloat32 || ir::IsLowPrecision(dtype)) return dtype;
  }
  return ir::DType::kUnknown;
}

// The file as JSON; null where there is none.
absl::StatusOr<std::shared_ptr<json_in::Document>> Open(const std::string& path) {
  auto file = io::MappedFile::Open(path);
  if (absl::IsNotFound(file.status())) return nullptr;
  if (!file.ok()) return file.status();
  auto document =
      json_in::Document::Parse({reinterpret_cast<const char*>((*file)->data().data()), (*file)->data().size()});
  if (!document.ok()) return io::Prefixed(text::StrCat(path, ": "), document.status());
  if (!document->root().is_object())
    return io::Prefixed(text::StrCat(path, ": "), document->root().Error("expected an object"));
  return std::make_shared<json_in::Document>(*std::move(document));
}

void Copy(const Value& v, ir::DType dtype, bool outermost, json::Writer& out);

// `more`, JSON of a quantization_config, comes last; "" for none.
void CopyMembers(const Value& v, ir::DType dtype, bool outermost, json::Writer& out, std::string_view more = {}) {
  out.BeginObject();
  const auto members = v.AsObject().value();
  for (const json_in::Member& m : members) {
    const bool part = outermost && Has(std::begin(kParts), std::end(kParts), m.key) && m.value.is_object();
    // A part of the model is the outermost of its own.
    if (outermost && Has(std::begin(kKeys), std::end(kKeys), m.key)) continue;
    out.Key(m.key);
    if (outermost && dtype != ir::DType::kUnknown && Has(std::begin(kDtypes), std::end(kDtypes), m.key) &&
        m.value.is_string())
      out.String(ir::Info(dtype).torch_name);
    else
      Copy(m.value, dtype, part, out);
  }
  if (!more.empty()) out.Key(kKeys[0]).Raw(more);
  out.EndObject();
}

void Copy(const Value& v, ir::DType dtype, bool outermost, json::Writer& out) {
  switch (v.type()) {
    case json_in::Type::kNull: out.Null(); break;
    case json_in::Type::kBool: out.Bool(v.AsBool().value()); break;
    case json_in::Type::kInt: out.Int(v.AsInt().value()); break;
    case json_in::Type::kDouble: out.Double(v.AsDouble().value()); break;
    case json_in::Type::kString: out.String(v.AsString().value()); break;
    case json_in::Type::kArray: {
      const auto elements = v.AsArray().value();
      out.BeginArray();
      for (const Value& e : elements) Copy(e, dtype, false, out);
      out.EndArray();
      break;
    }
    case json_in::Type::kObject: CopyMembers(v, dtype, outermost, out); break;
  }
}

}  // namespace

const Value* ModelConfig::Find(std::string_view key) const { return Present(quantization.Find(key)); }

absl::StatusOr<int64_t> ModelConfig::Int(std::string_view key, int64_t otherwise) const {
  const Value* v = Find(key);
  return v ? v->AsInt() : otherwise;
}
absl::StatusOr<bool> ModelConfig::Bool(std::string_view key, bool otherwise) const {
  const Value* v = Find(key);
  return v ? v->AsBool() : otherwise;
}
absl::StatusOr<std::string> ModelConfig::Text(std::string_view key, std::string_view otherwise) const {
  const Value* v = Find(key);
  if (!v) return std::string(otherwise);
  ASSIGN_OR_RETURN(const std::string_view text, v->AsString());
  return std::string(text);
}

absl::StatusOr<std::optional<ModelConfig>> ReadModelConfig(const std::string& folder) {
  ModelConfig out;
  ASSIGN_OR_RETURN(const auto config, Open(text::StrCat(folder, "/config.json")));
  if (config) {
    const Value& root = config->root();
    out.dtype = DTypeIn(root);
    if (const Value* type = Present(root.Find("model_type")); type && type->is_string())
      out.model_type = type->AsString().value();
    const Value* q = QuantizationIn(root);
    for (std::string_view part : kParts) {
      const Value* p = Present(root.Find(part));
      if (!p || !p->is_object()) continue;
      if (!q) q = QuantizationIn(*p);
      if (out.dtype == ir::DType::kUnknown) out.dtype = DTypeIn(*p);
    }
    if (q) {
      out.file = "config.json";
      out.quantization = *q;
      out.document = config;
    }
  }
  std::string method;
  for (const OwnFile& own : kOwnFiles) {
    if (out.document) break;
    ASSIGN_OR_RETURN(const auto document, Open(text::StrCat(folder, "/", own.file)));
    if (!document) continue;
    out.file = own.file;
    out.quantization = document->root();
    out.document = document;
    method = own.method;
  }
  if (!out.document) return std::nullopt;
  const auto named = [&](const absl::Status& s) { return io::Prefixed(text::StrCat(out.file, ": "), s); };
  if (!out.quantization.is_object()) return named(out.quantization.Error("expected an object"));
  auto text = out.Text("quant_method", method);
  if (!text.ok()) return named(text.status());
  out.method = *std::move(text);
  return out;
}

absl::StatusOr<std::string> WithoutQuantization(std::string_view config_json, ir::DType dtype) {
  ASSIGN_OR_RETURN(const json_in::Document document, json_in::Document::Parse(config_json));
  if (!document.root().is_object()) return document.root().Error("expected an object");
  json::Writer out;
  CopyMembers(document.root(), dtype, true, out);
  return out.Take() + "\n";
}

absl::StatusOr<std::string> WithQuantization(std::string_view config_json, std::string_view quantization) {
  ASSIGN_OR_RETURN(const json_in::Document document, json_in::Document::Parse(config_json));
  if (!document.root().is_object()) return document.root().Error("expected an object");
  json::Writer out;
  CopyMembers(document.root(), ir::DType::kUnknown, true, out, quantization);
  return out.Take() + "\n";
}

}  // namespace slipway::weights::quantized
