// The table of passes and the pipelines. A new pass is a file of its own, its declaration in pass.h, a row here and its
// name in the pipelines that it belongs to.
#include "passes/pass.h"

#include <algorithm>

#include "base/text.h"
#include "ir/verify.h"
#include "passes/narrow_floats.h"

namespace slipway::passes {
namespace {

// Passes that need nothing but the program.
template <absl::Status (*pass)(ir::Program&)>
absl::Status Plain(ir::Program& p, PassContext&) {
  return pass(p);
}

absl::Status RunInferShapes(ir::Program& p, PassContext&) { return InferShapes(p); }

absl::Status RunDropMutations(ir::Program& p, PassContext& context) {
  context.dropped = DropMutations(p);
  return absl::OkStatus();
}

absl::Status RunQuantizeActivations(ir::Program& p, PassContext& context) {
  auto rounded = QuantizeActivations(p);
  if (rounded.ok()) context.rounded += *rounded;
  return rounded.status();
}

absl::Status RunQuantizeCaches(ir::Program& p, PassContext& context) {
  auto caches = QuantizeCaches(p, context.cache_dtype);
  if (caches.ok()) context.caches = *std::move(caches);
  return caches.status();
}

absl::Status RunQuantizeSums(ir::Program& p, PassContext& context) {
  auto sums = QuantizeSums(p);
  if (sums.ok()) context.sums += *sums;
  return sums.status();
}

absl::Status RunMergeBranches(ir::Program& p, PassContext& context) {
  auto merged = MergeBranches(p);
  if (merged.ok()) context.merged += *merged;
  return merged.status();
}

absl::Status RunFoldScaleShift(ir::Program& p, PassContext& context) {
  auto scaled = FoldScaleShift(p, context.narrow);
  if (scaled.ok()) context.scaled += *scaled;
  return scaled.status();
}

absl::Status RunFoldBatchNorms(ir::Program& p, PassContext& context) {
  auto folded = FoldBatchNorms(p, context.narrow);
  if (folded.ok()) context.folded += *folded;
  return folded.status();
}

absl::Status RunHoistSelects(ir::Program& p, PassContext& context) {
  auto shortened = MoveSelects(p);
  if (shortened.ok()) context.shortened += *shortened;
  return shortened.status();
}

absl::Status RunSplitLinears(ir::Program& p, PassContext& context) {
  auto split = SplitLinears(p);
  if (split.ok()) context.split += *split;
  return split.status();
}

absl::Status RunFoldConstants(ir::Program& p, PassContext& context) {
  return context.evaluator ? FoldConstants(p, *context.evaluator, context.fold) : absl::OkStatus();
}

absl::Status RunFormIntegerLinears(ir::Program& p, PassContext& context) {
  return FormIntegerLinears(p, context.exact_casts);
}

absl::Status RunNarrowFloats(ir::Program& p, PassContext&) { return NarrowFloats(p, {}).status(); }

absl::Status RunLegalize(ir::Program& p, PassContext& context) {
  if (!context.legal) return absl::InvalidArgumentError("legalize needs a target");
  return Legalize(p, context.legal, &context.refusals);
}

constexpr bool kAnyForm = false, kFunctional = true;
constexpr Pass kPasses[] = {
    {"infer-shapes", "infers the types of all results and checks those that are declared", kAnyForm, RunInferShapes},
    {"unwrap-subclasses", "replaces tensor subclasses by the tensors inside them", kAnyForm, Plain<UnwrapSubclasses>},
    {"inline-subgraphs", "inlines bodies of operators that only set a mode", kAnyForm, Plain<InlineSubgraphs>},
    {"remove-vmap", "gives regions of vmap their batch dimension back", kAnyForm, Plain<RemoveVmap>},
    {"functionalize", "resolves mutation and aliasing: pure SSA comes out", kAnyForm, Plain<Functionalize>},
    {"drop-mutations", "takes updated state out of the outputs", kFunctional, RunDropMutations},
    {"remove-no-ops", "removes nodes that change no value", kFunctional, Plain<RemoveNoOps>},
    {"eliminate-dead-code", "removes nodes whose results are unused", kFunctional, Plain<EliminateDeadCode>},
    {"merge-common-subexpressions", "keeps one of equal pure nodes", kFunctional, Plain<MergeCommonSubexpressions>},
    {"recognize-quantization", "makes slipway.quantize and slipway.dequantize of quantized tensors", kFunctional,
     Plain<RecognizeQuantization>},
    {"recognize-norms", "makes aten.rms_norm of RMS norms that are written out", kFunctional, Plain<RecognizeNorms>},
    {"recognize-attention", "makes aten.scaled_dot_product_attention of attention that is written out", kFunctional,
     Plain<RecognizeAttention>},
    {"recognize-grouped-queries", "lets query heads share heads of keys and values that are repeated for them",
     kFunctional, Plain<RecognizeGroupedQueries>},
    {"quantize-caches", "keeps keys and values of attention in 8 bits", kFunctional, RunQuantizeCaches},
    {"fold-constants", "computes what depends on constants only", kFunctional, RunFoldConstants},
    {"fuse-quantized-linears", "joins products with their dequantized weights", kFunctional,
     Plain<FormQuantizedLinears>},
    {"fuse-integer-linears", "joins products of quantized activations and weights with their scales", kFunctional,
     RunFormIntegerLinears},
    {"fuse-integer-convs", "makes convolutions of bytes, with what follows them, of dequantized images and weights",
     kFunctional, Plain<FormIntegerConvs>},
    {"quantize-activations", "rounds activations in front of quantized weights to 8 bits", kFunctional,
     RunQuantizeActivations},
    {"move-quantizes", "makes integers of tensors before what moves or bounds their elements", kFunctional,
     Plain<MoveQuantizes>},
    {"quantize-sums", "rounds results of convolutions that are added to 8 bits", kFunctional, RunQuantizeSums},
    {"merge-branches", "makes one convolution of linear branches that are added up", kFunctional, RunMergeBranches},
    {"split-sums", "makes additions of sums over a few indices", kFunctional, Plain<SplitSums>},
    {"fold-scale-shift", "makes factors and summands of channels part of the layers before them", kFunctional,
     RunFoldScaleShift},
    {"fold-batch-norms", "makes batch norms part of the convolutions before them", kFunctional, RunFoldBatchNorms},
    {"hoist-selects", "selects an index before what computes all of them", kFunctional, RunHoistSelects},
    {"split-linears", "makes one linear layer for each part that its result is cut into", kFunctional, RunSplitLinears},
    {"relax-activations", "leaves the rounding of activations to the target", kFunctional, Plain<RelaxActivations>},
    {"lower-complex", "makes complex tensors pairs of real ones", kFunctional, Plain<LowerComplex>},
    {"legalize", "decomposes nodes until the target takes each", kFunctional, RunLegalize},
    {"widen-floats", "computes in f64: what a program's numbers are compared with", kFunctional, Plain<WidenFloats>},
    {"narrow-floats", "computes in f16, as --dtype has it: sums stay in f32", kFunctional, RunNarrowFloats},
    {"outline-blocks", "makes repeated blocks calls of one body", kFunctional, Plain<OutlineBlocks>},
};

constexpr std::string_view kPreparationPasses[] = {"infer-shapes",
                                                   "unwrap-subclasses",
                                                   "inline-subgraphs",
                                                   "remove-vmap",
                                                   "functionalize",
                                                   "drop-mutations",
                                                   "remove-no-ops",
                                                   "eliminate-dead-code",
                                                   "merge-common-subexpressions",
                                                   "recognize-quantization",
                                                   "recognize-norms",
                                                   "fold-constants",
                                                   "fuse-quantized-linears",
                                                   "lower-complex"};
constexpr std::string_view kPlainNodesPasses[] = {"infer-shapes", "unwrap-subclasses", "inline-subgraphs",
                                                  "remove-vmap"};
constexpr std::string_view kIntegerTensorPasses[] = {"move-quantizes"};
constexpr std::string_view kRelaxationPasses[] = {"relax-activations", "quantize-sums"};
constexpr std::string_view kIntegerPasses[] = {"fuse-integer-convs", "fuse-integer-linears"};
constexpr std::string_view kAttentionPasses[] = {"recognize-attention", "recognize-grouped-queries"};
constexpr std::string_view kCachePasses[] = {"recognize-attention", "recognize-grouped-queries", "quantize-caches"};
constexpr std::string_view kActivationPasses[] = {"fuse-integer-convs", "fuse-integer-linears", "quantize-activations"};
constexpr std::string_view kAlgebraPasses[] = {"merge-branches", "fold-scale-shift", "hoist-selects"};
constexpr std::string_view kNormAlgebraPasses[] = {"fold-batch-norms"};
constexpr std::string_view kSumAlgebraPasses[] = {"split-sums"};
constexpr std::string_view kLinearAlgebraPasses[] = {"split-linears"};
constexpr std::string_view kLegalizationPasses[] = {"legalize", "remove-no-ops", "eliminate-dead-code",
                                                    "merge-common-subexpressions", "fold-constants"};
constexpr std::string_view kOutliningPasses[] = {"outline-blocks"};

}  // namespace

constinit const Pipeline kPreparation = kPreparationPasses;
constinit const Pipeline kPlainNodes = kPlainNodesPasses;
constinit const Pipeline kIntegerTensors = kIntegerTensorPasses;
constinit const Pipeline kRelaxation = kRelaxationPasses;
constinit const Pipeline kIntegerProducts = kIntegerPasses;
constinit const Pipeline kAttention = kAttentionPasses;
constinit const Pipeline kCaches = kCachePasses;
constinit const Pipeline kActivationIntegers = kActivationPasses;
constinit const Pipeline kAlgebra = kAlgebraPasses;
constinit const Pipeline kNormAlgebra = kNormAlgebraPasses;
constinit const Pipeline kSumAlgebra = kSumAlgebraPasses;
constinit const Pipeline kLinearAlgebra = kLinearAlgebraPasses;
constinit const Pipeline kLegalization = kLegalizationPasses;
constinit const Pipeline kOutlining = kOutliningPasses;

absl::Span<const Pass> Passes() { return kPasses; }

const Pass* FindPass(std::string_view name) {
  const auto it =
      std::find_if(std::begin(kPasses), std::end(kPasses), [&](const Pass& pass) { return pass.name == name; });
  return it == std::end(kPasses) ? nullptr : it;
}

absl::Status RunPass(const Pass& pass, ir::Program& p, PassContext& context) {
  if (pass.functional && p.form != ir::Form::kFunctional)
    return absl::InvalidArgumentError(text::StrCat(pass.name, " needs a functional program: run functionalize first"));
  if (absl::Status s = pass.run(p, context); !s.ok() || !context.verify_each) return s;
  if (absl::Status s = ir::Verify(p); !s.ok())
    return absl::InternalError(text::StrCat("after ", pass.name, ": ", text::FromAbsl(s.message())));
  return absl::OkStatus();
}

absl::Status RunPasses(Pipeline pipeline, ir::Program& p, PassContext& context) {
  for (std::string_view name : pipeline) {
    if (std::find(context.skip.begin(), context.skip.end(), name) != context.skip.end()) continue;
    const Pass* pass = FindPass(name);
    if (!pass) return absl::InternalError(text::StrCat("no pass is named ", name));
    if (absl::Status s = RunPass(*pass, p, context); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace slipway::passes
