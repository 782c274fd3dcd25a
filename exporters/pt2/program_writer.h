// The schema writer: one function a record, named after it, as importers/pt2/program_reader.h has one to read each.
#ifndef SLIPWAY_EXPORTERS_PT2_PROGRAM_WRITER_H_
#define SLIPWAY_EXPORTERS_PT2_PROGRAM_WRITER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/text.h"
#include "exporters/pt2/program.h"
#include "ir/graph.h"

namespace slipway::exporters {

class ProgramWriter {
 public:
  ProgramWriter(const ir::Program& program, TorchTarget target) : p_(program), target_(target) {}

  absl::StatusOr<std::string> Write();

 private:
  const ir::Program& p_;
  const TorchTarget target_;
  json::Writer out_;
  absl::Status status_;
  std::set<std::string> refused_;  // reasons, each once
  std::map<std::string, int64_t, std::less<>> hints_;

  bool Since29() const { return target_ == TorchTarget::k29; }
  void Refuse(std::string why) { refused_.insert(std::move(why)); }

  std::string_view Dialect() const;

  // ---- Expressions

  auto Hint() const {
    return [this](std::string_view symbol) -> std::optional<int64_t> {
      auto it = hints_.find(symbol);
      return it == hints_.end() ? std::nullopt : std::optional<int64_t>(it->second);
    };
  }

  void WriteExpr(const ir::Sym& e, ir::Type::Kind kind);
  void WriteSymInt(const ir::Sym& e);
  void WriteSymValue(const ir::Type& t);

  // ---- Types

  void WriteDType(ir::DType t);
  void WriteDevice(const ir::Device& d);
  void WriteTensorMeta(const ir::Type& t);

  // ---- Arguments

  void WriteName(std::string_view key, const ir::Value& v) { out_.BeginObject().Key(key).String(v.name()).EndObject(); }

  void WriteValue(const ir::Value& v);

  template <typename List, typename F>
  void WriteList(std::string_view tag, const List& list, F item) {
    out_.Key(tag).BeginArray();
    for (const auto& x : list) item(x);
    out_.EndArray();
  }

  void WriteValues(const ir::Values& values);

  // Names of the subgraphs of one graph: they share its namespace of values.
  struct GraphNames {
    const ir::Graph& parent;
    std::map<const ir::Graph*, std::string> names;
    std::set<std::string, std::less<>> taken;
    const std::string& Of(const ir::Graph& g, std::string_view op) {
      std::string& name = names[&g];
      for (int i = 0; name.empty(); ++i) {
        std::string candidate = text::StrCat(op, "_graph_", i);
        if (!parent.FindValue(candidate) && taken.insert(candidate).second) name = std::move(candidate);
      }
      return name;
    }
  };

  void Need29(std::string_view what) {
    if (!Since29()) Refuse(text::StrCat("arguments that are ", what, ", for torch 2.6"));
  }

  void WriteArg(const ir::Arg& a, GraphNames& graphs, std::string_view op);

  // ---- Nodes

  int KindOf(const ir::Node& n, const ir::NamedArg& a, int index, bool* gap) const;
  void WriteNode(const ir::Node& n, GraphNames& graphs);
  void WriteResult(const ir::Value* v);
  void WriteResults(const ir::Node& n, bool higher_order);

  // ---- Graphs

  static std::vector<size_t> Numbers(size_t n);
  std::vector<size_t> InputOrder() const;
  static void Collect(const ir::Graph& g, std::vector<const ir::Value*>* values);
  void WriteGraph(const ir::Graph& g, bool root);

  // ---- Signature

  void WriteSignature();
  void WriteModuleCalls();
  void WriteRange(std::string_view key, std::optional<int64_t> min, std::optional<int64_t> max);
  void WriteRanges();
};

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_PT2_PROGRAM_WRITER_H_
