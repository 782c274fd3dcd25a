// transformers' loader in miniature (core_model_loading.py): which rules count for a model with its parts, and what
// they make of a name. The table is read anew for each model: a millisecond, once a run.
#include "weights/transformers_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "importers/json.h"
#include "re2/re2.h"
#include "schemas/embedded.h"

namespace slipway::weights {

namespace json = importers::json;

struct TransformersNames::Rule {
  struct Branch {
    std::shared_ptr<const re2::RE2> pattern, before, after;  // the latter two null where anything may be there
  };
  std::string target;
  bool converts = false;
  std::vector<Branch> branches;
  // Of a part of the model: names begin with one of these, which the patterns do not see.
  std::vector<std::string> scopes;
  // The name as the rule makes it; false where no branch matches.
  bool Apply(std::string* name) const;
};

namespace {

using Fields = std::vector<std::string_view>;

// A class, and the models in it that have rules or that config.json chooses.
struct ModelClass {
  struct Part {
    std::string_view path, name, type;
    std::string_view config_key;  // for those that config.json chooses
  };
  std::string_view name, type, prefix;
  bool base_inside = false;
  std::vector<std::string_view> children;
  std::vector<Part> parts;
  std::vector<std::string_view> others;
};

struct RenamingTable {
  std::map<std::string_view, std::vector<Fields>> rules;  // lines `rename`, `convert`, `branch`, `unknown` by name
  std::map<std::string_view, std::string_view> use;       // class or model_type -> name of its rules
  std::map<std::string_view, ModelClass> classes;
  std::map<std::string_view, std::string_view> base;  // model_type -> class
};

RenamingTable ReadTable() {
  RenamingTable t;
  std::vector<Fields>* rules = nullptr;
  ModelClass* last = nullptr;
  for (std::string_view line : text::Split(schemas::TransformersNames(), '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    Fields f = text::Split(line, '\t');
    if (f[0] == "rules") {
      rules = &t.rules[f[1]];
    } else if (f[0] == "use") {
      t.use[f[1]] = f[2];
    } else if (f[0] == "base") {
      t.base[f[1]] = f[2];
    } else if (f[0] == "class") {
      last = &t.classes[f[1]];
      *last = {f[1], f[2], f[3], f[4] == "1", text::Split(f[5], ','), {}, {}};
    } else if (f[0] == "part") {
      last->parts.push_back({f[1], f[2], f[3], {}});
    } else if (f[0] == "auto") {
      last->parts.push_back({f[1], {}, f[3], f[2]});
    } else if (f[0] == "other") {
      last->others.push_back(f[1]);
    } else {
      rules->push_back(std::move(f));
    }
  }
  return t;
}

// The string at "text_config.model_type"; "" where there is none.
std::string_view StringAt(const json::Value& root, std::string_view key) {
  const json::Value* v = &root;
  for (std::string_view step : text::Split(key, '.'))
    if (v = v->is_object() ? v->Find(step) : nullptr; v == nullptr) return "";
  return v->is_string() ? v->AsString().value() : std::string_view();
}

// A model within the model, with what it may be known by.
struct Submodel {
  std::string path;
  std::string_view name, type;
};

// All models within a class, at `path`, in the order of modules; `config` is the key of its configuration.
void Collect(const RenamingTable& t, const ModelClass& c, const std::string& path, const std::string& config,
             const json::Value& root, int depth, std::vector<Submodel>* out,
             std::set<std::string, std::less<>>* others) {
  out->push_back({path, c.name, c.type});
  for (std::string_view other : c.others) others->insert(text::StrCat(path, path.empty() ? "" : ".", other));
  for (const ModelClass::Part& part : c.parts) {
    const std::string at = text::StrCat(path, path.empty() ? "" : ".", part.path);
    if (part.config_key.empty()) {
      out->push_back({at, part.name, part.type});
      continue;
    }
    const std::string key = text::StrCat(config, part.config_key, ".");
    std::string_view type = StringAt(root, key + "model_type");
    if (type.empty()) type = part.type;
    const auto base = t.base.find(type);
    const auto chosen = base == t.base.end() ? t.classes.end() : t.classes.find(base->second);
    if (chosen != t.classes.end() && depth < 4)
      Collect(t, chosen->second, at, key, root, depth + 1, out, others);
    else
      out->push_back({at, {}, type});
  }
}

// Which rules count where, as transformers' get_model_conversion_mapping() finds them: by a model's class, otherwise by
// its type, unless a model that it is within was found by the same.
std::vector<std::pair<std::string, std::string_view>> RulesOf(const RenamingTable& t,
                                                              const std::vector<Submodel>& models) {
  std::map<std::string_view, std::vector<std::string>> seen;
  const auto seen_above = [&](std::string_view key, const std::string& path) {
    const std::vector<std::string>& paths = seen[key];
    return std::any_of(paths.begin(), paths.end(),
                       [&](const std::string& p) { return p.empty() || path.starts_with(p + "."); });
  };
  std::vector<std::pair<std::string, std::string_view>> out;
  for (const Submodel& m : models) {
    if (seen_above(m.name, m.path)) continue;
    auto use = t.use.find(m.name);
    const bool by_class = use != t.use.end();
    if (!by_class) {
      if (seen_above(m.type, m.path)) continue;
      use = t.use.find(m.type);
    }
    if (use == t.use.end()) continue;
    out.emplace_back(m.path, use->second);
    seen[m.name].push_back(m.path);
    if (!by_class) seen[m.type].push_back(m.path);
  }
  out.emplace_back("", "legacy");
  return out;
}

std::shared_ptr<const re2::RE2> Compiled(const std::string& pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  auto re = std::make_shared<const re2::RE2>(pattern, options);
  return re->ok() ? re : nullptr;
}

re2::StringPiece Piece(std::string_view s) { return {s.data(), s.size()}; }
std::string_view View(re2::StringPiece s) { return {s.data(), s.size()}; }

// Which prefixes a part's names may have, the longest first: the part's path, and the same without the base model's
// name, by which a base model is saved.
std::vector<std::string> ScopesOf(const std::string& path, std::string_view prefix) {
  if (path.empty()) return {};
  std::string_view inner = path;
  text::ConsumePrefix(&inner, prefix);
  text::ConsumePrefix(&inner, ".");
  const std::string scope = inner.empty() ? "" : text::StrCat(inner, ".");
  const std::string base = prefix.empty() ? "" : text::StrCat(prefix, ".");
  return {base + scope, scope};
}

}  // namespace

bool TransformersNames::Rule::Apply(std::string* name) const {
  std::string_view scope, rest = *name;
  if (!scopes.empty()) {
    const auto it = std::find_if(scopes.begin(), scopes.end(), [&](const auto& s) { return rest.starts_with(s); });
    if (it == scopes.end()) return false;
    scope = *it;
    rest.remove_prefix(it->size());
  }
  size_t first = std::string_view::npos;
  std::string_view found, group;
  for (const Branch& b : branches) {
    re2::StringPiece groups[2];
    const int count = std::min(1, b.pattern->NumberOfCapturingGroups()) + 1;
    for (size_t from = 0; from <= rest.size(); ++from) {
      if (!b.pattern->Match(Piece(rest), from, rest.size(), re2::RE2::UNANCHORED, groups, count)) break;
      from = static_cast<size_t>(groups[0].data() - rest.data());
      if ((b.before && re2::RE2::PartialMatch(Piece(rest.substr(0, from)), *b.before)) ||
          (b.after && re2::RE2::PartialMatch(Piece(rest.substr(from + groups[0].size())), *b.after)))
        continue;
      if (from < first) first = from, found = View(groups[0]), group = count > 1 ? View(groups[1]) : "";
      break;
    }
  }
  if (first == std::string_view::npos) return false;
  std::string text = target;
  if (const size_t at = text.find("\\1"); at != std::string::npos) text.replace(at, 2, group);
  // Where the text that was matched stands first, not where it was matched: as transformers does.
  std::string renamed(rest);
  renamed.replace(rest.find(found), found.size(), text);
  *name = text::StrCat(scope, renamed);
  return true;
}

absl::StatusOr<std::optional<TransformersNames>> TransformersNames::For(std::string_view config_json) {
  ASSIGN_OR_RETURN(const json::Document document, json::Document::Parse(config_json));
  const json::Value& root = document.root();
  if (!root.is_object()) return root.Error("expected an object");
  const RenamingTable table = ReadTable();
  std::string_view name;
  if (const json::Value* v = root.Find("architectures"); v && v->is_array() && !v->AsArray().value().empty()) {
    const auto classes = v->AsArray().value();
    if (classes[0].is_string()) name = classes[0].AsString().value();
  } else if (const auto base = table.base.find(StringAt(root, "model_type")); base != table.base.end()) {
    name = base->second;
  }
  // Of a class that the script could not make a model of: the rules of its name or type, without those of its parts.
  ModelClass model{name, StringAt(root, "model_type"), {}, false, {}, {}, {}};
  if (const auto found = table.classes.find(name); found != table.classes.end())
    model = found->second;
  else if (!table.use.contains(model.name) && !table.use.contains(model.type))
    return std::nullopt;
  TransformersNames out;
  out.class_ = name;
  out.prefix_ = model.prefix;
  out.base_inside_ = model.base_inside;
  for (std::string_view child : model.children) out.children_.emplace_back(child);

  std::vector<Submodel> models;
  Collect(table, model, "", "", root, 0, &models, &out.others_);
  for (const auto& [path, rules] : RulesOf(table, models)) {
    std::shared_ptr<Rule> rule;
    for (const Fields& f : table.rules.at(rules)) {
      if (f[0] == "unknown") return std::nullopt;
      if (f[0] != "branch") {
        rule = std::make_shared<Rule>();
        rule->target = f[1];
        rule->converts = f[0] == "convert";
        rule->scopes = ScopesOf(path, model.prefix);
        out.rules_.push_back(rule);
        continue;
      }
      Rule::Branch b{Compiled(std::string(f[1])), nullptr, nullptr};
      if (!f[2].empty()) b.before = Compiled(text::StrCat("(?:", f[2], ")$"));
      if (!f[3].empty()) b.after = Compiled(text::StrCat("^(?:", f[3], ")"));
      if (!b.pattern || (!f[2].empty() && !b.before) || (!f[3].empty() && !b.after)) return std::nullopt;
      rule->branches.push_back(std::move(b));
    }
  }
  // Renames first; then at most one of those that change values.
  std::stable_partition(out.rules_.begin(), out.rules_.end(), [](const auto& r) { return !r->converts; });
  return out;
}

TransformersNames::Loaded TransformersNames::Load(std::string_view name) const {
  Loaded out{std::string(name), false};
  for (const auto& rule : rules_)
    if (rule->Apply(&out.name) && rule->converts) {
      out.converted = true;
      break;
    }
  // The base model's name, where a model was saved without it or a base model with it.
  const auto is_child = [&](std::string_view of) {
    return std::find(children_.begin(), children_.end(), of.substr(0, of.find('.'))) != children_.end();
  };
  const std::string prefix = text::StrCat(prefix_, ".");
  if (prefix_.empty()) return out;
  if (out.name.starts_with(prefix)) {
    if (!base_inside_ && is_child(std::string_view(out.name).substr(prefix.size()))) out.name.erase(0, prefix.size());
  } else if (base_inside_ && is_child(out.name)) {
    out.name.insert(0, prefix);
  }
  return out;
}

bool TransformersNames::IsOther(std::string_view loaded) const {
  if (!loaded.ends_with(".weight")) return false;
  loaded.remove_suffix(std::string_view(".weight").size());
  std::vector<std::string_view> path = text::Split(loaded, '.');
  for (std::string_view& step : path)
    if (step.find_first_not_of("0123456789") == std::string_view::npos) step = "#";
  return others_.contains(text::Join(path, "."));
}

std::string_view TransformersNames::Version() {
  const std::string_view text = schemas::TransformersNames();
  const std::string_view line = text.substr(0, text.find('\n'));
  return line.substr(line.rfind("transformers "));
}

}  // namespace slipway::weights
