// An index that is selected of a result is selected before what computes it, so that rows nobody reads are not
// computed:
//
//   select(x + linear(norm(x)), 1, -1)  →  y + linear(norm(y)), y = select(x, 1, -1)
//
// Classifiers that read one token of the last layer, and decoders that read the last one, end so. What is crossed
// computes each row of its
// own row only: elementwise operators, linear layers and norms over later dims, whose results go nowhere else. Each
// number is the same sum. Nothing moves unless a linear layer is crossed: that is what pays.
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "ir/builder.h"
#include "ir/ops/args.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Node;
using ir::Value;

// An argument that loses a dim where the result loses one; of size 1 there, it is spread.
struct Operand {
  size_t argument;
  Value* value;
  int dim;
  bool spread;
};

bool IsLinear(const Node& n) { return n.op_name() == "aten.linear.default"; }

// What has to be selected for one index of dim d of the result alone; nullopt where that takes more.
std::optional<std::vector<Operand>> OperandsOf(const Node& n, int d) {
  const Value* y = n.output();
  if (n.outputs().size() != 1 || !y || !y->type().is_tensor()) return std::nullopt;
  std::vector<Operand> operands;
  const bool norm = n.op_name() == "aten.layer_norm.default" || n.op_name() == "aten.rms_norm.default";
  if (IsLinear(n) || norm) {
    ir::ArgReader c(n);
    const int own = norm ? static_cast<int>(c.sym_ints("normalized_shape").size()) : 1;
    const int at = n.op().ArgIndex("input");
    Value* x = n.Get("input").value();
    // A row that is a matrix still: products of vectors have no rows to go over.
    if (!c.ok() || !x || at != 0 || n.args().empty() || n.At(0).value() != x || y->rank() < 3 || d >= y->rank() - own)
      return std::nullopt;
    operands.push_back({0, x, d, false});
    return operands;
  }
  if (!n.op().traits.elementwise || ir::IsRandom(n)) return std::nullopt;
  const int behind = y->rank() - d;
  for (size_t i = 0; i < n.args().size(); ++i) {
    const ir::Arg& a = n.At(i);
    if (a.is<ir::Values>() || a.is<std::vector<ir::Values>>() || a.is<ir::SubGraph>()) return std::nullopt;
    Value* x = a.value();
    if (!x || !x->type().is_tensor() || x->rank() < behind) continue;
    const int at = x->rank() - behind;
    const bool spread = x->sizes()[at].is(1);
    if (!spread && !ir::ProvablyEqual(x->sizes()[at], y->sizes()[d])) return std::nullopt;
    operands.push_back({i, x, at, spread});
  }
  return operands;
}

class SelectMover {
 public:
  explicit SelectMover(ir::Graph& g) : g_(g) {}

  // How many linear layers compute one index only.
  absl::StatusOr<int> Run() {
    std::vector<Node*> selects;
    for (Node* n : g_)
      if (n->op_name() == "aten.select.int") selects.push_back(n);
    int moved = 0;
    for (auto n = selects.rbegin(); n != selects.rend(); ++n) {
      ASSIGN_OR_RETURN(const int layers, Move(*n));
      moved += layers;
    }
    return moved;
  }

 private:
  struct Crossed {
    Node* node;
    std::vector<Operand> operands;
  };

  absl::StatusOr<int> Move(Node* select) {
    ir::ArgReader c(*select);
    Value* const whole = select->Get("self").value();
    const int dim = c.dim("dim", whole->rank());
    const ir::IntOrValue index = c.sym("index");
    if (!c.ok() || index.value || whole->rank() == 0 || whole->sizes()[dim].is(1)) return 0;
    int place = 0;
    absl::flat_hash_map<const Node*, int> places;
    for (const Node* n : g_) places[n] = place++;
    // Last to first, so that what reads a value is decided before what makes it.
    absl::flat_hash_map<const Value*, int> wanted = {{whole, dim}};
    absl::flat_hash_set<const Node*> among;
    std::vector<Crossed> crossed;
    std::set<std::pair<int, Node*>, std::greater<>> open;
    const auto want = [&](const Value* v) {
      if (Node* n = v->producer()) open.insert({places[n], n});
    };
    want(whole);
    int layers = 0;
    while (!open.empty()) {
      Node* const n = open.begin()->second;
      open.erase(open.begin());
      Value* const y = n->output();
      bool cross = y && wanted.contains(y) && !g_.IsOutput(y);
      for (const Node* user : cross ? y->users() : absl::Span<Node* const>())
        cross = cross && (user == select || among.contains(user));
      auto operands = cross ? OperandsOf(*n, wanted[y]) : std::nullopt;
      if (!operands) continue;
      for (const Operand& o : *operands) {
        const auto other = wanted.find(o.value);
        cross = cross && (o.spread || other == wanted.end() || other->second == o.dim);
      }
      if (!cross) continue;
      for (const Operand& o : *operands) {
        if (o.spread) continue;
        wanted.emplace(o.value, o.dim);
        want(o.value);
      }
      among.insert(n);
      layers += IsLinear(*n);
      crossed.push_back({n, *std::move(operands)});
    }
    if (layers == 0) return 0;
    absl::flat_hash_map<const Value*, Value*> selected;
    for (auto each = crossed.rbegin(); each != crossed.rend(); ++each) {
      Node* const n = each->node;
      ir::Builder b(g_, n, n->source());
      std::vector<ir::NamedArg> args(n->args().begin(), n->args().end());
      for (const Operand& o : each->operands) {
        Value* one = nullptr;
        if (o.spread) {
          one = b.Call("aten.squeeze.dim", {o.value, int64_t{o.dim}});
        } else {
          Value*& known = selected[o.value];
          if (!known) known = b.Call("aten.select.int", {o.value, int64_t{o.dim}, index.constant});
          one = known;
        }
        args[o.argument].arg = one;
      }
      RETURN_IF_ERROR(b.status());
      Value* const y = n->output();
      ir::Type type = y->type();
      type.sizes.erase(type.sizes.begin() + wanted[y]);
      type.strides_known = false;
      type.strides.clear();
      Node* const row = g_.Insert(n->op(), std::move(args), n);
      row->set_source(n->source());
      selected[y] = g_.AddOutput(row, y->name(), std::move(type));
    }
    g_.ReplaceAllUses(select->output(), selected[whole]);
    g_.TakeName(selected[whole], select->output());
    g_.Erase(select);
    // Last to first; one stays that something crossed reads in another way, as its weight.
    for (const Crossed& each : crossed)
      if (each.node->output()->users().empty()) g_.Erase(each.node);
    return layers;
  }

  ir::Graph& g_;
};

}  // namespace

absl::StatusOr<int> MoveSelects(ir::Program& p) { return SelectMover(*p.graph).Run(); }

}  // namespace slipway::passes
