// Checks the types a program states against those its operators give. What the file says is kept: it knows guards and
// the names of data-dependent sizes that inference does not. What it contradicts provably is damaged and goes no
// further.
#include "base/text.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

bool Contradicts(const ir::Type& inferred, const ir::Type& declared) {
  if (inferred.kind != declared.kind) return true;
  if (inferred.kind == ir::Type::kSymInt) return ir::ProvablyDifferent(inferred.expr, declared.expr);
  if (!inferred.is_tensor()) return false;
  if (inferred.dtype != declared.dtype || inferred.rank() != declared.rank()) return true;
  for (int d = 0; d < inferred.rank(); ++d)
    if (ir::ProvablyDifferent(inferred.sizes[d], declared.sizes[d])) return true;
  return false;
}

// The final states of recurrent layers, which are of the initial states' sizes, whatever old exports declare.
bool DeclaredWrongly(const ir::Node& n, const ir::Type& inferred, const ir::Type& declared) {
  return n.op().traits.misdeclared && inferred.is_tensor() && declared.is_tensor() &&
         inferred.dtype == declared.dtype && declared.rank() == inferred.rank() + 1;
}

absl::Status Bad(const ir::Node& n, std::string_view what) {
  std::string at = n.source() ? n.source()->Describe() : "";
  return absl::InvalidArgumentError(text::StrCat(n.op_name(),
                                                 n.output() ? text::StrCat(" (%", n.output()->name(), ")") : "",
                                                 at.empty() ? "" : text::StrCat(" in ", at), ": ", what));
}

absl::Status CheckNode(ir::Node& n, std::vector<std::string>* corrected) {
  auto inferred = ir::InferTypes(n, ir::FreshSymbols::kNone);
  if (!inferred.ok()) {
    if (absl::IsUnimplemented(inferred.status())) return absl::OkStatus();  // the declared types stand
    std::string_view why = text::FromAbsl(inferred.status().message());
    text::ConsumePrefix(&why, text::StrCat(n.op_name(), ": "));
    return Bad(n, why);
  }
  // Operators without results are written with one None.
  if (inferred->empty() && n.outputs().size() == 1 && !n.output(0)) return absl::OkStatus();
  if (inferred->size() != n.outputs().size())
    return Bad(n, text::StrCat("has ", n.outputs().size(), " results, the operator gives ", inferred->size()));
  for (size_t i = 0; i < inferred->size(); ++i) {
    ir::Value* v = n.outputs()[i];
    ir::Type& type = (*inferred)[i];
    if (!v) continue;
    ir::Type& declared = v->mutable_type();
    const bool wrong = DeclaredWrongly(n, type, declared);
    if (wrong && corrected)
      corrected->push_back(text::StrCat(n.op_name(), ": %", v->name(), " is declared as ", declared.ToString(),
                                        ", corrected to ", type.ToString()));
    if (wrong || declared.kind == ir::Type::kNone || (declared.is_tensor() && declared.dtype == ir::DType::kUnknown)) {
      declared = std::move(type);
    } else if (Contradicts(type, declared)) {
      return Bad(n, text::StrCat("result %", v->name(), " is declared as ", declared.ToString(),
                                 ", the operator gives ", type.ToString()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGraph(ir::Graph& g, std::vector<std::string>* corrected) {
  for (ir::Node* n : g) {
    if (absl::Status s = CheckNode(*n, corrected); !s.ok()) return s;
    // Inside an autocast region the dtypes depend on the region, which shape functions do not see.
    if (n->op_name() == "higher_order.wrap_with_autocast") continue;
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>())
        if (absl::Status s = CheckGraph(**sub, corrected); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InferShapes(ir::Program& p, std::vector<std::string>* corrected) {
  return CheckGraph(*p.graph, corrected);
}

}  // namespace slipway::passes
