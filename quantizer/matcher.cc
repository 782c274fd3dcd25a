// Which configuration a parameter gets: torchao's order of precedence, transformers' modules_to_not_convert before it,
// and Python's expressions in RE2.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/text.h"
#include "base/utf8.h"
#include "quantizer/config.h"
#include "re2/re2.h"

namespace slipway::quantizer {
namespace {

constexpr std::string_view kPrefix = "re:";
constexpr std::string_view kDefault = "_default";

// What RE2 reads and Python's `re` refuses or reads as something else, so that an expression means here what it means
// there or is refused; empty where there is none of it.
std::string_view ForeignSyntax(std::string_view s) {
  bool in_class = false;
  for (size_t i = 0; i < s.size(); ++i) {
    const std::string_view rest = s.substr(i);
    if (s[i] == '\\') {
      if (rest.size() > 1 && text::Contains("pPQECz", rest.substr(1, 1))) return rest.substr(0, 2);
      ++i;
    } else if (in_class) {
      if (rest.starts_with("[:")) return rest.substr(0, 2);
      in_class = s[i] != ']';
    } else if (s[i] == '[') {  // a ']' that comes first is one of the class
      in_class = true;
      if (i + 1 < s.size() && s[i + 1] == '^') ++i;
      if (i + 1 < s.size() && s[i + 1] == ']') ++i;
    } else if (rest.starts_with("(?U")) {
      return rest.substr(0, 3);
    }
  }
  return {};
}

// What Python has and RE2 lacks.
std::string_view PythonOnly(std::string_view s) {
  constexpr std::string_view kGroups[] = {"(?=", "(?!", "(?<=", "(?<!", "(?>", "(?P=", "(?("};
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '\\') {
      if (i + 1 < s.size() && s[i + 1] >= '1' && s[i + 1] <= '9') return s.substr(i, 2);
      ++i;
      continue;
    }
    for (const std::string_view group : kGroups)
      if (s.substr(i).starts_with(group)) return group;
  }
  return {};
}

// transformers' test of modules_to_not_convert.
bool Skips(const std::string& name, const std::string& parameter) {
  return name == parameter || text::Contains(parameter, name + ".");
}

}  // namespace

struct Matcher::State {
  struct Expression {
    size_t entry;
    std::unique_ptr<const re2::RE2> re;
  };
  const ConfigMap* map;
  text::ViewMap<size_t> exact;          // key -> its place among the entries
  std::vector<Expression> expressions;  // in the order of the entries
  std::vector<bool> matched;            // by entry

  // The first expression that matches the whole of `name`, or -1. All that match are marked.
  ptrdiff_t FirstExpression(const std::string& name) {
    ptrdiff_t first = -1;
    for (const Expression& e : expressions) {
      if (!re2::RE2::FullMatch(name, *e.re)) continue;
      matched[e.entry] = true;
      if (first < 0) first = static_cast<ptrdiff_t>(e.entry);
    }
    return first;
  }
  // The entry of that very key, or -1.
  ptrdiff_t Exact(std::string_view key) {
    const auto it = exact.find(key);
    if (it == exact.end()) return -1;
    matched[it->second] = true;
    return static_cast<ptrdiff_t>(it->second);
  }
};

Matcher::Matcher() : state_(std::make_unique<State>()) {}
Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;

absl::StatusOr<Matcher> Matcher::Make(const ConfigMap& map) {
  Matcher out;
  State& state = *out.state_;
  state.map = &map;
  state.matched.resize(map.entries.size());
  std::vector<std::string> wrong;
  bool malformed = false;
  re2::RE2::Options options;
  options.set_log_errors(false);
  for (size_t i = 0; i < map.entries.size(); ++i) {
    const std::string& key = map.entries[i].key;
    std::string_view expression = key;
    if (!text::ConsumePrefix(&expression, kPrefix)) {
      if (!state.exact.emplace(key, i).second) {
        wrong.push_back(text::StrCat("'", text::Printable(key), "' is there twice"));
        malformed = true;
      }
      continue;
    }
    const std::string shown = text::StrCat("'", text::Printable(key), "': ");
    if (const std::string_view foreign = ForeignSyntax(expression); !foreign.empty()) {
      wrong.push_back(text::StrCat(shown, "Python's re does not take '", foreign, "' for what RE2 does"));
      malformed = true;
      continue;
    }
    auto re = std::make_unique<const re2::RE2>(std::string(expression), options);
    if (re->ok()) {
      state.expressions.push_back({i, std::move(re)});
    } else if (const std::string_view lacking = PythonOnly(expression); !lacking.empty()) {
      wrong.push_back(text::StrCat(shown, "'", lacking, "' is not supported: expressions have no look-around, no ",
                                   "backreferences, no atomic and no conditional groups"));
    } else {
      wrong.push_back(text::StrCat(shown, text::Printable(re->error())));
      malformed = true;
    }
  }
  if (wrong.empty()) return out;
  const std::string message = text::Join(wrong, "; ");
  return malformed ? absl::InvalidArgumentError(message) : absl::UnimplementedError(message);
}

Match Matcher::Find(const std::string& module, std::string_view parameter) {
  State& state = *state_;
  const std::string name = module.empty() ? std::string(parameter) : text::StrCat(module, ".", parameter);
  // All are asked, so that Unmatched() knows of keys that stand behind others.
  const ptrdiff_t by_precedence[] = {state.Exact(name), state.Exact(module), state.FirstExpression(name),
                                     state.FirstExpression(module), state.Exact(kDefault)};
  Match match;
  for (const std::string& skip : state.map->skip) match.skipped |= Skips(skip, name);
  if (match.skipped) return match;
  for (const ptrdiff_t i : by_precedence) {
    if (i < 0) continue;
    match.entry = &state.map->entries[i];
    if (match.entry->config) match.config = &*match.entry->config;
    break;
  }
  return match;
}

std::vector<std::string> Matcher::Unmatched() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < state_->matched.size(); ++i)
    if (const std::string& key = state_->map->entries[i].key; !state_->matched[i] && key != kDefault)
      out.push_back(key);
  return out;
}

}  // namespace slipway::quantizer
