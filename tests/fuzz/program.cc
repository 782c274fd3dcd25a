// The JSON of a program: read, checked, printed, and taken through what a conversion does with it up to the file.
#include "importers/pt2/program.h"
#include "exporters/onnx/export.h"
#include "exporters/onnx/lowering.h"
#include "ir/clone.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "planner/planner.h"
#include "tests/fuzz/target.h"

using namespace slipway;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto program = importers::ParseProgram({reinterpret_cast<const char*>(data), size}, "program");
  fuzz::PromiseInputError(program.status());
  if (!program.ok()) return 0;
  fuzz::PromiseInputError(ir::Verify(**program));
  if (!ir::Verify(**program).ok()) return 0;
  fuzz::Promise(!ir::Print(**program).empty(), "a program prints");
  passes::PassContext context;
  for (std::string_view name : {"infer-shapes", "inline-subgraphs", "remove-vmap", "functionalize", "drop-mutations",
                                "remove-no-ops", "eliminate-dead-code", "merge-common-subexpressions"}) {
    const absl::Status s = passes::RunPass(*passes::FindPass(name), **program, context);
    fuzz::PromiseInputError(s);
    if (!s.ok()) return 0;
  }
  auto copy = ir::Clone(**program);
  exporters::OnnxOptions options;
  fuzz::PromiseInputError(
      passes::Legalize(*copy, [&](const ir::Node& n) { return exporters::OnnxLegal(n, options); }, &context.refusals));
  copy = ir::Clone(**program);
  fuzz::PromiseInputError(planner::LegalizeAndPlan(*copy).status());
  return 0;
}
