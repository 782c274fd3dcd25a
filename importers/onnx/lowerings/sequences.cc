// Sequences and optionals. A program of ATen's has neither: sequences are lists of known length while the model is
// read, and what is made of them (a member, the number, a tensor of all) is what the program has.
#include <algorithm>
#include <memory>
#include <utility>

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {
namespace {

// The index that input `i` states, from the front, for a list of `count`; that of the end where it is left out.
std::optional<size_t> Position(Call& c, size_t i, size_t count, size_t end) {
  if (!c.has(i)) return end;
  const Ints given = c.constants(i, "a position");
  if (!c.ok()) return std::nullopt;
  const auto n = static_cast<int64_t>(count);
  const int64_t at = given.size() == 1 && given[0] < 0 ? given[0] + n : given.size() == 1 ? given[0] : -1;
  if (at < 0 || at > static_cast<int64_t>(end)) {
    c.Wrong("a position that the sequence has not");
    return std::nullopt;
  }
  return static_cast<size_t>(at);
}

void SequenceEmpty(Call& c) {
  c.Ignore("dtype");
  c.Give(Sequence());
}

void SequenceConstruct(Call& c) {
  Sequence all;
  for (size_t i = 0; i < c.input_count(); ++i) all.push_back(c.operand(i));
  c.Give(std::move(all));
}

void SequenceInsert(Call& c) {
  const auto list = c.sequence(0);
  if (!list) return;
  Sequence out = *list;
  const Operand member = c.operand(1);
  const auto at = Position(c, 2, out.size(), out.size());
  if (!at) return;
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(*at), member);
  c.Give(std::move(out));
}

void SequenceErase(Call& c) {
  const auto list = c.sequence(0);
  if (!list) return;
  if (list->empty()) return c.Wrong("a sequence without members");
  Sequence out = *list;
  const auto at = Position(c, 1, out.size(), out.size() - 1);
  if (!at) return;
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(*at));
  c.Give(std::move(out));
}

void SequenceAt(Call& c) {
  const auto list = c.sequence(0);
  if (!list) return;
  if (list->empty()) return c.Wrong("a sequence without members");
  if (const auto at = Position(c, 1, list->size(), list->size() - 1)) c.Give(0, (*list)[*at]);
}

void SequenceLength(Call& c) {
  if (const auto list = c.sequence(0))
    c.Give(Elements{.values = {IntOrValue(static_cast<int64_t>(list->size()))}, .scalar = true});
}

// Known elements stay known: models gather sizes in sequences.
std::optional<Elements> JoinedElements(const Sequence& list, int64_t axis, bool stack) {
  Elements out;
  for (const Operand& o : list) {
    if (!o.elements || o.elements->columns > 0 || o.elements->scalar != stack || (axis != 0 && axis != -1))
      return std::nullopt;
    out.dtype = o.elements->dtype;
    out.values.insert(out.values.end(), o.elements->values.begin(), o.elements->values.end());
  }
  return out;
}

void ConcatFromSequence(Call& c) {
  const auto list = c.sequence(0);
  const int64_t axis = c.integer("axis", 0);
  const bool stack = c.integer("new_axis", 0) != 0;
  if (!list) return;
  if (list->empty()) return c.Refuse("of a sequence without members");
  if (auto e = JoinedElements(*list, axis, stack)) return c.Give(*std::move(e));
  Values all;
  for (const Operand& o : *list) {
    if (o.sequence) return c.Wrong("a sequence of sequences");
    all.push_back(c.TensorOf(o));
  }
  c.Give(c.b.Call(stack ? "aten.stack.default" : "aten.cat.default", {Arg(all), axis}));
}

// Parts of a size each, the last of what is left; of sizes that are stated; or slices of one.
void SplitToSequence(Call& c) {
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", 0), x->rank()), keep = c.integer("keepdims", 1);
  if (!c.ok()) return;
  const auto size = x->sizes()[static_cast<size_t>(axis)].constant();
  SymInts sizes;
  const auto given = c.has(1) ? c.elements(1) : std::optional<Elements>(Elements{{IntOrValue(1)}, DType::kInt64, true});
  if (given && !given->scalar) {
    sizes = given->values;
  } else if (given && size && !given->values[0].value && given->values[0].constant > 0) {
    constexpr int64_t kMostParts = 4096;
    const int64_t part = given->values[0].constant;
    if (*size / part > kMostParts) return c.Refuse("into so many parts");
    for (int64_t at = 0; at < *size; at += part) sizes.emplace_back(std::min(part, *size - at));
  } else {
    return c.Refuse("whose number of parts the program computes");
  }
  Sequence out;
  if (!sizes.empty())
    for (Value* v : c.b.CallMulti("aten.split_with_sizes.default", {x, Arg(sizes), axis})) {
      if (!c.ok()) return;
      out.push_back({c.has(1) || keep != 0 ? v : c.b.Call("aten.squeeze.dim", {v, axis}), std::nullopt});
    }
  c.Give(std::move(out));
}

// ---- Optionals, whose kind is known: a value that is given has an element.

void Optional(Call& c) {
  c.Ignore("type");
  if (!c.has(0)) return c.Refuse("without an element");
  c.Give(0, c.operand(0));
}

void OptionalHasElement(Call& c) {
  // An input of the model may be one or none, which its type says.
  const Operand o = c.has(0) ? c.operand(0) : Operand();
  if (o.tensor && !o.tensor->type().is_tensor()) return c.Refuse("of an optional that the program takes");
  c.Give(Elements{.values = {IntOrValue(int64_t{c.has(0)})}, .dtype = DType::kBool, .scalar = true});
}

void OptionalGetElement(Call& c) {
  const Operand o = c.operand(0);
  if (o.tensor && !o.tensor->type().is_tensor()) return c.Refuse("of an optional that the program takes");
  c.Give(0, o);
}

constexpr Row kRows[] = {
    {"SequenceEmpty", SequenceEmpty},
    {"SequenceConstruct", SequenceConstruct},
    {"SequenceInsert", SequenceInsert},
    {"SequenceErase", SequenceErase},
    {"SequenceAt", SequenceAt},
    {"SequenceLength", SequenceLength},
    {"ConcatFromSequence", ConcatFromSequence},
    {"SplitToSequence", SplitToSequence},
    {"Optional", Optional},
    {"OptionalHasElement", OptionalHasElement},
    {"OptionalGetElement", OptionalGetElement},
};

}  // namespace

absl::Span<const Row> SequenceRows() { return kRows; }

}  // namespace slipway::importers::onnx_in
