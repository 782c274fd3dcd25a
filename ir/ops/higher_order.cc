// Decoding is by position: higher-order operators have no declared arguments. What differs between releases of torch
// (scan's dim and reverse before 2.7, invoke_subgraph's name) is told apart by the arguments' types.
#include "ir/ops/higher_order.h"

#include "base/text.h"
#include "ir/ops/op_table.h"

namespace slipway::ir {
namespace {

// A list's members in order; another argument alone.
void Append(const Arg& a, std::vector<Arg>& out) {
  auto each = [&](const auto& list) {
    for (const auto& x : list) out.emplace_back(x);
  };
  if (auto values = a.get<Values>())
    each(*values);
  else if (auto ints = a.get<Ints>())
    each(*ints);
  else if (auto syms = a.get<SymInts>())
    each(*syms);
  else if (auto floats = a.get<std::vector<double>>())
    each(*floats);
  else if (auto bools = a.get<std::vector<bool>>())
    for (bool b : *bools) out.emplace_back(b);
  else
    out.push_back(a);
}

class Decoder {
 public:
  explicit Decoder(const Node& n) : n_(n) {}

  absl::StatusOr<HigherOrder> Run() {
    const std::string_view op = n_.op_name();
    if (op == "higher_order.cond") {
      h_.kind = HigherOrder::kCond;
      if (!n_.args().empty()) h_.predicate = n_.At(0);
      Bodies({1, 2});
      h_.captured = List(3);
    } else if (op == "higher_order.while_loop") {
      h_.kind = HigherOrder::kWhileLoop;
      Bodies({0, 1});
      h_.carried = List(2);
      h_.captured = List(3);
    } else if (op == "higher_order.scan") {
      h_.kind = HigherOrder::kScan;
      Bodies({0});
      h_.carried = List(1);
      h_.scanned = List(2);
      for (size_t i = 3; i < n_.args().size(); ++i) {
        if (auto reverse = n_.At(i).get<bool>())
          h_.reverse = *reverse;
        else if (auto dim = n_.At(i).get<int64_t>())
          other_dim_ |= *dim != 0;
        else
          h_.captured = List(i);
      }
    } else if (op == "higher_order.map_impl" || op == "higher_order.map") {
      h_.kind = HigherOrder::kScan;
      Bodies({0});
      h_.scanned = List(1);
      h_.captured = List(2);
    } else if (op == "higher_order.associative_scan") {
      h_.kind = HigherOrder::kAssociativeScan;
      Bodies({0});
      h_.scanned = List(1);
      h_.captured = List(2);
    } else if (const int body = n_.op().traits.body; body >= 0) {
      Bodies({static_cast<size_t>(body)});
      for (size_t i = body + 1; i < n_.args().size(); ++i) {
        if (!n_.args()[i].name.empty()) continue;  // a keyword: how, not what
        if (auto name = n_.At(i).get<std::string>(); name && i == static_cast<size_t>(body) + 1)
          h_.name = *name;
        else
          Append(n_.At(i), h_.captured);
      }
    } else {
      return absl::UnimplementedError(text::StrCat(op, ": not a higher-order operator that is known"));
    }
    if (status_.ok()) Check();
    if (!status_.ok()) return status_;
    if (other_dim_) return absl::UnimplementedError(text::StrCat(op, ": a scan over another dimension than the first"));
    return std::move(h_);
  }

 private:
  const Node& n_;
  HigherOrder h_;
  bool other_dim_ = false;
  absl::Status status_;

  template <typename... T>
  void Fail(const T&... what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(text::StrCat(n_.op_name(), ": ", what...));
  }

  void Bodies(std::initializer_list<size_t> at) {
    for (size_t i : at) {
      auto g = i < n_.args().size() ? n_.At(i).get<SubGraph>() : nullptr;
      if (!g || !*g) return Fail("argument ", i, " is no graph");
      h_.bodies.push_back(*g);
    }
  }

  std::vector<Arg> List(size_t i) const {
    std::vector<Arg> out;
    if (i < n_.args().size() && !n_.At(i).is_none()) Append(n_.At(i), out);
    return out;
  }

  // A tensor that becomes, or comes from, another one. `dims`: how many more dimensions `from` has.
  void CheckTensor(const Type& from, const Type& to, int dims, const char* what, size_t i) {
    if (!from.is_tensor() || !to.is_tensor()) return;
    bool fits = from.dtype == to.dtype && from.rank() == to.rank() + dims;
    for (int d = 0; fits && d < to.rank(); ++d) fits = !ProvablyDifferent(from.sizes[d + dims], to.sizes[d]);
    if (!fits) Fail(what, " ", i, " is ", from.ToString(), ", the graph says ", to.ToString());
  }

  void CheckInputs(const Graph& g) {
    if (g.inputs().size() != h_.inputs())
      return Fail("a graph of ", g.inputs().size(), " inputs gets ", h_.inputs(), " operands");
    size_t at = 0;
    auto check = [&](const std::vector<Arg>& operands, int dims) {
      for (const Arg& a : operands) {
        if (const Value* v = a.value()) {
          if (dims > 0 && (!v->type().is_tensor() || v->rank() == 0))
            Fail("operand ", at, " is no tensor of a dimension");
          CheckTensor(v->type(), g.inputs()[at]->type(), dims, "operand", at);
        } else if (dims > 0) {
          Fail("operand ", at, " is no tensor of a dimension");
        }
        ++at;
      }
    };
    check(h_.carried, 0);
    check(h_.scanned, 1);
    if (h_.kind == HigherOrder::kAssociativeScan) check(h_.scanned, 1);
    check(h_.captured, 0);
  }

  void CheckOutputs(const Graph& g, size_t stacked_from) {
    if (g.outputs.size() != n_.outputs().size())
      return Fail("a graph of ", g.outputs.size(), " outputs for ", n_.outputs().size(), " results");
    for (size_t i = 0; i < g.outputs.size(); ++i)
      if (const Value *v = g.outputs[i].value(), *result = n_.output(i); v && result)
        CheckTensor(result->type(), v->type(), i >= stacked_from ? 1 : 0, "result", i);
  }

  // What a turn hands to the next one.
  void CheckTurns(const Graph& body) {
    for (size_t i = 0; i < h_.carried.size() && i < body.outputs.size(); ++i)
      if (const Value* v = body.outputs[i].value())
        CheckTensor(v->type(), body.inputs()[i]->type(), 0, "carried value", i);
  }

  // One turn an element of the first dimension, of all that is scanned and of all that is stacked.
  void CheckLengths(size_t stacked_from) {
    const Sym* length = nullptr;
    auto check = [&](const Value* v, const char* what, size_t i) {
      if (!v || !v->type().is_tensor() || v->rank() == 0) return;
      const Sym& size = v->sizes()[0];
      if (length && ProvablyDifferent(*length, size))
        Fail(what, " ", i, " has ", size.ToString(), " rows, the first operand ", length->ToString());
      if (!length) length = &size;
    };
    for (size_t i = 0; i < h_.scanned.size(); ++i) check(h_.scanned[i].value(), "operand", i);
    for (size_t i = stacked_from; i < n_.outputs().size(); ++i) check(n_.output(i), "result", i);
  }

  void Check() {
    for (const SubGraph& g : h_.bodies) CheckInputs(*g);
    if (!status_.ok()) return;
    constexpr size_t kNone = -1;
    switch (h_.kind) {
      case HigherOrder::kCond:
        if (n_.args().empty() || h_.predicate.is_none()) Fail("no predicate");
        CheckOutputs(*h_.bodies[0], kNone);
        CheckOutputs(*h_.bodies[1], kNone);
        break;
      case HigherOrder::kWhileLoop:
        if (h_.bodies[0]->outputs.size() != 1) Fail("the condition gives ", h_.bodies[0]->outputs.size(), " results");
        if (h_.bodies[1]->outputs.size() != h_.carried.size())
          Fail("the body gives ", h_.bodies[1]->outputs.size(), " values of ", h_.carried.size(), " carried");
        CheckOutputs(*h_.bodies[1], kNone);
        if (status_.ok()) CheckTurns(*h_.bodies[1]);
        break;
      case HigherOrder::kScan:
        if (h_.bodies[0]->outputs.size() < h_.carried.size()) Fail("the body gives fewer values than it carries");
        CheckOutputs(*h_.bodies[0], h_.carried.size());
        if (status_.ok()) CheckTurns(*h_.bodies[0]);
        CheckLengths(h_.carried.size());
        break;
      case HigherOrder::kAssociativeScan:
        if (h_.bodies[0]->outputs.size() != h_.scanned.size()) Fail("the body gives other values than it takes");
        CheckOutputs(*h_.bodies[0], 0);
        CheckLengths(0);
        break;
      case HigherOrder::kCall: CheckOutputs(*h_.bodies[0], kNone); break;
    }
  }
};

}  // namespace

absl::StatusOr<HigherOrder> DecodeHigherOrder(const Node& n) { return Decoder(n).Run(); }

}  // namespace slipway::ir
