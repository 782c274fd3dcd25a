// The rules are read and checked whole before the first tensor is cut, and what cannot be cut is reported all at once.
#include "weights/tensor_parallel.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "importers/json.h"
#include "io/mapped_file.h"
#include "weights/names.h"

namespace slipway::weights {
namespace {

constexpr size_t kShownNames = 8;  // names in a note

struct Rule {
  NameExpression match;
  std::optional<size_t> dim;  // nullopt: replicate
  bool used = false;
};

absl::StatusOr<std::vector<Rule>> ReadRules(const std::string& path) {
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const auto bad = [&](const absl::Status& s) {
    return absl::Status(s.code(), text::StrCat(path, ": ", text::FromAbsl(s.message())));
  };
  auto doc =
      importers::json::Document::Parse({reinterpret_cast<const char*>((*file)->data().data()), (*file)->data().size()});
  if (!doc.ok()) return bad(doc.status());
  auto list = doc->root().AsArray();
  if (!list.ok()) return bad(list.status());
  std::vector<Rule> rules;
  for (const importers::json::Value& entry : *list) {
    auto members = entry.AsObject();
    if (!members.ok()) return bad(members.status());
    for (const auto& m : *members)
      if (m.key != "match" && m.key != "split")
        return bad(m.value.Error(text::StrCat("'", m.key, "' is not known; a rule has match and split")));
    auto match = entry.Get("match"), split = entry.Get("split");
    if (!match.ok()) return bad(match.status());
    if (!split.ok()) return bad(split.status());
    auto expression = (*match)->AsString(), how = (*split)->AsString();
    if (!expression.ok()) return bad(expression.status());
    if (!how.ok()) return bad(how.status());
    auto compiled = NameExpression::Compile(std::string(*expression));
    if (!compiled.ok()) return bad((*match)->Error(std::string(compiled.status().message())));
    Rule rule{*std::move(compiled)};
    if (*how == "column")
      rule.dim = 0;
    else if (*how == "row")
      rule.dim = 1;
    else if (*how != "replicate")
      return bad((*split)->Error(text::StrCat("'", *how, "' is none of row, column and replicate")));
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::string Some(const std::vector<std::string>& names) {
  const bool more = names.size() > kShownNames;
  return text::StrCat(
      text::Join(std::vector<std::string>(names.begin(), more ? names.begin() + kShownNames : names.end()), ", "),
      more ? ", …" : "");
}

}  // namespace

absl::StatusOr<TensorParallel> SplitTensors(const std::vector<NamedTensor>& tensors, int ranks,
                                            const std::string& path) {
  auto rules = ReadRules(path);
  if (!rules.ok()) return rules.status();
  TensorParallel out;
  out.ranks.resize(static_cast<size_t>(ranks));
  std::vector<std::string> wrong, unmatched, unused;
  for (const NamedTensor& t : tensors) {
    const auto found =
        std::find_if(rules->begin(), rules->end(), [&](const Rule& r) { return r.match.FoundIn(t.name); });
    Rule* rule = found == rules->end() ? nullptr : &*found;
    if (rule)
      rule->used = true;
    else
      unmatched.push_back(t.name);
    const std::vector<int64_t>& sizes = t.tensor.sizes;
    if (!rule || !rule->dim) {
      for (auto& rank : out.ranks) rank.push_back(t);
      continue;
    }
    const size_t dim = *rule->dim;
    if (sizes.size() <= dim || sizes[dim] % ranks != 0) {
      wrong.push_back(text::StrCat(
          t.name, " [", text::Join(sizes, ","), "] ",
          sizes.size() <= dim ? text::StrCat("has no dimension ", dim) : text::StrCat("in dimension ", dim)));
      continue;
    }
    const int64_t length = sizes[dim] / ranks;
    for (int i = 0; i < ranks; ++i) {
      auto part = ir::Narrow(t.tensor, dim, i * length, length);
      if (!part.ok())
        return absl::Status(part.status().code(),
                            text::StrCat("'", t.name, "': ", text::FromAbsl(part.status().message())));
      out.ranks[static_cast<size_t>(i)].push_back({t.name, *std::move(part), t.dtype});
    }
  }
  if (!wrong.empty())
    return absl::InvalidArgumentError(text::StrCat(wrong.size(), wrong.size() == 1 ? " tensor" : " tensors",
                                                   " cannot be split in ", ranks,
                                                   " equal parts: ", text::Join(wrong, ", ")));
  for (const Rule& r : *rules)
    if (!r.used) unused.push_back(text::StrCat("'", r.match.text(), "'"));
  if (!unmatched.empty())
    out.notes.push_back(
        text::StrCat(unmatched.size(),
                     unmatched.size() == 1 ? " tensor that no rule matches is" : " tensors that no rule matches are",
                     " on every rank: ", Some(unmatched)));
  if (!unused.empty()) out.notes.push_back(text::StrCat("rules that decide no tensor: ", Some(unused)));
  return out;
}

}  // namespace slipway::weights
