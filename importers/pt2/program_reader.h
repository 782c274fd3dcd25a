// The schema reader: one function a record, named after it. Unknown keys are ignored (torch ignores them since 2.9);
// unknown union tags, enum numbers and names used before they are defined are errors that say where. The methods are in
// program.cc (the document, expressions, types), program_graph.cc and program_signature.cc.
#ifndef SLIPWAY_IMPORTERS_PT2_PROGRAM_READER_H_
#define SLIPWAY_IMPORTERS_PT2_PROGRAM_READER_H_

#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "importers/json.h"
#include "importers/pt2/program.h"
#include "ir/graph.h"
#include "ir/ops/op_table.h"

namespace slipway::importers {

using Json = json::Value;

// The one key and value of a union; null options of torch >= 2.9's unset optionals do not occur inside unions.
struct Union {
  std::string_view tag;
  const Json* value;
};
absl::StatusOr<Union> AsUnion(const Json& j);
// Floats may be spelled as strings since 2.6.
absl::StatusOr<double> AsFloat(const Json& j);
absl::StatusOr<ir::DType> AsDType(const Json& j);
absl::StatusOr<ir::Device> AsDevice(const Json& j);
template <typename T, typename F>
absl::StatusOr<std::vector<T>> AsList(const Json& j, F element) {
  ASSIGN_OR_RETURN(auto items, j.AsArray());
  std::vector<T> out;
  out.reserve(items.size());
  for (const Json& item : items) {
    auto v = element(item);
    if (!v.ok()) return v.status();
    out.push_back(*std::move(v));
  }
  return out;
}

class ProgramReader {
 public:
  explicit ProgramReader(ir::Program& p) : p_(p) {}

  absl::Status Read(const Json& root);

 private:
  ir::Program& p_;
  text::Map<ir::Sym> exprs_;  // by text
  text::Map<std::shared_ptr<const ir::Device>> devices_;
  text::Map<std::shared_ptr<const ir::Source>> sources_;

  static absl::StatusOr<std::string> AsText(const Json& j);
  absl::Status ReadVersion(const Json& j);
  absl::Status ReadRanges(const Json& j);
  absl::Status DeclareRange(std::string_view key, const ir::RangeConstraint& r);
  absl::StatusOr<ir::Sym> Expr(const Json& sym_expr);
  absl::StatusOr<ir::Sym> SymInt(const Json& j);
  absl::StatusOr<ir::Type> TensorMeta(const Json& j);

  // ---- One graph: its dictionaries, inputs, nodes, outputs.

  struct Scope {
    ir::Graph* graph;
    const Json *tensors = nullptr, *ints = nullptr, *bools = nullptr, *floats = nullptr, *objects = nullptr;
    int depth = 0;
    bool mixed_lists = false;  // higher-order operators: a list "of tensors" may hold symbolic numbers too
    text::ViewMap<ir::Value*> values;
  };

  absl::StatusOr<ir::Type> TensorType(const Scope& s, std::string_view name, const Json& at);
  absl::StatusOr<ir::Type> SymType(const Scope& s, ir::Type::Kind kind, std::string_view name, const Json& at);
  static absl::StatusOr<std::string_view> NameOf(const Json& j);
  absl::StatusOr<ir::Value*> Use(const Scope& s, std::string_view name, const Json& at);
  absl::StatusOr<ir::Value*> UseTensor(const Scope& s, const Json& j);
  absl::StatusOr<ir::Value*> UseOptionalTensor(const Scope& s, const Json& j);
  absl::StatusOr<ir::IntOrValue> UseSymInt(const Scope& s, const Json& j);
  absl::StatusOr<ir::Arg> ReadArg(const Scope& s, const Json& j);
  static std::string OpNameOf(std::string_view target) { return ir::OpNameFromTarget(target); }

  absl::Status Define(Scope& s, std::string_view name, ir::Value* v, const Json& at);
  absl::Status ReadInput(Scope& s, const Json& j);
  absl::Status AddResult(Scope& s, ir::Node* n, const Json& j, std::vector<int>& groups, bool& grouped);
  std::shared_ptr<const ir::Source> ReadSource(const Json& node);
  absl::Status ReadNode(Scope& s, const Json& j, std::string_view target);
  absl::Status ReadGraph(const Json& j, ir::Graph& g, int depth, bool root);

  // ---- Signature

  absl::StatusOr<std::string> Text(const Json& j, std::string_view key);
  absl::Status ReadSignature(const Json& j);
  static void Print(const Json& j, ::slipway::json::Writer& out);
  static std::string Print(const Json& j);
  absl::Status ReadModuleCalls(const Json& j);
};

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_PT2_PROGRAM_READER_H_
