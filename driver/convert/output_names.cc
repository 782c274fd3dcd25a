// torch writes the container as a tree in JSON (torch.utils._pytree.treespec_dumps): {"type", "context",
// "children_spec"}, with the keys in the context, which is JSON in a string, or, of named tuples, in a table beside it.
#include "driver/convert/output_names.h"

#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "importers/json.h"
#include "passes/keep_state.h"

namespace slipway::driver {
namespace {

using importers::json::Document;
using Json = importers::json::Value;

constexpr size_t kLongestName = 256;  // bytes; a file may say anything

std::string TextOf(const Json& j) {
  auto text = j.AsString();
  return text.ok() ? std::string(*text) : "";
}

// The keys of `count` children; nullopt where they are known by their places only. A key that is no string is "".
std::optional<std::vector<std::string>> Keys(const Json& keys, size_t count) {
  auto array = keys.AsArray();
  if (!array.ok()) return std::nullopt;
  // Dataclasses state two lists: the fields, and those that are None.
  if (array->size() == 2 && (*array)[0].is_array() && (*array)[1].is_array()) return Keys((*array)[0], count);
  if (array->size() != count) return std::nullopt;
  std::vector<std::string> out;
  for (const Json& key : *array) out.push_back(TextOf(key));
  return out;
}

std::optional<std::vector<std::string>> KeysOf(const Json& spec, const Json* tuples, size_t count) {
  const Json* context = spec.Find("context");
  if (!context || !context->is_string()) return std::nullopt;
  const std::string text = TextOf(*context);
  if (const Json* tuple = tuples ? tuples->Find(text) : nullptr) {
    const Json* fields = tuple->Find("field_names");
    return fields ? Keys(*fields, count) : std::nullopt;
  }
  auto parsed = Document::Parse(text);
  if (!parsed.ok()) return std::nullopt;
  if (const Json* inner = parsed->root().Find("dict_context")) return Keys(*inner, count);  // of a defaultdict
  return Keys(parsed->root(), count);
}

// The paths of the leaves below `spec`, in order; "" for one without a key on its way. False for what is no such tree.
bool Walk(const Json& spec, const Json* tuples, const std::string& path, std::vector<std::string>* out) {
  const Json *type = spec.Find("type"), *children = spec.Find("children_spec");
  if (!type || !children) return false;
  auto each = children->AsArray();
  if (!each.ok()) return false;
  if (type->is_null()) {
    out->push_back(path);
    return each->empty();
  }
  const auto keys = KeysOf(spec, tuples, each->size());
  for (size_t i = 0; i < each->size(); ++i) {
    std::string below = keys ? (*keys)[i] : "";
    if (below.empty() && !path.empty()) below = text::StrCat(i);
    if (!path.empty()) below = text::StrCat(path, "_", below);
    if (below.size() > kLongestName) return false;
    if (!Walk((*each)[i], tuples, below, out)) return false;
  }
  return true;
}

// Of all leaves; empty where the program does not say.
std::vector<std::string> Paths(const ir::Program& p) {
  auto spec = Document::Parse(p.out_spec);
  if (!spec.ok()) return {};
  auto versioned = spec->root().AsArray();  // [1, tree]
  if (!versioned.ok() || versioned->size() != 2) return {};
  std::optional<Document> tuples;
  if (!p.namedtuple_fields_json.empty())
    if (auto parsed = Document::Parse(p.namedtuple_fields_json); parsed.ok()) tuples = *std::move(parsed);
  std::vector<std::string> out;
  if (!Walk((*versioned)[1], tuples ? &tuples->root() : nullptr, "", &out)) return {};
  return out;
}

}  // namespace

std::vector<std::string> OutputNames(const ir::Program& p) {
  const std::vector<size_t> outputs = passes::UserOutputs(p);
  std::vector<std::string> values, named;
  for (size_t i : outputs) {
    const ir::Value* v = p.graph->outputs[i].value();
    values.emplace_back(v ? v->name() : "");
  }
  const std::vector<std::string> paths = Paths(p);
  if (paths.size() != outputs.size()) return values;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < paths.size(); ++i) {
    named.push_back(values[i].empty() || paths[i].empty() ? values[i] : paths[i]);
    if (!named[i].empty() && named[i] != values[i] && !seen.insert(paths[i]).second) return values;
  }
  return named;
}

void NameOutputs(ir::Program& p, const std::vector<std::string>& names) {
  const std::vector<size_t> outputs = passes::UserOutputs(p);
  if (outputs.size() != names.size()) return;
  std::set<const ir::Value*> done;
  for (size_t k = 0; k < outputs.size(); ++k) {
    ir::Value* v = p.graph->outputs[outputs[k]].value();
    if (!v || !v->producer() || names[k].empty() || !done.insert(v).second || v->name() == names[k]) continue;
    ir::Value* other = p.graph->FindValue(names[k]);
    if (other && (!other->producer() || done.contains(other))) continue;
    if (other) p.graph->Rename(other, p.graph->UniqueName(names[k]));
    p.graph->Rename(v, names[k]);
  }
}

}  // namespace slipway::driver
