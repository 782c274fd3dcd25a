// Elementwise kernels together: their operands are cut into blocks that the first-level cache holds, and each block
// goes through all operations before the next one is read. What an operation gives is rounded to its result's dtype
// before the next one reads it, so a chain gives the bits that its operations give one by one.
#ifndef SLIPWAY_KERNELS_ELEMENTWISE_CHAIN_H_
#define SLIPWAY_KERNELS_ELEMENTWISE_CHAIN_H_

#include "kernels/registry.h"

namespace slipway::kernels {

// Runs c.chain; null when done. Operands and results have the same sizes. An operand may lie where a result does if it
// is the very same view and no operation after the one that gives the result reads it.
const char* RunChain(const Call& c);

// out[0] = in[0], converted where dtypes differ, as a chain.
const char* RunCopy(const Call& c);

// A kernel of one row function, as a chain of one operation.
template <RowFn kRow, int kInputs>
const char* RunRow(const Call& c) {
  static constexpr Kernel kKernel = {.name = "", .run = nullptr, .row = kRow};
  ChainOp op;
  op.kernel = &kKernel;
  op.compute = c.compute;
  op.result = c.out[0].dtype;
  op.inputs = kInputs;
  op.output = 0;
  for (int i = 0; i < kInputs; ++i) op.in[i] = static_cast<int16_t>(i);
  op.ints = static_cast<int32_t>(c.ints.size());
  op.floats = static_cast<int32_t>(c.floats.size());
  Call one = c;
  one.in = c.in.first(kInputs);
  one.out = c.out.first(1);
  one.chain = {&op, 1};
  return RunChain(one);
}
template <RowFn kRow, int kInputs, typename Attributes = NoAttributes>
constexpr Kernel RowKernel(std::string_view name, Unsigned64 unsigned64 = Unsigned64::kNever) {
  Kernel k = {.name = name, .run = RunRow<kRow, kInputs>, .elementwise = true, .inputs = kInputs, .row = kRow};
  k.unsigned64 = unsigned64;
  CountNumbers<Attributes>(&k.ints, &k.reals);
  return k;
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ELEMENTWISE_CHAIN_H_
