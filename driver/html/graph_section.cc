// Texts that repeat (operators, modules, types, lines of source) are said once: the rest of the data are numbers, so
// that a graph of ten thousand nodes takes about a megabyte.
#include "driver/html/graph_section.h"

#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "base/utf8.h"
#include "ir/dtype.h"

namespace slipway::driver {
namespace {

class Strings {
 public:
  Strings() { Number(""); }
  int64_t Number(std::string_view s) {
    const auto [it, fresh] = numbers_.try_emplace(std::string(s), static_cast<int64_t>(texts_.size()));
    if (fresh) texts_.push_back(PageText(s));
    return it->second;
  }
  void Put(json::Writer& j) const {
    j.BeginArray();
    for (const std::string& s : texts_) j.String(s);
    j.EndArray();
  }

 private:
  text::Map<int64_t> numbers_;
  std::vector<std::string> texts_;
};

template <typename List, typename F>
std::string ListText(const List& list, const F& f) {
  std::vector<std::string> parts;
  for (const auto& x : list) {
    if (parts.size() == 64) {
      parts.push_back(text::StrCat("… ", list.size() - 64, " more"));
      break;
    }
    parts.push_back(f(x));
  }
  return text::StrCat("[", text::Join(parts, ", "), "]");
}

// A constant argument; "" for values and graphs, which are shown as such.
std::string ConstantText(const ir::Arg& a) {
  const auto any = [](const auto& v) { return text::StrCat(v); };
  const auto truth = [](bool b) { return std::string(b ? "True" : "False"); };
  const auto quoted = [](const std::string& s) { return text::Quoted(text::Shortened(s, 200)); };
  const auto size = [](const ir::IntOrValue& v) {
    return v.value ? text::StrCat("%", v.value->name()) : text::StrCat(v.constant);
  };
  if (auto x = a.get<int64_t>()) return any(*x);
  if (auto x = a.get<double>()) return any(*x);
  if (auto x = a.get<bool>()) return truth(*x);
  if (auto x = a.get<std::string>()) return quoted(*x);
  if (auto x = a.get<ir::Ints>()) return ListText(*x, any);
  if (auto x = a.get<ir::SymInts>()) return ListText(*x, size);
  if (auto x = a.get<std::vector<double>>()) return ListText(*x, any);
  if (auto x = a.get<std::vector<bool>>()) return ListText(*x, truth);
  if (auto x = a.get<std::vector<std::string>>()) return ListText(*x, quoted);
  if (auto x = a.get<ir::DType>()) return std::string(ir::Name(*x));
  if (auto x = a.get<ir::OperatorName>()) return x->name;
  return "";
}

std::string TypeText(const ir::Type& t) {
  return t.kind == ir::Type::kObject && !t.class_name.empty() ? t.class_name : t.ToString();
}

class Section {
 public:
  explicit Section(const ir::Program& p) : p_(p) {}

  void Put(json::Writer& j) {
    AddGraph(*p_.graph, "");
    std::string nodes = nodes_.EndArray().Take();
    j.Key("nodes").Raw(nodes);
    j.Key("values").BeginArray();
    for (const Row& v : values_)
      j.BeginArray().Int(v.name).Int(v.type).Int(v.producer).Int(v.kind).Int(v.graph).EndArray();
    j.EndArray().Key("graphs").BeginArray();
    for (int64_t name : graphs_) j.Int(name);
    j.EndArray().Key("outputs").BeginArray();
    for (const ir::Arg& a : p_.graph->outputs)
      if (a.value()) j.Int(numbers_.at(a.value()));
    j.EndArray().Key("strings");
    strings_.Put(j);
  }

 private:
  struct Row {
    int64_t name, type, producer, kind, graph;
  };
  const ir::Program& p_;
  Strings strings_;
  std::vector<Row> values_;
  std::vector<int64_t> graphs_;
  absl::flat_hash_map<const ir::Value*, int64_t> numbers_;
  std::set<const ir::Graph*> seen_;
  json::Writer nodes_ = json::Writer().BeginArray();
  int64_t node_ = 0;

  void AddValue(const ir::Value& v, int64_t producer, int64_t kind, int64_t graph) {
    numbers_[&v] = static_cast<int64_t>(values_.size());
    values_.push_back({strings_.Number(v.name()), strings_.Number(TypeText(v.type())), producer, kind, graph});
  }

  // What an input of the root graph is: "parameter layers.0.weight".
  std::string KindOf(const ir::Graph& g, size_t i) const {
    static constexpr const char* kNames[] = {"input",         "parameter", "buffer",  "tensor constant",
                                             "custom object", "token",     "constant"};
    if (&g != p_.graph.get() || i >= p_.input_specs.size()) return "input";
    const ir::InputSpec& s = p_.input_specs[i];
    return text::StrCat(kNames[s.kind], s.target.empty() ? "" : " ", s.target);
  }

  void AddGraph(const ir::Graph& g, std::string_view name) {
    const int64_t graph = static_cast<int64_t>(graphs_.size());
    graphs_.push_back(strings_.Number(name));
    for (size_t i = 0; i < g.inputs().size(); ++i) AddValue(*g.inputs()[i], -1, strings_.Number(KindOf(g, i)), graph);
    std::vector<std::pair<std::string, const ir::Graph*>> inner;
    for (const ir::Node* n : g) {
      for (const ir::Value* v : n->outputs())
        if (v) AddValue(*v, node_, 0, graph);
      ++node_;
      std::vector<std::string> constants;
      std::vector<int64_t> inputs;
      for (const ir::NamedArg& a : n->args()) {
        a.arg.ForEachValue([&](const ir::Value* v) {
          const auto it = numbers_.find(v);
          if (it != numbers_.end()) inputs.push_back(it->second);
        });
        std::string constant = ConstantText(a.arg);
        if (const auto* sub = a.arg.get<ir::SubGraph>(); sub && *sub) {
          const std::string of = n->output() ? n->output()->name() : std::string(n->op_name());
          constant = text::StrCat(of, ".", a.name.empty() ? "graph" : a.name);
          if (seen_.insert(sub->get()).second) inner.emplace_back(constant, sub->get());
        }
        if (!constant.empty()) constants.push_back(text::StrCat(a.name, a.name.empty() ? "" : "=", constant));
      }
      nodes_.BeginArray().Int(strings_.Number(n->op_name())).Int(strings_.Number(ModuleOf(*n)));
      nodes_.Int(strings_.Number(n->source() ? n->source()->CodeLine() : ""));
      nodes_.Int(strings_.Number(text::Join(constants, ", "))).BeginArray();
      for (int64_t v : inputs) nodes_.Int(v);
      nodes_.EndArray().BeginArray();
      for (const ir::Value* v : n->outputs())
        if (v) nodes_.Int(numbers_[v]);
      nodes_.EndArray().Int(graph).EndArray();
    }
    for (const auto& [of, sub] : inner) AddGraph(*sub, of);
  }
};

}  // namespace

std::string ModuleOf(const ir::Node& n) {
  if (!n.source()) return "";
  std::string module = n.source()->ModulePath();
  if (!module.empty()) return module;
  for (const auto& [key, value] : n.source()->other) {
    if (key != "name") continue;
    std::string_view name = value;
    const size_t end = name.rfind('/');
    if (end == name.npos) return "";
    name = name.substr(0, end);
    text::ConsumePrefix(&name, "/");
    module = std::string(name);
    for (char& c : module)
      if (c == '/') c = '.';
  }
  return module;
}

void AddGraph(std::string_view title, const ir::Program& p, Page* page) {
  page->AddSection("graph", title, "Choose a node to see what it takes and who uses what it makes.",
                   [&](json::Writer& j) { Section(p).Put(j); });
}

}  // namespace slipway::driver
