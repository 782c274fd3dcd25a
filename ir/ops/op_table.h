// The one op table: every operator's arguments, defaults, results and aliasing, from the data in schemas/ops*.txt
// (made from an installed torch by scripts/gen_op_schemas.py). Declarations are parsed on first use and then immutable.
#ifndef SLIPWAY_IR_OPS_OP_TABLE_H_
#define SLIPWAY_IR_OPS_OP_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/ops/op_traits.h"

namespace slipway::ir {

struct ArgDef {
  std::string name;
  std::string type;               // base type without list, optional and alias marks: "Tensor", "SymInt", "Scalar", …
  bool is_list = false;           // Tensor[], SymInt[2]
  int list_size = 0;              // the 2 of SymInt[2]: a single int stands for all
  bool optional = false;          // Tensor?; for lists: the list itself
  bool element_optional = false;  // Tensor?[]
  bool keyword_only = false;
  bool has_default = false;
  Arg default_value;
  char alias = 0;        // alias set letter of Tensor(a), 0 if none
  bool written = false;  // Tensor(a!)
};

struct ReturnDef {
  std::string type;
  bool is_list = false;
  char alias = 0;
  bool written = false;
};

struct OpDef {
  std::string name;           // "aten.add.Tensor", "_operator.add", "higher_order.cond"
  std::string_view ns;        // "aten"
  std::string_view base;      // "add"
  std::string_view overload;  // "Tensor", "default"; empty for ops without overloads
  bool known = true;          // false: not in the table (custom op); args and returns are empty
  bool variadic = false;      // higher-order ops: arguments are positional and not declared
  std::vector<ArgDef> args;
  std::vector<ReturnDef> returns;
  OpTraits traits;

  int ArgIndex(std::string_view arg) const;  // -1 if none
  bool mutates() const;                      // any argument is written
  bool is_view() const;                      // a result aliases an argument without writing it
};

// The declaration of "aten.add.Tensor"; an op the table lacks gets a fresh entry with known = false. Never null; the
// reference lives forever. Thread-safe.
const OpDef& GetOp(std::string_view name);
// Null when the table has no such op.
const OpDef* FindOp(std::string_view name);

// PT2 target text <-> op name: "torch.ops.aten.add.Tensor" <-> "aten.add.Tensor"; "_operator.add", "torch.sym_max",
// "math.trunc" and "torch._functorch…" are themselves.
std::string OpNameFromTarget(std::string_view target);
std::string TargetFromOpName(std::string_view name);

// Names of all ops in the table, in file order.
std::vector<std::string_view> AllOps();
// torch release the table was made from, "2.13.0".
std::string_view OpTableTorchVersion();

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_OP_TABLE_H_
