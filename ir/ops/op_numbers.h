// What the numbers among an operator's arguments are: sizes, bounds, counts, fills, settings. The data is
// schemas/op_numbers.txt, which explains each role. Whoever looks for numbers that were sizes when a
// program was exported (shapes/) asks for the role, never for an operator's name.
#ifndef SLIPWAY_IR_OPS_OP_NUMBERS_H_
#define SLIPWAY_IR_OPS_OP_NUMBERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "ir/ops/op_table.h"

namespace slipway::ir {

enum class NumberRole : uint8_t {
  kNone,  // no number, or one of an operator that the table does not cover
  kView,
  kExpand,
  kBound,
  kPad,
  kSize,
  kResample,
  kRepeat,
  kCount,
  kWindow,
  kDiagonal,
  kSetting,
  kFill,
  kOperand,
  kFactor,
  kDivisor,
  kExponent,
  kFixed,
};
// Elements are made of it: a fill or any kind of operand.
inline bool IsElementary(NumberRole r) { return r >= NumberRole::kFill && r <= NumberRole::kExponent; }
std::optional<NumberRole> NumberRoleOf(std::string_view word);

// The role of an argument, as declared.
NumberRole RoleOfNumber(const OpDef& op, const ArgDef& arg);

// The parsed table. `lines` must outlive it.
class NumberRoles {
 public:
  explicit NumberRoles(std::string_view lines);

  // Of an argument of a declared type ("SymInt", "int", "Scalar", "float", "Tensor"; without list and optional marks).
  NumberRole Of(std::string_view base, std::string_view arg, std::string_view type) const;
  // The first malformed line, or one that gives an argument a second role; "" without.
  const std::string& error() const { return error_; }

 private:
  text::Map<NumberRole> roles_;  // by "OP ARG"
  std::string error_;
};

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_OP_NUMBERS_H_
