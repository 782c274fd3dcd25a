// Common subexpressions: of pure nodes with equal operators and arguments the first stays. Each graph by itself, since
// a subgraph captures nothing.
#include <bit>
#include <cstring>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"
#include "passes/purity.h"

namespace slipway::passes {
namespace {

// Writes arguments as bytes that are equal exactly when the arguments are: numbers by their bits (0.0 is not -0.0),
// values by identity.
class Key {
 public:
  explicit Key(const ir::Node& n) {
    Put(&n.op());
    // By declaration, so that a default that is spelled out equals one that is not.
    for (const ir::ArgDef& a : n.op().args) PutArg(n.Get(a.name));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;

  template <typename T>
  requires(std::is_trivially_copyable_v<T>) void Put(const T& x) {
    text_.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  void Put(const std::string& s) {
    Put(s.size());
    text_ += s;
  }
  void Put(ir::None) {}
  void Put(const ir::OperatorName& o) { Put(o.name); }
  void Put(const std::complex<double>& c) { Put(c.real()), Put(c.imag()); }
  void Put(const ir::IntOrValue& v) { Put(v.value), Put(v.constant); }
  void Put(const ir::Device& d) { Put(d.type), Put(d.index.has_value()), Put(d.index.value_or(0)); }
  void Put(const ir::SubGraph& g) { Put(g.get()); }
  template <typename T>
  void Put(const std::vector<T>& list) {
    Put(list.size());
    for (size_t i = 0; i < list.size(); ++i) Put(static_cast<const T&>(list[i]));
  }
  void PutArg(const ir::Arg& a) {
    Put(static_cast<uint8_t>(a.v.index()));
    std::visit([this](const auto& x) { Put(x); }, a.v);
  }
};

// Sizes that only running tells get symbols of their own, which may be mentioned elsewhere: such results stay apart.
bool SameResults(const ir::Node& a, const ir::Node& b) {
  if (a.outputs().size() != b.outputs().size()) return false;
  for (size_t i = 0; i < a.outputs().size(); ++i) {
    const ir::Value *x = a.output(i), *y = b.output(i);
    if (!x || !y) {
      if (x != y) return false;
      continue;
    }
    const ir::Type &s = x->type(), &t = y->type();
    if (s.kind != t.kind || s.dtype != t.dtype || s.sizes != t.sizes || s.expr != t.expr) return false;
  }
  return true;
}

void Merge(ir::Graph& g) {
  text::Map<ir::Node*> seen;
  for (ir::Node *n = g.first(), *next; n; n = next) {
    next = n->next();
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>()) Merge(**sub);
    if (!IsPure(*n)) continue;
    auto [it, first] = seen.try_emplace(Key(*n).text(), n);
    if (first || !SameResults(*it->second, *n)) continue;
    for (size_t i = 0; i < n->outputs().size(); ++i)
      if (n->output(i)) g.ReplaceAllUses(n->output(i), it->second->output(i));
    g.Erase(n);
  }
}

}  // namespace

absl::Status MergeCommonSubexpressions(ir::Program& p) {
  Merge(*p.graph);
  return absl::OkStatus();
}

}  // namespace slipway::passes
