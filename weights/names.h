// Choosing and renaming tensors by regular expressions over their names. The expressions are RE2's, whose time is
// linear in the
// name whatever they are: no back-references, no look-around.
#ifndef SLIPWAY_WEIGHTS_NAMES_H_
#define SLIPWAY_WEIGHTS_NAMES_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace re2 {
class RE2;
}

namespace slipway::weights {

class NameExpression {
 public:
  // InvalidArgument, quoting the text, for what is no expression.
  static absl::StatusOr<NameExpression> Compile(const std::string& text);

  const std::string& text() const;
  bool FoundIn(const std::string& name) const;
  // A template for Replace(), of text in which $1 … $9 are groups, $& is the whole match and $$ a dollar sign.
  // InvalidArgument for a group that there is not.
  absl::StatusOr<std::string> Template(const std::string& text) const;
  // The name with every match replaced.
  std::string Replace(std::string name, const std::string& replacement) const;

 private:
  std::shared_ptr<const re2::RE2> expression_;
};

// Which tensors are kept, and under which names.
class NameRules {
 public:
  // `rename` holds RE=>TEXT. InvalidArgument names the rule.
  static absl::StatusOr<NameRules> Parse(const std::vector<std::string>& include,
                                         const std::vector<std::string>& exclude,
                                         const std::vector<std::string>& rename);
  // The name that a tensor gets; nullopt: it is left out.
  std::optional<std::string> Apply(const std::string& name) const;

 private:
  std::vector<NameExpression> include_, exclude_;
  std::vector<std::pair<NameExpression, std::string>> rename_;  // with templates
};

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_NAMES_H_
