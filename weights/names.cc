// Replacements are written as ECMAScript has them ($1) and become RE2's (\1), which has nine groups.
#include "weights/names.h"

#include <algorithm>

#include "base/text.h"
#include "re2/re2.h"

namespace slipway::weights {

absl::StatusOr<NameExpression> NameExpression::Compile(const std::string& text) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  auto re = std::make_shared<const re2::RE2>(text, options);
  if (!re->ok()) return absl::InvalidArgumentError(text::StrCat("'", text, "': ", re->error()));
  NameExpression out;
  out.expression_ = std::move(re);
  return out;
}

const std::string& NameExpression::text() const { return expression_->pattern(); }

bool NameExpression::FoundIn(const std::string& name) const { return re2::RE2::PartialMatch(name, *expression_); }

absl::StatusOr<std::string> NameExpression::Template(const std::string& text) const {
  std::string out;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\\') {
      out += "\\\\";
    } else if (c != '$' || (next != '$' && next != '&' && !is_digit(next))) {
      out += c;
    } else {
      if (next != '$') out += '\\';
      out += next == '&' ? '0' : next;
      ++i;
    }
  }
  std::string why;
  if (!expression_->CheckRewriteString(out, &why))
    return absl::InvalidArgumentError(text::StrCat("'", text, "': ", why));
  return out;
}

std::string NameExpression::Replace(std::string name, const std::string& replacement) const {
  re2::RE2::GlobalReplace(&name, *expression_, replacement);
  return name;
}

absl::StatusOr<NameRules> NameRules::Parse(const std::vector<std::string>& include,
                                           const std::vector<std::string>& exclude,
                                           const std::vector<std::string>& rename) {
  const auto named = [](std::string_view flag, const absl::Status& s) {
    return absl::InvalidArgumentError(text::StrCat(flag, " ", text::FromAbsl(s.message())));
  };
  NameRules rules;
  for (const auto& [flag, from, to] :
       {std::tuple("--include", &include, &rules.include_), std::tuple("--exclude", &exclude, &rules.exclude_)})
    for (const std::string& text : *from) {
      auto expression = NameExpression::Compile(text);
      if (!expression.ok()) return named(flag, expression.status());
      to->push_back(*std::move(expression));
    }
  for (const std::string& rule : rename) {
    const size_t arrow = rule.find("=>");
    if (arrow == std::string::npos)
      return absl::InvalidArgumentError(text::StrCat("--rename '", rule, "' is not RE=>TEXT"));
    auto expression = NameExpression::Compile(rule.substr(0, arrow));
    if (!expression.ok()) return named("--rename", expression.status());
    auto replacement = expression->Template(rule.substr(arrow + 2));
    if (!replacement.ok()) return named("--rename", replacement.status());
    rules.rename_.emplace_back(*std::move(expression), *std::move(replacement));
  }
  return rules;
}

std::optional<std::string> NameRules::Apply(const std::string& name) const {
  const auto found = [&](const NameExpression& e) { return e.FoundIn(name); };
  if (!include_.empty() && std::none_of(include_.begin(), include_.end(), found)) return std::nullopt;
  if (std::any_of(exclude_.begin(), exclude_.end(), found)) return std::nullopt;
  std::string renamed = name;
  for (const auto& [expression, replacement] : rename_) renamed = expression.Replace(std::move(renamed), replacement);
  return renamed;
}

}  // namespace slipway::weights
