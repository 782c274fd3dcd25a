// Loops in decompositions, as a while_loop node whose body is a graph of its own.
//
// For is `for i in range(n)` over carried tensors: one function writes the step, so that a known small count is laid
// out straight and any other count, known or not, becomes a loop of the same arithmetic. WhileLoop and Scan are the
// nodes themselves.
#ifndef SLIPWAY_PASSES_DECOMPOSITIONS_LOOP_BUILDER_H_
#define SLIPWAY_PASSES_DECOMPOSITIONS_LOOP_BUILDER_H_

#include <functional>

#include "absl/container/flat_hash_map.h"
#include "passes/decompose.h"

namespace slipway::passes {

// The way into a loop's body for values of the graph around it: each becomes an input of the body.
class Captures {
 public:
  explicit Captures(ir::Graph& body) : body_(body) {}
  // `outer` as seen inside; values of the body are seen as they are.
  Value* operator()(Value* outer);
  // When the body and its outputs are complete: its nodes come in the order of OrderNodes, and what it captures in that
  // of its first uses.
  void Settle();
  // The captured ones, in the order of their inputs.
  const Values& outer() const { return outer_; }

 private:
  ir::Graph& body_;
  absl::flat_hash_map<Value*, Value*> inner_;
  Values outer_;
};

// Repeats `step` while the first of the carried values, a 0-d bool, is true. `step` builds in `body`, whose inputs are
// the carried values, and gives the next ones, whose types must stay the same; it tells errors to `b`. The result is
// what is carried at the end.
Values WhileLoop(ir::Builder& b, const Values& carried,
                 const std::function<Values(ir::Graph& body, const Values& carried, Captures& in)>& step);

// A step over slices of `over` along their first dim, as a scan node: `step` builds with a decomposer of the body, from
// the carried values, the slices and what it captures, and gives the next carried values, whose types stay the same,
// and behind them results. What comes back is what is carried at the end, and the results stacked along a new first
// dim.
Values Scan(Decomposer& d, const Values& state, const Values& over,
            const std::function<Values(Decomposer& d, const Values& state, const Values& at, Captures& in)>& step);

// What a step sees: where to build, its number, the carried tensors, and the way to values from outside.
class LoopStep {
 public:
  Decomposer& d;  // builds in the body
  Value* i;       // 0-d i64
  Values state;   // as carried into this step; the step function leaves the next ones here
  // A value of the graph around the loop, as seen inside. Every outer value a step uses must come through here.
  Value* operator()(Value* outer) { return in_ ? (*in_)(outer) : outer; }
  // The same for a size.
  IntOrValue operator()(IntOrValue outer) { return outer.value ? IntOrValue((*this)(outer.value)) : outer; }
  // Ends the loop after this step when `stop`, a 0-d bool, is true. It only saves time: steps laid out straight all
  // run, so further ones must do no harm.
  void StopWhen(Value* stop) { stop_ = stop; }

 private:
  friend Values For(Decomposer& d, IntOrValue count, Values state, const std::function<void(LoopStep&)>& step,
                    bool backwards);
  LoopStep(Decomposer& where, Value* number, Values carried, Captures* in)
      : d(where), i(number), state(std::move(carried)), in_(in) {}

  Captures* in_;  // null: laid out straight, where outer values are seen as they are
  Value* stop_ = nullptr;
};

// Runs `step` for i = 0 … count-1 (or, `backwards`, count-1 … 0) and gives the carried tensors at the end. Types of
// carried tensors stay as they start. A step may be laid out up to thrice and then sees its number as a constant.
Values For(Decomposer& d, IntOrValue count, Values state, const std::function<void(LoopStep&)>& step,
           bool backwards = false);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_DECOMPOSITIONS_LOOP_BUILDER_H_
