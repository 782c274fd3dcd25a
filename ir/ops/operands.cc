// See operands.h.
#include "ir/ops/operands.h"

namespace slipway::ir {

std::vector<Arg> FlatOperands(const Arg& a) {
  std::vector<Arg> out;
  if (auto values = a.get<Values>()) {
    for (Value* v : *values) out.emplace_back(v);
  } else if (auto ints = a.get<Ints>()) {
    for (int64_t i : *ints) out.emplace_back(i);
  } else if (auto syms = a.get<SymInts>()) {
    for (const IntOrValue& i : *syms) out.emplace_back(i);
  } else if (!a.is_none()) {
    out.push_back(a);
  }
  return out;
}

}  // namespace slipway::ir
