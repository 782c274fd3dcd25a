// A node is compared as the text that it is in the text form, without its results' types: operator, operands by name,
// attributes, and its graphs in full.
#include "driver/inspect/diff.h"

#include <map>

#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/format.h"
#include "io/digest.h"
#include "ir/clone.h"
#include "ir/text.h"
#include "onnx_model/onnx_graph.h"

namespace slipway::driver {
namespace {

struct OpenedProgram {
  std::unique_ptr<ir::Program> model;  // null for what is no ONNX model
  ir::TensorSet tensors;
};

absl::StatusOr<OpenedProgram> OpenProgram(const std::string& path, const std::string& key) {
  ASSIGN_OR_RETURN(const Source source, OpenSource(path));
  OpenedProgram out;
  if (source.file) {
    ASSIGN_OR_RETURN(out.model, OpenOnnxGraph(source));
  }
  if (!out.model) {
    ASSIGN_OR_RETURN(out.tensors, OpenTensors(source, key));
    RETURN_IF_ERROR(WithPlace(CheckReadable(out.tensors), path));
    return out;
  }
  for (const auto& [name, tensor] : out.model->weights) out.tensors.tensors.emplace(name, tensor);
  return out;
}

// ---- Graphs

class Comparison {
 public:
  Comparison(const ir::Program& a, const ir::Program& b) : a_(a), b_(b) {}

  absl::StatusOr<std::vector<GraphDifference>> Run() {
    ASSIGN_OR_RETURN(const onnx::ModelProto x, onnx_model::FrameOf(a_));
    ASSIGN_OR_RETURN(const onnx::ModelProto y, onnx_model::FrameOf(b_));
    const auto opsets = [](const onnx::ModelProto& m) {
      Texts out;
      for (const auto& o : m.opset_import())
        out.emplace_back(o.domain().empty() ? "ai.onnx" : o.domain(), text::StrCat(o.version()));
      return out;
    };
    const auto functions = [](const onnx::ModelProto& m) {
      Texts out;
      for (const auto& f : m.functions()) {
        io::Sha256 digest;
        digest.Update(f.SerializeAsString());
        out.emplace_back(text::StrCat(f.domain(), "::", f.name(), f.overload().empty() ? "" : "::", f.overload()),
                         text::StrCat(f.node_size(), " nodes, ", io::ToHex(digest.Finish()).substr(0, 12)));
      }
      return out;
    };
    const auto metadata = [](const onnx::ModelProto& m) {
      Texts out;
      for (const auto& p : m.metadata_props()) out.emplace_back(p.key(), p.value());
      return out;
    };
    Compare("opset", opsets(x), opsets(y));
    Compare("function", functions(x), functions(y));
    Compare("metadata", metadata(x), metadata(y));
    Compare("input", Inputs(a_), Inputs(b_));
    Compare("output", Outputs(a_), Outputs(b_));
    Compare("node", Nodes(*a_.graph), Nodes(*b_.graph));
    return std::move(rows_);
  }

 private:
  using Texts = std::vector<std::pair<std::string, std::string>>;  // by name, in order
  const ir::Program &a_, &b_;
  std::vector<GraphDifference> rows_;

  void Compare(const char* what, const Texts& a, const Texts& b) {
    std::map<std::string_view, const std::string*> in_b, in_a;
    for (const auto& [name, text] : b) in_b.emplace(name, &text);
    for (const auto& [name, text] : a) {
      in_a.emplace(name, &text);
      auto it = in_b.find(name);
      if (it == in_b.end() || *it->second != text)
        rows_.push_back({what, name, text, it == in_b.end() ? "" : *it->second});
    }
    for (const auto& [name, text] : b)
      if (!in_a.contains(name)) rows_.push_back({what, name, "", text});
  }

  static Texts Inputs(const ir::Program& p) {
    Texts out;
    for (size_t i = 0; i < p.input_specs.size(); ++i)
      if (p.input_specs[i].kind == ir::InputSpec::kUser)
        out.emplace_back(p.graph->inputs()[i]->name(), TypeText(p.graph->inputs()[i]->type(), out.size()));
    return out;
  }
  static Texts Outputs(const ir::Program& p) {
    Texts out;
    for (const ir::Arg& a : p.graph->outputs)
      if (a.value()) out.emplace_back(a.value()->name(), TypeText(a.value()->type(), out.size()));
    return out;
  }
  // Another order is another interface.
  static std::string TypeText(const ir::Type& t, size_t place) {
    const std::string type =
        t.kind == ir::Type::kObject ? t.class_name.empty() ? "of no known type" : t.class_name : t.ToString();
    return text::StrCat(type, ", number ", place);
  }

  static Texts Nodes(const ir::Graph& g) {
    Texts out;
    int unnamed = 0;
    for (const ir::Node* n : g) {
      std::string name;
      for (const ir::Value* v : n->outputs())
        if (v && name.empty()) name = v->name();
      if (name.empty()) name = text::StrCat("(node without results ", unnamed++, ")");
      out.emplace_back(std::move(name), NodeText(*n));
    }
    return out;
  }
  static std::string NodeText(const ir::Node& n) {
    std::string out = text::StrCat(n.op_name(), "(");
    for (size_t i = 0; i < n.args().size(); ++i) {
      const ir::NamedArg& a = n.args()[i];
      text::StrAppend(&out, i ? ", " : "", a.name, a.name.empty() ? "" : "=", ArgText(a.arg));
    }
    out += ")";
    std::vector<std::string> results;
    for (const ir::Value* v : n.outputs()) results.push_back(v ? v->name() : "");
    if (results.size() > 1) text::StrAppend(&out, " -> ", text::Join(results, ", "));
    return out;
  }
  template <typename List, typename F>
  static std::string ListText(const List& list, const F& f) {
    std::vector<std::string> parts;
    for (const auto& x : list) parts.push_back(f(x));
    return text::StrCat("[", text::Join(parts, ", "), "]");
  }
  static std::string ArgText(const ir::Arg& a) {
    const auto value = [](const ir::Value* v) { return v ? text::StrCat("%", v->name()) : std::string("None"); };
    const auto integer = [](int64_t i) { return std::to_string(i); };
    const auto real = [](double d) { return text::StrCat(d); };
    const auto quoted = [](const std::string& s) { return text::Quoted(s); };
    if (auto vs = a.get<ir::Values>()) return ListText(*vs, value);
    if (auto i = a.get<int64_t>()) return integer(*i);
    if (auto d = a.get<double>()) return real(*d);
    if (auto s = a.get<std::string>()) return quoted(*s);
    if (auto is = a.get<ir::Ints>()) return ListText(*is, integer);
    if (auto ds = a.get<std::vector<double>>()) return ListText(*ds, real);
    if (auto ss = a.get<std::vector<std::string>>()) return ListText(*ss, quoted);
    if (auto g = a.get<ir::SubGraph>(); g && *g) {
      const auto node = [](const std::pair<std::string, std::string>& n) {
        return text::StrCat("%", n.first, " = ", n.second);
      };
      const auto output = [&](const ir::Arg& x) { return value(x.value()); };
      return text::StrCat("{", text::Join((*g)->inputs().empty() ? std::vector<std::string>() : InputNames(**g), ", "),
                          ": ", ListText(Nodes(**g), node), " return ", ListText((*g)->outputs, output), "}");
    }
    return "None";
  }
  static std::vector<std::string> InputNames(const ir::Graph& g) {
    std::vector<std::string> out;
    for (const ir::Value* v : g.inputs()) out.push_back(text::StrCat("%", v->name()));
    return out;
  }
};

std::string ShownInDiff(std::string_view s) { return text::Printable(text::Shortened(s, 400)); }

}  // namespace

absl::StatusOr<FilesDiff> DiffFiles(const weights::DiffOptions& o, const std::string& key) {
  auto a = OpenProgram(o.a, key);
  if (!a.ok()) return WithPlace(a.status(), o.a);
  auto b = OpenProgram(o.b, key);
  if (!b.ok()) return WithPlace(b.status(), o.b);
  FilesDiff out;
  ASSIGN_OR_RETURN(out.tensors, weights::Diff(std::move(a->tensors), std::move(b->tensors), o));
  if (a->model && b->model) {
    ASSIGN_OR_RETURN(out.graph, Comparison(*a->model, *b->model).Run());
  }
  return out;
}

std::string ToTable(const FilesDiff& diff, const weights::DiffOptions& o) {
  std::string out;
  if (diff.graph) {
    for (const GraphDifference& d : *diff.graph) {
      text::StrAppend(&out, d.what, " ", ShownInDiff(d.name));
      if (d.a.empty() || d.b.empty())
        text::StrAppend(&out, d.a.empty() ? "  only in B  " : "  only in A  ", ShownInDiff(d.a.empty() ? d.b : d.a),
                        "\n");
      else
        text::StrAppend(&out, "\n  A: ", ShownInDiff(d.a), "\n  B: ", ShownInDiff(d.b), "\n");
    }
    text::StrAppend(&out,
                    diff.graph->empty()
                        ? "the graphs are equal"
                        : text::StrCat(diff.graph->size(), diff.graph->size() == 1 ? " difference" : " differences",
                                       " of the graphs"),
                    "\n");
  }
  return out + weights::ToTable(diff.tensors, o);
}

std::string ToJson(const FilesDiff& diff, const weights::DiffOptions& o) {
  if (!diff.graph) return weights::ToJson(diff.tensors, o);
  json::Writer j;
  j.BeginArray();
  for (const GraphDifference& d : *diff.graph) {
    j.BeginObject().Key("what").String(d.what).Key("name").String(d.name);
    if (!d.a.empty()) j.Key("a").String(d.a);
    if (!d.b.empty()) j.Key("b").String(d.b);
    j.EndObject();
  }
  j.EndArray();
  return weights::ToJson(diff.tensors, o, j.Take());
}

}  // namespace slipway::driver
