// Rows of a quantized table, looked up and then dequantized, as look-ups in a dequantized table: the form that
// recognize-quantization knows the arithmetic of.
//
//   x = to(embedding(q, i)), x · embedding(scale, i)     →     embedding(to(q) · scale, i)
//
// Conversions, differences, products, sums and views of the dims behind the index say the same of each row of the table
// as of the rows that are read. What is not recognized afterwards gets its rows back: dequantizing a whole table for a
// few of them would be right, and slow.
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "ir/ops/args.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

using ir::Builder;
using ir::Node;
using ir::Value;

// A value that is the rows `indices` of `table`, [n, …].
struct LookupRows {
  Value *table = nullptr, *indices = nullptr;
  bool quantized = false;  // made of bytes
};

bool IsSmall(ir::DType t) {
  return t == ir::DType::kInt8 || t == ir::DType::kUInt8 || t == ir::DType::kFloat8E4M3FN ||
         t == ir::DType::kFloat8E5M2;
}
bool IsArithmetic(const Node& n) {
  const std::string_view op = n.op_name();
  return op == "aten.mul.Tensor" || op == "aten.sub.Tensor" || op == "aten.sub.Scalar" || op == "aten.add.Tensor";
}

class Hoister {
 public:
  explicit Hoister(ir::Graph& g) : g_(g) {}

  absl::StatusOr<std::vector<HoistedLookup>> Run() {
    for (Node *n = g_.first(), *next; n; n = next) {
      next = n->next();
      if (n->outputs().size() != 1 || !n->output()->type().is_tensor()) continue;
      Builder b(g_, n, n->source());
      LookupRows rows = Read(*n, b);
      if (!b.ok()) return b.status();
      if (rows.table) rows_[n->output()] = rows;
    }
    std::vector<HoistedLookup> hoisted;
    for (Node *n = g_.first(), *next; n; n = next) {
      next = n->next();
      const auto it = n->outputs().size() == 1 ? rows_.find(n->output()) : rows_.end();
      if (it == rows_.end() || !IsEnd(*n, it->second)) continue;
      Builder b(g_, next, n->source());
      Value* made = b.Call("aten.embedding.default", {it->second.table, it->second.indices});
      if (!b.ok()) return b.status();
      hoisted.push_back({n->output(), made});
    }
    for (const HoistedLookup& h : hoisted) {
      g_.ReplaceAllUses(h.rows, h.made);
      g_.TakeName(h.made, h.rows);
    }
    return hoisted;
  }

 private:
  // Floats of a table of two dims that something else than another row of it is made of.
  bool IsEnd(const Node& n, const LookupRows& rows) const {
    const Value* v = n.output();
    if (!rows.quantized || rows.table->rank() != 2 || !ir::IsFloating(v->dtype()) || IsSmall(v->dtype())) return false;
    if (g_.IsOutput(v)) return true;
    for (const Node* user : v->users())
      if (user->outputs().size() != 1 || !rows_.contains(user->output())) return true;
    return false;
  }

  LookupRows Find(const Value* v) const {
    const auto it = rows_.find(v);
    return it == rows_.end() ? LookupRows{} : it->second;
  }

  LookupRows Read(const Node& n, Builder& b) const {
    if (n.op_name() == "aten.embedding.default") {
      Value *table = n.Get("weight").value(), *indices = n.Get("indices").value();
      if (!table || !indices || !IsStored(table) || table->rank() != 2 || !table->type().StaticSizes()) return {};
      return {table, indices, IsSmall(table->dtype())};
    }
    if (const Value* source = CastSource(n.output())) {
      LookupRows rows = Find(source);
      if (rows.table) rows.table = b.Cast(rows.table, n.output()->dtype());
      return rows;
    }
    if (IsReshape(n)) return Reshaped(n, b);
    return IsArithmetic(n) ? Computed(n, b) : LookupRows{};
  }

  // A view that leaves the dims of the index alone.
  LookupRows Reshaped(const Node& n, Builder& b) const {
    const Value *from = FirstArgument(n), *to = n.output();
    LookupRows rows = Find(from);
    if (!rows.table) return {};
    const int rank = rows.indices->rank();
    if (to->rank() <= rank) return {};
    ir::Ints sizes = {*rows.table->sizes()[0].constant()};
    for (int d = 0; d < rank; ++d)
      if (!ir::ProvablyEqual(to->sizes()[d], from->sizes()[d])) return {};
    for (int d = rank; d < to->rank(); ++d) {
      const auto size = to->sizes()[d].constant();
      if (!size) return {};
      sizes.push_back(*size);
    }
    rows.table = b.Call("aten.reshape.default", {rows.table, sizes});
    return rows;
  }

  // Of rows of one index; the other operand may be a number.
  LookupRows Computed(const Node& n, Builder& b) const {
    ir::ArgReader a(n);
    const std::string_view op = n.op_name();
    const ir::Scalar alpha = op == "aten.mul.Tensor" ? ir::Scalar{} : a.scalar("alpha");
    const bool plain = op == "aten.mul.Tensor" || (alpha.is_constant() && alpha.d == 1);
    Value* x = a.tensor("self");
    const ir::Scalar other = a.scalar("other");
    if (!a.ok() || !plain) return {};
    const LookupRows left = Find(x);
    if (!left.table) return {};
    if (other.is_constant()) {
      Value* y = b.Call(op, {left.table, n.Get("other")});
      return {y, left.indices, left.quantized};
    }
    const LookupRows right = Find(other.value);
    if (!right.table || right.indices != left.indices || right.table->rank() != left.table->rank() ||
        (left.quantized && right.quantized && op == "aten.mul.Tensor"))
      return {};
    return {b.Call(op, {left.table, right.table}), left.indices, left.quantized || right.quantized};
  }

  ir::Graph& g_;
  absl::flat_hash_map<const Value*, LookupRows> rows_;
};

}  // namespace

absl::StatusOr<std::vector<HoistedLookup>> HoistLookups(ir::Graph& g) { return Hoister(g).Run(); }

void LowerLookups(ir::Graph& g, absl::Span<const HoistedLookup> hoisted) {
  for (const HoistedLookup& h : hoisted) {
    const Value* table = h.made->producer()->Get("weight").value();
    if (ReadDequantized(table)) continue;
    g.ReplaceAllUses(h.made, h.rows);
    g.TakeName(h.rows, h.made);
  }
}

}  // namespace slipway::passes
