// Sequences and optionals. A program of ATen's has neither: sequences are lists of known length while the model is
// read, or the rows of a tensor, and what is made of them (a member, the number, a tensor of all) is what the program
// has.
#include <algorithm>
#include <memory>
#include <utility>

#include "importers/onnx/lowering.h"
#include "importers/onnx/lowerings/sequences.h"

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

// A member behind the rows of a tensor, or behind what the turn of a loop has appended.
void Append(Call& c, const Operand& to, const Operand& member) {
  if (c.has(2)) return c.Refuse("at a position of a sequence whose length the program computes");
  if (IsSequence(member)) return c.Wrong("a sequence of sequences");
  if (to.appended) {
    Appended longer = *to.appended;
    longer.members.push_back(member);
    return c.Give(0, {.appended = std::make_shared<const Appended>(std::move(longer))});
  }
  if (Value* rows = JoinedRows(c, {to.rows, c.b.Call("aten.unsqueeze.default", {c.TensorOf(member), 0})}))
    c.GiveRows(rows);
}

void SequenceInsert(Call& c) {
  if (const Operand to = c.operand(0); to.rows || to.appended) return Append(c, to, c.operand(1));
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

// The row of an index, which may count from the end.
void RowAt(Call& c, Value* rows) {
  if (const auto at = c.elements(1); at && at->values.size() == 1)
    return c.Give(c.b.Call("aten.select.int", {rows, 0, Arg(at->values[0])}));
  Value* at = c.b.Call("aten.reshape.default", {c.in(1), Arg(Ints{1})});
  c.Give(c.b.Call("aten.select.int", {c.b.Call("aten.index.Tensor", {rows, Arg(Values{at})}), 0, 0}));
}

void SequenceAt(Call& c) {
  if (Value* rows = c.operand(0).rows) return RowAt(c, rows);
  const auto list = c.sequence(0);
  if (!list) return;
  if (list->empty()) return c.Wrong("a sequence without members");
  if (const auto at = Position(c, 1, list->size(), list->size() - 1)) c.Give(0, (*list)[*at]);
}

void SequenceLength(Call& c) {
  if (Value* rows = c.operand(0).rows) return c.Give(Elements{.values = {c.b.Size(rows, 0)}, .scalar = true});
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

// The rows of a tensor along another axis: as one of its own, or one behind the other.
void ConcatRows(Call& c, Value* rows, int64_t axis, bool stack) {
  axis = c.axis(axis, stack ? rows->rank() : rows->rank() - 1);
  if (!c.ok()) return;
  if (axis != 0) rows = c.b.Call("aten.movedim.int", {rows, 0, axis});
  c.Give(stack ? rows : c.b.Call("aten.flatten.using_ints", {rows, axis, axis + 1}));
}

void ConcatFromSequence(Call& c) {
  const int64_t axis = c.integer("axis", 0);
  const bool stack = c.integer("new_axis", 0) != 0;
  if (Value* rows = c.operand(0).rows) return ConcatRows(c, rows, axis, stack);
  const auto list = c.sequence(0);
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
  } else if (given && !given->values[0].value && given->values[0].constant == 1) {
    Value* rows = axis == 0 ? x : c.b.Call("aten.movedim.int", {x, axis, 0});
    return c.GiveRows(c.has(1) || keep != 0 ? c.b.Call("aten.unsqueeze.default", {rows, axis + 1}) : rows);
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

constexpr Row kSequenceRows[] = {
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

Value* JoinedRows(Call& c, const Values& parts) {
  for (const Value* v : parts) {
    if (!c.ok()) return nullptr;
    bool same = v->rank() == parts[0]->rank() && v->dtype() == parts[0]->dtype();
    for (int d = 1; same && d < v->rank(); ++d)
      same = ProvablyEqual(v->sizes()[static_cast<size_t>(d)], parts[0]->sizes()[static_cast<size_t>(d)]);
    if (!same) c.Refuse("of members of other sizes, whose number the program computes");
  }
  if (!c.ok()) return nullptr;
  return parts.size() == 1 ? parts[0] : c.b.Call("aten.cat.default", {Arg(parts), 0});
}

absl::Span<const Row> SequenceRows() { return kSequenceRows; }

}  // namespace slipway::importers::onnx_in
