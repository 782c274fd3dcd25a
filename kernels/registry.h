// The run-time registry: every kernel by name. Kernels are rows of tables, one table a family; adding a kernel is
// adding a row.
//
// Whatever calls a kernel may come from a plan file of unknown origin. The executor promises that each tensor lies in
// its buffer, that results overlap nothing they must not, and that operands of elementwise kernels have the result's
// sizes; a kernel checks the rest (how many operands there are beyond its row's, ranks, sizes, dtypes, attributes)
// before it touches memory, and answers with a text instead.
#ifndef SLIPWAY_KERNELS_REGISTRY_H_
#define SLIPWAY_KERNELS_REGISTRY_H_

#include <span>
#include <string_view>

#include "kernels/attributes.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

struct Kernel;
struct Product;

// What an operand of a kernel may be where it is a packed weight (gemm/packing.h).
enum class Packable : uint8_t { kNever, kFloats, kFloatsAndBytes, kBytesAndNibbles, kFilters, kTaps, kBytes };

// One operation of a chain (elementwise/chain.h).
struct ChainOp {
  static constexpr int kMaxInputs = 3;
  const Kernel* kernel = nullptr;  // has a row function
  DType compute = DType::kF32;     // as Call::compute
  DType result = DType::kF32;      // what the result is rounded to
  int8_t inputs = 0;
  int8_t output = -1;            // which of the step's results it is; -1: none
  int16_t in[kMaxInputs] = {};   // operands: of the step, or ~k: the result of operation k, which is before this one
  int16_t slot = 0;              // where the result is kept while the others run: those of dead ones are taken again
  int32_t ints = 0, floats = 0;  // how many of the step's numbers are its own; they come in the order of operations
};
inline constexpr int kMaxChainOps = 24, kMaxChainTensors = 32;

// One call of a kernel. Results are allocated by the caller with the right sizes and never overlap operands, except
// where a kernel is elementwise or overwrites the operand, which is the very same view.
struct Call {
  std::span<const Tensor> in;
  std::span<const Tensor> out;
  // The dtype that operands count as (torch's promoted one). Elements are rounded to it when they are read; arithmetic
  // is in ComputeType of it.
  DType compute = DType::kF32;
  std::span<const int64_t> ints;  // the kernel's attributes (attributes.h)
  std::span<const double> floats;
  const Workers* workers = nullptr;  // null: the calling thread alone
  std::span<const ChainOp> chain = {};
  Scratch* scratch = nullptr;  // never null when a kernel runs: see Run
  const void* user = nullptr;  // the kernel's
};

// What a kernel makes of u64, whose bits it gets as those of i64.
enum class Unsigned64 : uint8_t {
  kNever,   // nothing: it takes none, but converted to floats
  kSame,    // the result has the right bits: they wrap or move, or whether they are equal decides
  kOrder,   // which is greater decides: right with the highest bit of all operands and of results of u64 exchanged
  kItself,  // its row function asks RowCall::unsigned64
};

// Rows of an elementwise kernel, dense and of one of the types that are computed in. The result may be an operand.
struct RowCall {
  DType type;
  const void* const* in;
  void* out;
  int64_t n;
  std::span<const int64_t> ints;  // as Call's
  std::span<const double> floats;
  bool unsigned64 = false;  // rows of i64 are bits of u64
};
// Null when done, else what is wrong.
using RowFn = const char* (*)(const RowCall& r);

// Null when done, else what is wrong with the data, as a constant text ("index out of range").
using KernelFn = const char* (*)(const Call& c);

struct Kernel {
  std::string_view name;
  KernelFn run;
  // Operands and result have the same sizes, which the executor checks, and the result may lie where an operand of the
  // same layout lies.
  bool elementwise = false;
  int8_t inputs = 0, outputs = 1;  // at least so many
  bool any_type = false;           // takes tensors of types that are stored only
  Packable packed[4] = {};         // the first operands
  // of those that are kFilters or kTaps: which number of the step is the convolution's groups; -1: there is one group
  int8_t groups_at[4] = {};
  RowFn row = nullptr;         // of elementwise kernels: the operator itself, for chains
  const void* user = nullptr;  // what `run` finds in its call
  // `run` may be called with a scratch that counts, and tensors that have sizes but no memory: it returns after its
  // allocations.
  bool queries_workspace = false;
  // Of products of matrices (gemm/product.h): what the call is, with `rows` rows in place of its own where that is
  // not 0. Tensors may have no memory; all have elements. False where the operands do not agree.
  bool (*product)(const Call& c, int64_t rows, Product* p) = nullptr;
  int8_t ints = 0, reals = 0;  // numbers that its attributes are, all of them
  // Reads and writes images with channels last at their own speed where places lie further apart than their channels
  // are long. Elementwise kernels do, too.
  bool pitched = false;
  // The operand whose memory the result may have, where it is of the same layout; -1: none. In calls of these sizes,
  // strides and attributes the kernel reads each of its elements before it writes the result's, and no other's of it.
  // Tensors have no memory; all have elements.
  int (*overwrites)(const Call& c) = nullptr;
  Unsigned64 unsigned64 = Unsigned64::kNever;
};

constexpr const char* kAttributesMalformed = "the attributes are not those of the kernel";

// `row` with kFunction(call, attributes) as its function.
template <typename Attributes, const char* (*kFunction)(const Call& c, const Attributes& a)>
constexpr Kernel With(Kernel row) {
  row.run = [](const Call& c) {
    Attributes a{};
    return ReadAttributes(c.ints, c.floats, &a) ? kFunction(c, a) : kAttributesMalformed;
  };
  CountNumbers<Attributes>(&row.ints, &row.reals);
  return row;
}

// Calls the kernel, with scratch memory of its own where the call has none.
const char* Run(const Kernel& kernel, Call c);

// How many bytes of scratch memory the kernel is going to take for such a call, by its sizes, strides, attributes and
// workers; 0 where its row does not say that it counts. There is no data yet, and operands need not be what the kernel
// asks for; all have elements, at most 2^40.
int64_t QueryWorkspace(const Kernel& kernel, Call c);

// Null when there is none of that name.
const Kernel* FindKernel(std::string_view name);

std::span<const Kernel> UnaryKernels();
std::span<const Kernel> BinaryKernels();
std::span<const Kernel> ChainKernels();
std::span<const Kernel> MoveKernels();  // copies, fills, generators
std::span<const Kernel> IndexKernels();
std::span<const Kernel> ReduceKernels();
std::span<const Kernel> MatmulKernels();          // products of matrices
std::span<const Kernel> QuantKernels();           // … of which one is small integers with scales
std::span<const Kernel> QuantEmbeddingKernels();  // rows of such a matrix
std::span<const Kernel> IntegerKernels();         // … of which both are
std::span<const Kernel> AttentionKernels();
std::span<const Kernel> NormalizeKernels();
std::span<const Kernel> GroupNormKernels();
std::span<const Kernel> BatchNormKernels();
std::span<const Kernel> ConvKernels();
std::span<const Kernel> IntegerConvKernels();  // … of bytes
std::span<const Kernel> RecurrentKernels();
std::span<const Kernel> PoolKernels();
std::span<const Kernel> SampleKernels();  // values between elements
std::span<const Kernel> TransformKernels();
std::span<const Kernel> OrderKernels();  // ranks, searches, runs of equals
std::span<const Kernel> RandomKernels();
std::span<const Kernel> DetectionKernels();  // boxes, regions of interest, deformable convolutions

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_REGISTRY_H_
