// Lines become entries by operator and argument; "*" stands for all operators.
#include "ir/ops/op_numbers.h"

#include <utility>
#include <vector>

#include "schemas/embedded.h"

namespace slipway::ir {
namespace {

constexpr std::pair<std::string_view, NumberRole> kRoleWords[] = {
    {"view", NumberRole::kView},         {"expand", NumberRole::kExpand},   {"bound", NumberRole::kBound},
    {"pad", NumberRole::kPad},           {"size", NumberRole::kSize},       {"resample", NumberRole::kResample},
    {"repeat", NumberRole::kRepeat},     {"count", NumberRole::kCount},     {"window", NumberRole::kWindow},
    {"diagonal", NumberRole::kDiagonal}, {"setting", NumberRole::kSetting}, {"fill", NumberRole::kFill},
    {"operand", NumberRole::kOperand},   {"factor", NumberRole::kFactor},   {"divisor", NumberRole::kDivisor},
    {"exponent", NumberRole::kExponent}, {"fixed", NumberRole::kFixed},
};

}  // namespace

std::optional<NumberRole> NumberRoleOf(std::string_view word) {
  for (const auto& [name, role] : kRoleWords)
    if (name == word) return role;
  return std::nullopt;
}

NumberRole RoleOfNumber(const OpDef& op, const ArgDef& arg) {
  static const NumberRoles& roles = *new NumberRoles(schemas::OpNumberLines());
  return op.ns == "aten" || op.ns == "prims" ? roles.Of(op.base, arg.name, arg.type) : NumberRole::kNone;
}

NumberRoles::NumberRoles(std::string_view lines) {
  for (std::string_view line : text::Split(lines, '\n', true)) {
    if (line[0] == '#') continue;
    const std::vector<std::string_view> words = text::Split(line, ' ', true);
    const auto role = NumberRoleOf(words[0]);
    if (!role || words.size() < 3) {
      if (error_.empty()) error_ = std::string(line);
      continue;
    }
    for (size_t i = 2; i < words.size(); ++i)
      for (std::string_view arg : text::Split(words[1], ','))
        if (!roles_.emplace(text::StrCat(words[i], " ", arg), *role).second && error_.empty())
          error_ = std::string(line);
  }
}

NumberRole NumberRoles::Of(std::string_view base, std::string_view arg, std::string_view type) const {
  const bool integer = type == "SymInt" || type == "int", number = type == "Scalar", real = type == "float";
  // A program may give a number where a tensor is declared: x + 1.
  if (!integer && !number && !real && type != "Tensor") return NumberRole::kNone;
  const auto find = [&](std::string_view op) { return roles_.find(text::StrCat(op, " ", arg)); };
  auto it = find(base);
  if (it == roles_.end() && base.ends_with('_')) it = find(base.substr(0, base.size() - 1));
  if (it == roles_.end()) it = find("*");
  if (it != roles_.end()) return it->second;
  return real ? NumberRole::kFixed : integer ? NumberRole::kSetting : NumberRole::kOperand;
}

}  // namespace slipway::ir
