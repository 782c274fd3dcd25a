// See passes.h.
#include "driver/passes.h"

#include <algorithm>

#include "base/text.h"
#include "ir/verify.h"
#include "passes/outline_blocks.h"
#include "planner/evaluator.h"

namespace slipway::driver {
namespace {

constexpr uint64_t kFoldingMemory = uint64_t{1} << 26;  // bytes

template <absl::Status (*pass)(ir::Program&)>
absl::Status Plain(ir::Program& p, PassContext&) {
  return pass(p);
}

absl::Status DropMutations(ir::Program& p, PassContext& context) {
  context.dropped = passes::DropMutations(p);
  return absl::OkStatus();
}

absl::Status FoldConstants(ir::Program& p, PassContext&) {
  planner::PlanEvaluator evaluator({.memory_limit = kFoldingMemory});
  return passes::FoldConstants(p, evaluator);
}

absl::Status Legalize(ir::Program& p, PassContext& context) {
  return passes::Legalize(
      p, [&](const ir::Node& n) { return exporters::OnnxLegal(n, context.target); }, &context.refusals);
}

constexpr Pass kPasses[] = {
    {"infer-shapes", false, Plain<passes::InferShapes>},
    {"unwrap-subclasses", false, Plain<passes::UnwrapSubclasses>},
    {"inline-subgraphs", false, Plain<passes::InlineSubgraphs>},
    {"remove-vmap", false, Plain<passes::RemoveVmap>},
    {"functionalize", false, Plain<passes::Functionalize>},
    {"drop-mutations", true, DropMutations},
    {"remove-no-ops", true, Plain<passes::RemoveNoOps>},
    {"eliminate-dead-code", true, Plain<passes::EliminateDeadCode>},
    {"merge-common-subexpressions", true, Plain<passes::MergeCommonSubexpressions>},
    {"fold-constants", true, FoldConstants},
    {"lower-complex", true, Plain<passes::LowerComplex>},
    {"legalize", true, Legalize},
    {"outline-blocks", true, Plain<passes::OutlineBlocks>},
};
// What follows legalize before outline-blocks.
constexpr std::string_view kCleaners[] = {"remove-no-ops", "eliminate-dead-code", "merge-common-subexpressions",
                                          "fold-constants"};

}  // namespace

absl::Status SetTarget(const ConvertOptions& o, exporters::OnnxOptions* target) {
  if (o.opset < exporters::kMinOpset || o.opset > exporters::kMaxOpset)
    return absl::UnimplementedError(
        text::StrCat("opset ", o.opset, " (supported: ", exporters::kMinOpset, " … ", exporters::kMaxOpset, ")"));
  target->opset = o.opset;
  target->strict_types = o.strict_types;
  for (const std::string& spec : o.custom_ops)
    if (absl::Status s = exporters::AddCustomOp(spec, &target->custom_ops); !s.ok())
      return absl::Status(s.code(), text::StrCat("--custom-op: ", text::FromAbsl(s.message())));
  return absl::OkStatus();
}

absl::Span<const Pass> Passes() { return kPasses; }

absl::Status RunPass(const Pass& pass, ir::Program& p, PassContext& context, bool verify) {
  if (pass.functional && p.form != ir::Form::kFunctional)
    return absl::InvalidArgumentError(text::StrCat(pass.name, " needs a functional program: run functionalize first"));
  if (absl::Status s = pass.run(p, context); !s.ok()) return s;
  if (absl::Status s = verify ? ir::Verify(p) : absl::OkStatus(); !s.ok())
    return absl::InternalError(text::StrCat("after ", pass.name, ": ", text::FromAbsl(s.message())));
  return absl::OkStatus();
}

absl::Status PrepareForOnnx(ir::Program& p, const PipelineOptions& options, PassContext& context) {
  const auto run = [&](const Pass& pass) { return RunPass(pass, p, context, options.verify_each); };
  for (const Pass& pass : kPasses) {
    const std::string_view name = pass.name;
    if ((name == "drop-mutations" && options.state) || (name == "outline-blocks" && !options.functions)) continue;
    if (absl::Status s = run(pass); !s.ok()) return s;
    if (name != "legalize") continue;
    for (const Pass& cleaner : kPasses)
      if (std::find(std::begin(kCleaners), std::end(kCleaners), cleaner.name) != std::end(kCleaners))
        if (absl::Status s = run(cleaner); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace slipway::driver
