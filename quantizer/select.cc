// Names that models give to what is no linear layer. Kept as data: what a new family calls its layers is a word in a
// table.
#include "quantizer/select.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "importers/json.h"

namespace slipway::quantizer {
namespace {

constexpr std::string_view kEmbeddingParts[] = {"embed", "embd"};
constexpr std::string_view kEmbeddingNames[] = {"wte", "wpe", "shared", "lookup", "relative_attention_bias"};
constexpr std::string_view kNormNames[] = {"ln",     "ln_1",    "ln_2",       "ln_3",     "ln_f",
                                           "ln_pre", "ln_post", "layer_norm", "layernorm"};
constexpr std::string_view kExperts[] = {"experts", "expert", "routed_experts", "shared_experts"};
constexpr std::string_view kHeads[] = {"lm_head", "output", "embed_out", "head", "decoder"};
constexpr std::string_view kConv1dModels[] = {"gpt2", "openai-gpt", "gpt_bigcode_conv1d", "imagegpt",
                                              "decision_transformer"};

// Routers of mixtures of experts: the last two names of the module; "" for any. `gate` alone is also half of a gated
// layer, which has more rows than columns.
struct Router {
  std::string_view before, last;
  bool flat;  // only with fewer rows than columns
};
constexpr Router kRouters[] = {
    {"", "router", false},          {"router", "", false},   {"block_sparse_moe", "gate", false},
    {"mlp", "gate", true},          {"moe", "gate", true},   {"ffn", "gate", true},
    {"feed_forward", "gate", true}, {"mixer", "gate", true}, {"gate", "wg", true},
};

template <size_t n>
bool Has(const std::string_view (&names)[n], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// "attn" and "c_attn" of "h.0.attn.c_attn".
std::pair<std::string_view, std::string_view> LastTwo(std::string_view module) {
  const size_t dot = module.rfind('.');
  if (dot == std::string_view::npos) return {"", module};
  const std::string_view before = module.substr(0, dot);
  const size_t other = before.rfind('.');
  return {other == std::string_view::npos ? before : before.substr(other + 1), module.substr(dot + 1)};
}

}  // namespace

bool IsEmbeddingName(std::string_view module) {
  const auto [before, last] = LastTwo(module);
  for (std::string_view name : {before, last}) {
    const std::string lower = absl::AsciiStrToLower(text::ToAbsl(name));
    // "embed_out" and "embedding_projection" are linears.
    const bool projects = lower.find("proj") != std::string::npos || lower.find("out") != std::string::npos ||
                          lower.find("dense") != std::string::npos || lower.find("linear") != std::string::npos;
    for (std::string_view part : kEmbeddingParts)
      if (lower.find(part) != std::string::npos && !projects &&
          (name == last || before == last || lower == "embeddings"))
        return true;
  }
  return Has(kEmbeddingNames, last);
}

bool IsRouter(const Candidate& t) {
  const auto [before, last] = LastTwo(ModuleOf(t.name));
  const bool flat = t.sizes.size() == 2 && t.sizes[0] < t.sizes[1];
  return std::any_of(std::begin(kRouters), std::end(kRouters), [&, before = before, last = last](const Router& r) {
    return (r.before.empty() || r.before == before) && (r.last.empty() || r.last == last) && (flat || !r.flat);
  });
}

bool IsAttentionOutput(std::string_view name, const std::function<bool(const std::string&)>& has) {
  constexpr std::string_view kEnd = "out_proj.weight";
  return name.ends_with(kEnd) && has(text::StrCat(name.substr(0, name.size() - kEnd.size()), "in_proj_weight"));
}

absl::StatusOr<ModelFacts> ModelFacts::Read(std::string_view config_json) {
  namespace json = importers::json;
  ASSIGN_OR_RETURN(const json::Document document, json::Document::Parse(config_json));
  ModelFacts facts;
  if (!document.root().is_object()) return document.root().Error("config.json is no object");
  if (const json::Value* v = document.root().Find("model_type"); v && v->is_string())
    facts.model_type = v->AsString().value();
  if (const json::Value* v = document.root().Find("tie_word_embeddings"); v && v->is_bool())
    facts.tied_embeddings = v->AsBool().value();
  return facts;
}

std::string_view ModuleOf(std::string_view name) {
  constexpr std::string_view kSuffix = ".weight";
  return name.size() > kSuffix.size() && name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size())
                                                                 : std::string_view();
}

bool IsOfExperts(const Candidate& t) {
  if (!ir::IsFloating(t.dtype) || t.sizes.size() != 3) return false;
  for (std::string_view part : text::Split(t.name, '.'))
    if (Has(kExperts, part)) return true;
  return false;
}

// A head by its name, in a model that ties heads.
static bool IsTiedHead(std::string_view module, const ModelFacts& facts) {
  return facts.tied_embeddings && Has(kHeads, LastTwo(module).second) &&
         module.find("layers") == std::string_view::npos;
}

bool IsEmbedding(const Candidate& t, const ModelFacts& facts) {
  const std::string_view module = ModuleOf(t.name);
  return ir::IsFloating(t.dtype) && t.sizes.size() == 2 && !module.empty() &&
         (IsEmbeddingName(module) || t.shares_embedding || IsTiedHead(module, facts));
}

std::string WhyNotLinear(const Candidate& t, const ModelFacts& facts,
                         const std::function<bool(const std::string&)>& has) {
  if (!ir::IsFloating(t.dtype)) return text::StrCat("of ", ir::Name(t.dtype));
  if (t.sizes.size() != 2) return text::StrCat(t.sizes.size(), t.sizes.size() == 1 ? " dimension" : " dimensions");
  const std::string_view module = ModuleOf(t.name);
  if (module.empty()) return "not called MODULE.weight";
  const auto [before, last] = LastTwo(module);
  if (IsEmbeddingName(module)) return "an embedding";
  const std::string lower = absl::AsciiStrToLower(text::ToAbsl(last));
  if (lower.find("norm") != std::string::npos || Has(kNormNames, lower)) return "a norm";
  if (Has(kConv1dModels, facts.model_type) && last.starts_with("c_"))
    return text::StrCat("a Conv1D of ", facts.model_type, ", [in, out]");
  if (IsRouter(t)) return "a router";
  if (t.shares_embedding) return "tied to the embedding";
  if (IsTiedHead(module, facts)) return "tied to the embedding (config.json)";
  return IsAttentionOutput(t.name, has) ? "of nn.MultiheadAttention" : "";
}

}  // namespace slipway::quantizer
