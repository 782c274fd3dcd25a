// The run-time registry: every kernel by name. Tables of rows, one table a family (the *.cc beside this); widening the
// coverage is adding rows.
#ifndef SLIPWAY_KERNELS_REGISTRY_H_
#define SLIPWAY_KERNELS_REGISTRY_H_

#include <span>
#include <string_view>

#include "kernels/parallel.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// One call of a kernel. Results are allocated by the caller with the right sizes and never overlap operands, except
// where a kernel is elementwise and the operand is the very same view.
struct Call {
  std::span<const Tensor> in;
  std::span<const Tensor> out;
  // The dtype that operands count as (torch's promoted one). Elements are rounded to it when they are read; arithmetic
  // is in ComputeType of it.
  DType compute = DType::kF32;
  std::span<const int64_t> ints;  // attributes, as the kernel's row documents
  std::span<const double> floats;
  const Workers* workers = nullptr;  // null: the calling thread alone
  const void* user = nullptr;        // the kernel's
};

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
  const void* user = nullptr;      // what `run` finds in its call
};

// Null when there is none of that name.
const Kernel* FindKernel(std::string_view name);

std::span<const Kernel> UnaryKernels();
std::span<const Kernel> BinaryKernels();
std::span<const Kernel> MoveKernels();  // copies, fills, generators
std::span<const Kernel> IndexKernels();
std::span<const Kernel> ReduceKernels();
std::span<const Kernel> ContractKernels();  // products of matrices
std::span<const Kernel> AttentionKernels();
std::span<const Kernel> NormalizeKernels();
std::span<const Kernel> ConvKernels();
std::span<const Kernel> PoolKernels();
std::span<const Kernel> SampleKernels();  // values between elements
std::span<const Kernel> TransformKernels();
std::span<const Kernel> OrderKernels();   // ranks, searches, runs of equals

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_REGISTRY_H_
