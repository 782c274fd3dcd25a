// Each size of an input is a symbol, which takes the number, or an expression, which must come out as it.
#include "planner/bind.h"

#include <cstring>

#include "base/text.h"
#include "ir/specialize.h"

namespace slipway::planner {
namespace {

using Values = text::Map<int64_t>;

// The sizes of an input, or its value as the one "size" of a symbolic number.
absl::Status Learn(const ir::Value& v, const ir::TensorRef& given, Values& values) {
  auto bad = [&](auto... what) { return absl::InvalidArgumentError(text::StrCat("input %", v.name(), ": ", what...)); };
  const ir::Type& t = v.type();
  ir::Sizes want = t.sizes;
  std::vector<int64_t> have = given.sizes;
  if (t.kind == ir::Type::kSymInt) {
    auto bytes = ir::ReadDense(given);
    if (!bytes.ok()) return bytes.status();
    if (given.dtype != ir::DType::kInt64 || bytes->size() != 8) return bad("not an integer");
    want = {t.expr};
    have.resize(1);
    std::memcpy(have.data(), bytes->data(), 8);
  } else if (!t.is_tensor() || given.dtype != t.dtype || given.sizes.size() != t.sizes.size()) {
    return bad("is ", ir::Name(given.dtype), "[", text::Join(given.sizes, ","), "], the program takes ", t.ToString());
  }
  for (size_t d = 0; d < want.size(); ++d)
    if (want[d].kind() == ir::SymKind::kSymbol) values.try_emplace(std::string(want[d].name()), have[d]);
  return absl::OkStatus();
}

// What is a number now must be the size given.
absl::Status Check(const ir::Value& v, const ir::TensorRef& given) {
  for (size_t d = 0; d < v.type().sizes.size(); ++d)
    if (auto size = v.type().sizes[d].constant(); size && *size != given.sizes[d])
      return absl::InvalidArgumentError(
          text::StrCat("input %", v.name(), ": size ", d, " is ", given.sizes[d], ", the program takes ", *size));
  return absl::OkStatus();
}

}  // namespace

absl::Status BindSymbols(ir::Program& p, absl::Span<const ir::TensorRef> inputs) {
  Values values;
  std::vector<const ir::Value*> users;
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    if (p.input_specs[i].kind == ir::InputSpec::kUser && v->type().kind != ir::Type::kConstant) users.push_back(v);
  }
  if (users.size() != inputs.size())
    return absl::InvalidArgumentError(text::StrCat(inputs.size(), " inputs, the program takes ", users.size()));
  for (size_t i = 0; i < users.size(); ++i)
    if (absl::Status s = Learn(*users[i], inputs[i], values); !s.ok()) return s;
  if (absl::Status s = ir::Specialize(p, values); !s.ok()) return s;
  for (size_t i = 0; i < users.size(); ++i)
    if (absl::Status s = Check(*users[i], inputs[i]); !s.ok()) return s;
  return absl::OkStatus();
}

}  // namespace slipway::planner
