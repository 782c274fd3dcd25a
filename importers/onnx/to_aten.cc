// The whole program: operator sets, nodes, and what a program of ATen's has no use for.
#include "importers/onnx/to_aten.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/list_error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "importers/onnx/graph_lowering.h"
#include "onnx_model/onnx_graph.h"

namespace slipway::importers {

bool UnderstandsOnnx(const onnx::NodeProto& n, int opset) {
  const onnx_in::Row* row = onnx_in::FindRow("", n.op_type(), opset);
  return row && (!row->takes || row->takes(n));
}

absl::Status OnnxToAten(ir::Program& p, int written) {
  ASSIGN_OR_RETURN(const onnx::ModelProto frame, onnx_model::FrameOf(p));
  std::map<std::string, int> opsets;
  for (const onnx::OperatorSetIdProto& o : frame.opset_import())
    opsets[o.domain() == "ai.onnx" ? "" : o.domain()] = static_cast<int>(o.version());
  std::vector<onnx_in::Refusal> refusals;
  RETURN_IF_ERROR(onnx_in::GraphLowering(p, *p.graph, opsets, refusals, written).Run());
  if (!refusals.empty()) {
    std::map<std::string, std::string> by_what;
    for (const onnx_in::Refusal& r : refusals) by_what.try_emplace(r.what, r.node);
    std::vector<std::string> all;
    for (const auto& [what, node] : by_what) all.push_back(text::StrCat(what, " (node '", node, "')"));
    return ListError("ONNX operators that are not read", all, absl::StatusCode::kUnimplemented);
  }
  p.verifier_dialect = "ATEN";
  p.objects.clear();
  p.name = "model";  // as torch calls the one program of an archive
  return absl::OkStatus();
}

}  // namespace slipway::importers
