// The passes: functions from a valid program to a valid program, each with the form it needs; the table of all of them
// by name; pipelines, which are lists of names, and the one function that runs a pipeline.
#ifndef SLIPWAY_PASSES_PASS_H_
#define SLIPWAY_PASSES_PASS_H_

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/evaluator.h"
#include "ir/graph.h"
#include "passes/refusals.h"

namespace slipway::passes {

// What is worth folding; as it stands for files that are to be small.
struct FoldLimits {
  // weights up to this size count as constants; larger ones stay references
  uint64_t leaf_bytes = uint64_t{1} << 28;
  uint64_t work_bytes = uint64_t{1} << 20;  // results on the way; or twice a weight that they are made of
  // larger results are computed only where they replace weights that are no smaller,
  uint64_t small_bytes = uint64_t{64} << 10;
  double least_work = HUGE_VAL;               // or take that many operations for each of their elements
  uint64_t growth_bytes = uint64_t{4} << 10;  // what a result may add to the file beyond the weights it replaces
  // and all together, of results that the two before allow: this part of the program's weights
  uint64_t growth_part = 64;
  uint64_t held_bytes = uint64_t{1} << 31;  // of results, which are held until they are written
  double product_operations = 2e10;         // multiplications of a product of matrices
};
// For what computes: tables of positions and biases made of weights, which take longer to compute than to read.
inline constexpr FoldLimits kFoldForSpeed = {.work_bytes = uint64_t{64} << 20, .least_work = 2, .growth_part = 2};

// What became of a state that QuantizeCaches looked at.
struct CacheOutcome {
  std::string state, scales;  // the names of the state and of that of its scales: "" where it stays as it is,
  std::string kept_because;   // and why
  ir::Type type;              // that it had
};

// What passes take besides the program, and what they report besides their status.
struct PassContext {
  std::function<bool(const ir::Node&)> legal;  // legalize, which needs it: whether the target takes a node as it is
  ir::Evaluator* evaluator = nullptr;          // fold-constants: what computes; null: nothing is folded
  FoldLimits fold;                             // and what of it
  std::vector<std::string_view> skip;          // passes that pipelines leave out
  // what f32 becomes behind the passes: weights that it could not hold are not made
  ir::DType narrow = ir::DType::kFloat32;
  bool verify_each = false;  // the verifier checks the program after every pass
  // fuse-integer-linears: all roundings to 16-bit floats stay; false: those between integers and their product go
  bool exact_casts = true;

  ir::DType cache_dtype = ir::DType::kInt8;  // quantize-caches: of the codes

  Refusals refusals;  // of legalize: why decompositions were not taken
  int merged = 0;     // by merge-branches: branches that went into a convolution
  // by fold-scale-shift: factors and summands of channels that went into the layers before them
  int scaled = 0;
  int folded = 0;                    // by fold-batch-norms: batch norms that did
  int shortened = 0;                 // by hoist-selects: layers that compute what is read of them only
  int split = 0;                     // by split-linears: layers that are several now
  int rounded = 0;                   // by quantize-activations: layers whose activations are integers now
  int sums = 0;                      // by quantize-sums: convolutions whose results are integers now
  std::vector<std::string> dropped;  // by drop-mutations: the state whose updates are lost
  std::vector<CacheOutcome> caches;  // by quantize-caches
};

struct Pass {
  std::string_view name;     // "infer-shapes"; its golden test is tests/golden/infer_shapes.golden
  std::string_view summary;  // one line
  bool functional;           // whether it needs the functional form; others take any form
  absl::Status (*run)(ir::Program& p, PassContext& context);
};

// All of them. FindPass() is null for a name that is none of theirs.
absl::Span<const Pass> Passes();
const Pass* FindPass(std::string_view name);

// Names of passes in the order they run.
using Pipeline = absl::Span<const std::string_view>;

// What a program as it was exported goes through for any target that legalizes it: types are checked, subclasses,
// regions and mutation resolved, constants folded, complex numbers made pairs. The functional form comes out.
extern const Pipeline kPreparation;
// The first of these, after which types are right and no node hides others: what looks at sizes starts from.
extern const Pipeline kPlainNodes;
// For targets that find integer operators between conversions to integers and back.
extern const Pipeline kIntegerTensors;
// Behind that, for targets that may round activations in their own way.
extern const Pipeline kRelaxation;
// For targets with products of integers and their scales: what they take them in.
extern const Pipeline kIntegerProducts;
// For targets whose attention shares heads of keys and values among query heads.
extern const Pipeline kAttention;
// Before that, where states that attention reads are to be kept in 8 bits.
extern const Pipeline kCaches;
// Before kIntegerProducts, where activations may be rounded to integers that the program keeps as floats.
extern const Pipeline kActivationIntegers;
// After kPreparation, for targets that compute with weights as they like: what all of them take; norms behind
// convolutions, where weights need not keep their names for callers who set them; sums as additions; linear layers in
// parts.
extern const Pipeline kAlgebra;
extern const Pipeline kNormAlgebra;
extern const Pipeline kSumAlgebra;
extern const Pipeline kLinearAlgebra;
// legalize, and what cleans up after decompositions.
extern const Pipeline kLegalization;
// Repeated blocks become calls.
extern const Pipeline kOutlining;

// InvalidArgument for a program that is not in the form that a pass needs; the pass's own error; with verify_each
// Internal, naming the pass, where the program is not valid afterwards.
absl::Status RunPass(const Pass& pass, ir::Program& p, PassContext& context);
absl::Status RunPasses(Pipeline pipeline, ir::Program& p, PassContext& context);

// The passes as functions, for those who need one of them. Their order here is that of the pipelines.

// Infers the type of every result and compares it with the declared one, subgraphs included. A provable disagreement
// (dtype, rank, a size) is InvalidArgument naming the node, its place and both types; else the declared type is kept,
// or the inferred one taken where none is declared, and for final states of recurrent layers, which `corrected` (may be
// null) lists. Any form.
absl::Status InferShapes(ir::Program& p, std::vector<std::string>* corrected = nullptr);

// Tensor subclasses (torchao's quantized weights) are read through their inner tensors: each
// export.access_subclass_inner_tensor becomes a parameter of its own, "a.weight.qdata". Any form.
absl::Status UnwrapSubclasses(ir::Program& p);

// Inlines the bodies of operators that only set a mode (gradients, autocast, checkpointing) or name a body, and of
// cond with a known predicate; calls (invoke_subgraph) of bodies that only compute stay; autocast's casts become nodes.
// Any form.
absl::Status InlineSubgraphs(ir::Program& p);

// Resolves vmap regions (torch._functorch.predispatch nodes): operators between _add_batch_dim and _remove_batch_dim
// see one element of the batch. Elementwise regions get the batch dimension back, others become higher_order.map_impl.
// Any form.
absl::Status RemoveVmap(ir::Program& p);

// Rewrites in-place nodes and view aliasing into pure SSA; mutated buffers and inputs become signature outputs. Any
// form in, functional form out. Unimplemented, naming the node, for what cannot be resolved.
absl::Status Functionalize(ir::Program& p);

// Takes updated buffers, parameters and user inputs out of the outputs and gives their names. Functional form.
std::vector<std::string> DropMutations(ir::Program& p);

// Removes nodes that do nothing to values: dropout in evaluation, detach, alias, contiguous, clone, device moves,
// dtype conversions to the same dtype, assertions. Functional form.
absl::Status RemoveNoOps(ir::Program& p);
// Whether RemoveNoOps takes the operator out, always or for some arguments.
bool IsNoOp(std::string_view op);
// Whether a node joins tensors along a dim: aten.cat, however it is spelled.
bool IsCat(const ir::Node& n);

// Quantized weights and activations in all their spellings become slipway.quantize and slipway.dequantize
// (quantization.h says what these compute, the .cc what is recognised and how exactly). Functional form; before
// FoldConstants, which would compute small weights.
absl::Status RecognizeQuantization(ir::Program& p);

// RMS norms that are written out become aten.rms_norm: the same numbers within the rounding of a sum and a root.
// Functional form.
absl::Status RecognizeNorms(ir::Program& p);

// Attention in f32 that is written out becomes aten.scaled_dot_product_attention: the same numbers within the rounding
// of sums. Functional form.
absl::Status RecognizeAttention(ir::Program& p);

// Heads of keys and values that are repeated for several query heads are shared by them: enable_gqa of
// aten.scaled_dot_product_attention. The same numbers. Functional form.
absl::Status RecognizeGroupedQueries(ir::Program& p);

// States that attention reads as keys and values become codes of `codes` (int8, float8_e4m3fn), one scale a row, and
// attention slipway.quantized_attention; gives what became of each state of floats. Changes numbers, so only for those
// who ask. Functional form, in which updates of states are outputs; after RecognizeGroupedQueries.
absl::StatusOr<std::vector<CacheOutcome>> QuantizeCaches(ir::Program& p, ir::DType codes);

// Products with dequantized weights become slipway.quantized_linear, for targets to legalize. After
// RecognizeQuantization.
absl::Status FormQuantizedLinears(ir::Program& p);

// What programs spell out around integers of activations becomes one node each: scales made of rows and the integers
// (slipway.quantize_rows); products of integers with the scales behind them, and linear layers of dequantized integers
// on both sides (slipway.integer_linear). Of the latter the sums become exact; all else computes what the program says,
// in its order. Without exact_casts also of 16-bit floats, whose roundings between integers and sums are left out.
// After FormQuantizedLinears.
absl::Status FormIntegerLinears(ir::Program& p, bool exact_casts = true);

// Convolutions and linear layers between bytes with constant scales and zero points, with what follows them up to a
// quantize, become slipway.integer_conv, whose sums are exact; operators that choose elements take the bytes. Gives
// constants that are to be folded. After RecognizeQuantization.
absl::Status FormIntegerConvs(ir::Program& p);

// Activations are rounded to 8 bits, row by row, in front of linear layers of quantized weights that the program
// computes in floats, and these become slipway.integer_linear; gives their number. Changes numbers, so only for those
// who ask. After FormIntegerLinears, which leaves what is not of integers yet.
absl::StatusOr<int> QuantizeActivations(ir::Program& p);

// Integers of tensors are made before what moves their elements or bounds them: slipway.quantize goes in front of
// operators that select elements, and takes bounds into its range; one of what was dequantized with the same parameters
// is those integers. The same numbers. After RecognizeQuantization.
absl::Status MoveQuantizes(ir::Program& p);

// Results of convolutions that are added to dequantized tensors are rounded to 8 bits, too, in the range that the sum
// can show, where that adds at most one step of the sum's scale; gives their number. Changes numbers, so only for
// targets that are told to. After MoveQuantizes.
absl::StatusOr<int> QuantizeSums(ir::Program& p);

// Activations that the program rounds to 8 bits in front of a product with a quantized matrix are left to the target:
// products of fake-quantized ones take the floats; products of integers become slipway.quantized_linear with
// `activations`. Changes numbers, so only for targets that are told to. After FormQuantizedLinears.
absl::Status RelaxActivations(ir::Program& p);

// Convolutions, identities and batch norms of one image that are added up become one convolution with weights of its
// own; gives their number. The weights that they had are left out where nothing else reads them. Changes results by
// rounding. Functional form.
absl::StatusOr<int> MergeBranches(ir::Program& p);

// Sums over a dim of a few indices become additions of its slices, with the products that are summed. Changes sums of
// three and more by rounding. Functional form.
absl::Status SplitSums(ir::Program& p);

// Convolutions, linear layers and batch norms take over factors and summands that are weights, a number a channel,
// behind them, and linear layers batch norms of running statistics; gives their number. Weights whose numbers, in f32
// or what `narrow` makes of it, overflow or are all denormal are not made. Functional form.
absl::StatusOr<int> FoldScaleShift(ir::Program& p, ir::DType narrow = ir::DType::kFloat32);

// In the same way convolutions take over batch norms; gives their number.
absl::StatusOr<int> FoldBatchNorms(ir::Program& p, ir::DType narrow = ir::DType::kFloat32);

// An index that is selected of a result is selected before the linear layers that compute it; gives their number.
// Functional form.
absl::StatusOr<int> MoveSelects(ir::Program& p);

// Linear layers whose results are cut along their features become one for each part, with ranges of the weights; gives
// their number. Functional form.
absl::StatusOr<int> SplitLinears(ir::Program& p);

// Removes nodes whose results are unused. Functional form.
absl::Status EliminateDeadCode(ir::Program& p);

// Of pure nodes with the same operator and arguments only the first stays, in subgraphs too. Functional form.
absl::Status MergeCommonSubexpressions(ir::Program& p);

// Computes what depends on nothing but constants (numbers, weights that no output updates) and draws nothing at random:
// weights that are normalized, merged or cast on the way become what the program uses. Results become constants of the
// program, equal ones shared, or a `full` where all elements are the same; what would make the file grow beyond the
// limits stays, as do what `evaluator` cannot compute, quantized weights, and views of parameters, which keep their
// names. The root graph only: subgraphs capture nothing. Functional form.
absl::Status FoldConstants(ir::Program& p, ir::Evaluator& evaluator, const FoldLimits& limits = {});

// Complex tensors become pairs of real ones, Fourier transforms slipway.dft. Weights that are complex are read as the
// reals they are stored as. Unimplemented, naming the node, for an operator without a rule and for complex inputs and
// outputs. Functional form.
absl::Status LowerComplex(ir::Program& p);

// Whether LowerComplex has a rule for the operator.
bool HasComplexRule(std::string_view op);

// Rewrites nodes by decompositions until `legal` takes each, in subgraphs too. Nodes that are neither legal nor have a
// decomposition that takes them stay: the exporter reports them all together, with the reasons put into `refusals`
// (may be null). Functional form.
absl::Status Legalize(ir::Program& p, const std::function<bool(const ir::Node&)>& legal, Refusals* refusals = nullptr);

// The program computes in f64 what it computes in f32, f16 and bf16. It takes what it took, and gives f64 for those.
// Unimplemented for complex tensors and for what looks at the bits of floats. Functional form.
absl::Status WidenFloats(ir::Program& p);

// Modules (by the nodes' module paths) whose nodes follow each other and compute the same on values of the same types
// become higher_order.invoke_subgraph of a shared body, outermost modules first. Weights become operands. Nothing else
// changes. Functional form.
absl::Status OutlineBlocks(ir::Program& p);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_PASS_H_
