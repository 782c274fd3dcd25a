// A plan: what a native program is at run time. Flat tables that any file format can hold: expressions over symbols,
// buffers, views into them, and one list of steps. Views (slices, transposes, expansions) cost nothing; control flow is
// jumps among the steps. Sizes are expressions, so one plan serves all sizes of its inputs, and sizes that are known
// only when data is (how many elements are not zero): a step publishes a symbol, and what depends on it is settled
// then.
//
// A plan may come from a file of unknown origin: nothing of it is believed before Executable::Make has validated it
// (execute.h).
#ifndef SLIPWAY_KERNELS_EXECUTOR_PLAN_H_
#define SLIPWAY_KERNELS_EXECUTOR_PLAN_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/executor/expression.h"
#include "kernels/registry.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// A number that is known when the plan runs: taken from an input, or given by a step.
struct Symbol {
  std::string name;
  int64_t min = std::numeric_limits<int64_t>::min();  // of integers: a number outside is refused
  int64_t max = std::numeric_limits<int64_t>::max();
  bool real = false;
};

// A matrix of a product that is the whole of a constant: element (i, j) is element i · row + j · column of it.
struct WeightMatrix {
  DType dtype = DType::kF32;
  int64_t k = 0, n = 0, row = 0, column = 0;
  Packing packing = Packing::kNr16;
  // of kFilters (conv/filters.h), whose k is taps · channels of a group, and kTaps, whose n is outs · taps
  int64_t groups = 1, taps = 1;
  bool operator==(const WeightMatrix&) const = default;
};

struct Buffer {
  enum Kind : uint8_t {
    kTemporary,  // the executor's
    kConstant,   // memory that the plan's maker keeps alive; never written
    kInput,      // the caller's
    kOutput,     // the caller's, written
    kState,      // an input's, read and written: State
  };
  Kind kind = kTemporary;
  int32_t bytes = 0;               // expression
  const void* constant = nullptr;  // kConstant
  int32_t slot = 0;                // kInput, kOutput, kState: which input or output
  // kConstant: what the memory is packed as (gemm/packing.h). `bytes` is the size unpacked, which views of it are
  // bounded by; only products take one, as this matrix.
  std::optional<WeightMatrix> packed;
  // Of packed filters of bf16 or f16: the memory holds them as f32. An executable sets it for its own copy.
  bool widened = false;
};

// A tensor of one step: `offset` bytes into the buffer. dims[first_dim …] has the sizes, then the strides.
struct View {
  int32_t buffer = 0;
  DType dtype = DType::kF32;
  int32_t rank = 0;
  int32_t offset = 0;     // expression, bytes
  int32_t first_dim = 0;  // into Plan::dims: expressions
};

struct Step {
  enum Kind : uint8_t {
    kKernel,   // calls the kernel
    kPublish,  // symbol = the element of the one view
    kSet,      // symbol = expression
    kJump,     // to step `target`
    kUnless,   // to step `target` where the expression is 0
    kCheck,    // an error where the expression is 0; its text is texts[target]
  };
  Kind kind = kKernel;
  const Kernel* kernel = nullptr;
  DType compute = DType::kF32;
  int32_t first_view = 0, inputs = 0, outputs = 0;  // its views are neighbours: operands, then results
  int32_t first_number = 0, ints = 0, floats = 0;   // into Plan::numbers: expressions, integers then reals
  int32_t symbol = 0, expr = 0, target = 0;
  int32_t first_op = 0, ops = 0;  // into Plan::ops: the operations of a chain
  int32_t origin = 0;  // what the step was made from, for messages and profiles; an index that the plan's maker chose
};

// What a caller gives: a dense tensor of these sizes, or a number as a 0-d tensor.
struct Input {
  enum Kind : uint8_t { kTensor, kNumber, kUnused };  // kUnused: a number that nothing depends on
  std::string name;
  Kind kind = kTensor;
  DType dtype = DType::kF32;
  std::vector<int32_t> sizes;  // expressions: must come out as the sizes given
  int32_t value = -1;          // kNumber: expression that must come out as the value given; -1: any
};
struct Output {
  DType dtype = DType::kF32;
  bool number = false;  // a Python number in the program's signature, here a 0-d tensor
  std::vector<int32_t> sizes;
};

// Symbols that inputs determine: size `dim` of the input, or its value (-1), is scale · symbol + shift.
struct Binding {
  int32_t symbol = 0, input = 0, dim = 0;
  int64_t scale = 1, shift = 0;
};

// What must hold as soon as it can be known.
struct Check {
  int32_t expr = 0;
  std::string text;  // what is wrong where it does not
};

// Memory that outlives a run and that whoever runs the plan keeps. It comes in as an input of its own, dense; steps
// write to it in place. Where it grows along a dim, that dim of the input is what the memory has room for, and
// `length`, an input that is a number, how much of it is there; what lies behind is written before it is read. These
// inputs come behind the caller's, in the order of the states.
struct State {
  int32_t input = 0;
  // the dim that grows, the input `length`, the length after a run (expression); -1: none grows
  int32_t dim = -1, length = -1, after = -1;
  int32_t initial = -1;  // buffer of a constant, dense, that a state of one size begins as; -1: zeros
};

struct Plan {
  // How many inputs the caller gives; the others are of states.
  size_t given_inputs() const {
    size_t n = inputs.size();
    for (const State& s : states) n -= s.length >= 0 ? 2 : 1;
    return n;
  }

  std::vector<Symbol> symbols;
  std::vector<Expr> exprs;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Binding> bindings;
  std::vector<Check> checks;
  std::vector<Buffer> buffers;
  std::vector<int32_t> dims;
  std::vector<View> views;
  std::vector<int32_t> numbers;
  std::vector<Step> steps;
  std::vector<ChainOp> ops;
  std::vector<std::string> texts;
  std::vector<State> states;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_EXECUTOR_PLAN_H_
