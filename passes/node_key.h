// A node's operator and arguments as bytes, for finding nodes that compute the same.
#ifndef SLIPWAY_PASSES_NODE_KEY_H_
#define SLIPWAY_PASSES_NODE_KEY_H_

#include <complex>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ir/ops/op_table.h"

namespace slipway::passes {

// Writes arguments as bytes that are equal exactly when the arguments are: numbers by their bits (0.0 is not -0.0),
// values by number or identity, graphs by
// identity.
class NodeKey {
 public:
  using Numbering = std::function<uint64_t(const ir::Value*)>;

  // Without a numbering, values are told apart by identity.
  explicit NodeKey(const ir::Node& n, Numbering number = nullptr) : number_(std::move(number)) {
    Put(&n.op());
    // By declaration, so that a default that is spelled out equals one that is not.
    for (const ir::ArgDef& a : n.op().args) PutArg(n.Get(a.name));
  }
  const std::string& text() const { return text_; }

 private:
  Numbering number_;
  std::string text_;

  template <typename T>
    requires(std::is_trivially_copyable_v<T>)
  void Put(const T& x) {
    text_.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  void Put(const std::string& s) {
    Put(s.size());
    text_ += s;
  }
  void Put(ir::None) {}
  void Put(ir::Value* v) {
    if (number_ && v) {
      const uint64_t number = number_(v);
      text_.append(reinterpret_cast<const char*>(&number), sizeof number);
    } else {
      text_.append(reinterpret_cast<const char*>(&v), sizeof v);
    }
  }
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

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_NODE_KEY_H_
